//! The applications of a running cluster. `registry add` applies those of a cluster file.

mod diff;
mod list;
mod remove;
mod values;

pub use diff::{ApplicationDiff, DiffOptions, diff};
pub use list::{ApplicationList, ListOptions, ListedApplication, list};
pub use remove::{RemoveOptions, remove};
pub use values::{ApplicationValues, ValuesOptions, values};
