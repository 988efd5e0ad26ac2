//! Images over the OCI distribution API
//! (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md>), manifests byte for
//! byte.

mod manifest;
mod pull;
mod push;
mod refusal;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{BlobResponse, ClientConfig, ClientProtocol, SizedStream};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};

use manifest::{
    INDEX_TYPES, MANIFEST_TYPES, Manifest, no_platform, parse_manifest, pick, platform,
};
pub use push::{Pushed, Pusher};
use refusal::{failure, is_passing, may_be_about_the_range};

use super::cache::{Claim, Partial};
use super::{FetchError, Http, credentials};
use crate::bundle::lock::{Descriptor, LockedImage};
use crate::event::Transfer;
use crate::spec::{Arch, Digest, ImageRef};

/// How often a blob or a manifest is tried before kubexm gives up.
const TRIES: u32 = 4;

/// Pulls images into the cache.
#[derive(Clone)]
pub struct Puller {
    client: Client,
    http: Http,
    credentials: Arc<BTreeMap<String, (String, String)>>,
}

impl Puller {
    /// A puller that follows the registries' mirrors of `http` and uses Docker's credentials.
    pub fn new(http: Http) -> Result<Self, FetchError> {
        let plain = http.mirrors().registries.values();
        let plain = plain.filter_map(|url| url.strip_prefix("http://"));
        let hosts = plain
            .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
            .collect();
        let config = ClientConfig {
            protocol: ClientProtocol::HttpsExcept(hosts),
            connect_timeout: Some(Duration::from_secs(15)),
            read_timeout: Some(Duration::from_secs(30)),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|error| {
            FetchError::Resolve(format!("cannot set up the registry client: {error}"))
        })?;
        Ok(Self {
            client,
            http,
            credentials: Arc::new(credentials::of_docker()),
        })
    }

    /// Finds an image's manifests for `arches` and puts them into the cache; the blobs below them
    /// are named, not fetched. With `pinned`, the top manifest must have that digest.
    pub async fn resolve(
        &self,
        name: &ImageRef,
        arches: &[Arch],
        pinned: Option<Digest>,
    ) -> Result<LockedImage, FetchError> {
        let wanted = pinned.or(name.digest());
        let (bytes, digest) = self.manifest(name, wanted).await?;
        let top = parse_manifest(name, &bytes)?;
        let media_type = top.media_type.clone().unwrap_or_else(|| {
            let types = if top.manifests.is_some() {
                INDEX_TYPES
            } else {
                MANIFEST_TYPES
            };
            types[0].to_owned()
        });
        let descriptor = Descriptor {
            media_type,
            digest,
            size: bytes.len() as u64,
        };
        let mut platforms = Vec::new();
        match &top.manifests {
            None => {
                // A single manifest does not say its platform; its configuration does.
                let arch = self.arch_of(name, &top).await?;
                if !arches.contains(&arch) {
                    return Err(no_platform(name, arches[0], &[arch.to_string()]));
                }
                platforms.push(platform(name, arch, descriptor.clone(), &top)?);
            }
            Some(entries) => {
                for arch in arches {
                    let entry = pick(name, entries, *arch)?;
                    let (bytes, _) = self.manifest(name, Some(entry.digest)).await?;
                    let manifest = parse_manifest(name, &bytes)?;
                    platforms.push(platform(name, *arch, entry.descriptor(), &manifest)?);
                }
            }
        }
        Ok(LockedImage {
            name: name.clone(),
            manifest: descriptor,
            platforms,
        })
    }

