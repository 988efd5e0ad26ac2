//! Integration tests: what a user relies on, without hosts of the lab. They are one program, because
//! linking a program per subject takes longer than running all tests.

// A failed test panics, in a helper function as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod at_hand;
mod bundle_format;
mod changed_fields;
mod cli;
mod combinations;
mod compared_lock;
mod differences;
mod downloads;
mod example;
mod executor;
mod fetching;
mod format;
mod hostile_bundles;
mod interrupted;
mod isolation;
mod locks;
mod one_at_a_time;
mod online;
mod opened_layers;
mod os_packages;
mod plans;
mod power_cut;
mod publishers;
mod recompression;
mod runtimes;
mod sandbox;
mod sbom;
mod secrets;
mod seeding;
mod settings;
mod signatures;
mod snapshots;
mod steps;
mod travel;
mod units;
mod volumes;
mod waiting;
mod workspace;
