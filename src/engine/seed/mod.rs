//! Uploads images into the local registry.
//!
//! The registry is read-only. kubexm writes the images into its storage over SSH, in the layout of CNCF
//! distribution since version 2
//! (<https://github.com/distribution/distribution/blob/main/registry/storage/paths.go>). This needs no
//! second listener, no credentials and no forwarding. It also accepts an index that lists platforms which
//! are not in the bundle. The registry's API would refuse such an index.

mod copy;
mod link_path;
mod storage;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::plan::step::output_in;
use kubexm_bundle::lock::{Lock, LockedImage, LockedSignature};
use kubexm_bundle::{BlobPart, Blobs, BundleError};
use kubexm_host::piped::piped;
use kubexm_host::{Command, Host, HostError, Input, Limit, Output};
use kubexm_scripts::registry as scripts;
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, HostPath, ImageRef, Message, Untrusted};

pub use copy::RegistryBlobs;
pub use storage::{Garbage, Manifest, Platform, Reference, Repository, Storage, small_blobs};
pub use store::{CollectGarbage, RemoveImages, StoreImages};

/// Number of bytes of a blob in one block of the stream.
const BLOCK: usize = 1 << 20;
/// How long an upload waits for the lock of a collection of garbage, as its scripts state it.
const WAIT: Duration = Duration::from_secs(300);

/// Why images cannot be uploaded.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The connection to the host failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A command on the host failed.
    #[error(
        "{host}: cannot {what} (exit status {status}):\n{complaint}{}",
        output_in(.log.as_deref())
    )]
    Refused {
        host: String,
        /// What the command does.
        what: &'static str,
        status: i32,
        /// The last lines that the command printed.
        complaint: Untrusted,
        /// The log file with the whole output.
        log: Option<PathBuf>,
    },
    /// A host printed something else than its blobs.
    #[error("{host}: cannot look for blobs that no image needs: it printed '{line}'")]
    Answer { host: String, line: Untrusted },
    /// A link in the storage of a registry is in no repository, or of no tag.
    #[error("{}", Message::from(self))]
    Link { host: String, path: Untrusted },
    /// The storage of a registry does not exist.
    #[error("{}", Message::from(self))]
    NoStorage { host: String, data_dir: HostPath },
    /// The stream to the host failed.
    #[error("cannot send images: {0}")]
    Io(#[from] io::Error),
}

impl From<&SeedError> for Message {
    fn from(error: &SeedError) -> Self {
        match error {
            SeedError::Host(error) => error.message().within(error.host()),
            SeedError::Bundle(error) => Self::from(error),
            SeedError::Link { host, path } => Self::new(format!(
                "{host}: cannot list the registry's images: it has the file '{path}', whose directory is not the one of \
                 an image's name"
            ))
            .hint(format!(
                "find out what wrote this file on {host}; remove it if no image needs it, then run the same command again"
            )),
            SeedError::NoStorage { host, data_dir } => Self::new(format!(
                "{host}: cannot list the registry's images: {data_dir} has no directory of images"
            ))
            .hint(format!(
                "mount the disk of {data_dir} on {host}, then run the same command again; if its images are lost, run \
                 kubexm install, and then kubexm registry sync"
            )),
            other => Self::new(other.to_string()),
        }
    }
}

/// Returns the sum of sizes in bytes. Those that hosts state can be larger in all than any disk.
pub fn total<'a>(sizes: impl IntoIterator<Item = &'a u64>) -> u64 {
    let sizes = sizes.into_iter();
    sizes.fold(0, |sum, size| sum.saturating_add(*size))
}

/// The content that the storage of a registry must have.
#[derive(Debug, Clone)]
pub struct RegistryContent {
    /// Sizes of the blobs, in bytes.
    blobs: BTreeMap<Digest, u64>,
    /// The digest in each link file, by its path below the registry's root.
    links: BTreeMap<String, Digest>,
}

/// The part of a [`RegistryContent`] that a host does not have.
#[derive(Debug, Clone, Default)]
pub struct Missing {
    blobs: Vec<(Digest, u64)>,
    links: Vec<(String, Digest)>,
}

impl Missing {
    /// Returns whether the host has everything.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.links.is_empty()
    }

    /// Returns the number of bytes to send.
    pub fn bytes(&self) -> u64 {
        total(self.blobs.iter().map(|(_, size)| size))
    }

    /// Returns the number of blobs to send.
    pub fn blobs(&self) -> usize {
        self.blobs.len()
    }

    /// Returns the digests of the blobs.
    pub fn digests(&self) -> impl Iterator<Item = Digest> {
        self.blobs.iter().map(|(digest, _)| *digest)
    }
}

