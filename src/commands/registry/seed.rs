//! `registry seed`: pushes the images of a bundle to the registry that a cluster file names.

use std::path::PathBuf;
use std::sync::Arc;

use crate::downloads::open_cache;
use crate::{BundleAccess, CommandError, FileError, Stop, notices};
use kubexm_config::cluster::ExternalRegistry;
use kubexm_engine::plan::Watch;
use kubexm_engine::seed;
use kubexm_fetch::oci::{PushAccess, Pusher};
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
    let access = options.access.trusting(&options.cluster)?;
    let bundle = Arc::new(access.open_complete(&options.bundle)?);
    let cluster = kubexm_config::load_cluster_for(&options.cluster, &bundle.lock().kubernetes)?;
    notices::emit(&cluster.notices, events);
    let Some(registry) = &cluster.registry.external else {
        let error = FileError::new(
            "seed the registry of",
            &options.cluster,
            "spec.registry.type is not external",
        );
        let hint = "`kubexm install` fills a registry that runs in the cluster";
        return Err(error.hint(hint).into());
    };
    let cache = open_cache(options.cache.as_deref())?;
    let access = push_access(registry)?;
    events.phase("push");
    let mut sent = 0;
    let images = &bundle.lock().images;
    for image in images {
        let destination = destination(registry, &image.name)?;
        let spool = cache.unfinished();
        let what = format!("push {} to {}", image.name, registry.address);
        let watch = Watch::without_host(events, what);
        let pushing = watch.during(async {
            let pusher =
                Pusher::new(destination, access.clone(), None, &spool, watch.events()).await?;
            pusher.push_image(&bundle, image).await
        });
        sent += tokio::select! {
            pushed = pushing => pushed?,
            () = stop.cancelled() => {
                return Err(CommandError::Interrupted(
                    "stopped; the same command continues with what was not sent".to_owned(),
                ));
            }
        };
    }
    Ok(SeedReport {
        registry: registry.address.to_string(),
        images: images.len(),
        sent,
    })
}

fn push_access(registry: &ExternalRegistry) -> Result<PushAccess, CommandError> {
    let ca = registry.ca_file.iter().map(|file| {
        std::fs::read(file).map_err(|error| FileError::new("read the CA", file, error))
    });
    let login = match &registry.login {
        None => None,
        Some(login) => {
            let password = login.password().map_err(CommandError::configuration)?;
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
