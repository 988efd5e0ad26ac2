//! Pushing a bundle to a registry: blobs first, then manifests, then the tag.

mod blobs;
mod image;
mod refusal;
mod signatures;

use std::collections::BTreeSet;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use reqwest::header::HeaderValue;

use blobs::Spooled;

use crate::FetchError;
use crate::credentials::{DockerCredentials, Login};
use kubexm_bundle::format::oci_layout::{EMPTY_CONFIG, INDEX_TYPE, MANIFEST_TYPE};
use kubexm_bundle::lock::blob_index::content_size;
use kubexm_bundle::oci_artifact;
use kubexm_bundle::oci_artifact::{BundleArtifact, ImageManifest};
use kubexm_bundle::{Bundle, BundleError};
use kubexm_types::event::Events;
use kubexm_types::{Digest, ImageRef, Message, WarningKind};
use refusal::{PushRefusal, push_failure};

/// Number of attempts per blob or manifest.
const TRIES: u32 = 4;
/// Timeout without progress; a registry may need this long to store a blob.
const STALLED: Duration = Duration::from_secs(120);

/// The result of a push.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// The digest that the tag names.
    pub digest: Digest,
    /// Number of pushed blobs.
    pub sent: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// Number of blobs that the registry had, in this repository or in the one to mount from.
    pub there: usize,
    /// Number of images that can be pulled from there by digest.
    pub images: usize,
    /// Number of publishers' signatures where cosign looks for them.
    pub signatures: usize,
}

/// How to connect to a registry. Passwords are secret.
#[derive(Clone, Default)]
pub struct PushAccess {
    pub plain_http: bool,
    /// CA certificates in PEM, in addition to the system's.
    pub ca: Vec<Vec<u8>>,
    /// User and password; without them, Docker's login is used.
    pub login: Option<(String, String)>,
}

/// Pushes bundles to one tag in a registry.
#[derive(Clone)]
pub struct Pusher {
    client: Client,
    place: ImageRef,
    repository: Reference,
    auth: RegistryAuth,
    mount_from: Option<Reference>,
    spool: PathBuf,
    events: Events,
}

