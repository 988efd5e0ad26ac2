//! Which bundles a command opens, and which keys it trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::state_record::StateRecord;
use crate::verified::VerifiedBundle;
use crate::{CommandError, notices, rollback};
use kubexm_bundle::{Access, Bundle, BundleSet};
use kubexm_config::{Cluster, Problems};
use kubexm_engine::plan::Watch;
use kubexm_types::PublicKey;
use kubexm_types::event::Events;

/// How a command opens bundles.
#[derive(Debug, Clone, Default)]
pub struct BundleAccess {
    /// The minisign keys of which one must have signed the bundle; empty if no signature is required.
    pub trust: Vec<PublicKey>,
    /// Folders, besides the bundle's own, that may contain volumes of the bundle.
    pub volumes: Vec<PathBuf>,
}

impl BundleAccess {
    fn access(&self) -> Access {
        Access {
            folders: self.volumes.clone(),
            trust: self.trust.clone(),
        }
    }

    /// Opens one bundle.
    pub fn open(&self, path: &Path) -> Result<Bundle, CommandError> {
        Ok(Bundle::open_with(path, &self.access())?)
    }

    /// Opens one bundle that contains all of its blobs.
    pub fn open_complete(&self, path: &Path) -> Result<Bundle, CommandError> {
        let bundle = self.open(path)?;
        match bundle.base() {
            None => Ok(bundle),
            Some(base) => Err(CommandError::Incremental {
                bundle: path.to_owned(),
                base: base.name.clone(),
            }),
        }
    }

    /// Opens the last bundle together with its base bundles.
    pub fn open_with_bases(&self, paths: &[PathBuf]) -> Result<BundleSet, CommandError> {
        Ok(BundleSet::open(paths, &self.access())?)
    }

    /// Also accepts bundles that are signed by a key that the cluster file trusts.
    pub fn trusting(&self, cluster: &Path) -> Result<Self, CommandError> {
        let mut extended = self.clone();
        extended.trust.extend(kubexm_config::load_trust(cluster)?);
        Ok(extended)
    }
}

/// A cluster file and the bundle to install it from.
#[derive(Debug, Clone)]
pub struct ClusterSource {
    /// The bundle; an incremental bundle follows its base bundles.
    pub bundles: Vec<PathBuf>,
    /// The cluster file.
    pub cluster: PathBuf,
    /// How the bundles are opened.
    pub access: BundleAccess,
}

/// A cluster file and a bundle whose age was not compared with that of the cluster's.
pub struct Opened {
    bundle: Arc<BundleSet>,
    /// The cluster of the file.
    pub cluster: Cluster,
}

impl Opened {
    /// Returns the bundle and the cluster. `state` is the state directory.
    ///
    /// # Errors
    /// The bundle is older than the newest one that the cluster was installed from, and `allow_older` is false.
    pub fn unless_older(
        self,
        state: &Path,
        allow_older: bool,
        events: &Events,
    ) -> Result<(Arc<BundleSet>, Cluster), CommandError> {
        rollback::check(state, self.bundle.bundle(), allow_older, events)?;
        Ok((self.bundle, self.cluster))
    }

    /// Returns the bundle and the cluster. A bundle of another name, as that of an application, has its own numbers.
    ///
    /// # Errors
    /// The bundle is older than the newest one of its name whose content came into the cluster, and `allow_older` is false.
    pub fn unless_older_of_its_name(
        self,
        state: &Path,
        allow_older: bool,
        events: &Events,
    ) -> Result<(Arc<BundleSet>, Cluster), CommandError> {
        rollback::check_of_its_name(state, self.bundle.bundle(), allow_older, events)?;
        Ok(self.of_any_age())
    }

    /// Returns the bundle and the cluster for a command that goes back to an older bundle, or that compares the ages itself, under
    /// the lock of the state directory.
    pub fn of_any_age(self) -> (Arc<BundleSet>, Cluster) {
        (self.bundle, self.cluster)
    }
}

impl ClusterSource {
    /// Opens the bundle and reads the cluster file. Emits a warning for each notice about the file, and one about
    /// experimental settings.
    pub fn open(&self, events: &Events) -> Result<(Arc<BundleSet>, Cluster), CommandError> {
        self.open_with(events, |bundle| {
            kubexm_config::load_cluster_for(&self.cluster, &bundle.lock().kubernetes)
        })
    }

