//! Installs files of the bundle on a host.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use async_trait::async_trait;

use super::run_command;
use crate::plan::{
    Check, Describe, Ensure, FileContent, PlannedFile, Step, StepContext, StepError,
};
use kubexm_bundle::{Blobs, archive};
use kubexm_host::{Command, Host, Input, Limit, tar_stream};
use kubexm_scripts::steps as scripts;
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, HostPath};

/// The location of a file in the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The file is a blob.
    Blob,
    /// The file is a member of a `.tar.gz` blob.
    Member {
        /// The digest of the archive.
        archive: Digest,
        /// The path in the archive.
        path: String,
    },
}

/// A file to install on a host.
#[derive(Debug, Clone)]
pub struct Payload {
    pub source: Source,
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
    /// The path on the host.
    pub path: HostPath,
    /// Permission bits, as in 0o755.
    pub mode: u32,
}

/// Installs several files on a host in one stream, each atomically.
pub struct InstallFiles {
    /// What the files are, as in "containerd 2.3.7".
    pub title: String,
    pub payloads: Vec<Payload>,
    /// The bundle.
    pub blobs: Arc<dyn Blobs>,
}

impl InstallFiles {
    /// Returns the payloads that the host does not have, with their indices.
    async fn differing(&self, host: &dyn Host) -> Result<Vec<(usize, Payload)>, StepError> {
        let arguments = self
            .payloads
            .iter()
            .flat_map(|p| [p.path.to_string(), p.digest.hex(), format!("{:o}", p.mode)]);
        let look = Command::from_script(scripts::INSTALL_LOOK, arguments);
        let output = run_command(host, &format!("check {}", self.title), look).await?;
        let text = output.text();
        let numbers = text.lines().filter_map(|line| line.parse::<usize>().ok());
        Ok(numbers
            .filter_map(|n| Some((n, self.payloads.get(n)?.clone())))
            .collect())
    }

    /// Installs the files that the host does not have, without undo records: the caller knows what removes the files.
    ///
    /// # Errors
    /// The bundle cannot be read, a command fails, or the connection to the host breaks.
    pub async fn install_unrecorded(
        &self,
        host: &dyn Host,
        events: &Events,
    ) -> Result<(), StepError> {
        let chosen = self.differing(host).await?;
        if chosen.is_empty() {
            Ok(())
        } else {
            self.send(host, events, chosen).await
        }
    }

    /// Sends the payloads in one stream; each is named by its index.
    async fn send(
        &self,
        host: &dyn Host,
        events: &Events,
        chosen: Vec<(usize, Payload)>,
    ) -> Result<(), StepError> {
        let total: u64 = chosen.iter().map(|(_, payload)| payload.size).sum();
        let label = format!("{} → {}", self.title, host.name());
        let transfer = Arc::new(events.transfer("push", label, Some(total)));
        let arguments = chosen.iter().flat_map(|(number, payload)| {
            [
                number.to_string(),
                payload.path.to_string(),
                payload.digest.hex(),
                format!("{:o}", payload.mode),
            ]
        });
        let arguments: Vec<String> = arguments.collect();
        let (blobs, counted) = (Arc::clone(&self.blobs), Arc::clone(&transfer));
        let stream = tar_stream::stream(move |tar| pack(tar, &chosen, blobs.as_ref(), &counted))
            .map_err(|error| StepError::Other(format!("{}: {error}", self.title).into()))?;
        let command =
            Command::from_script(scripts::INSTALL_RECEIVE, arguments).input(Input::Stream(stream));
        let command = command.limit(Limit::transfer(total));
        run_command(host, &self.describe(), command).await?;
        if let Some(transfer) = Arc::into_inner(transfer) {
            transfer.done();
        }
        Ok(())
    }
}

impl Describe for InstallFiles {
    fn id(&self) -> String {
        format!("install {}", self.title)
    }

    fn describe(&self) -> String {
        format!("Install {}", self.title)
    }

    fn files(&self) -> Vec<PlannedFile> {
        let payloads = self.payloads.iter();
        payloads
            .map(|payload| PlannedFile {
                path: payload.path.clone(),
                mode: payload.mode,
                content: FileContent::Bundled(payload.digest),
            })
            .collect()
    }
}

impl From<InstallFiles> for Step {
    fn from(step: InstallFiles) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for InstallFiles {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let count = self.differing(host).await?.len();
        Ok(match count {
            0 => Check::Satisfied,
            _ => Check::needed(format!("{count} of {} files differ", self.payloads.len())),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let chosen = self.differing(context.host).await?;
        for (_, payload) in &chosen {
            let parameters = scripts::FilePrepare {
                path: payload.path.to_string(),
                ..Default::default()
            };
            let look = Command::from_script(scripts::FILE_PREPARE, parameters);
            let printed = run_command(context.host, &format!("read {}", payload.path), look)
                .await?
                .text();
            if let Some(undo) = super::write::undo_of(&payload.path, &printed)? {
                context.undo.record(&self.id(), undo.to_value()?).await?;
            }
        }
        self.send(context.host, context.events, chosen).await
    }
}

/// Writes the chosen payloads to the stream. It reads each archive once.
fn pack(
    tar: &mut tar_stream::Builder,
    chosen: &[(usize, Payload)],
    blobs: &dyn Blobs,
    transfer: &Transfer,
) -> io::Result<()> {
    let mut archives: BTreeMap<Digest, BTreeMap<&str, (usize, &Payload)>> = BTreeMap::new();
    for (number, payload) in chosen {
        match &payload.source {
            Source::Blob => {
                let content = CountedReader {
                    inner: blobs.open(&payload.digest).map_err(io::Error::other)?,
                    transfer,
                };
                tar_stream::add(tar, &number.to_string(), payload.size, 0o600, content)?;
            }
            Source::Member { archive, path } => {
                archives
                    .entry(*archive)
                    .or_default()
                    .insert(path, (*number, payload));
            }
        }
    }
    for (digest, mut members) in archives {
        let packed = blobs
            .open_content_for_hashing(&digest)
            .map_err(io::Error::other)?;
        archive::each_member(packed, |path, content| {
            let Some((number, payload)) = members.remove(path) else {
                return Ok(());
            };
            let content = CountedReader {
                inner: content,
                transfer,
            };
            tar_stream::add(tar, &number.to_string(), payload.size, 0o600, content)
        })?;
        if let Some(path) = members.keys().next() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("the archive does not contain {path}"),
            ));
        }
    }
    Ok(())
}

/// A reader that advances a transfer.
struct CountedReader<'a, R> {
    inner: R,
    transfer: &'a Transfer,
}

impl<R: Read> Read for CountedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.transfer.advance(count as u64);
        Ok(count)
    }
}
