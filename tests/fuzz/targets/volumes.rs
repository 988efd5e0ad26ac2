//! A list of volumes, with two volumes beside it.
#![no_main]
use kubexm_bundle::format::volumes::{VolumeSet, list_path, volume_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&[u8], &[u8], &[u8])| {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let name = folder.path().join("b");
    std::fs::write(list_path(&name), data.0).expect("written");
    std::fs::write(volume_path(&name, 1), data.1).expect("written");
    std::fs::write(volume_path(&name, 2), data.2).expect("written");
    if let Ok(medium) = VolumeSet::find(&name, &[]) {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut medium.reader(0), &mut bytes).expect("read");
        assert_eq!(bytes.len() as u64, medium.size());
        let _ = medium.damaged_volumes();
    }
});
