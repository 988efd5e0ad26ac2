//! The operating system of a host: the task that prepares it, its packages, and kubexm's directories.

use super::{ETC, Inputs};
use kubexm_bundle::lock::LockedPackages;
use kubexm_engine::plan::TaskName;
use kubexm_engine::steps::TrackNewDirs;
use kubexm_types::{HostName, InvalidValue};

/// Prepares a host for everything else.
pub(crate) const PREPARE: TaskName = TaskName::new("os", "prepare");

/// Returns the step that records kubexm's directories on a host. It precedes all steps that use them.
pub(super) fn own_directories() -> Result<TrackNewDirs, InvalidValue> {
    let directories = [ETC, "/run/kubexm"];
    TrackNewDirs::new("own-folder", "kubexm's directories", &directories)
}

/// Returns the bundle's packages for the distribution of a host.
pub(super) fn packages<'a>(inputs: &'a Inputs<'_>, host: &HostName) -> Option<&'a LockedPackages> {
    let facts = inputs.host_facts(host);
    let mut names = facts.releases.iter();
    names.find_map(|(distribution, release)| {
        inputs.lock.package_set(distribution, release, facts.arch)
    })
}
