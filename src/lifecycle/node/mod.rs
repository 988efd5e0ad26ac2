//! `node`: hosts that join a running cluster, leave it or are replaced.

mod add;
mod checks;
mod contact;
mod members;
mod names;
mod refusals;
mod removal;
mod remove;
mod replace;
mod text;
mod understated;

pub use add::{AddOptions, add, add_dry_run};
pub use kubexm_deploy::upgrade::Drain;
pub use removal::RemoveOptions;
pub use remove::{RemoveReport, remove};
pub use replace::{ReplaceReport, replace};
