//! What is inside many blobs, in one go: each group is read once, and what is held opened up is not
//! made again. For those who look into layers and archives and have no use for their gzip.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read};
use std::sync::mpsc::{SyncSender, sync_channel};

use flate2::read::MultiGzDecoder;

use crate::channel_reader::ChannelReader;
use crate::codec::elf;
use crate::codec::recompress::Verified;
use crate::format::chunks::StoredBlob;
use crate::read::Placed;
use crate::read::group::GroupReader;
use crate::threads::{each, ended};
use crate::{Bundle, BundleError};
use kubexm_types::Digest;

/// Groups that are read at once at most: each takes a window of memory.
const MOST_GROUPS: usize = 2;
/// Bytes that pass between threads at a time.
const STEP: usize = 1 << 16;
/// Steps that may wait for a blob's reader.
const WAITING: usize = 2;
/// Memory that a layer's zstd frames may ask for, as a power of two.
const LAYER_WINDOW: u32 = 26;

/// Looks at what is inside a blob. What it leaves unread is read for it; where the content is no
/// good, its reads fail, and that is for it to tell.
pub type ContentVisitor<'a> = dyn Fn(Digest, &mut dyn Read) + Sync + 'a;

impl Bundle {
    /// Hands what is inside each wanted blob to `look`: the content of gzip and zstd blobs, others as
    /// they are. Several are looked at side by side, in no certain order. All bytes are held against
    /// their digests: only after success may anything be believed that `look` saw.
    ///
    /// # Errors
    /// A blob is not in the bundle, or damaged.
    pub fn look_inside(
        &self,
        wanted: &BTreeSet<Digest>,
        threads: usize,
        look: &ContentVisitor<'_>,
    ) -> Result<(), BundleError> {
        let chosen: Vec<(&Placed, usize)> = self
            .groups()
            .iter()
            .map(|group| (group, count(group, wanted)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let found: usize = chosen.iter().map(|(_, count)| count).sum();
        if found != wanted.len() {
            return Err(BundleError::Missing("blob that its lock names".to_owned()));
        }
        let threads = threads.clamp(1, MOST_GROUPS);
        let results = each(&chosen, threads, |(group, _)| match group.layout.whole() {
            true => self.in_turn(group, wanted, look),
            false => self.side_by_side(group, wanted, look),
        });
        let failed = results.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| {
            Err(BundleError::Damaged {
                path: self.path().display().to_string(),
                reason: format!("{error}; copy the bundle again"),
            })
        })
    }

    /// Blobs that follow one another.
    fn in_turn(
        &self,
        group: &Placed,
        wanted: &BTreeSet<Digest>,
        look: &ContentVisitor<'_>,
    ) -> io::Result<()> {
        let mut reader = self.read_group(group)?;
        let mut left = count(group, wanted);
        while left > 0 {
            let Some(piece) = reader.next()? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let stored = &group.layout.entries()[piece.entry];
            if !wanted.contains(&stored.blob) {
                continue;
            }
            show(stored, &mut reader, look)?;
            left -= 1;
        }
        Ok(())
    }

    /// Blobs whose pieces take turns: each is looked at by a thread of its own, which waits for its
    /// next piece.
    fn side_by_side(
        &self,
        group: &Placed,
        wanted: &BTreeSet<Digest>,
        look: &ContentVisitor<'_>,
    ) -> io::Result<()> {
        std::thread::scope(|scope| {
            let mut feeds = BTreeMap::new();
            let mut readers = Vec::new();
            for (number, stored) in group.layout.entries().iter().enumerate() {
                if wanted.contains(&stored.blob) {
                    let (feed, steps) = sync_channel(WAITING);
                    feeds.insert(number, feed);
                    let content = ChannelReader::new(steps);
                    readers.push(scope.spawn(move || show(stored, content, look)));
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
}

fn count(group: &Placed, wanted: &BTreeSet<Digest>) -> usize {
    let entries = group.layout.entries().iter();
    entries
        .filter(|stored| wanted.contains(&stored.blob))
        .count()
}

/// Shows what is inside a blob, and checks the rest of it.
fn show(stored: &StoredBlob, content: impl Read, look: &ContentVisitor<'_>) -> io::Result<()> {
    let content = elf::unpacked(content, stored);
    let mut content = Verified::new(content, stored.stored_digest(), stored.stored_size());
    let mut limited = (&mut content).take(stored.stored_size());
    let mut start = Vec::new();
    (&mut limited).take(4).read_to_end(&mut start)?;
    let kind = <[u8; 4]>::try_from(&start[..]).unwrap_or_default();
    let mut whole = io::Cursor::new(start).chain(limited);
    match kind {
        [0x1f, 0x8b, ..] => look(
            stored.blob,
            &mut MultiGzDecoder::new(BufReader::with_capacity(STEP, &mut whole)),
        ),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut plain = zstd::Decoder::new(&mut whole)?;
            plain.window_log_max(LAYER_WINDOW)?;
            look(stored.blob, &mut plain);
        }
        _ => look(stored.blob, &mut whole),
    }
    drop(whole);
    // The one read that finds the end compares the digest.
    let mut rest = vec![0; STEP];
    while content.read(&mut rest)? > 0 {}
    Ok(())
}

/// Reads a group and hands each piece to the reader of its blob.
fn distribute(
    mut reader: GroupReader,
    mut feeds: BTreeMap<usize, SyncSender<Vec<u8>>>,
) -> io::Result<()> {
    while !feeds.is_empty()
        && let Some(piece) = reader.next()?
    {
        let Some(feed) = feeds.get(&piece.entry) else {
            continue;
        };
        let mut left = piece.size;
        while left > 0 {
            let mut bytes = vec![0; left.min(STEP as u64) as usize];
            reader.read_exact(&mut bytes)?;
            left -= bytes.len() as u64;
            if feed.send(bytes).is_err() {
                // It has found damage, and says so.
                return Ok(());
            }
        }
        if piece.last {
            feeds.remove(&piece.entry);
        }
    }
    Ok(())
}
