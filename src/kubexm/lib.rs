//! The command line: parses arguments, calls the other crates, and reports.

pub mod cli;
pub mod report;
