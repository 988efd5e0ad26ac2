//! Images over the OCI distribution API
//! (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md>), manifests byte for
//! byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{BlobResponse, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use serde::Deserialize;

use super::{FetchError, Http, credentials};
use crate::bundle::lock::{Descriptor, LockedImage, PlatformManifest};
use crate::spec::{Arch, Digest, ImageRef};

/// Media types that kubexm understands, in OCI's and in Docker's words.
const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Larger manifests are refused, as registries do.
const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;
const TRIES: u32 = 4;

/// Pulls images into the cache.
#[derive(Clone)]
pub struct Puller {
    client: Client,
    http: Http,
    credentials: Arc<BTreeMap<String, (String, String)>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    media_type: Option<String>,
    manifests: Option<Vec<Entry>>,
    config: Option<Entry>,
    layers: Option<Vec<Entry>>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Entry {
    media_type: String,
    digest: Digest,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize, Clone)]
struct Platform {
    os: String,
    architecture: String,
}

impl Entry {
    fn descriptor(&self) -> Descriptor {
        Descriptor {
            media_type: self.media_type.clone(),
            digest: self.digest,
            size: self.size,
        }
    }
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
                Err(
                    error @ (FetchError::Unreachable { .. }
                    | FetchError::Refused {
                        status: 429 | 500..,
                        ..
                    }),
                ) if left > 0 => {
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
        let fail = |error| self.failure(name, &reference, error);
        self.authorize(&reference).await;
        let mut partial = self.http.cache().partial(&blob.digest.hex())?;
        if partial.length() >= blob.size {
            partial.restart()?;
        }
        let label = format!("{name} {}", &blob.digest.hex()[..12]);
        let transfer = self
            .http
            .events()
            .transfer("download", label, Some(blob.size));
        let digest = blob.digest.to_string();
        let response = self
            .client
            .pull_blob_stream_partial(&reference, digest.as_str(), partial.length(), None)
            .await
            .map_err(fail)?;
        let mut stream = match response {
            BlobResponse::Partial(stream) => stream,
            BlobResponse::Full(stream) => {
                partial.restart()?;
                stream
            }
        };
        transfer.advance(partial.length());
        while let Some(chunk) = stream.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                // The client's own digest check speaks here; ours below names both digests.
                Err(error) if error.to_string().contains("igest") => break,
                Err(error) => return Err(self.failure(name, &reference, error.into())),
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

    /// A manifest by tag or digest, into the cache.
    async fn manifest(
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
                Err(error) => self.failure(name, &reference, error),
            };
            let again = matches!(
                error,
                FetchError::Unreachable { .. }
                    | FetchError::Refused {
                        status: 429 | 500..,
                        ..
                    }
            );
            if left == 0 || !again {
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

    fn failure(
        &self,
        name: &ImageRef,
        reference: &Reference,
        error: OciDistributionError,
    ) -> FetchError {
        use OciDistributionError as E;
        let (what, url) = (name.to_string(), reference.to_string());
        let refused = |status: u16, hint: &str| FetchError::Refused {
            what: what.clone(),
            url: url.clone(),
            status,
            hint: hint.to_owned(),
        };
        match error {
            E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => refused(
                401,
                "the image does not exist there, or `docker login` is needed",
            ),
            E::ImageManifestNotFoundError(_) => refused(404, "there is no such image or tag"),
            E::ServerError { code: 429, .. } => {
                refused(429, "too many requests; wait, or use a mirror")
            }
            E::ServerError { code, .. } => {
                refused(code, "the registry failed; try later, or use a mirror")
            }
            E::RegistryError { envelope, .. } => {
                let words = envelope.to_string();
                if words.contains("TOOMANYREQUESTS")
                    || words.to_lowercase().contains("too many requests")
                {
                    refused(429, "too many requests; wait, or use a mirror")
                } else {
                    refused(404, words.trim())
                }
            }
            E::RequestError(error) if error.status().is_some() => {
                let status = error.status().map_or(0, |status| status.as_u16());
                refused(status, "the registry refuses")
            }
            E::DigestError(error) => FetchError::Content {
                what,
                reason: error.to_string(),
            },
            other => FetchError::Unreachable {
                what,
                url,
                reason: root_cause(&other),
            },
        }
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn label_of(name: &ImageRef, blob: &Descriptor) -> String {
    format!("{name}, blob {}", blob.digest)
}

fn parse_manifest(name: &ImageRef, bytes: &[u8]) -> Result<Manifest, FetchError> {
    let wrong = |reason: String| FetchError::Content {
        what: name.to_string(),
        reason,
    };
    if bytes.len() > LARGEST_MANIFEST {
        return Err(wrong("its manifest is larger than 4 MiB".to_owned()));
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| wrong(format!("its manifest cannot be read: {error}")))?;
    let known = |kind: &str| INDEX_TYPES.contains(&kind) || MANIFEST_TYPES.contains(&kind);
    match &manifest.media_type {
        Some(kind) if !known(kind) => Err(wrong(format!(
            "its manifest is a '{kind}', which kubexm does not carry"
        ))),
        _ => Ok(manifest),
    }
}

fn pick<'a>(name: &ImageRef, entries: &'a [Entry], arch: Arch) -> Result<&'a Entry, FetchError> {
    let fits = |entry: &&Entry| {
        entry
            .platform
            .as_ref()
            .is_some_and(|p| p.os == "linux" && p.architecture == arch.name())
    };
    entries.iter().find(fits).ok_or_else(|| {
        let platforms = entries.iter().filter_map(|entry| entry.platform.as_ref());
        let offered: Vec<String> = platforms
            .map(|p| format!("{}/{}", p.os, p.architecture))
            .collect();
        no_platform(name, arch, &offered)
    })
}

fn no_platform(name: &ImageRef, arch: Arch, offered: &[String]) -> FetchError {
    FetchError::Content {
        what: name.to_string(),
        reason: format!("has no linux/{arch}; it has {}", offered.join(", ")),
    }
}

fn platform(
    name: &ImageRef,
    arch: Arch,
    manifest: Descriptor,
    content: &Manifest,
) -> Result<PlatformManifest, FetchError> {
    let wrong = |reason: &str| FetchError::Content {
        what: name.to_string(),
        reason: reason.to_owned(),
    };
    let config = content
        .config
        .as_ref()
        .ok_or_else(|| wrong("its manifest has no config"))?;
    let layers = content
        .layers
        .as_ref()
        .ok_or_else(|| wrong("its manifest has no layers"))?;
    if layers.iter().any(|layer| {
        layer.media_type.contains("foreign") || layer.media_type.contains("nondistributable")
    }) {
        return Err(wrong("it has layers that may not be distributed"));
    }
    let blobs = std::iter::once(config)
        .chain(layers)
        .map(Entry::descriptor)
        .collect();
    Ok(PlatformManifest {
        arch,
        manifest,
        blobs,
    })
}
