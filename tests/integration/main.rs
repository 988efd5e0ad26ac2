//! What a user relies on, below the end-to-end lab: one test program, since linking one for each subject
//! takes longer than running them all.

// A test that fails shall panic, helper or not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod at_hand;
mod bundle_format;
mod cli;
mod combinations;
mod differences;
mod downloads;
mod example;
mod executor;
mod fetching;
mod format;
mod hostile_bundles;
mod interrupted;
mod opened_layers;
mod os_packages;
mod plans;
mod publishers;
mod runtimes;
mod sandbox;
mod sbom;
mod secrets;
mod seeding;
mod signatures;
mod snapshots;
mod steps;
mod travel;
mod units;
mod volumes;
mod workspace;
