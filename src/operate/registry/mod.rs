//! `registry`: the images in the registries of a cluster, while it runs, and in the external registry of a cluster file.

mod add;
mod catalog;
mod change;
mod collect;
mod image;
mod leaving;
mod list;
mod needed;
mod relocate;
mod remove;
mod report;
mod seed;
mod site;
mod space;
mod sync;
#[cfg(test)]
mod tests;
mod uses;

pub use add::{AddOptions, add};
pub use change::ChangeReport;
pub(crate) use change::{Change, Prepared};
pub use collect::{CollectOptions, collect};
pub use leaving::only_on;
pub use list::{ListOptions, list};
pub use relocate::{MoveOptions, relocate};
pub use remove::{RemoveOptions, remove};
pub use report::{Copy, HostCopy, ListedImage, RegistryReport};
pub use seed::{SeedOptions, SeedReport, seed, seed_dry_run};
pub(crate) use site::Site;
pub use sync::{SyncOptions, sync};
