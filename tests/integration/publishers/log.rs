//! A transparency log of the tests' own: some entries, the tree over them, and what the log signs of it
//! (RFC 9162, 2.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm::spec::Digest;
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};

use super::authority::sign;

/// So many others are in the log, before an entry and after it.
const BEFORE: usize = 5;
const AFTER: usize = 7;

pub struct Tree {
    entries: Vec<Vec<u8>>,
}

impl Tree {
    /// A tree with this entry among others.
    pub fn with(entry: &[u8]) -> Self {
        let other = |number: usize| format!(r#"{{"another":{number}}}"#).into_bytes();
        let before = (0..BEFORE).map(other);
        let after = (BEFORE..BEFORE + AFTER).map(other);
        let entries = before.chain([entry.to_vec()]).chain(after).collect();
        Self { entries }
    }

    /// That an entry is in it, as bundles say it; `which` counts from the one that matters.
    pub fn proof(&self, which: usize, log: &KeyPair, origin: &str) -> Value {
        let number = BEFORE + which;
        let root = whole(&self.entries);
        let hashes: Vec<String> = path(&self.entries, number).iter().map(base64).collect();
        json!({
            "logIndex": number.to_string(), "treeSize": self.entries.len().to_string(),
            "rootHash": base64(&root), "hashes": hashes,
            "checkpoint": {"envelope": self.checkpoint(log, origin)},
        })
    }

    /// What the log signs of the whole.
    pub fn checkpoint(&self, log: &KeyPair, origin: &str) -> String {
        let (size, root) = (self.entries.len(), base64(&whole(&self.entries)));
        let text = format!("{origin} - 4711\n{size}\n{root}\n");
        let id = Digest::of(&log.subject_public_key_info());
        let signature = [&id.bytes()[..4], &sign(log, text.as_bytes())].concat();
        format!("{text}\n\u{2014} {origin} {}\n", STANDARD.encode(signature))
    }
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
    let (mut below, beside) = match number < middle {
        true => (path(left, number), whole(right)),
        false => (path(right, number - middle), whole(left)),
    };
    below.push(beside);
    below
}
