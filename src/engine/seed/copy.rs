//! Blobs in the registry of a host, as the source of an upload to another host.

use std::io::{self, Read};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::Storage;
use kubexm_bundle::{Blobs, BundleError};
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::registry as scripts;
use kubexm_types::{Digest, HostPath, Message};

/// The number of MiB that one command reads. It is below the limit of a command's output.
const PART: u64 = 8;

/// The blobs of registries. A blob that several registries have in its right size comes from the first one whose bytes have the
/// digest, so that a damaged copy does not hide a good one. The host that receives a blob compares its bytes with the digest, too.
pub struct RegistryBlobs {
    sources: Vec<(Arc<dyn Host>, Storage)>,
    data_dir: HostPath,
    runtime: Handle,
}

impl RegistryBlobs {
    /// Creates a source from hosts with registries. Call it on a runtime that runs as long as the source is in use.
    pub fn new(sources: Vec<(Arc<dyn Host>, Storage)>, data_dir: HostPath) -> Self {
        Self {
            sources,
            data_dir,
            runtime: Handle::current(),
        }
    }
}

impl RegistryBlobs {
    /// Returns the host whose registry is the source of a blob, and the size.
    fn source(&self, digest: &Digest) -> Result<(Arc<dyn Host>, u64), BundleError> {
        let sources = self.sources.iter();
        let found: Vec<(&Arc<dyn Host>, u64)> = sources
            .filter_map(|(host, storage)| Some((host, *storage.blobs.get(digest)?)))
            .collect();
        if let [(host, size)] = found.as_slice() {
            return Ok((Arc::clone(host), *size));
        }
        let absent = |cause: io::Error| BundleError::Io {
            path: self.place(digest),
            source: cause,
        };
        for (host, size) in &found {
            if self
                .is_sound(host.as_ref(), digest, *size)
                .map_err(absent)?
            {
                return Ok((Arc::clone(host), *size));
            }
        }
        if found.is_empty() {
            return Err(absent(io::ErrorKind::NotFound.into()));
        }
        let names: Vec<&str> = found.iter().map(|(host, _)| host.name().as_str()).collect();
        let cause = format!(
            "its bytes do not have the digest on {}",
            names.join(" and ")
        );
        let hint = "remove the image, free its blobs, and add it again from a bundle: kubexm registry remove, gc, add";
        Err(absent(io::Error::other(Message::new(cause).hint(hint))))
    }

    fn is_sound(&self, host: &dyn Host, digest: &Digest, size: u64) -> io::Result<bool> {
        let command =
            Command::from_script(scripts::SOUND, [self.data_dir.to_string(), digest.hex()])
                .describe("compare a blob of the registry with its digest")
                .limit(Limit::transfer(size));
        let output = self.runtime.block_on(host.run(command));
        Ok(output.map_err(io::Error::other)?.success())
    }
}

impl Blobs for RegistryBlobs {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let (host, size) = self.source(digest)?;
        Ok(Box::new(Reader {
            host,
            data_dir: self.data_dir.clone(),
            digest: *digest,
            runtime: self.runtime.clone(),
            left: size,
            next: 0,
            part: io::Cursor::new(Vec::new()),
        }))
    }
}

/// Reads a blob of a host, one part after another. It belongs on a thread that may block.
struct Reader {
    host: Arc<dyn Host>,
    data_dir: HostPath,
    digest: Digest,
    runtime: Handle,
    /// The number of bytes after the current part.
    left: u64,
    /// The first MiB after the current part.
    next: u64,
    part: io::Cursor<Vec<u8>>,
}

impl Reader {
    fn fetch(&mut self) -> io::Result<()> {
        let parameters = scripts::Part {
            data: self.data_dir.to_string(),
            digest: self.digest.hex(),
            first: self.next.to_string(),
            count: PART.to_string(),
        };
        let command = Command::from_script(scripts::PART, parameters)
            .describe("read a blob of the registry")
            .limit(Limit::transfer(PART << 20))
            .secret_output();
        let output = self.runtime.block_on(self.host.run(command));
        let output = output.map_err(io::Error::other)?;
        let expected = self.left.min(PART << 20);
        if !output.success() || output.stdout.len() as u64 != expected {
            return Err(io::Error::other(format!(
                "{}: cannot read {} in the registry: {}",
                self.host.name(),
                self.digest,
                output.complaint()
            )));
        }
        self.left -= expected;
        self.next += PART;
        self.part = io::Cursor::new(output.stdout);
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.part.read(buffer)?;
        if count > 0 || buffer.is_empty() || self.left == 0 {
            return Ok(count);
        }
        self.fetch()?;
        self.part.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_host::local::LocalHost;

    const DATA: &str = "/var/lib/registry";

    #[test]
    fn damaged_copy_does_not_hide_a_good_one() {
        let digest = Digest::of(b"content");
        let place = format!(
            "{DATA}/docker/registry/v2/blobs/sha256/{}/{}/data",
            &digest.hex()[..2],
            digest.hex()
        );
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage {
            blobs: [(digest, 7)].into(),
            ..Storage::default()
        };
        let sources = |contents: [&str; 2]| {
            let hosts = ["node1", "node2"].iter().zip(contents);
            let hosts = hosts.map(|(name, content)| {
                let root = folder.path().join(name);
                let host = LocalHost::within(name.parse().unwrap(), &root).unwrap();
                let file = root.join(place.trim_start_matches('/'));
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, content).unwrap();
                (Arc::new(host) as Arc<dyn Host>, storage.clone())
            });
            hosts.collect::<Vec<_>>()
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let read = |contents| {
            let blobs = RegistryBlobs {
                sources: sources(contents),
                data_dir: DATA.parse().unwrap(),
                runtime: runtime.handle().clone(),
            };
            let mut text = String::new();
            let opened = blobs.open(&digest).map_err(|error| error.to_string());
            opened.map(|mut blob| {
                blob.read_to_string(&mut text).unwrap();
                text
            })
        };
        assert_eq!(read(["damaged", "content"]).unwrap(), "content");
        assert_eq!(read(["content", "damaged"]).unwrap(), "content");
        let refused = read(["damaged", "another"]).unwrap_err();
        assert!(
            refused.contains("on node1 and node2") && refused.contains("\nhint: "),
            "{refused}"
        );
    }
}
