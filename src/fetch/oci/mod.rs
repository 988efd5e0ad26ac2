//! Images and other artifacts over the OCI distribution API
//! (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md>); manifests are stored byte
//! for byte.

mod artifact;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod manifest;
mod platforms;
mod pull;
mod push;
mod referrers;
mod tags;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use oci_client::Reference;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use manifest::{INDEX_TYPES, LARGEST_MANIFEST, MANIFEST_TYPES};
pub(crate) use platforms::Parts;
pub use push::{PushAccess, Pushed, Pusher};

use super::client::Access;
use super::credentials::DockerCredentials;
use super::http::Small;
use super::response::shown;
use super::session::Session;
use super::{FetchError, Http};
use kubexm_bundle::lock::{ChecksumSource, Descriptor, LockedImage};
use kubexm_config::mirrors::RegistryAddress;
use kubexm_types::{Arch, Digest, ImageRef, ShownUrl, WarningKind};

/// The address of Docker Hub's registry.
const DOCKER_HUB: &str = "https://registry-1.docker.io";

/// Sessions by registry and repository.
type Sessions = BTreeMap<(String, String), Arc<Session>>;

/// Pulls images into the cache.
#[derive(Clone)]
pub struct Puller {
    http: Http,
    credentials: Arc<DockerCredentials>,
    sessions: Arc<Mutex<Sessions>>,
    /// Whether the content may be missing; see [`Puller::for_optional_content`].
    is_optional: bool,
}

impl Puller {
    /// Creates a puller that uses the registry mirrors of `http` and Docker's credentials.
    pub fn new(http: Http) -> Self {
        let credentials = DockerCredentials::from_docker_config().unwrap_or_else(|reason| {
            http.events().warn(
                WarningKind::Registry,
                format!("{reason}; kubexm contacts registries without a login"),
            );
            DockerCredentials::default()
        });
        Self {
            http,
            credentials: Arc::new(credentials),
            sessions: Arc::default(),
            is_optional: false,
        }
    }

    /// Returns a puller for content that may be missing, such as signatures. If one address answers that it does
    /// not have the content, addresses that do not answer do not matter.
    pub(super) fn for_optional_content(&self) -> Self {
        Self {
            is_optional: true,
            ..self.clone()
        }
    }

    /// Tries addresses in order and returns the first success.
    async fn first_good<T, F>(
        &self,
        label: &str,
        addresses: Vec<RegistryAddress>,
        mut attempt: impl FnMut(RegistryAddress, u32) -> F,
    ) -> Result<T, FetchError>
    where
        F: Future<Output = Result<T, FetchError>>,
    {
        if !self.is_optional {
            return self.http.first_good(label, addresses, attempt).await;
        }
        let addresses = addresses.into_iter().map(|address| {
            let site = parse(&address.base)?;
            Ok((site, address))
        });
        let addresses = addresses.collect::<Result<Vec<_>, FetchError>>()?;
        let attempt = |(_, address): (Url, RegistryAddress), tries| attempt(address, tries);
        self.http.first_answer(label, addresses, attempt).await
    }

    /// Resolves an image's manifests for `arches` into the cache; their blobs are named and not fetched.
    /// With `pinned`, the top manifest must have that digest, and its trust basis is left out.
    pub async fn resolve(
        &self,
        name: &ImageRef,
        arches: &[Arch],
        pinned: Option<Digest>,
    ) -> Result<LockedImage, FetchError> {
        self.resolve_parts(name, Parts::Of(arches), pinned).await
    }

    /// Resolves all manifests of an artifact that is not a container image, as [`Puller::resolve`] does.
    pub async fn resolve_artifact(
        &self,
        name: &ImageRef,
        pinned: Option<Digest>,
    ) -> Result<LockedImage, FetchError> {
        self.resolve_parts(name, Parts::All, pinned).await
    }

    pub(crate) async fn resolve_parts(
        &self,
        name: &ImageRef,
        parts: Parts<'_>,
        pinned: Option<Digest>,
    ) -> Result<LockedImage, FetchError> {
        let (found, checksum) = match (pinned, name.digest()) {
            (Some(digest), _) => (self.by_digest(name, digest).await?, None),
            (None, Some(digest)) => {
                let found = self.by_digest(name, digest).await?;
                (found, Some(ChecksumSource::Pinned))
            }
            (None, None) => {
                let (found, by) = self.by_tag(name).await?;
                (found, Some(self.checksum(name, by)?))
            }
        };
        self.parts(name, parts, found, checksum).await
    }

    /// Fetches a blob of an image into the cache and continues an earlier partial download.
    ///
    /// # Errors
    /// The request fails, the digest differs, or the cache cannot be written. Wrong content is not kept.
    pub async fn blob(&self, name: &ImageRef, blob: &Descriptor) -> Result<(), FetchError> {
        let label = &format!("{name} {}", &blob.digest.hex()[..12]);
        if self.http.load_local(label, &blob.digest).await? == Some(blob.size) {
            return Ok(());
        }
        let fetch = |address: RegistryAddress, tries| async move {
            let place = self.place(&address, &format!("blobs/{}", blob.digest))?;
            let access = self.access(&address)?;
            let wanted = (blob.digest, blob.size);
            self.http.blob(label, wanted, place, access, tries).await
        };
        let addresses = self.addresses(name);
        self.first_good(label, addresses, fetch).await?;
        Ok(())
    }