/// Returns the prefix of a registry's repositories in the local registry.
pub fn prefix(registry: &str) -> String {
    registry.replace(':', "_")
}

/// Returns the registry of a [`prefix`]; `None` if it is not one. The name of a host has no underscore.
pub fn source(prefix: &str) -> Option<String> {
    let source = prefix.replace('_', ":");
    let place = ImageRef::parse_place(&format!("oci://{source}/a:b"), None);
    place.is_ok().then_some(source)
}

/// Returns the repository of an image in the local registry. It starts with the host of the original
/// registry, so that repositories of two registries do not collide.
pub fn repository(image: &ImageRef) -> String {
    format!("{}/{}", prefix(image.registry()), image.repository())
}

impl RegistryContent {
    /// Returns the content for all images of a lock.
    pub fn new(lock: &Lock) -> Self {
        let mut content = Self::empty();
        for image in &lock.images {
            content.add(image);
        }
        content
    }

    /// Returns an empty content.
    pub fn empty() -> Self {
        Self {
            blobs: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    /// Adds a manifest of a repository, with its configuration and its layers.
    pub fn add_manifest(&mut self, repository: &str, digest: Digest, manifest: &Manifest) {
        let (root, hex) = (format!("repositories/{repository}"), digest.hex());
        self.blobs.insert(digest, manifest.size);
        let path = format!("{root}/_manifests/revisions/sha256/{hex}/link");
        self.links.insert(path, digest);
        for blob in manifest.blobs() {
            self.blobs.insert(blob.digest, blob.size);
            let path = format!("{root}/_layers/sha256/{}/link", blob.digest.hex());
            self.links.insert(path, blob.digest);
        }
    }

    /// Adds a tag of a repository.
    pub fn add_tag(&mut self, repository: &str, tag: &str, digest: Digest) {
        self.tag(&format!("repositories/{repository}"), tag, digest);
    }

    /// Adds everything of another content.
    pub fn extend(&mut self, other: Self) {
        self.blobs.extend(other.blobs);
        self.links.extend(other.links);
    }

    /// Returns the sizes of the blobs, in bytes.
    pub fn blobs(&self) -> &BTreeMap<Digest, u64> {
        &self.blobs
    }

    /// Returns what a registry does not have, by names and sizes.
    pub fn missing_in(&self, storage: &Storage) -> Missing {
        let blobs = self.blobs.iter();
        let blobs = blobs.filter(|(digest, size)| storage.blobs.get(digest) != Some(size));
        let links = self.links.iter();
        let links = links.filter(|(path, digest)| storage.links.get(*path) != Some(digest));
        Missing {
            blobs: blobs.map(|(digest, size)| (*digest, *size)).collect(),
            links: links
                .map(|(path, digest)| (path.clone(), *digest))
                .collect(),
        }
    }

    fn add(&mut self, image: &LockedImage) {
        let root = format!("repositories/{}", repository(&image.name));
        let below = image.platforms.iter().flat_map(|p| p.manifests());
        let manifests = std::iter::once(&image.manifest).chain(below);
        for manifest in manifests {
            self.blobs.insert(manifest.digest, manifest.size);
            let hex = manifest.digest.hex();
            self.links.insert(
                format!("{root}/_manifests/revisions/sha256/{hex}/link"),
                manifest.digest,
            );
        }
        for blob in image.platforms.iter().flat_map(|platform| &platform.blobs) {
            self.blobs.insert(blob.digest, blob.size);
            self.links.insert(
                format!("{root}/_layers/sha256/{}/link", blob.digest.hex()),
                blob.digest,
            );
        }
        if let Some(tag) = image.name.tag() {
            self.tag(&root, tag, image.manifest.digest);
        }
        if let Some(signature) = &image.signature {
            self.add_signature(&root, image, signature);
        }
    }

    /// Adds the publisher's signature in the place where `cosign verify` and policy controllers search for
    /// it. The registry does not implement the referrers API, so a tag names the list of referrers.
    fn add_signature(&mut self, root: &str, image: &LockedImage, signature: &LockedSignature) {
        for blob in &signature.blobs {
            self.blobs.insert(blob.digest, blob.size);
            let path = format!("{root}/_layers/sha256/{}/link", blob.digest.hex());
            self.links.insert(path, blob.digest);
        }
        for manifest in std::iter::once(&signature.manifest).chain(&signature.referrers) {
            let (digest, hex) = (manifest.digest, manifest.digest.hex());
            self.blobs.insert(digest, manifest.size);
            let path = format!("{root}/_manifests/revisions/sha256/{hex}/link");
            self.links.insert(path, digest);
        }
        match &signature.referrers {
            None => self.tag(root, &image.signature_tag(), signature.manifest.digest),
            Some(list) => self.tag(root, &image.referrers_tag(), list.digest),
        }
    }

    fn tag(&mut self, root: &str, tag: &str, digest: Digest) {
        let (hex, tag) = (digest.hex(), format!("{root}/_manifests/tags/{tag}"));
        self.links
            .insert(format!("{tag}/index/sha256/{hex}/link"), digest);
        self.links.insert(format!("{tag}/current/link"), digest);
    }
}

/// Compares the storage of a host with `content` by names and sizes. The upload has verified the digests.
///
/// # Errors
/// The connection to the host fails, or the host cannot read the directory of its registry.
pub async fn missing(
    host: &dyn Host,
    data_dir: &HostPath,
    content: &RegistryContent,
) -> Result<Missing, SeedError> {
    Ok(content.missing_in(&Storage::read(host, data_dir).await?))
}

/// Sends the missing blobs and links. A tag is written after everything that it refers to.
///
/// # Errors
/// The bundle cannot be read, or the host fails.
pub async fn seed(
    host: &dyn Host,
    data_dir: &HostPath,
    missing: Missing,
    source: Arc<dyn Blobs>,
    events: &Events,
) -> Result<(), SeedError> {
    let label = format!("images → {}", host.name());
    let missing_bytes = missing.bytes();
    let transfer = Arc::new(events.transfer("seed", label, Some(missing_bytes)));
    if !missing.blobs.is_empty() {
        let wanted: BTreeSet<Digest> = missing.blobs.iter().map(|(digest, _)| *digest).collect();
        let sent = Arc::clone(&transfer);
        let stream = piped(move |out| send(out, &wanted, source.as_ref(), &sent))?;
        let command = Command::from_script(scripts::RECEIVE, [data_dir.to_string()]);
        let command = command
            .input(Input::Stream(stream))
            .limit(Limit::transfer(missing_bytes).after(WAIT));
        run_command(host, "write images into the registry", command).await?;
    }
    let (tags, others): (Vec<_>, Vec<_>) = missing
        .links
        .into_iter()
        .partition(|(path, _)| path.ends_with("/current/link"));
    let lines: String = others
        .iter()
        .chain(&tags)
        .map(|(path, digest)| format!("{path} {digest}\n"))
        .collect();
    let command = Command::from_script(scripts::LINK, [data_dir.to_string()])
        .input(Input::Bytes(lines.into_bytes()))
        .limit(Limit::CHANGE.after(WAIT));
    run_command(host, "tag the registry's images", command).await?;
    if let Some(transfer) = Arc::into_inner(transfer) {
        transfer.done();
    }
    Ok(())
}

/// Runs a command that does this.
async fn run_command(
    host: &dyn Host,
    what: &'static str,
    command: Command,
) -> Result<Output, SeedError> {
    let output = host.run(command.describe(what)).await?;
    if output.success() {
        return Ok(output);
    }
    let (host, status, complaint) = (host.name().to_string(), output.status, output.complaint());
    Err(SeedError::Refused {
        host,
        what,
        status,
        complaint,
        log: output.log,
    })
}

/// Writes blobs in the format that [`RECEIVE`](scripts::RECEIVE) reads.
fn send(
    mut out: impl Write,
    wanted: &BTreeSet<Digest>,
    source: &dyn Blobs,
    transfer: &Transfer,
) -> io::Result<()> {
    let mut pending: BTreeMap<Digest, Vec<u8>> = BTreeMap::new();
    source.stream(wanted, &mut |BlobPart {
                                     digest,
                                     bytes,
                                     last,
                                 }| {
        let buffer = pending.entry(digest).or_default();
        buffer.extend_from_slice(bytes);
        if buffer.len() < BLOCK && !last {
            return Ok(());
        }
        let hex = digest.hex();
        for block in buffer.chunks(BLOCK) {
            writeln!(out, "{} {hex}", block.len())?;
            out.write_all(block)?;
        }
        transfer.advance(buffer.len() as u64);
        buffer.clear();
        if last {
            pending.remove(&digest);
            writeln!(out, "end {hex}")?;
        }
        Ok(())
    })?;
    writeln!(out, "all")
}