    fn open_with(
        &self,
        events: &Events,
        load: impl Fn(&BundleSet) -> Result<Cluster, Problems>,
    ) -> Result<(Arc<BundleSet>, Cluster), CommandError> {
        let access = self.access.trusting(&self.cluster)?;
        let bundle = access.open_with_bases(&self.bundles)?;
        let cluster = load(&bundle)?;
        kubexm_deploy::validate(&cluster)?;
        notices::emit(&cluster.notices, events);
        notices::emit_experimental(&self.cluster, &cluster, events);
        Ok((Arc::new(bundle), cluster))
    }

    /// Opens the bundle and reads the cluster file, as `open` does. Without a trusted key the user must accept
    /// that the signature is not verified, because an install runs programs of the bundle as root.
    pub fn open_to_install(&self, unsigned: bool, events: &Events) -> Result<Opened, CommandError> {
        self.check_trust(unsigned)?;
        let (bundle, cluster) = self.open(events)?;
        self.note_unsigned(unsigned, events);
        Ok(Opened { bundle, cluster })
    }

    /// Does as `open_to_install`, for a command that does not need the version of Kubernetes of the cluster file.
    pub fn open_at_any_version(
        &self,
        unsigned: bool,
        events: &Events,
    ) -> Result<Opened, CommandError> {
        self.check_trust(unsigned)?;
        let (bundle, cluster) = self.read_at_any_version(events)?;
        self.note_unsigned(unsigned, events);
        Ok(Opened { bundle, cluster })
    }

    /// Does as `open`, for a command that does not need the version of Kubernetes of the cluster file.
    pub fn read_at_any_version(
        &self,
        events: &Events,
    ) -> Result<(Arc<BundleSet>, Cluster), CommandError> {
        self.open_with(events, |_| kubexm_config::load_cluster(&self.cluster))
    }

    fn last_bundle(&self) -> String {
        let bundle = self.bundles.last();
        bundle.map_or_else(String::new, |path| path.display().to_string())
    }

    fn note_unsigned(&self, unsigned: bool, events: &Events) {
        if unsigned {
            events.note(format!(
                "{}: the signature is not verified, because of --unsigned",
                self.last_bundle()
            ));
        }
    }

    /// Fails if no key verifies the bundle and the user does not accept this.
    fn check_trust(&self, unsigned: bool) -> Result<(), CommandError> {
        let bundle = self.last_bundle();
        let cluster = self.cluster.display();
        let is_trusting = !self.access.trusting(&self.cluster)?.trust.is_empty();
        if !is_trusting && !unsigned {
            // A file that does not exist or is not a bundle explains more.
            self.access.open_with_bases(&self.bundles)?;
            return Err(CommandError::configuration(format!(
                "{bundle}: cannot verify the signature: neither --trust nor spec.bundle.trust in \
                 {cluster} names a key"
            ))
            .hint(
                "give the public key of the bundle's builder with --trust FILE, or install \
                 without this check with --unsigned",
            ));
        }
        if is_trusting && unsigned {
            return Err(CommandError::configuration(format!("--unsigned contradicts \
                                                            spec.bundle.trust in {cluster}: the key \
                                                            there must have signed the bundle")).hint("leave out --unsigned, or remove the keys"));
        }
        Ok(())
    }
}

/// Compares every byte of the bundle with its digests before any of it reaches a host.
///
/// # Errors
/// The bundle is damaged, or a file cannot be read.
pub async fn verify(bundle: &Arc<BundleSet>, events: &Events) -> Result<(), CommandError> {
    events.phase("verify");
    let watch = Watch::without_host(events, "verify the bundle");
    let (bundle, events) = (Arc::clone(bundle), watch.events());
    let verifying = tokio::task::spawn_blocking(move || bundle.verify(crate::threads(), &events));
    let verified = watch.during(verifying).await;
    Ok(verified.map_err(CommandError::defect)??)
}

/// Does as [`verify`], unless a command before has verified the same files and has not failed. `state` is the state
/// directory, which has the record.
///
/// # Errors
/// As [`verify`].
pub async fn verify_once(
    bundle: &Arc<BundleSet>,
    state: &Path,
    events: &Events,
) -> Result<(), CommandError> {
    let files = VerifiedBundle::of(bundle).ok();
    if files.as_ref().is_some_and(|files| files.is_recorded(state)) {
        events.phase("verify");
        events
            .note("a command before has verified the bundle, and its files have not changed since");
        return Ok(());
    }
    verify(bundle, events).await?;
    // Without the record, the next command verifies the bundle again.
    let _ = files.map(|files| files.save(state));
    Ok(())
}
