//! Holding every byte of a bundle against a digest.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use crate::codec::elf::ElfDecoder;
use crate::codec::recompress::compare;
use crate::format::chunks::StoredBlob;
use crate::format::tar_entry::TRAILER;
use crate::read::Placed;
use crate::read::group::{decoder, zeros};
use crate::threads::each;
use crate::{Blobs, Bundle, BundleError};
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, DigestWriter};

/// Groups that are read at once at most: each takes a window of memory.
const MOST_THREADS: usize = 3;
/// Bytes that are hashed at a time.
const STEP: u64 = 1 << 17;

impl Bundle {
    /// Reads all that is stored and compares its digests, on up to `threads` threads. Of what is held
    /// opened up, it is the content that is compared; making it again fails by itself where that
    /// would not be what the lock says.
    ///
    /// # Errors
    /// All blobs that are damaged, in one message.
    pub fn verify(&self, threads: usize, events: &Events) -> Result<(), BundleError> {
        self.verify_blobs(None, threads, events)
    }

    /// As [`Bundle::verify`], where not all blobs are `wanted` without what lies beside none of them.
    ///
    /// # Errors
    /// As there.
    pub fn verify_blobs(
        &self,
        wanted: Option<&BTreeSet<Digest>>,
        threads: usize,
        events: &Events,
    ) -> Result<(), BundleError> {
        let labels = self.lock().blobs();
        let label = |digest: &Digest| labels.get(digest).map_or("", |blob| blob.label.as_str());
        let matters =
            |stored: &StoredBlob| wanted.is_none_or(|wanted| wanted.contains(&stored.blob));
        let groups: Vec<&Placed> = self
            .groups()
            .iter()
            .filter(|group| group.layout.entries().iter().any(matters))
            .collect();
        let stored = groups.iter().flat_map(|group| group.layout.entries());
        let total = stored.map(StoredBlob::stored_size).sum();
        let path = self.path().display().to_string();
        let transfer = events.transfer("verify", path.clone(), Some(total));
        let threads = threads.clamp(1, MOST_THREADS);
        let damaged = each(&groups, threads, |group| {
            self.verify_group(group, &transfer)
        });
        let mut bad: Vec<String> = damaged
            .into_iter()
            .flatten()
            .map(|(digest, error)| format!("{} ({digest}): {error}", label(&digest)))
            .collect();
        let end = decoder(self.medium(), self.trailer()).and_then(|end| zeros(end, TRAILER));
        if end.is_err() {
            bad.push("the end of the tar".to_owned());
        }
        if bad.is_empty() {
            transfer.done();
            return Ok(());
        }
        bad.sort();
        let count = bad.len();
        bad.extend(self.medium().damaged_volumes());
        let list = bad.join("\n  ");
        let reason = format!(
            "{count} of {} parts are damaged; copy the bundle again:\n  {list}",
            labels.len() + 1
        );
        Err(BundleError::Damaged { path, reason })
    }

    /// Makes everything again that is held opened up, and compares it with the lock.
    ///
    /// # Errors
    /// Something comes out otherwise.
    pub fn verify_made(&self, events: &Events) -> Result<(), BundleError> {
        let opened: Vec<_> = self
            .all_stored()
            .filter(|stored| stored.opened.is_some())
            .collect();
        if opened.is_empty() {
            return Ok(());
        }
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

    /// Everything as it lies in the file.
    fn all_stored(&self) -> impl Iterator<Item = &StoredBlob> {
        let groups = self.groups().iter();
        groups.flat_map(|group| group.layout.entries())
    }

    /// What of a group is not what it must be. Where it cannot be read to its end, that is all that
    /// has not ended well before.
    fn verify_group(&self, group: &Placed, transfer: &Transfer) -> Vec<(Digest, io::Error)> {
        let entries = group.layout.entries();
        let mut bad = Vec::new();
        let new = |stored| Some((ElfDecoder::new(stored), DigestWriter::new(io::sink())));
        let mut hashes: Vec<_> = entries.iter().map(new).collect();
        let mut read = || -> io::Result<()> {
            let mut reader = self.read_group(group)?;
            while let Some(piece) = reader.next()? {
                let hash = &mut hashes[piece.entry];
                let mut left = piece.size;
                while left > 0
                    && let Some((back, hash)) = hash
                {
                    let mut bytes = vec![0; left.min(STEP) as usize];
                    reader.read_exact(&mut bytes)?;
                    transfer.advance(bytes.len() as u64);
                    left -= bytes.len() as u64;
                    hash.write_all(&back.step(bytes, false))?;
                }
                if piece.last
                    && let Some((mut back, mut hash)) = hash.take()
                {
                    hash.write_all(&back.step(Vec::new(), true))?;
                    let stored = &entries[piece.entry];
                    let (_, digest, size) = hash.finish();
                    let compared =
                        compare(digest, size, stored.stored_digest(), stored.stored_size());
                    bad.extend(compared.err().map(|error| (stored.blob, error)));
                }
            }
            Ok(())
        };
        if let Err(error) = read() {
            let lost = entries.iter().zip(&hashes);
            let lost = lost.filter(|(_, hash)| hash.is_some());
            let mut lost: Vec<_> = lost.map(|(stored, _)| stored).collect();
            if lost.is_empty() {
                lost.extend(entries.last());
            }
            for stored in lost {
                let words = io::Error::new(error.kind(), error.to_string());
                bad.push((stored.blob, words));
            }
        }
        bad
    }
}
