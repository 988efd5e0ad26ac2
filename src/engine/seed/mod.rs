//! Images into the local registry.
//!
//! The registry serves read-only; images are laid into its storage over SSH, in the layout that
//! CNCF distribution has had since its version 2
//! (<https://github.com/distribution/distribution/blob/main/registry/storage/paths.go>). That
//! needs no second listener, no credentials and no forwarding, and it keeps an index whole that
//! names platforms which the bundle does not carry, which the API would refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;

use kubexm_bundle::lock::{Lock, LockedImage, LockedSignature};
use kubexm_bundle::{BlobPart, Blobs, BundleError};
use kubexm_host::piped::piped;
use kubexm_host::{Command, Host, HostError, Input, Output};
use kubexm_scripts::registry as scripts;
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, HostPath, ImageRef};

/// Bytes of a blob that are sent at a time.
const BLOCK: usize = 1 << 20;

/// Why seeding failed.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The host could not take what was sent.
    #[error("cannot put images onto {host} (status {status}):\n{complaint}")]
    Refused {
        /// Host.
        host: String,
        /// Exit status.
        status: i32,
        /// Its words.
        complaint: String,
    },
    /// The stream could not be made.
    #[error("cannot send images: {0}")]
    Io(#[from] io::Error),
}

/// What the storage must contain.
#[derive(Debug, Clone)]
pub struct Content {
    blobs: BTreeMap<Digest, u64>,
    /// Path below the registry's root → the digest that the file there names.
    links: BTreeMap<String, Digest>,
}

/// What of it a host lacks.
#[derive(Debug, Clone, Default)]
pub struct Missing {
    blobs: Vec<(Digest, u64)>,
    links: Vec<(String, Digest)>,
}

impl Missing {
    /// Whether all is there.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.links.is_empty()
    }

    /// Bytes to send.
    pub fn bytes(&self) -> u64 {
        self.blobs.iter().map(|(_, size)| size).sum()
    }

    /// Blobs to send.
    pub fn blobs(&self) -> usize {
        self.blobs.len()
    }
}

/// The repository prefix that stands for a registry in the local one.
pub fn prefix(registry: &str) -> String {
    registry.replace(':', "_")
}

/// The repository that an image has in the local registry: its registry's host stands first, so
/// that two registries' repositories never meet.
pub fn repository(image: &ImageRef) -> String {
    format!("{}/{}", prefix(image.registry()), image.repository())
}

impl Content {
    /// Every image of a lock.
    pub fn of(lock: &Lock) -> Self {
        let mut content = Self {
            blobs: BTreeMap::new(),
            links: BTreeMap::new(),
        };
        for image in &lock.images {
            content.add(image);
        }
        content
    }

    fn add(&mut self, image: &LockedImage) {
        let root = format!("repositories/{}", repository(&image.name));
        let manifests =
            std::iter::once(&image.manifest).chain(image.platforms.iter().map(|p| &p.manifest));
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

    /// A publisher's signature, where `cosign verify` and policy controllers look for it. The registry
    /// lists no referrers of its own; a list of them under a tag does instead.
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

/// What a host lacks, by name and size; contents were compared when they were put in place.
///
/// # Errors
/// The host cannot be asked, or cannot read its registry's folder.
pub async fn missing(
    host: &dyn Host,
    data_dir: &HostPath,
    content: &Content,
) -> Result<Missing, SeedError> {
    let command = Command::from_script(scripts::LIST, [data_dir.to_string()])
        .describe("list the registry's images");
    let output = must(host, command).await?;
    let text = output.text();
    let found: BTreeSet<&str> = text.lines().collect();
    let blobs = content.blobs.iter();
    let blobs = blobs
        .filter(|(digest, size)| !found.contains(format!("blob {} {size}", digest.hex()).as_str()));
    let links = content.links.iter();
    let links =
        links.filter(|(path, digest)| !found.contains(format!("link {path} {digest}").as_str()));
    Ok(Missing {
        blobs: blobs.map(|(digest, size)| (*digest, *size)).collect(),
        links: links
            .map(|(path, digest)| (path.clone(), *digest))
            .collect(),
    })
}

/// Sends what is missing. Tags appear when all below them is in place.
pub async fn seed(
    host: &dyn Host,
    data_dir: &HostPath,
    missing: Missing,
    source: Arc<dyn Blobs>,
    events: &Events,
) -> Result<(), SeedError> {
    let label = format!("images → {}", host.name());
    let transfer = Arc::new(events.transfer("seed", label, Some(missing.bytes())));
    if !missing.blobs.is_empty() {
        let wanted: BTreeSet<Digest> = missing.blobs.iter().map(|(digest, _)| *digest).collect();
        let moved = Arc::clone(&transfer);
        let stream = piped(move |out| send(out, &wanted, source.as_ref(), &moved))?;
        let command = Command::from_script(scripts::RECEIVE, [data_dir.to_string()]);
        must(
            host,
            command
                .input(Input::Stream(stream))
                .describe("put images onto the registry"),
        )
        .await?;
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
    let command = Command::from_script(scripts::LINK, [data_dir.to_string()]);
    must(
        host,
        command
            .input(Input::Bytes(lines.into_bytes()))
            .describe("tag the registry's images"),
    )
    .await?;
    if let Some(transfer) = Arc::into_inner(transfer) {
        transfer.done();
    }
    Ok(())
}

async fn must(host: &dyn Host, command: Command) -> Result<Output, SeedError> {
    let output = host.run(command).await?;
    if output.success() {
        return Ok(output);
    }
    let (host, status, complaint) = (host.name().to_string(), output.status, output.complaint());
    Err(SeedError::Refused {
        host,
        status,
        complaint,
    })
}

/// Writes what [`RECEIVE`](scripts::RECEIVE) reads.
fn send(
    mut out: impl Write,
    wanted: &BTreeSet<Digest>,
    source: &dyn Blobs,
    transfer: &Transfer,
) -> io::Result<()> {
    let mut waiting: BTreeMap<Digest, Vec<u8>> = BTreeMap::new();
    source.stream(wanted, &mut |BlobPart {
                                     digest,
                                     bytes,
                                     last,
                                 }| {
        let gathered = waiting.entry(digest).or_default();
        gathered.extend_from_slice(bytes);
        if gathered.len() < BLOCK && !last {
            return Ok(());
        }
        let hex = digest.hex();
        for block in gathered.chunks(BLOCK) {
            writeln!(out, "{} {hex}", block.len())?;
            out.write_all(block)?;
        }
        transfer.advance(gathered.len() as u64);
        gathered.clear();
        if last {
            waiting.remove(&digest);
            writeln!(out, "end {hex}")?;
        }
        Ok(())
    })?;
    writeln!(out, "all")
}