    /// Fetches a blob of an image into the cache, going on where an earlier run stopped.
    pub async fn blob(&self, name: &ImageRef, blob: &Descriptor) -> Result<(), FetchError> {
        if self.http.cache().size(&blob.digest) == Some(blob.size) {
            return Ok(());
        }
        let mut pause = Duration::from_millis(300);
        for left in (0..TRIES).rev() {
            match self.try_blob(name, blob).await {
                Err(error) if left > 0 && is_passing(&error) => {
                    tracing::debug!(%error, "trying again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        Ok(())
    }

    async fn try_blob(&self, name: &ImageRef, blob: &Descriptor) -> Result<(), FetchError> {
        let reference = self.reference(name, Some(blob.digest))?;
        let label = format!("{name} {}", &blob.digest.hex()[..12]);
        let key = blob.digest.hex();
        let mut partial = match self.http.claim(&key, Some(blob.digest), &label).await? {
            Claim::Published(..) => return Ok(()),
            Claim::Partial(partial) => *partial,
        };
        partial.expect(Some(blob.size));
        let events = self.http.events();
        let transfer = events.transfer("download", label, Some(blob.size));
        // All of it may be there: killed between the last byte and the final name.
        if !partial.is(&blob.digest) {
            if partial.length() >= blob.size {
                partial.restart()?;
            }
            self.authorize(&reference).await;
            let stream = self.begin(name, &reference, blob, &mut partial).await?;
            self.receive(name, &reference, blob, stream, &mut partial, &transfer)
                .await?;
        }
        match partial.publish(Some(&blob.digest))? {
            Ok(_) => transfer.done(),
            Err(got) => {
                return Err(FetchError::Checksum {
                    what: label_of(name, blob),
                    url: reference.to_string(),
                    expected: blob.digest,
                    got,
                });
            }
        }
        Ok(())
    }

    /// Asks for the bytes that are not there yet; where the registry does not go on from there,
    /// for all of them.
    async fn begin(
        &self,
        name: &ImageRef,
        reference: &Reference,
        blob: &Descriptor,
        partial: &mut Partial,
    ) -> Result<SizedStream, FetchError> {
        let digest = blob.digest.to_string();
        let ask = |from| {
            self.client
                .pull_blob_stream_partial(reference, digest.as_str(), from, None)
        };
        let answer = match ask(partial.length()).await {
            Err(error) if partial.length() > 0 && may_be_about_the_range(&error) => {
                partial.restart()?;
                ask(0).await
            }
            answer => answer,
        };
        match answer.map_err(|error| failure(name, reference, error))? {
            BlobResponse::Partial(stream) => Ok(stream),
            BlobResponse::Full(stream) => {
                partial.restart()?;
                Ok(stream)
            }
        }
    }

    /// Adds a stream's bytes, never more than the manifest says, and fails where they are fewer.
    async fn receive(
        &self,
        name: &ImageRef,
        reference: &Reference,
        blob: &Descriptor,
        mut stream: SizedStream,
        partial: &mut Partial,
        transfer: &Transfer,
    ) -> Result<(), FetchError> {
        transfer.advance(partial.length());
        while let Some(chunk) = stream.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                // The client's own digest check speaks here; ours names both digests.
                Err(error) if error.to_string().contains("igest") => break,
                Err(error) => {
                    let error = OciDistributionError::from(error);
                    return Err(failure(name, reference, error));
                }
            };
            if partial.length() + chunk.len() as u64 > blob.size {
                partial.restart()?;
                return Err(FetchError::Content {
                    what: label_of(name, blob),
                    reason: "the registry sends more bytes than the manifest says".to_owned(),
                });
            }
            partial.append(&chunk)?;
            transfer.advance(chunk.len() as u64);
        }
        if partial.length() < blob.size {
            return Err(FetchError::Unreachable {
                what: label_of(name, blob),
                url: reference.to_string(),
                reason: "the line dropped before the end; run again to go on from there".to_owned(),
            });
        }
        Ok(())
    }

    /// A manifest by tag or digest, into the cache.
    pub(super) async fn manifest(
        &self,
        name: &ImageRef,
        digest: Option<Digest>,
    ) -> Result<(Vec<u8>, Digest), FetchError> {
        if let Some(digest) = digest
            && self.http.cache().size(&digest).is_some()
        {
            return Ok((self.http.cache().read(&digest)?, digest));
        }
        let reference = self.reference(name, digest)?;
        self.authorize(&reference).await;
        let types: Vec<&str> = INDEX_TYPES.into_iter().chain(MANIFEST_TYPES).collect();
        let auth = self.auth(reference.registry());
        let mut pause = Duration::from_millis(300);
        let mut left = TRIES;
        let (bytes, _) = loop {
            left -= 1;
            let error = match self
                .client
                .pull_manifest_raw(&reference, &auth, &types)
                .await
            {
                Ok(pulled) => break pulled,
                Err(error) => failure(name, &reference, error),
            };
            if left == 0 || !is_passing(&error) {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        };
        let got = Digest::of(&bytes);
        if let Some(expected) = digest.filter(|expected| *expected != got) {
            let (what, url) = (name.to_string(), reference.to_string());
            return Err(FetchError::Checksum {
                what,
                url,
                expected,
                got,
            });
        }
        self.http.cache().insert(&bytes)?;
        Ok((bytes.to_vec(), got))
    }

    async fn arch_of(&self, name: &ImageRef, manifest: &Manifest) -> Result<Arch, FetchError> {
        let unknown = || FetchError::Content {
            what: name.to_string(),
            reason: "its configuration names no architecture that kubexm knows".to_owned(),
        };
        let config = manifest.config.as_ref().ok_or_else(unknown)?;
        self.blob(name, &config.descriptor()).await?;
        let config: serde_json::Value =
            serde_json::from_slice(&self.http.cache().read(&config.digest)?)
                .map_err(|_| unknown())?;
        config["architecture"]
            .as_str()
            .and_then(|arch| arch.parse().ok())
            .ok_or_else(unknown)
    }

    /// The reference to ask: the mirror's host and repository prefix where there is one.
    fn reference(&self, name: &ImageRef, digest: Option<Digest>) -> Result<Reference, FetchError> {
        let (mut registry, mut repository) =
            (name.registry().to_owned(), name.repository().to_owned());
        if let Some(mirror) = self.http.mirrors().registries.get(&registry) {
            let rest = mirror
                .trim_start_matches("https://")
                .trim_start_matches("http://");
            let (host, prefix) = rest
                .trim_end_matches('/')
                .split_once('/')
                .unwrap_or((rest, ""));
            registry = host.trim_end_matches('/').to_owned();
            if !prefix.is_empty() {
                repository = format!("{prefix}/{repository}");
            }
        }
        match (digest, name.tag()) {
            (Some(digest), _) => Ok(Reference::with_digest(
                registry,
                repository,
                digest.to_string(),
            )),
            (None, Some(tag)) => Ok(Reference::with_tag(registry, repository, tag.to_owned())),
            (None, None) => Err(FetchError::Resolve(format!(
                "{name} has neither tag nor digest"
            ))),
        }
    }

    fn auth(&self, registry: &str) -> RegistryAuth {
        match self.credentials.get(registry) {
            Some((user, password)) => RegistryAuth::Basic(user.clone(), password.clone()),
            None => RegistryAuth::Anonymous,
        }
    }

    async fn authorize(&self, reference: &Reference) {
        let auth = self.auth(reference.registry());
        self.client
            .store_auth_if_needed(reference.resolve_registry(), &auth)
            .await;
    }
}

/// Whether a registry is on this machine, where nobody listens on the way: it may speak HTTP without
/// TLS, and does unless it has TLS's own port.
pub fn is_loopback(registry: &str) -> bool {
    let (host, port) = registry.split_once(':').unwrap_or((registry, "443"));
    let address = host.parse::<std::net::IpAddr>();
    port != "443" && (host == "localhost" || address.is_ok_and(|address| address.is_loopback()))
}

fn label_of(name: &ImageRef, blob: &Descriptor) -> String {
    format!("{name}, blob {}", blob.digest)
}
