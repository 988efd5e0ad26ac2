//! Pushing the blobs that a registry does not have, from the bundle through temporary files.
//!
//! A bundle yields its blobs in storage order, several interleaved. A registry needs each blob from start to
//! end, and again if the connection breaks. Each missing blob is therefore written to an unnamed temporary
//! file first and sent from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use oci_client::Reference;
use oci_client::errors::OciDistributionError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::io::ReaderStream;

use super::{Pusher, STALLED, in_time};
use crate::FetchError;
use kubexm_bundle::{BlobIndex, Blobs, Bundle, BundleError};
use kubexm_types::Digest;
use kubexm_types::event::Transfer;

/// Number of concurrent uploads; more are not faster, and some registries limit them.
const PARALLEL: usize = 6;
/// Number of concurrent requests whether a blob exists.
const QUESTIONS: usize = 16;
/// Bytes that are read from a file at a time.
const STEP: usize = 1 << 18;

/// A blob in a temporary file, ready to be sent.
pub(super) struct Spooled {
    pub digest: Digest,
    pub size: u64,
    pub label: String,
    pub file: File,
}

impl Pusher {
    /// Returns the blobs that the registry does not have.
    pub(super) async fn missing(&self, all: &BlobIndex) -> Result<BlobIndex, FetchError> {
        let asked = stream::iter(all.iter().map(|(digest, blob)| async move {
            let there = self.has(digest).await?;
            Ok::<_, FetchError>((!there).then(|| (*digest, blob.clone())))
        }));
        let found: Vec<_> = asked.buffer_unordered(QUESTIONS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    pub(super) async fn has(&self, digest: &Digest) -> Result<bool, FetchError> {
        let text = digest.to_string();
        self.persist(&text, || {
            in_time(self.client.blob_exists(&self.repository, &text))
        })
        .await
        .map_err(Into::into)
    }

    /// Mounts blobs from another repository; returns the remaining ones.
    pub(super) async fn mount(&self, missing: BlobIndex, from: &Reference) -> BlobIndex {
        let asked = stream::iter(missing.into_iter().map(|(digest, blob)| async move {
            let text = digest.to_string();
            let mount = self.client.mount_blob(&self.repository, from, &text);
            let mounted = in_time(mount).await;
            // A blob that cannot be mounted for any reason is sent.
            mounted.is_err().then_some((digest, blob))
        }));
        let left: Vec<_> = asked.buffer_unordered(QUESTIONS).collect().await;
        left.into_iter().flatten().collect()
    }

    /// Reads the bundle once and sends its blobs.
    pub(super) async fn blobs(
        &self,
        bundle: Arc<Bundle>,
        missing: BlobIndex,
    ) -> Result<(), FetchError> {
        if missing.is_empty() {
            return Ok(());
        }
        let (send, receive) = mpsc::channel(PARALLEL);
        let folder = self.spool.clone();
        let reading = tokio::task::spawn_blocking(move || spool(&bundle, &missing, &folder, &send));
        let sent = waiting(receive)
            .map(|spooled| async move { self.blob(spooled).await })
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await;
        let read = reading.await.map_err(|error| {
            let error = io::Error::other(error);
            FetchError::Bundle(BundleError::io(&self.spool, error))
        });
        // If sending fails, reading fails too; the send error is the cause.
        sent?;
        Ok(read??)
    }

    /// Sends one blob; starts again if the connection breaks.
    pub(super) async fn blob(&self, spooled: Spooled) -> Result<(), FetchError> {
        let transfer = self
            .events
            .transfer("push", spooled.label.clone(), Some(spooled.size));
        let (moved, reported) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let transfer = Arc::new(transfer);
        let digest = spooled.digest.to_string();
        self.persist(&spooled.label, || async {
            let mut file = spooled.file.try_clone()?;
            file.rewind()?;
            moved.store(0, Ordering::Relaxed);
            let content = counted(file, &moved, &reported, &transfer);
            let push = self.client.push_blob_stream(
                &self.repository,
                content,
                &digest,
                Some(spooled.size),
            );
            tokio::select! {
                pushed = push => pushed.map(|_| ()),
                () = stalled(&moved) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
        .await?;
        if let Some(transfer) = Arc::into_inner(transfer) {
            transfer.done();
        }
        Ok(())
    }
}

/// Converts a channel's receiver to a stream.
fn waiting(receive: Receiver<Spooled>) -> impl stream::Stream<Item = Spooled> {
    stream::unfold(receive, |mut receive| async move {
        let spooled = receive.recv().await?;
        Some((spooled, receive))
    })
}

/// Writes each blob of the bundle to a temporary file and passes on complete ones.
fn spool(
    bundle: &Bundle,
    missing: &BlobIndex,
    folder: &Path,
    send: &Sender<Spooled>,
) -> Result<(), BundleError> {
    let mut open: BTreeMap<Digest, File> = BTreeMap::new();
    let wanted: BTreeSet<Digest> = missing.keys().copied().collect();
    let mut unwritable = None;
    let read = bundle.stream(&wanted, &mut |chunk| {
        let mut write = || -> io::Result<()> {
            let mut file = match open.remove(&chunk.digest) {
                Some(file) => file,
                None => tempfile::tempfile_in(folder)?,
            };
            file.write_all(chunk.bytes)?;
            if !chunk.last {
                open.insert(chunk.digest, file);
                return Ok(());
            }
            let blob = missing.get(&chunk.digest).ok_or(io::ErrorKind::NotFound)?;
            let spooled = Spooled {
                digest: chunk.digest,
                size: blob.size,
                label: blob.label.clone(),
                file,
            };
            // The receiver is closed only if sending has failed, and that error is reported.
            send.blocking_send(spooled).map_err(io::Error::other)
        };
        write().map_err(|error| {
            let kind = error.kind();
            unwritable = Some(error);
            kind.into()
        })
    });
    match (read, unwritable) {
        (_, Some(source)) => Err(BundleError::io(folder, source)),
        (Err(source), None) => Err(BundleError::io(bundle.path(), source)),
        (Ok(()), None) => Ok(()),
    }
}

/// Returns a file's bytes as a stream. Progress is reported only beyond the previous maximum.
fn counted(
    file: File,
    moved: &Arc<AtomicU64>,
    reported: &Arc<AtomicU64>,
    transfer: &Arc<Transfer>,
) -> impl stream::Stream<Item = Result<bytes::Bytes, OciDistributionError>> + Send + 'static {
    let (moved, reported, transfer) = (
        Arc::clone(moved),
        Arc::clone(reported),
        Arc::clone(transfer),
    );
    let content = ReaderStream::with_capacity(tokio::fs::File::from_std(file), STEP);
    content.map(move |chunk| {
        let chunk = chunk?;
        let length = chunk.len() as u64;
        let now = moved.fetch_add(length, Ordering::Relaxed) + length;
        let before = reported.fetch_max(now, Ordering::Relaxed);
        transfer.advance(now.saturating_sub(before));
        Ok(chunk)
    })
}

/// Returns when no byte has moved for too long.
async fn stalled(moved: &AtomicU64) {
    let mut before = 0;
    loop {
        tokio::time::sleep(STALLED).await;
        let now = moved.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
}
