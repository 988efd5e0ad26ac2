//! Streams many blobs in one pass. Each group is read once. All cores recompress gzip blobs while the next
//! chunks are read.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use gzip_exact::GzipWriter;

use crate::codec::elf::ElfDecoder;
use crate::codec::recompress::compare;
use crate::format::chunks::{GroupLayout, StoredBlob};
use crate::read::LocatedGroup;
use crate::read::group::GroupReader;
use crate::threads::cores;
use crate::{BlobPart, Bundle, PartHandler};
use kubexm_types::{Digest, DigestWriter};

/// Size of the buffers between threads, in bytes.
const STEP: usize = 1 << 18;
/// Number of buffers that a channel holds.
const WAITING: usize = 4;
/// Time to recompress a byte, relative to the time to hash it.
const WORK: u64 = 20;

/// The next bytes of one entry.
struct Step {
    entry: usize,
    bytes: Vec<u8>,
    last: bool,
}

/// Streams the wanted blobs to `take` in the order of the file. Parts of interleaved blobs alternate.
///
/// # Errors
/// A blob is damaged or not in the bundle, this program does not have its encoder, or `take` fails.
pub fn stream(
    bundle: &Bundle,
    wanted: &BTreeSet<Digest>,
    take: &mut PartHandler<'_>,
) -> io::Result<()> {
    let cores = cores();
    let mut found = 0;
    for group in bundle.groups() {
        let entries = group.layout.entries().iter();
        let chosen: Vec<bool> = entries
            .map(|stored| wanted.contains(&stored.blob))
            .collect();
        let count = chosen.iter().filter(|chosen| **chosen).count();
        if count > 0 {
            found += count;
            stream_group(bundle, group, &chosen, cores, take)?;
        }
    }
    if found == wanted.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "not in the bundle"))
    }
}

fn stream_group(
    bundle: &Bundle,
    group: &LocatedGroup,
    chosen: &[bool],
    cores: NonZeroUsize,
    take: &mut PartHandler<'_>,
) -> io::Result<()> {
    let layout = &group.layout;
    let wanted = chosen.iter().filter(|chosen| **chosen).count();
    let threads = cores.get().min(wanted);
    // With fewer blobs than cores, each blob is recompressed on several cores.
    let each = NonZeroUsize::new(cores.get() / threads).unwrap_or(NonZeroUsize::MIN);
    let shares = shares(layout, chosen, threads);
    std::thread::scope(|scope| {
        let (out, results) = sync_channel(threads * WAITING);
        let mut workers = Vec::new();
        for _ in 0..threads {
            let (work, steps) = sync_channel(WAITING);
            workers.push(work);
            let (layout, out) = (Arc::clone(layout), out.clone());
            scope.spawn(move || {
                if let Err(error) = build(&layout, each, &steps, &out) {
                    // The receiver is gone if the caller failed first; its error takes precedence.
                    let _ = out.send(Err(error));
                }
            });
        }
        scope.spawn(move || {
            let read = bundle
                .read_group(group)
                .and_then(|reader| distribute(reader, chosen, wanted, &shares, &workers));
            if let Err(error) = read {
                let _ = out.send(Err(error));
            }
        });
        let mut ended = 0;
        for result in results {
            let Step { entry, bytes, last } = result?;
            ended += usize::from(last);
            take(BlobPart {
                digest: layout.entries()[entry].blob,
                bytes: &bytes,
                last,
            })?;
        }
        if ended == wanted {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    })
}

/// Assigns entries to threads, so that all threads have about the same work.
fn shares(layout: &GroupLayout, chosen: &[bool], threads: usize) -> Vec<usize> {
    let cost = |stored: &StoredBlob| {
        let factor = if stored.opened.is_some() { WORK } else { 1 };
        stored.stored_size().saturating_mul(factor)
    };
    let entries = layout.entries();
    let mut order: Vec<usize> = (0..entries.len()).filter(|entry| chosen[*entry]).collect();
    order.sort_by_key(|entry| std::cmp::Reverse(cost(&entries[*entry])));
    let mut load = vec![0u64; threads];
    let mut shares = vec![0; entries.len()];
    for entry in order {
        let lightest = load.iter().enumerate().min_by_key(|(_, load)| **load);
        let thread = lightest.map_or(0, |(thread, _)| thread);
        load[thread] = load[thread].saturating_add(cost(&entries[entry]));
        shares[entry] = thread;
    }
    shares
}

/// Reads the group and sends the chosen entries to their threads.
fn distribute(
    mut reader: GroupReader,
    chosen: &[bool],
    mut wanted: usize,
    shares: &[usize],
    workers: &[SyncSender<Step>],
) -> io::Result<()> {
    while wanted > 0
        && let Some(chunk) = reader.next()?
    {
        let entry = chunk.entry;
        if !chosen[entry] {
            continue;
        }
        let mut left = chunk.size;
        loop {
            let mut bytes = vec![0; left.min(STEP as u64) as usize];
            reader.read_exact(&mut bytes)?;
            left -= bytes.len() as u64;
            let last = chunk.last && left == 0;
            if workers[shares[entry]]
                .send(Step { entry, bytes, last })
                .is_err()
            {
                // The thread failed and reported its error.
                return Ok(());
            }
            if left == 0 {
                break;
            }
        }
        wanted -= usize::from(chunk.last);
    }
    Ok(())
}

/// Builds a blob from its stored bytes.
struct BlobBuilder {
    decoder: ElfDecoder,
    /// Set if the blob is recompressed.
    writer: Option<GzipWriter>,
    hash: DigestWriter<io::Sink>,
}

impl BlobBuilder {
    /// # Errors
    /// This program does not have the blob's encoder.
    fn new(stored: &StoredBlob, threads: NonZeroUsize) -> io::Result<Self> {
        let writer = match &stored.opened {
            Some(opened) => Some(opened.recipe.known()?.writer_on(threads)),
            None => None,
        };
        Ok(Self {
            decoder: ElfDecoder::new(stored),
            writer,
            hash: DigestWriter::new(io::sink()),
        })
    }

    /// Takes the next stored bytes and returns the next bytes of the blob. `last` marks the end.
    fn step(&mut self, bytes: Vec<u8>, last: bool) -> io::Result<Vec<u8>> {
        let bytes = self.decoder.step(bytes, last);
        let built = match self.writer.take() {
            None => bytes,
            Some(mut writer) => {
                writer.write_all(&bytes)?;
                if last {
                    writer.finish()?
                } else {
                    let bytes = std::mem::take(writer.out());
                    self.writer = Some(writer);
                    bytes
                }
            }
        };
        self.hash.write_all(&built)?;
        Ok(built)
    }
}

/// Builds blobs from the stored bytes of their entries, each on at most `threads` threads, and verifies
/// their digests.
fn build(
    layout: &GroupLayout,
    threads: NonZeroUsize,
    steps: &Receiver<Step>,
    out: &SyncSender<io::Result<Step>>,
) -> io::Result<()> {
    let mut builders: Vec<Option<BlobBuilder>> = layout.entries().iter().map(|_| None).collect();
    for Step { entry, bytes, last } in steps {
        let stored = &layout.entries()[entry];
        let mut builder = match builders[entry].take() {
            Some(builder) => builder,
            None => BlobBuilder::new(stored, threads)?,
        };
        let bytes = builder.step(bytes, last)?;
        if last {
            let (_, digest, size) = builder.hash.finish();
            compare(digest, size, stored.blob, stored.size)?;
        } else {
            builders[entry] = Some(builder);
        }
        if out.send(Ok(Step { entry, bytes, last })).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
