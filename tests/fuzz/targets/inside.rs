//! What is inside the files of a bundle, looked at for the list of what it is made of: programs,
//! archives, and whatever claims to be one.
#![no_main]
use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use kubexm_bundle::{Blobs, Bundle, BundleError, Lock, Level, PackOptions, Placement, write};
use kubexm_types::event::Events;
use kubexm_sbom::{Inventory, Stamp, cyclonedx, spdx};
use kubexm_types::Digest;
use libfuzzer_sys::fuzz_target;

struct InMemory(BTreeMap<Digest, Vec<u8>>);

impl Blobs for InMemory {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let blob = self.0.get(digest).cloned();
        let blob = blob.ok_or_else(|| BundleError::Missing(digest.to_string().into()))?;
        Ok(Box::new(Cursor::new(blob)))
    }
}

fuzz_target!(|data: (&[u8], &[u8])| {
    let mut lock = Lock::from_yaml(include_str!("../three.lock.yaml")).expect("a lock");
    lock.files.truncate(2);
    let mut blobs = InMemory(BTreeMap::new());
    for (file, content) in lock.files.iter_mut().zip([data.0, data.1]) {
        file.digest = Digest::of(content);
        file.size = content.len() as u64;
        blobs.0.insert(file.digest, content.to_vec());
    }
    lock.files[1].format = kubexm_bundle::lock::FileFormat::TarGz;
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = folder.path().join("b.tar.zst");
    let (storage, options) = (Placement::plain(&lock), PackOptions::new(Level::MIN, 1));
    write(&path, &lock, &storage, &blobs, options, &Events::silent()).expect("packed");
    let bundle = Bundle::open(&path).expect("what was packed");
    if let Ok(inventory) = Inventory::scan(&bundle, 1) {
        let stamp = Stamp::parse(None).expect("no time");
        let _ = spdx::document(&inventory, stamp);
        let _ = cyclonedx::document(&inventory, stamp);
    }
});
