//! Verifies the content of a bundle.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use crate::codec::elf::ElfDecoder;
use crate::codec::recompress::compare;
use crate::format::chunks::StoredBlob;
use crate::format::tar_entry::TRAILER;
use crate::read::LocatedGroup;
use crate::read::group::{decoder, zeros};
use crate::threads::each;
use crate::{Blobs, Bundle, BundleError};
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, DigestWriter, Message};

/// Maximum number of groups that are read at the same time; each needs a decoder's window of memory.
const MOST_THREADS: usize = 3;
/// Number of bytes that are hashed at a time.
const STEP: u64 = 1 << 17;
/// Maximum number of damaged blobs that an error lists.
const LISTED: usize = 20;

/// The decompressed gzip blobs that are recompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompressed {
    /// All of them.
    All,
    /// Those that the builder did not recompress, as the header says.
    Unproven,
}

impl Bundle {
    /// Reads all stored content and compares its digests, on at most `threads` threads. It compares the
    /// content of decompressed gzip; [`Bundle::verify_recompressed`] compares the gzip streams.
    ///
    /// # Errors
    /// Blobs are damaged; the error lists the first of them.
    pub fn verify(&self, threads: usize, events: &Events) -> Result<(), BundleError> {
        self.verify_blobs(None, threads, events)
    }

    /// Verifies the groups that contain the `wanted` blobs; `None` verifies all groups.
    ///
    /// # Errors
    /// As [`Bundle::verify`].
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
        let groups: Vec<&LocatedGroup> = self
            .groups()
            .iter()
            .filter(|group| group.layout.entries().iter().any(matters))
            .collect();
        let stored = groups.iter().flat_map(|group| group.layout.entries());
        let total = stored
            .map(StoredBlob::stored_size)
            .fold(0, u64::saturating_add);
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
        bad.sort();
        let end = decoder(self.volumes(), self.end_frame()).and_then(|end| zeros(end, TRAILER));
        if end.is_err() {
            bad.push("the end of the tar".to_owned());
        }
        if bad.is_empty() {
            transfer.done();
            return Ok(());
        }
        let count = bad.len();
        let more = match count.saturating_sub(LISTED) {
            0 => String::new(),
            more => format!("\n  … and {more} more"),
        };
        bad.truncate(LISTED);
        let volumes = self.volumes().damaged_volumes();
        let list = bad.join("\n  ") + &more;
        let list = volumes
            .iter()
            .fold(list, |list, volume| format!("{list}\n  {volume}"));
        let reason = Message::new(format!(
            "{count} of {} parts are damaged:\n  {list}",
            labels.len() + 1
        ))
        .hint("copy the bundle again");
        Err(BundleError::Damaged { path, reason })
    }

    /// Recompresses blobs that are stored as decompressed gzip, and compares them with the lock: all of
    /// them, or those that the builder did not prove. Returns the number of the others.
    ///
    /// # Errors
    /// A blob differs, or this program does not have its encoder. All other blobs are compared first.
    pub fn verify_recompressed(
        &self,
        which: Recompressed,
        events: &Events,
    ) -> Result<usize, BundleError> {
        let (mut wanted, mut total, mut unknown) = (BTreeSet::new(), 0, Vec::new());
        let mut proven = 0;
        for stored in self.all_stored() {
            let Some(opened) = &stored.opened else {
                continue;
            };
            if let Err(error) = opened.recipe.known() {
                unknown.push((stored.blob, error));
            } else if which == Recompressed::All || !self.proves(&stored.blob, opened) {
                wanted.insert(stored.blob);
                total += stored.size;
            } else {
                proven += 1;
            }
        }
        let path = self.path().display().to_string();
        let failed = |reason: Message| BundleError::damaged(self.path(), reason);
        if !wanted.is_empty() {
            let transfer = events.transfer("recompress", path.clone(), Some(total));
            self.stream(&wanted, &mut |part| {
                transfer.advance(part.bytes.len() as u64);
                Ok(())
            })
            .map_err(|error| {
                failed(Message::new(error.to_string()).hint("copy the bundle again"))
            })?;
            transfer.done();
        }
        let labels = self.lock().blobs();
        match unknown.first() {
            None => Ok(proven),
            Some((digest, error)) => {
                let label = labels.get(digest).map_or("", |blob| blob.label.as_str());
                let count = unknown.len();
                Err(failed(format!(
                    "{count} gzip blobs cannot be verified, the first is {label} ({digest}): {error}"
                ).into()))
            }
        }
    }

    fn all_stored(&self) -> impl Iterator<Item = &StoredBlob> {
        let groups = self.groups().iter();
        groups.flat_map(|group| group.layout.entries())
    }

    /// Returns the damaged blobs of a group. If the group cannot be read to its end, these are all blobs
    /// that were not verified before.
    fn verify_group(&self, group: &LocatedGroup, transfer: &Transfer) -> Vec<(Digest, io::Error)> {
        let entries = group.layout.entries();
        let mut bad = Vec::new();
        let new = |stored| Some((ElfDecoder::new(stored), DigestWriter::new(io::sink())));
        // `None` after the last chunk of a blob.
        let mut hashes: Vec<_> = entries.iter().map(new).collect();
        let mut read = || -> io::Result<()> {
            let mut reader = self.read_group(group)?;
            while let Some(chunk) = reader.next()? {
                let hash = &mut hashes[chunk.entry];
                let mut left = chunk.size;
                while left > 0
                    && let Some((back, hash)) = hash
                {
                    let mut bytes = vec![0; left.min(STEP) as usize];
                    reader.read_exact(&mut bytes)?;
                    transfer.advance(bytes.len() as u64);
                    left -= bytes.len() as u64;
                    hash.write_all(&back.step(bytes, false))?;
                }
                if chunk.last
                    && let Some((mut back, mut hash)) = hash.take()
                {
                    hash.write_all(&back.step(Vec::new(), true))?;
                    let stored = &entries[chunk.entry];
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
            // The bytes after the last blob are wrong, or the checksum of a frame is. A blob with a wrong
            // digest explains that.
            if lost.is_empty() && bad.is_empty() {
                lost.extend(entries.last());
            }
            for stored in lost {
                let error = io::Error::new(error.kind(), error.to_string());
                bad.push((stored.blob, error));
            }
        }
        bad
    }
}
