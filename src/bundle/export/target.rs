//! Writes an export into a directory or a tar. Several blobs arrive at the same time, in the order of the
//! bundle. In a tar, each is written at the offset that its size determines.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::{Content, Run};
use crate::format::oci_layout::blob_path;
use crate::format::tar_entry::{TAR_BLOCK, TRAILER, entry_header};
use crate::threads::ended;
use crate::{Blobs, Bundle, BundleError, PartHandler};
use kubexm_types::{AtomicFile, Digest, Message};

/// Number of files that wait for a flush to the disk.
const UNFLUSHED: usize = 16;

/// Writes the content into a new or empty directory.
///
/// # Errors
/// The directory is not empty or cannot be written, or the bundle is damaged.
pub fn folder(
    path: &Path,
    content: &Content,
    bundle: &Bundle,
    run: Run<'_>,
) -> Result<(), BundleError> {
    let failed = |source| BundleError::io(path, source);
    let taken = match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if taken {
        let reason = Message::new("already exists and is not an empty directory")
            .hint("name a new directory, or a file *.tar");
        return Err(failed(io::Error::other(reason)));
    }
    let beside = parent(path);
    std::fs::create_dir_all(beside).map_err(failed)?;
    let partial = tempfile::Builder::new()
        .prefix(".kubexm-export-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in(beside)
        .map_err(failed)?;
    let root = partial.path();
    std::fs::create_dir_all(root.join("blobs/sha256")).map_err(failed)?;
    for (name, document) in &content.documents {
        std::fs::write(root.join(name), document).map_err(failed)?;
    }
    std::thread::scope(|scope| {
        let (written, files) = sync_channel::<File>(UNFLUSHED);
        // A separate thread flushes files, so that reading goes on.
        let flushing = scope.spawn(move || files.iter().try_for_each(|file| file.sync_all()));
        let blobs = blobs(root, path, content, bundle, run, &written);
        drop(written);
        ended(flushing.join()).map_err(failed).and(blobs)
    })?;
    let made = partial.keep();
    std::fs::rename(&made, path).map_err(|source| {
        // If the rename fails, its error is more informative.
        let _ = std::fs::remove_dir_all(&made);
        failed(source)
    })
}

/// Writes each blob to its file, and sends complete files to the thread that flushes them.
fn blobs(
    root: &Path,
    path: &Path,
    content: &Content,
    bundle: &Bundle,
    run: Run<'_>,
    written: &SyncSender<File>,
) -> Result<(), BundleError> {
    let mut open: BTreeMap<Digest, (File, u64)> = BTreeMap::new();
    let place = |digest: &Digest| root.join(blob_path(digest));
    each_chunk(path, content, bundle, run, &mut |chunk| {
        let digest = chunk.digest;
        let (file, length) = match open.entry(digest) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert((File::create_new(place(&digest))?, 0)),
        };
        file.write_all_at(chunk.bytes, *length)?;
        *length += chunk.bytes.len() as u64;
        if chunk.last
            && let Some((file, _)) = open.remove(&digest)
        {
            // The flushing thread failed and reports its error.
            written.send(file).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(())
    })
}

/// Writes the content as a tar.
///
/// # Errors
/// The file cannot be written, or the bundle is damaged.
pub fn tar(
    path: &Path,
    content: &Content,
    bundle: &Bundle,
    run: Run<'_>,
) -> Result<(), BundleError> {
    let failed = |source| BundleError::io(path, source);
    let beside = parent(path);
    std::fs::create_dir_all(beside).map_err(failed)?;
    let partial = AtomicFile::create(path, 0o644).map_err(failed)?;
    let file = partial.as_file();
    let mut end = 0;
    let mut entry = |name: &str, size: u64| -> io::Result<u64> {
        file.write_all_at(&entry_header(name, size), end)?;
        let start = end + TAR_BLOCK;
        end = start + size.next_multiple_of(TAR_BLOCK);
        Ok(start)
    };
    for (name, document) in &content.documents {
        entry(name, document.len() as u64)
            .and_then(|start| file.write_all_at(document, start))
            .map_err(failed)?;
    }
    let mut places: BTreeMap<Digest, u64> = BTreeMap::new();
    for (digest, size) in &content.blobs {
        let start = entry(&blob_path(digest), *size).map_err(failed)?;
        places.insert(*digest, start);
    }
    // Bytes that are not written are zero: padding, and the two blocks at the end of a tar.
    file.set_len(end + TRAILER).map_err(failed)?;
    each_chunk(path, content, bundle, run, &mut |chunk| {
        let place = places.get_mut(&chunk.digest);
        let place = place.ok_or(io::ErrorKind::NotFound)?;
        file.write_all_at(chunk.bytes, *place)?;
        *place += chunk.bytes.len() as u64;
        Ok(())
    })?;
    partial.commit().map_err(failed)
}

/// Streams all blobs to `take`, which fails only if the target cannot be written.
fn each_chunk(
    path: &Path,
    content: &Content,
    bundle: &Bundle,
    run: Run<'_>,
    take: &mut PartHandler<'_>,
) -> Result<(), BundleError> {
    let total = content.blobs.values().copied().fold(0, u64::saturating_add);
    let transfer = run
        .events
        .transfer("export", path.display().to_string(), Some(total));
    let wanted: BTreeSet<Digest> = content.blobs.keys().copied().collect();
    let mut unwritable = None;
    let read = bundle.stream(&wanted, &mut |chunk| {
        if (run.stop)() {
            return Err(io::Error::other("stopped"));
        }
        transfer.advance(chunk.bytes.len() as u64);
        take(chunk).map_err(|error| {
            let kind = error.kind();
            unwritable = Some(error);
            kind.into()
        })
    });
    if (run.stop)() {
        return Err(BundleError::Stopped);
    }
    match (read, unwritable) {
        (_, Some(error)) => Err(BundleError::io(path, error)),
        (Err(source), None) => Err(BundleError::io(bundle.path(), source)),
        (Ok(()), None) => {
            transfer.done();
            Ok(())
        }
    }
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
