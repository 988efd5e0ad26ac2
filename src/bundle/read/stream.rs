//! Many blobs in one go: each group is read once, and what is held opened up is made again on all
//! cores while the next pieces are read.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use gzip_exact::GzipWriter;

use crate::codec::elf::ElfDecoder;
use crate::codec::recompress::compare;
use crate::format::chunks::{GroupLayout, StoredBlob};
use crate::read::Placed;
use crate::read::group::GroupReader;
use crate::threads::cores;
use crate::{BlobPart, Bundle, Take};
use kubexm_types::{Digest, DigestWriter};

/// Bytes that pass between threads at a time.
const STEP: usize = 1 << 18;
/// Steps that may wait for a thread.
const WAITING: usize = 4;
/// Making a byte again takes so many times as long as hashing it.
const WORK: u64 = 20;

/// A step of one entry.
struct Step {
    entry: usize,
    bytes: Vec<u8>,
    last: bool,
}

/// Hands the wanted blobs to `take`, in the order in which they lie in the file. Blobs that lie side
/// by side come in turns.
///
/// # Errors
/// A blob is damaged or not in the bundle, or `take` fails.
pub fn stream(bundle: &Bundle, wanted: &BTreeSet<Digest>, take: &mut Take<'_>) -> io::Result<()> {
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
    match found == wanted.len() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::NotFound, "not in the bundle")),
    }
}

fn stream_group(
    bundle: &Bundle,
    group: &Placed,
    chosen: &[bool],
    cores: NonZeroUsize,
    take: &mut Take<'_>,
) -> io::Result<()> {
    let layout = &group.layout;
    let wanted = chosen.iter().filter(|chosen| **chosen).count();
    let threads = cores.get().min(wanted);
    // Fewer blobs than cores: some can be made on several at once.
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
                if let Err(error) = make(&layout, each, &steps, &out) {
                    // Whoever has stopped listening does not want to know.
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
        match ended == wanted {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    })
}

/// Which thread makes which entry, so that all have about as much to do.
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

/// Reads the group and hands out what is wanted.
fn distribute(
    mut reader: GroupReader,
    chosen: &[bool],
    mut wanted: usize,
    shares: &[usize],
    workers: &[SyncSender<Step>],
) -> io::Result<()> {
    while wanted > 0
        && let Some(piece) = reader.next()?
    {
        let entry = piece.entry;
        if !chosen[entry] {
            continue;
        }
        let mut left = piece.size;
        loop {
            let mut bytes = vec![0; left.min(STEP as u64) as usize];
            reader.read_exact(&mut bytes)?;
            left -= bytes.len() as u64;
            let last = piece.last && left == 0;
            if workers[shares[entry]]
                .send(Step { entry, bytes, last })
                .is_err()
            {
                // It has said why.
                return Ok(());
            }
            if left == 0 {
                break;
            }
        }
        wanted -= usize::from(piece.last);
    }
    Ok(())
}

/// A blob on its way out.
struct Making {
    back: ElfDecoder,
    /// Set where it is made of its content.
    writer: Option<GzipWriter>,
    hash: DigestWriter<io::Sink>,
}

impl Making {
    fn of(stored: &StoredBlob, threads: NonZeroUsize) -> Self {
        let opened = stored.opened.as_ref();
        Self {
            back: ElfDecoder::new(stored),
            writer: opened.map(|opened| opened.recipe.writer_on(threads)),
            hash: DigestWriter::new(io::sink()),
        }
    }

    /// What the next bytes, or the last ones, become.
    fn step(&mut self, bytes: Vec<u8>, last: bool) -> io::Result<Vec<u8>> {
        let bytes = self.back.step(bytes, last);
        let made = match self.writer.take() {
            None => bytes,
            Some(mut writer) => {
                writer.write_all(&bytes)?;
                if last {
                    writer.finish()?
                } else {
                    let made = std::mem::take(writer.out());
                    self.writer = Some(writer);
                    made
                }
            }
        };
        self.hash.write_all(&made)?;
        Ok(made)
    }
}

/// Makes blobs of the steps of their entries, each on up to `threads` threads, and compares them.
fn make(
    layout: &GroupLayout,
    threads: NonZeroUsize,
    steps: &Receiver<Step>,
    out: &SyncSender<io::Result<Step>>,
) -> io::Result<()> {
    let mut making: Vec<Option<Making>> = layout.entries().iter().map(|_| None).collect();
    for Step { entry, bytes, last } in steps {
        let stored = &layout.entries()[entry];
        let begun = making[entry].get_or_insert_with(|| Making::of(stored, threads));
        let bytes = begun.step(bytes, last)?;
        if last && let Some(ended) = making[entry].take() {
            let (_, digest, size) = ended.hash.finish();
            compare(digest, size, stored.blob, stored.size)?;
        }
        if out.send(Ok(Step { entry, bytes, last })).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
