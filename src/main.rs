//! The `kubexm` command.

fn main() {}
