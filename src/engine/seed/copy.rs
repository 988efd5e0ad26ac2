//! Blobs in the registry of a host, as the source of an upload to another host.

use std::io::{self, Read};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::Storage;
use kubexm_bundle::{Blobs, BundleError};
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::registry as scripts;
use kubexm_types::{Digest, HostPath};

/// The number of MiB that one command reads. It is below the limit of a command's output.
const PART: u64 = 8;

/// The blobs of registries. Each blob comes from the first host whose registry has it in its right size. The bytes are not
/// compared with the digest here: the host that receives them does that.
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

impl Blobs for RegistryBlobs {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let mut sources = self.sources.iter();
        let found = sources.find_map(|(host, storage)| Some((host, *storage.blobs.get(digest)?)));
        let Some((host, size)) = found else {
            return Err(BundleError::Io {
                path: self.place(digest),
                source: io::ErrorKind::NotFound.into(),
            });
        };
        Ok(Box::new(Reader {
            host: Arc::clone(host),
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
        let arguments = [
            self.data_dir.to_string(),
            self.digest.hex(),
            self.next.to_string(),
            PART.to_string(),
        ];
        let command = Command::from_script(scripts::PART, arguments)
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
