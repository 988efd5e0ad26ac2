//! A log as a tree of hashes: whether an entry is in it, and what the log signed of the whole
//! (RFC 9162, 2.1; <https://github.com/C2SP/C2SP/blob/main/tlog-checkpoint.md>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::trusted_root::Log;
use kubexm_types::Digest;

/// A tree of 2⁶⁴ entries is no higher.
const HIGHEST: usize = 64;
/// A checkpoint has a few lines; each witness adds one.
const LONGEST: usize = 64 * 1024;
/// What stands before each signature of a note.
const SIGNATURE: &str = "\u{2014} ";
/// Bytes before a signature that say whose it is.
const HINT: usize = 4;

/// What a log signed of all its entries at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Entries.
    pub size: u64,
    /// The hash at the root.
    pub root: Digest,
}

/// Reads a checkpoint that this log signed. Signatures of others, such as witnesses, do not count.
///
/// # Errors
/// It is none, or the log did not sign it.
pub(super) fn checkpoint(note: &str, log: &Log) -> Result<Checkpoint, String> {
    let unreadable = "the checkpoint of its entry's log cannot be read";
    if note.len() > LONGEST {
        return Err(unreadable.to_owned());
    }
    let split = note.rfind("\n\n").ok_or(unreadable)?;
    // The text ends with the first of the two line ends.
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
    match is_signed {
        true => Ok(Checkpoint { size, root }),
        false => Err("the checkpoint of its entry's log is not signed by that log".to_owned()),
    }
}

/// Whether a log signs so: with a name of which its id is made, and as itself. Where the id is of the key
/// alone, the names are as the log likes them.
fn is_of(log: &Log, origin: &str, name: &str) -> bool {
    log.id == log.key.fingerprint() || (name == origin && log.id == log.key.note_id(name))
}

/// The root of a tree in which an entry has this number, by the hashes beside its way up; none where
/// these fit no such tree (RFC 9162, 2.1.3.2).
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
            // The last one of a level has nobody on its right: it goes up as it is.
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

/// A hash out of its bytes.
pub(super) fn digest(bytes: &[u8]) -> Option<Digest> {
    bytes.try_into().ok().map(Digest::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash over all entries, as RFC 9162, 2.1.1 defines it.
    fn whole(entries: &[Vec<u8>]) -> Digest {
        match entries {
            [entry] => Digest::of(&[&[0], &entry[..]].concat()),
            _ => {
                let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
                above(&whole(left), &whole(right))
            }
        }
    }

    /// The hashes beside an entry's way up, as RFC 9162, 2.1.3.1 defines them.
    fn path(entries: &[Vec<u8>], number: usize) -> Vec<Digest> {
        if entries.len() == 1 {
            return Vec::new();
        }
        let middle = entries.len().next_power_of_two() / 2;
        let (left, right) = entries.split_at(middle);
        let (mut below, beside) = match number < middle {
            true => (path(left, number), whole(right)),
            false => (path(right, number - middle), whole(left)),
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
