//! `registry seed`: pushes the images of a bundle to the registry that a cluster file names.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::{bytes, count};
use kubexm_bundle::Bundle;
use kubexm_bundle::lock::LockedImage;
use kubexm_config::cluster::ExternalRegistry;
use kubexm_engine::plan::Watch;
use kubexm_engine::seed;
use kubexm_fetch::oci::{PushAccess, Pusher};
use kubexm_session::downloads::open_cache;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{BundleAccess, CommandError, FileError, Stop, notices};
use kubexm_types::ImageRef;
use kubexm_types::event::Events;

/// Which images to push, and for which cluster.
#[derive(Debug, Clone)]
pub struct SeedOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// The cluster file.
    pub cluster: PathBuf,
    /// The folder for blobs that wait to be sent; `None` for the default cache.
    pub cache: Option<PathBuf>,
}

/// What was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedReport {
    /// The address of the registry.
    pub registry: String,
    /// The number of images.
    pub images: usize,
    /// The number of blobs that were sent.
    pub sent: usize,
}

/// Pushes every image that the registry does not have.
///
/// # Errors
/// The cluster has no external registry, the bundle cannot be read, or the registry refuses an image.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn seed(
    options: &SeedOptions,
    events: &Events,
    stop: &Stop,
) -> Result<SeedReport, CommandError> {
    let site = Site::open(options, events)?;
    let cache = open_cache(options.cache.as_deref())?;
    events.phase("push");
    let mut sent = 0;
    let images = &site.bundle.lock().images;
    for image in images {
        let what = format!("push {} to {}", image.name, site.registry.address);
        let watch = Watch::without_host(events, what);
        let pushing = watch.during(async {
            let spool = cache.unfinished();
            let pusher = site.pusher(image, &spool, watch.events()).await?;
            Ok::<_, CommandError>(pusher.push_image(&site.bundle, image).await?)
        });
        sent += tokio::select! {
            pushed = pushing => pushed?,
            () = stop.cancelled() => {
                return Err(CommandError::interrupted("stopped; the same command continues with \
                                                      what was not sent"));
            }
        };
    }
    Ok(SeedReport {
        registry: site.registry.address.to_string(),
        images: images.len(),
        sent,
    })
}

/// Asks the registry which blobs it does not have, and emits as a note what a push would send. Pushes nothing, and creates no
/// cache.
///
/// # Errors
/// The cluster has no external registry, the bundle cannot be read, or the registry does not answer.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn seed_dry_run(
    options: &SeedOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(), CommandError> {
    let site = Site::open(options, events)?;
    let mut text = format!(
        "images of {} that are pushed to {}; no host changes:",
        options.bundle.display(),
        site.registry.address
    );
    for image in &site.bundle.lock().images {
        let what = format!("look for {} at {}", image.name, site.registry.address);
        let watch = Watch::without_host(events, what);
        let asking = watch.during(async {
            // Nothing is written: no blob is sent.
            let pusher = site.pusher(image, Path::new(""), watch.events()).await?;
            Ok(pusher.count_missing(image).await?)
        });
        let (missing, size) = unless_stopped(stop, asking).await?;
        let _ = write!(
            text,
            "\n  {}\n    {}: {}",
            image.name,
            destination(&site.registry, &image.name)?,
            sends(missing, size)
        );
    }
    events.note(text);
    events.note("dry run: nothing was touched");
    Ok(())
}

fn sends(missing: usize, size: u64) -> String {
    match missing {
        0 => "has all blobs".to_owned(),
        _ => format!("gets {}, {}", count(missing, "blob"), bytes(size)),
    }
}

/// A bundle, and the registry that gets its images.
struct Site {
    bundle: Arc<Bundle>,
    registry: ExternalRegistry,
    access: PushAccess,
}

impl Site {
    fn open(options: &SeedOptions, events: &Events) -> Result<Self, CommandError> {
        let access = options.access.trusting(&options.cluster)?;
        let bundle = Arc::new(access.open_complete(&options.bundle)?);
        let cluster = kubexm_config::load_cluster_for(&options.cluster, &bundle.lock().kubernetes)?;
        notices::emit(&cluster.notices, events);
        let Some(registry) = cluster.registry.external else {
            let error = FileError::new(
                "seed the registry of",
                &options.cluster,
                "spec.registry.type is not external",
            );
            let hint = "`kubexm install` fills a registry that runs in the cluster";
            return Err(error.hint(hint).into());
        };
        Ok(Self {
            access: push_access(&registry)?,
            bundle,
            registry,
        })
    }

    async fn pusher(
        &self,
        image: &LockedImage,
        spool: &Path,
        events: Events,
    ) -> Result<Pusher, CommandError> {
        let destination = destination(&self.registry, &image.name)?;
        Ok(Pusher::new(destination, self.access.clone(), None, spool, events).await?)
    }
}

fn push_access(registry: &ExternalRegistry) -> Result<PushAccess, CommandError> {
    let ca = registry.ca_file.iter().map(|file| {
        std::fs::read(file).map_err(|error| FileError::new("read the CA", file, error))
    });
    let login = match &registry.login {
        None => None,
        Some(login) => {
            let password = login.password()?;
            Some((login.user.clone(), password.0))
        }
    };
    Ok(PushAccess {
        plain_http: false,
        ca: ca.collect::<Result<_, _>>()?,
        login,
    })
}

/// Where the hosts' mirror settings look for an image in the registry.
fn destination(registry: &ExternalRegistry, image: &ImageRef) -> Result<ImageRef, CommandError> {
    let repository = registry.repository(&seed::repository(image));
    // Registries delete manifests without a tag, so an image without one is tagged by its digest.
    let digest = image.digest().map(|digest| digest.hex());
    let tag = image
        .tag()
        .map(str::to_owned)
        .or(digest)
        .unwrap_or_default();
    let text = format!("oci://{}/{repository}:{tag}", registry.address);
    ImageRef::parse_place(&text, None).map_err(CommandError::configuration)
}
