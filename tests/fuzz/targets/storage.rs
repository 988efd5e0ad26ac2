//! The placement document, against a lock of three blobs.
#![no_main]
use std::sync::LazyLock;

use kubexm_bundle::{Lock, Placement};
use libfuzzer_sys::fuzz_target;

static LOCK: LazyLock<Lock> =
    LazyLock::new(|| Lock::from_yaml(include_str!("../three.lock.yaml")).expect("a lock"));

fuzz_target!(|text: &[u8]| {
    if let Ok(storage) = Placement::read(text, &LOCK) {
        let blobs: usize = storage.groups.iter().map(|group| group.entries.len()).sum();
        assert_eq!(blobs + storage.absent().count(), 3);
    }
});