impl Pusher {
    /// Creates a pusher to `place`, which has a tag. Temporary files are in the directory `spool`;
    /// `mount_from` names another repository of the registry that may have some of the blobs.
    ///
    /// # Errors
    /// The client cannot be created, or `place` has no tag.
    pub async fn new(
        place: ImageRef,
        access: PushAccess,
        mount_from: Option<&str>,
        spool: &Path,
        events: Events,
    ) -> Result<Self, FetchError> {
        let registry = place.registry().to_owned();
        let plain = access.plain_http || access.ca.is_empty() && super::is_loopback(&registry);
        let protocol = if plain {
            ClientProtocol::HttpsExcept(vec![registry.clone()])
        } else {
            ClientProtocol::Https
        };
        let ca = access.ca.clone();
        // Without a read timeout, which would start with the request and end long uploads.
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(Duration::from_secs(15)),
            use_monolithic_push: true,
            extra_root_certificates: access.ca.into_iter().map(pem).collect(),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| {
            FetchError::resolve(format!("cannot set up the registry client: {error}"))
        })?;
        let Some(tag) = place.tag().filter(|_| place.digest().is_none()) else {
            let reason = Message::new(format!("{place}: the address has no tag"));
            let hint = "use the form oci://registry/repository:tag";
            return Err(FetchError::Resolve(reason.hint(hint)));
        };
        let repository = Reference::with_tag(
            registry.clone(),
            place.repository().to_owned(),
            tag.to_owned(),
        );
        let mount_from = mount_from
            .map(|from| Reference::with_tag(registry.clone(), from.to_owned(), tag.to_owned()));
        let login = match access.login {
            Some((user, password)) => Some(Login::Password { user, password }),
            None => {
                let credentials =
                    DockerCredentials::from_docker_config().map_err(FetchError::resolve)?;
                credentials.login(&registry).await
            }
        };
        let auth = match login {
            Some(Login::Password { user, password }) => RegistryAuth::Basic(user, password),
            Some(Login::Identity(_)) => {
                return Err(FetchError::resolve(format!(
                    "{registry}: Docker has only an identity token for it, which cannot push from \
                     here; `docker login {registry}` with a password"
                )));
            }
            None => RegistryAuth::Anonymous,
        };
        if matches!(auth, RegistryAuth::Basic(..)) {
            let scheme = if plain { "http" } else { "https" };
            let address = super::parse(&format!("{scheme}://{registry}"))?;
            crate::session::check_before_login(&address, &ca).await?;
        }
        Ok(Self {
            client,
            place,
            repository,
            auth,
            mount_from,
            spool: spool.to_owned(),
            events,
        })
    }

    /// Pushes what the registry does not have, and the tag last.
    ///
    /// # Errors
    /// The bundle is damaged, the registry refuses a request, or it cannot be reached. Pushed content
    /// remains, and the next push continues from it.
    pub async fn push(&self, bundle: Arc<Bundle>) -> Result<Pushed, FetchError> {
        let transport = oci_artifact::describe(&bundle)?;
        self.client
            .store_auth_if_needed(self.repository.resolve_registry(), &self.auth)
            .await;
        self.events.phase("push");
        let all = bundle.lock().blobs();
        let mut missing = self.missing(all).await?;
        if let Some(from) = &self.mount_from {
            missing = self.mount(missing, from).await;
        }
        let there = all.len() - missing.len();
        let (sent, bytes) = (missing.len(), content_size(&missing));
        self.blobs(Arc::clone(&bundle), missing).await?;
        self.documents(&transport).await?;
        let images = self.images(&bundle).await?;
        if !images.is_empty() {
            self.images_tag(&images).await?;
        }
        let signatures = self.signatures(&bundle).await?;
        let manifest = &transport.manifest;
        self.manifest(&self.repository, MANIFEST_TYPE, manifest)
            .await?;
        Ok(Pushed {
            digest: Digest::of(manifest),
            sent,
            bytes,
            there,
            images: images.len(),
            signatures,
        })
    }

    /// Pushes the documents of the bundle's header.
    async fn documents(&self, transport: &BundleArtifact) -> Result<(), FetchError> {
        let texts = transport
            .documents
            .iter()
            .map(|document| &document.bytes[..]);
        for text in texts.chain([EMPTY_CONFIG]) {
            let digest = Digest::of(text);
            if self.has(&digest).await? {
                continue;
            }
            let mut file = tempfile::tempfile_in(&self.spool)
                .and_then(|mut file| file.write_all(text).map(|()| file))
                .map_err(|source| BundleError::io(&self.spool, source))?;
            file.rewind()
                .map_err(|source| BundleError::io(&self.spool, source))?;
            let size = text.len() as u64;
            let label = "the bundle's index".to_owned();
            self.blob(Spooled {
                digest,
                size,
                label,
                file,
            })
            .await?;
        }
        Ok(())
    }

    /// Pushes an index of the images' manifests under a separate tag, so that the registry's garbage
    /// collector keeps them.
    async fn images_tag(&self, images: &[ImageManifest]) -> Result<(), FetchError> {
        let index = oci_artifact::images_index(images);
        let tag = format!("{}.images", self.place.tag().unwrap_or_default());
        let (registry, repository) = (self.place.registry(), self.place.repository());
        let place = Reference::with_tag(registry.to_owned(), repository.to_owned(), tag);
        match self.manifest(&place, INDEX_TYPE, &index).await {
            Ok(()) => Ok(()),
            Err(PushRefusal::Content(reason)) => {
                self.events.warn(
                    WarningKind::Registry,
                    format!(
                        "{place}: the registry refuses an index of the images ({reason}); its garbage \
                         collector may delete their manifests, but not the bundle"
                    ),
                );
                Ok(())
            }
            Err(PushRefusal::Other(error)) => Err(error),
        }
    }

    /// Pushes the images' own manifests; returns those that the registry accepts.
    async fn images(&self, bundle: &Arc<Bundle>) -> Result<Vec<ImageManifest>, FetchError> {
        let reader = Arc::clone(bundle);
        let manifests = tokio::task::spawn_blocking(move || read_manifests(&reader));
        let manifests = manifests.await.map_err(|error| {
            FetchError::Bundle(BundleError::io(bundle.path(), io::Error::other(error)))
        })??;
        let mut taken: Vec<ImageManifest> = Vec::new();
        let mut refused = BTreeSet::new();
        for (image, bytes) in manifests {
            let place = self.by_digest(&image.descriptor.digest);
            match self
                .manifest(&place, &image.descriptor.media_type, &bytes)
                .await
            {
                Ok(()) => taken.push(image),
                Err(PushRefusal::Content(reason)) => {
                    // An index above a refused manifest is refused too: one warning is enough.
                    if refused.insert(image.name.clone()) {
                        self.events.warn(
                            WarningKind::Registry,
                            format!(
                                "{}: the registry does not take its manifest ({reason}); the \
                             pushed bundle contains the image, but it cannot be pulled separately",
                                image.name
                            ),
                        );
                    }
                }
                Err(PushRefusal::Other(error)) => return Err(error),
            }
        }
        Ok(taken)
    }

    async fn manifest(
        &self,
        place: &Reference,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<(), PushRefusal> {
        let kind = HeaderValue::from_str(media_type)
            .map_err(|_| PushRefusal::Content("an invalid media type".to_owned()))?;
        let put = || async {
            let (body, kind) = (bytes.to_vec(), kind.clone());
            let put = self.client.push_manifest_raw(place, body, kind);
            in_time(put).await.map(|_| ())
        };
        self.persist(&place.to_string(), put).await
    }

    fn by_digest(&self, digest: &Digest) -> Reference {
        let (registry, repository) = (self.place.registry(), self.place.repository());
        Reference::with_digest(
            registry.to_owned(),
            repository.to_owned(),
            digest.to_string(),
        )
    }

    /// Repeats a request with increasing pauses while the error is temporary.
    async fn persist<T, F: Future<Output = Result<T, OciDistributionError>>>(
        &self,
        what: &str,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, PushRefusal> {
        let mut pause = Duration::from_millis(300);
        let mut left = TRIES;
        loop {
            left -= 1;
            let error = match attempt().await {
                Ok(value) => return Ok(value),
                Err(error) => push_failure(what, &self.place, error),
            };
            if left == 0 || !error.is_passing() {
                return Err(error);
            }
            tracing::debug!(%error, "trying again");
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

fn pem(data: Vec<u8>) -> Certificate {
    Certificate {
        encoding: CertificateEncoding::Pem,
        data,
    }
}

/// Limits the time of a small request.
async fn in_time<T>(
    request: impl Future<Output = Result<T, OciDistributionError>>,
) -> Result<T, OciDistributionError> {
    let answer = tokio::time::timeout(STALLED, request).await;
    answer.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

fn read_manifests(bundle: &Bundle) -> Result<Vec<(ImageManifest, Vec<u8>)>, BundleError> {
    let mut seen = BTreeSet::new();
    let mut manifests = Vec::new();
    for image in &bundle.lock().images {
        for manifest in oci_artifact::manifests_of(image, bundle)? {
            if seen.insert(manifest.descriptor.digest) {
                let bytes = oci_artifact::read_small(bundle, &manifest.descriptor)?;
                manifests.push((manifest, bytes));
            }
        }
    }
    Ok(manifests)
}
