//! Merkle trees of transparency logs: inclusion proofs and signed checkpoints
//! (RFC 9162, 2.1; <https://github.com/C2SP/C2SP/blob/main/tlog-checkpoint.md>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::trusted_root::Log;
use kubexm_types::Digest;

/// Maximum height of a tree, that of 2⁶⁴ entries.
const HIGHEST: usize = 64;
/// Maximum size of a checkpoint, in bytes. A checkpoint has a few lines; each witness adds one.
const LONGEST: usize = 64 * 1024;
/// The prefix of each signature line of a note.
const SIGNATURE: &str = "\u{2014} ";
/// Length of the key ID before a signature, in bytes.
const HINT: usize = 4;

/// The state of a log that the log signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Number of entries.
    pub size: u64,
    /// The root hash.
    pub root: Digest,
}

/// Parses a checkpoint and verifies the log's signature. Signatures of others, such as witnesses, are
/// ignored.
///
/// # Errors
/// It is not a checkpoint, or the log did not sign it.
pub(super) fn checkpoint(note: &str, log: &Log) -> Result<Checkpoint, String> {
    let unreadable = "the checkpoint of its entry's log cannot be read";
    if note.len() > LONGEST {
        return Err(unreadable.to_owned());
    }
    let split = note.rfind("\n\n").ok_or(unreadable)?;
    // The text includes the first of the two line feeds.
    let (text, signatures) = (&note[..=split], &note[split + 2..]);
    let mut lines = text.lines();
    let origin = lines.next().unwrap_or_default();
    let size = lines.next().and_then(|size| size.parse().ok());
    let root = lines.next().and_then(|root| STANDARD.decode(root).ok());
    let root = root.and_then(|root| digest(&root));
    let (false, Some(size), Some(root)) = (origin.is_empty(), size, root) else {
        return Err(unreadable.to_owned());
    };
    let is_signed = signatures.lines().any(|line| {
        let named = line.strip_prefix(SIGNATURE);
        let Some((name, signature)) = named.and_then(|named| named.rsplit_once(' ')) else {
            return false;
        };
        let signature = STANDARD.decode(signature).unwrap_or_default();
        let split = signature.split_at_checked(HINT);
        split.is_some_and(|(hint, signature)| {
            is_of(log, origin, name)
                && log.id.bytes().starts_with(hint)
                && log.key.verifies(text.as_bytes(), signature)
        })
    });
    if is_signed {
        Ok(Checkpoint { size, root })
    } else {
        Err("the checkpoint of its entry's log is not signed by that log".to_owned())
    }
}

/// Whether the log signs with this name. If its ID is derived from the name, the name must equal the
/// origin. If the ID is that of the key alone, any name is accepted.
fn is_of(log: &Log, origin: &str, name: &str) -> bool {
    log.id == log.key.fingerprint() || (name == origin && log.id == log.key.note_id(name))
}

/// Computes the root hash from an inclusion proof; returns `None` if the proof does not fit the index and
/// the tree size (RFC 9162, 2.1.3.2).
pub(super) fn root(entry: &[u8], number: u64, size: u64, beside: &[Digest]) -> Option<Digest> {
    if number >= size || beside.len() > HIGHEST {
        return None;
    }
    let (mut here, mut last) = (number, size - 1);
    let mut hash = Digest::of(&[&[0], entry].concat());
    for other in beside {
        if last == 0 {
            return None;
        }
        if here % 2 == 1 || here == last {
            hash = above(other, &hash);
            // The last node of a level has no right sibling: it moves up unchanged.
            while here % 2 == 0 && here != 0 {
                (here, last) = (here / 2, last / 2);
            }
        } else {
            hash = above(&hash, other);
        }
        (here, last) = (here / 2, last / 2);
    }
    (last == 0).then_some(hash)
}

fn above(left: &Digest, right: &Digest) -> Digest {
    Digest::of(&[&[1], left.bytes(), right.bytes()].concat())
}

/// Converts bytes to a digest.
pub(super) fn digest(bytes: &[u8]) -> Option<Digest> {
    bytes.try_into().ok().map(Digest::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the hash over all entries (RFC 9162, 2.1.1).
    fn whole(entries: &[Vec<u8>]) -> Digest {
        match entries {
            [entry] => Digest::of(&[&[0], &entry[..]].concat()),
            _ => {
                let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
                above(&whole(left), &whole(right))
            }
        }
    }

    /// Computes an inclusion proof (RFC 9162, 2.1.3.1).
    fn path(entries: &[Vec<u8>], number: usize) -> Vec<Digest> {
        if entries.len() == 1 {
            return Vec::new();
        }
        let middle = entries.len().next_power_of_two() / 2;
        let (left, right) = entries.split_at(middle);
        let (mut below, beside) = if number < middle {
            (path(left, number), whole(right))
        } else {
            (path(right, number - middle), whole(left))
        };
        below.push(beside);
        below
    }

    #[test]
    fn every_entry_of_small_trees_is_found_where_it_is_and_nowhere_else() {
        for size in 1..20_usize {
            let entries: Vec<Vec<u8>> = (0..size).map(|n| format!("e{n}").into_bytes()).collect();
            let top = whole(&entries);
            for number in 0..size {
                let path = path(&entries, number);
                let found = |entry: &[u8], number: usize, size: usize, path: &[Digest]| {
                    root(entry, number as u64, size as u64, path) == Some(top)
                };
                assert!(found(&entries[number], number, size, &path));
                assert!(!found(b"other", number, size, &path));
                assert!(!found(&entries[number], size, size, &path));
                for other in (0..size).filter(|other| *other != number) {
                    assert!(
                        !found(&entries[number], other, size, &path),
                        "{size} {other}"
                    );
                }
                let longer = [&path[..], &[top]].concat();
                assert!(!found(&entries[number], number, size, &longer));
                if let Some((_, shorter)) = path.split_last() {
                    assert!(!found(&entries[number], number, size, shorter));
                }
            }
        }
    }
}
