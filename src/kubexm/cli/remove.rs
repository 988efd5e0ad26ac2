//! `kubexm bundle remove`: things out of a bundle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::out::say;
use super::repack::{Target, lacking};
use super::subject::Opening;
use super::{Failure, interrupt};
use kubexm_bundle::lock::difference::differences;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::{Bundle, BundleError, Lock};
use kubexm_fetch::Cache;
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef};

#[derive(Debug, Args)]
pub struct Remove {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Images, components, files, charts or manifests, as `bundle list` names them
    #[arg(required_unless_present = "arch")]
    names: Vec<String>,
    /// What only hosts of this architecture need; may be repeated
    #[arg(long, value_delimiter = ',')]
    arch: Vec<Arch>,
    /// Also what clusters, charts or manifests of the bundle need
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    target: Target,
    /// Where it is kept how layers are held opened up
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// Writes the bundle without the named things.
pub async fn run(arguments: Remove, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let old = Arc::new(arguments.opening.open_complete(&arguments.bundle)?);
    let mut lock = old.lock().clone();
    for name in &arguments.names {
        if !take_out(&mut lock, name) {
            let hint = "kubexm bundle list shows what there is";
            return Err(BundleError::Missing(format!("'{name}'; {hint}")).into());
        }
    }
    if !arguments.arch.is_empty() {
        lock = without(&lock, &arguments.arch)?;
    }
    let broken = breaks(&lock, &old)?;
    if !broken.is_empty() {
        let list = broken.join("\n  ");
        if !arguments.force {
            return Err(Failure::configuration(format!(
                "something needs what shall be removed; nothing was written\n  {list}\n--force \
                 removes it all the same."
            )));
        }
        events.warn(format!("the new bundle lacks what is needed:\n  {list}"));
    }
    arguments.target.prepare()?;
    let cache = Cache::open(&arguments.cache.clone().unwrap_or_else(Cache::default_dir))?;
    for difference in differences(old.lock(), &lock) {
        say!("{difference}");
    }
    let target = &arguments.target;
    target.pack(old, lock, cache, events, &stop).await
}

/// Takes everything of a name out of a lock; `false` where there is nothing.
fn take_out(lock: &mut Lock, name: &str) -> bool {
    let count = |lock: &Lock| lock.files.len() + lock.images.len() + lock.own.len();
    let before = count(lock);
    let image = name.parse::<ImageRef>().ok();
    lock.images
        .retain(|locked| Some(&locked.name) != image.as_ref());
    lock.files
        .retain(|file| file.component != name && file.file_name != name);
    let is = |own: &LockedArtifact| own.name == name || own.file_name() == name;
    lock.own.retain(|own| !is(own));
    count(lock) < before
}

/// The lock without some architectures, of which one must stay.
fn without(lock: &Lock, arches: &[Arch]) -> Result<Lock, Failure> {
    for arch in arches {
        lock.only_for(*arch)?;
    }
    let there = lock.architectures.iter().copied();
    let rest: BTreeSet<Arch> = there.filter(|arch| !arches.contains(arch)).collect();
    match rest.is_empty() {
        true => Err(Failure::configuration(
            "nothing would be left: the bundle has no other architecture",
        )),
        false => Ok(lock.only(&rest)),
    }
}

/// What needs something that was there and is not any more, in sentences.
fn breaks(lock: &Lock, old: &Arc<Bundle>) -> Result<Vec<String>, Failure> {
    let before = lacking(old.lock(), old)?;
    let mut broken = lacking(lock, old)?;
    broken.retain(|what| !before.contains(what));
    for own in &lock.own {
        let lost = own.images.iter();
        let lost = lost.filter(|i| old.lock().image(i).is_some() && lock.image(i).is_none());
        broken.extend(lost.map(|image| format!("{}: its pods run {image}", own.describe())));
    }
    Ok(broken)
}
