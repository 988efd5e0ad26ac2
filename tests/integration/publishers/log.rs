//! A transparency log of the tests: some entries, their Merkle tree, and what the log signs (RFC 9162, 2.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_types::Digest;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData};
use serde_json::{Value, json};

use super::authority::sign;

/// The number of other entries in the log, before and after an entry.
const BEFORE: usize = 5;
const AFTER: usize = 7;

pub struct Tree {
    entries: Vec<Vec<u8>>,
}

impl Tree {
    /// Returns a tree with this entry and others.
    pub fn with(entry: &[u8]) -> Self {
        let other = |number: usize| format!(r#"{{"another":{number}}}"#).into_bytes();
        let before = (0..BEFORE).map(other);
        let after = (BEFORE..BEFORE + AFTER).map(other);
        let entries = before.chain([entry.to_vec()]).chain(after).collect();
        Self { entries }
    }

    /// Returns an inclusion proof as bundles contain it. `which` counts from the entry of the test.
    pub fn proof(&self, which: usize, log: &KeyPair, origin: &str) -> Value {
        self.proof_with(which, self.checkpoint(log, origin))
    }

    /// Returns the inclusion proof of Rekor's version 2.
    pub fn proof_2(&self, which: usize, log: &KeyPair, origin: &str) -> Value {
        self.proof_with(which, self.checkpoint_2(log, origin))
    }

    fn proof_with(&self, which: usize, checkpoint: String) -> Value {
        let number = BEFORE + which;
        let root = whole(&self.entries);
        let hashes: Vec<String> = path(&self.entries, number).iter().map(base64).collect();
        json!({
            "logIndex": number.to_string(), "treeSize": self.entries.len().to_string(),
            "rootHash": base64(&root), "hashes": hashes,
            "checkpoint": {"envelope": checkpoint},
        })
    }

    /// Returns the checkpoint of Rekor's version 2, with a witness before the log
    /// (<https://github.com/C2SP/C2SP/blob/main/tlog-checkpoint.md>).
    /// (<https://github.com/C2SP/C2SP/blob/main/tlog-checkpoint.md>).
    pub fn checkpoint_2(&self, log: &KeyPair, origin: &str) -> String {
        let (size, root) = (self.entries.len(), base64(&whole(&self.entries)));
        let text = format!("{origin}\n{size}\n{root}\n");
        let line = |name: &str, key: &KeyPair| {
            let signature = sign(key, text.as_bytes());
            let signature = [&note_id(name, key).bytes()[..4], &signature].concat();
            format!("\u{2014} {name} {}\n", STANDARD.encode(signature))
        };
        let witness = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let witness = line("witness.example", &witness);
        format!("{text}\n{witness}{}", line(origin, log))
    }

    /// Returns the signed checkpoint of the tree.
    pub fn checkpoint(&self, log: &KeyPair, origin: &str) -> String {
        let (size, root) = (self.entries.len(), base64(&whole(&self.entries)));
        let text = format!("{origin} - 4711\n{size}\n{root}\n");
        let id = Digest::of(&log.subject_public_key_info());
        let signature = [&id.bytes()[..4], &sign(log, text.as_bytes())].concat();
        format!("{text}\n\u{2014} {origin} {}\n", STANDARD.encode(signature))
    }
}

/// Returns the key ID of a log of Rekor's version 2, which has an Ed25519 key
/// (<https://github.com/C2SP/C2SP/blob/main/signed-note.md#signatures>).
pub fn note_id(name: &str, key: &KeyPair) -> Digest {
    Digest::of(&[name.as_bytes(), b"\n\x01", key.der_bytes()].concat())
}

fn base64(hash: &Digest) -> String {
    STANDARD.encode(hash.bytes())
}

fn above(left: &Digest, right: &Digest) -> Digest {
    Digest::of(&[&[1], left.bytes(), right.bytes()].concat())
}

fn whole(entries: &[Vec<u8>]) -> Digest {
    match entries {
        [entry] => Digest::of(&[&[0], &entry[..]].concat()),
        _ => {
            let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
            above(&whole(left), &whole(right))
        }
    }
}

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
