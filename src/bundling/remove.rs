//! `bundle remove`: removes content from a bundle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::completeness;
use crate::repack::{Repacked, Target};
use kubexm_bundle::lock::difference::{Difference, differences};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::{Bundle, BundleError, Lock};
use kubexm_session::downloads::open_cache;
use kubexm_session::{BundleAccess, CommandError, Stop};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef, WarningKind};

/// What to remove, and from which bundle.
#[derive(Debug, Clone)]
pub struct RemoveOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// Images, components, files, charts or manifests, as `bundle list` names them.
    pub names: Vec<String>,
    /// The architectures to remove.
    pub architectures: Vec<Arch>,
    /// Whether to remove what other content needs.
    pub force: bool,
    /// The new bundle.
    pub target: Target,
    /// The cache folder, which stores the results of gzip analysis; `None` for the default one.
    pub cache: Option<PathBuf>,
}

/// What `bundle remove` wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveReport {
    /// The differences between the old and the new bundle.
    pub differences: Vec<Difference>,
    /// The new bundle.
    pub repacked: Repacked,
}

/// Writes the bundle without the named content.
///
/// # Errors
/// A name is not in the bundle, other content needs it, or a bundle cannot be read or written.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn remove(
    options: &RemoveOptions,
    events: &Events,
    stop: &Stop,
) -> Result<RemoveReport, CommandError> {
    let old = Arc::new(options.access.open_complete(&options.bundle)?);
    let mut lock = old.lock().clone();
    for name in &options.names {
        if !remove_name(&mut lock, name) {
            let hint = "kubexm bundle list shows what there is";
            return Err(BundleError::Missing(format!("'{name}'; {hint}").into()).into());
        }
    }
    if !options.architectures.is_empty() {
        lock = without(&lock, &options.architectures)?;
    }
    let broken = broken_by(&lock, &old)?;
    if !broken.is_empty() {
        if !options.force {
            return Err(CommandError::StillNeeded(broken));
        }
        events.warn(
            WarningKind::StillNeeded,
            format!(
                "the new bundle does not have what other content needs:\n  {}",
                broken.join("\n  ")
            ),
        );
    }
    options.target.check()?;
    let cache = open_cache(options.cache.as_deref())?;
    let differences = differences(old.lock(), &lock);
    let packing = options.target.pack(old, lock, cache, events, stop);
    Ok(RemoveReport {
        differences,
        repacked: packing.await?,
    })
}

/// Removes everything of a name from a lock. Returns whether there was something.
fn remove_name(lock: &mut Lock, name: &str) -> bool {
    let count = |lock: &Lock| lock.files.len() + lock.images.len() + lock.artifacts.len();
    let before = count(lock);
    let image = name.parse::<ImageRef>().ok();
    lock.images
        .retain(|locked| Some(&locked.name) != image.as_ref());
    lock.files
        .retain(|file| file.component != name && file.file_name != name);
    let is = |one: &LockedArtifact| one.name == name || one.file_name() == name;
    lock.artifacts.retain(|one| !is(one));
    count(lock) < before
}

/// Returns the lock without some architectures. At least one other must remain.
fn without(lock: &Lock, arches: &[Arch]) -> Result<Lock, CommandError> {
    for arch in arches {
        lock.only_for(*arch)?;
    }
    let present = lock.architectures.iter().copied();
    let rest: BTreeSet<Arch> = present.filter(|arch| !arches.contains(arch)).collect();
    if rest.is_empty() {
        Err(CommandError::configuration(
            "cannot remove the only architecture of the bundle",
        ))
    } else {
        Ok(lock.only(&rest))
    }
}

/// Returns what needs something that the old bundle has and the new lock does not, one sentence each.
fn broken_by(lock: &Lock, old: &Arc<Bundle>) -> Result<Vec<String>, CommandError> {
    let before = completeness::missing(old.lock(), old)?;
    let mut broken = completeness::missing(lock, old)?;
    broken.retain(|what| !before.contains(what));
    for artifact in &lock.artifacts {
        let lost = artifact.images.iter();
        let lost = lost.filter(|i| old.lock().image(i).is_some() && lock.image(i).is_none());
        broken.extend(lost.map(|image| format!("{}: its pods run {image}", artifact.describe())));
    }
    Ok(broken)
}