    /// Fetches a manifest by tag or digest into the cache.
    pub(super) async fn manifest(
        &self,
        name: &ImageRef,
        digest: Option<Digest>,
    ) -> Result<(Vec<u8>, Digest), FetchError> {
        match digest {
            Some(digest) => self.by_digest(name, digest).await,
            None => self.by_tag(name).await.map(|(found, _)| found),
        }
    }

    /// Fetches a manifest with this digest, from a mirror if there is one.
    async fn by_digest(
        &self,
        name: &ImageRef,
        digest: Digest,
    ) -> Result<(Vec<u8>, Digest), FetchError> {
        let label = name.to_string();
        if self.http.load_local(&label, &digest).await?.is_some() {
            return Ok((self.http.cache().read(&digest)?, digest));
        }
        let fetch = |address: RegistryAddress, tries| async move {
            self.manifest_from(name, Some(digest), &address, tries)
                .await
        };
        let addresses = self.addresses(name);
        let bytes = self.first_good(&label, addresses, fetch).await?;
        Ok((bytes.clone(), self.http.cache().insert(&bytes)?))
    }

    /// Fetches a manifest from one registry and verifies its digest, if that is known.
    async fn manifest_from(
        &self,
        name: &ImageRef,
        digest: Option<Digest>,
        address: &RegistryAddress,
        tries: u32,
    ) -> Result<Vec<u8>, FetchError> {
        let label = name.to_string();
        let access = self.access(address)?;
        let place = self.place(address, &manifest_path(name, digest)?)?;
        let small = manifest_request(&label, &access);
        let bytes = self.http.small(&small, &place, tries).await?;
        let got = Digest::of(&bytes);
        match digest.filter(|expected| *expected != got) {
            None => Ok(bytes),
            Some(expected) => Err(FetchError::Checksum {
                what: label,
                url: shown(&place),
                expected,
                got,
            }),
        }
    }

    /// Returns the registries to ask for an image, in order.
    fn addresses(&self, name: &ImageRef) -> Vec<RegistryAddress> {
        let mirrored = self.http.mirrors().for_image(name);
        mirrored.unwrap_or_else(|| vec![origin(name)])
    }

    /// Returns the address of a resource in a repository
    /// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#endpoints>).
    fn place(&self, address: &RegistryAddress, path: &str) -> Result<Url, FetchError> {
        let RegistryAddress { base, repository } = address;
        let text = format!("{base}/v2/{repository}/{path}");
        parse(&text)
    }

    /// Returns the session of a repository, so that all its blobs share a token.
    fn access(&self, address: &RegistryAddress) -> Result<Access, FetchError> {
        let RegistryAddress { base, repository } = address;
        let registry = parse(base)?;
        let key = (base.clone(), repository.clone());
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.entry(key).or_insert_with(|| {
            let host = authority(&registry);
            // Tokens are per repository; the tag has no meaning.
            let reference = Reference::with_tag(host, repository.clone(), "any".to_owned());
            Arc::new(Session::new(
                registry,
                reference,
                Arc::clone(&self.credentials),
            ))
        });
        Ok(Access::Registry(Arc::clone(session)))
    }
}

fn parse(address: &str) -> Result<Url, FetchError> {
    Url::parse(address).map_err(|error| {
        let address = ShownUrl::of_text(address);
        FetchError::resolve(format!("{address}: {error}"))
    })
}

/// Returns the host and the port of a registry, without user and password.
fn authority(registry: &Url) -> String {
    let host = registry.host_str().unwrap_or_default();
    match registry.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether a registry is on this machine. Its traffic cannot be intercepted on a network, so plain HTTP is
/// used unless the port is 443.
pub fn is_loopback(registry: &str) -> bool {
    let (host, port) = registry.split_once(':').unwrap_or((registry, "443"));
    let address = host.parse::<std::net::IpAddr>();
    port != "443" && (host == "localhost" || address.is_ok_and(|address| address.is_loopback()))
}

/// Returns an image's own registry.
fn origin(name: &ImageRef) -> RegistryAddress {
    let base = match name.registry() {
        "docker.io" => DOCKER_HUB.to_owned(),
        host => format!("https://{host}"),
    };
    RegistryAddress {
        base,
        repository: name.repository().to_owned(),
    }
}

fn manifest_path(name: &ImageRef, digest: Option<Digest>) -> Result<String, FetchError> {
    let reference = digest.map(|digest| digest.to_string());
    let reference = reference.or_else(|| name.tag().map(str::to_owned));
    let reference = reference
        .ok_or_else(|| FetchError::resolve(format!("{name} has neither tag nor digest")))?;
    Ok(format!("manifests/{reference}"))
}

fn manifest_request<'a>(label: &'a str, access: &'a Access) -> Small<'a> {
    let types = [INDEX_TYPES, MANIFEST_TYPES].concat().join(", ");
    let accept = HeaderValue::from_str(&types).ok();
    Small {
        label,
        access,
        headers: accept
            .map(|types| (ACCEPT, types))
            .into_iter()
            .collect::<HeaderMap>(),
        limit: LARGEST_MANIFEST,
    }
}
