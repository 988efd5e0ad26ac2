//! Visits the decompressed content of many blobs in one pass. Each group is read once. Decompressed gzip is
//! recompressed only if the header does not have the digest of its content.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read};
use std::num::NonZeroUsize;
use std::sync::mpsc::{SyncSender, sync_channel};

use flate2::read::MultiGzDecoder;

use crate::channel_reader::ChannelReader;
use crate::codec::elf;
use crate::codec::recompress::{RecompressingReader, Verified};
use crate::format::chunks::StoredBlob;
use crate::read::LocatedGroup;
use crate::read::group::GroupReader;
use crate::threads::{each, ended};
use crate::{Bundle, BundleError};
use kubexm_types::{Digest, Message};

/// Maximum number of groups that are read at the same time; each needs a decoder's window of memory.
const MOST_GROUPS: usize = 2;
/// Size of the buffers between threads, in bytes.
const STEP: usize = 1 << 16;
/// Number of buffers that a channel holds.
const WAITING: usize = 2;
/// Maximum window of a layer's zstd frames, as a power of two.
const LAYER_WINDOW: u32 = 26;

/// Visits the content of a blob. It need not read to the end. If the content is invalid, its reads fail,
/// and the visitor reports that.
pub type ContentVisitor<'a> = dyn Fn(Digest, &mut dyn Read) + Sync + 'a;

impl Bundle {
    /// Calls `visit` for each wanted blob: with the content of gzip and zstd blobs, and with other blobs as
    /// published. Several calls run at the same time, in no defined order. A caller must not use what
    /// `visit` read unless this function succeeds, because it verifies all digests.
    ///
    /// # Errors
    /// A blob is not in the bundle, or it is damaged.
    pub fn visit_contents(
        &self,
        wanted: &BTreeSet<Digest>,
        threads: usize,
        visit: &ContentVisitor<'_>,
    ) -> Result<(), BundleError> {
        let chosen: Vec<(&LocatedGroup, usize)> = self
            .groups()
            .iter()
            .map(|group| (group, count(group, wanted)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let found: usize = chosen.iter().map(|(_, count)| count).sum();
        if found != wanted.len() {
            return Err(BundleError::Missing(
                Message::new("blob that is in its lock")
                    .hint("give its base bundles too")
                    .to_owned(),
            ));
        }
        let threads = threads.clamp(1, MOST_GROUPS);
        let results = each(&chosen, threads, |(group, _)| {
            if group.layout.whole() {
                self.visit_sequential(group, wanted, visit)
            } else {
                self.visit_interleaved(group, wanted, visit)
            }
        });
        let failed = results.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| {
            Err(BundleError::Damaged {
                path: self.path().display().to_string(),
                reason: Message::new(format!("{error}")).hint("copy the bundle again"),
            })
        })
    }

    /// Visits blobs that are stored one after the other.
    fn visit_sequential(
        &self,
        group: &LocatedGroup,
        wanted: &BTreeSet<Digest>,
        visit: &ContentVisitor<'_>,
    ) -> io::Result<()> {
        let mut reader = self.read_group(group)?;
        let mut left = count(group, wanted);
        while left > 0 {
            let Some(chunk) = reader.next()? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let stored = &group.layout.entries()[chunk.entry];
            if !wanted.contains(&stored.blob) {
                continue;
            }
            self.visit_blob(stored, &mut reader, visit)?;
            left -= 1;
        }
        Ok(())
    }

    /// Visits blobs whose chunks alternate. Each blob has its own thread, which waits for the next chunk.
    fn visit_interleaved(
        &self,
        group: &LocatedGroup,
        wanted: &BTreeSet<Digest>,
        visit: &ContentVisitor<'_>,
    ) -> io::Result<()> {
        std::thread::scope(|scope| {
            let mut feeds = BTreeMap::new();
            let mut readers = Vec::new();
            for (number, stored) in group.layout.entries().iter().enumerate() {
                if wanted.contains(&stored.blob) {
                    let (feed, steps) = sync_channel(WAITING);
                    feeds.insert(number, feed);
                    let content = ChannelReader::new(steps);
                    readers.push(scope.spawn(move || self.visit_blob(stored, content, visit)));
                }
            }
            let read = self
                .read_group(group)
                .and_then(|reader| distribute(reader, feeds));
            let results: Vec<_> = readers
                .into_iter()
                .map(|reader| ended(reader.join()))
                .collect();
            results.into_iter().fold(read, Result::and)
        })
    }

    /// Visits the content of a blob, and verifies its digest. Content that the recompression document does not
    /// have is recompressed: only the gzip stream then has a digest that the lock names.
    fn visit_blob(
        &self,
        stored: &StoredBlob,
        content: impl Read,
        visit: &ContentVisitor<'_>,
    ) -> io::Result<()> {
        let content = elf::decode(content, stored);
        match &stored.opened {
            Some(opened) if !self.covers(&stored.blob, opened) => {
                // Each blob of a group has its own thread.
                let recipe = opened.recipe.known()?;
                let gzip = RecompressingReader::on(NonZeroUsize::MIN, content, recipe);
                let gzip = Verified::new(gzip, stored.blob, stored.size);
                visit_verified(stored.blob, stored.size, gzip, visit)
            }
            _ => {
                let size = stored.stored_size();
                let content = Verified::new(content, stored.stored_digest(), size);
                visit_verified(stored.blob, size, content, visit)
            }
        }
    }
}

fn count(group: &LocatedGroup, wanted: &BTreeSet<Digest>) -> usize {
    let entries = group.layout.entries().iter();
    entries
        .filter(|stored| wanted.contains(&stored.blob))
        .count()
}

/// Visits the content of a blob of `size` bytes, and reads it to its end, where it is verified.
fn visit_verified(
    blob: Digest,
    size: u64,
    mut content: impl Read,
    visit: &ContentVisitor<'_>,
) -> io::Result<()> {
    let mut limited = (&mut content).take(size);
    let mut start = Vec::new();
    (&mut limited).take(4).read_to_end(&mut start)?;
    let kind = <[u8; 4]>::try_from(&start[..]).unwrap_or_default();
    let mut whole = io::Cursor::new(start).chain(limited);
    match kind {
        [0x1f, 0x8b, ..] => visit(
            blob,
            &mut MultiGzDecoder::new(BufReader::with_capacity(STEP, &mut whole)),
        ),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut plain = zstd::Decoder::new(&mut whole)?;
            plain.window_log_max(LAYER_WINDOW)?;
            visit(blob, &mut plain);
        }
        _ => visit(blob, &mut whole),
    }
    drop(whole);
    // The read that finds the end compares the digest.
    let mut rest = vec![0; STEP];
    while content.read(&mut rest)? > 0 {}
    Ok(())
}

/// Reads a group and sends each chunk to the thread of its blob.
fn distribute(
    mut reader: GroupReader,
    mut feeds: BTreeMap<usize, SyncSender<Vec<u8>>>,
) -> io::Result<()> {
    while !feeds.is_empty()
        && let Some(chunk) = reader.next()?
    {
        let Some(feed) = feeds.get(&chunk.entry) else {
            continue;
        };
        let mut left = chunk.size;
        while left > 0 {
            let mut bytes = vec![0; left.min(STEP as u64) as usize];
            reader.read_exact(&mut bytes)?;
            left -= bytes.len() as u64;
            if feed.send(bytes).is_err() {
                // The thread found damage and reported it.
                return Ok(());
            }
        }
        if chunk.last {
            feeds.remove(&chunk.entry);
        }
    }
    Ok(())
}
