//! `bundle push`: copies a bundle to a registry.

use std::path::PathBuf;
use std::sync::Arc;

use kubexm_fetch::oci::{PushAccess, Pusher};
use kubexm_session::downloads::open_cache;
use kubexm_session::{BundleAccess, CommandError, Stop};
use kubexm_types::event::Events;
use kubexm_types::{Digest, ImageRef};

/// What to push, and where.
#[derive(Debug, Clone)]
pub struct PushOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// `oci://registry/repository[:tag]`; the default tag is the name of the bundle.
    pub destination: String,
    /// Whether to use HTTP without TLS.
    pub plain_http: bool,
    /// Another repository of the registry whose blobs can be mounted instead of sent.
    pub mount_from: Option<String>,
    /// The folder for blobs that wait to be sent; `None` for the default cache.
    pub cache: Option<PathBuf>,
}

/// What was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReport {
    /// The destination with its tag.
    pub destination: ImageRef,
    /// The digest that the tag names now.
    pub digest: Digest,
    /// The digest of the bundle's lock.
    pub lock: Digest,
    /// The number of blobs that were sent.
    pub sent: usize,
    /// The number of all blobs.
    pub blobs: usize,
    /// The size in bytes of the blobs that were sent.
    pub bytes: u64,
    /// The number of images that can be pulled from there by digest.
    pub images: usize,
    /// The number of publishers' signatures that were pushed.
    pub signatures: usize,
}

/// Sends the blobs that the registry does not have.
///
/// # Errors
/// The bundle cannot be read, or the registry refuses it.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn push(
    options: &PushOptions,
    events: &Events,
    stop: &Stop,
) -> Result<PushReport, CommandError> {
    let bundle = Arc::new(options.access.open_complete(&options.bundle)?);
    let destination = ImageRef::parse_place(&options.destination, Some(&bundle.lock().name))
        .map_err(CommandError::configuration)?;
    let cache = open_cache(options.cache.as_deref())?;
    let access = PushAccess {
        plain_http: options.plain_http,
        ..PushAccess::default()
    };
    let pusher = Pusher::new(
        destination.clone(),
        access,
        options.mount_from.as_deref(),
        &cache.unfinished(),
        events.clone(),
    )
    .await?;
    let pushed = tokio::select! {
        pushed = pusher.push(Arc::clone(&bundle)) => pushed?,
        () = stop.cancelled() => {
            return Err(CommandError::interrupted("stopped; the tag was not changed, and the same \
                                                  command continues with what was not sent"));
        }
    };
    Ok(PushReport {
        destination,
        digest: pushed.digest,
        lock: bundle.lock_digest(),
        sent: pushed.sent,
        blobs: pushed.sent + pushed.there,
        bytes: pushed.bytes,
        images: pushed.images,
        signatures: pushed.signatures,
    })
}
