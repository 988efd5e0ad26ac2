//! Holding every byte of a bundle against a digest.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::group::{decoder, zeros};
use super::read::Placed;
use super::remade::compare;
use super::write::TRAILER;
use super::{Blobs, Bundle, BundleError};
use crate::event::{Events, Transfer};
use crate::spec::{Digest, DigestWriter};

/// Groups that are read at once at most: each takes a window of memory.
const MOST_THREADS: usize = 4;

impl Bundle {
    /// Reads all that is stored and compares its digests, on up to `threads` threads. Of what is held
    /// opened up, it is the content that is compared; making it again fails by itself where that
    /// would not be what the lock says.
    ///
    /// # Errors
    /// All blobs that are damaged, in one message.
    pub fn verify(&self, threads: usize, events: &Events) -> Result<(), BundleError> {
        let labels = self.lock().blobs();
        let label = |digest: &Digest| labels.get(digest).map_or("", |(_, label)| label.as_str());
        let entries = self
            .groups()
            .iter()
            .flat_map(|group| group.layout.entries());
        let total = entries.map(|stored| stored.stored_size()).sum();
        let path = self.path().display().to_string();
        let transfer = events.transfer("verify", path.clone(), Some(total));
        let next = AtomicUsize::new(0);
        let bad = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, MOST_THREADS) {
                scope.spawn(|| {
                    while let Some(group) = self.groups().get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let damaged = self.verify_group(group, &transfer);
                        if let Ok(mut bad) = bad.lock() {
                            bad.extend(damaged.into_iter().map(|(digest, error)| {
                                format!("{} ({digest}): {error}", label(&digest))
                            }));
                        }
                    }
                });
            }
        });
        let mut bad = bad.into_inner().unwrap_or_default();
        let end = decoder(self.path(), self.trailer()).and_then(|end| zeros(end, TRAILER));
        if end.is_err() {
            bad.push("the end of the tar".to_owned());
        }
        if bad.is_empty() {
            transfer.done();
            return Ok(());
        }
        bad.sort();
        let list = bad.join("\n  ");
        let reason = format!(
            "{} of {} parts are damaged; copy the bundle again:\n  {list}",
            bad.len(),
            labels.len() + 1
        );
        Err(BundleError::Damaged { path, reason })
    }

    /// Makes everything again that is held opened up, and compares it with the lock.
    ///
    /// # Errors
    /// Something comes out otherwise.
    pub fn verify_made(&self, events: &Events) -> Result<(), BundleError> {
        let opened = self
            .groups()
            .iter()
            .flat_map(|group| group.layout.entries());
        let opened: Vec<_> = opened.filter(|stored| stored.opened.is_some()).collect();
        let total = opened.iter().map(|stored| stored.size).sum();
        let path = self.path().display().to_string();
        let transfer = events.transfer("make again", path.clone(), Some(total));
        let wanted: BTreeSet<Digest> = opened.iter().map(|stored| stored.blob).collect();
        self.stream(&wanted, &mut |chunk| {
            transfer.advance(chunk.bytes.len() as u64);
            Ok(())
        })
        .map_err(|error| BundleError::Damaged {
            path,
            reason: format!("{error}; copy the bundle again"),
        })?;
        transfer.done();
        Ok(())
    }

    /// What of a group is not what it must be. Where it cannot be read to its end, that is all that
    /// has not ended well before.
    fn verify_group(&self, group: &Placed, transfer: &Transfer) -> Vec<(Digest, io::Error)> {
        let entries = group.layout.entries();
        let mut bad = Vec::new();
        let mut ended = vec![false; entries.len()];
        let mut read = || -> io::Result<()> {
            let mut reader = self.read_group(group)?;
            let mut hashes: Vec<_> = entries
                .iter()
                .map(|_| Some(DigestWriter::new(io::sink())))
                .collect();
            let mut buffer = vec![0; 1 << 17];
            while let Some(piece) = reader.next()? {
                let Some(hash) = &mut hashes[piece.entry] else {
                    continue;
                };
                loop {
                    let count = reader.read(&mut buffer)?;
                    if count == 0 {
                        break;
                    }
                    hash.write_all(&buffer[..count])?;
                    transfer.advance(count as u64);
                }
                if piece.last
                    && let Some(hash) = hashes[piece.entry].take()
                {
                    let stored = &entries[piece.entry];
                    let (_, digest, size) = hash.finish();
                    ended[piece.entry] = true;
                    if let Err(error) =
                        compare(digest, size, stored.stored_digest(), stored.stored_size())
                    {
                        bad.push((stored.blob, error));
                    }
                }
            }
            Ok(())
        };
        if let Err(error) = read() {
            let mut lost: Vec<_> = entries.iter().zip(&ended).filter(|(_, e)| !**e).collect();
            if lost.is_empty() {
                lost.extend(entries.last().map(|last| (last, &true)));
            }
            for (stored, _) in lost {
                let words = io::Error::new(error.kind(), error.to_string());
                bad.push((stored.blob, words));
            }
        }
        bad
    }
}
