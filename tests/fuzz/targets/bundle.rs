//! A whole bundle whose frames hold whatever they like, under a table that fits or does not: opened,
//! verified, every blob read.
#![no_main]
use std::io::Write;

use kubexm_bundle::{Blobs, Bundle};
use kubexm_types::event::Events;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct File<'a> {
    frames: Vec<&'a [u8]>,
    /// Which size of the table lies, and by how much.
    lie: Option<(u8, bool, u32)>,
    /// Which byte of the file is changed, and how.
    flip: Option<(u16, u8)>,
}

fuzz_target!(|file: File| {
    let mut bytes = Vec::new();
    let mut table = Vec::new();
    for frame in &file.frames {
        let packed = zstd::encode_all(*frame, 1).expect("memory");
        table.push([packed.len() as u32, frame.len() as u32]);
        bytes.extend(packed);
    }
    if let Some((at, plain, by)) = file.lie
        && let Some(sizes) = table.get_mut(usize::from(at))
    {
        sizes[usize::from(plain)] = sizes[usize::from(plain)].wrapping_add(by);
    }
    bytes.extend(0x184D_2A5Eu32.to_le_bytes());
    bytes.extend((table.len() as u32 * 8 + 9).to_le_bytes());
    bytes.extend(table.iter().flatten().flat_map(|size| size.to_le_bytes()));
    bytes.extend((table.len() as u32).to_le_bytes());
    bytes.push(0);
    bytes.extend(0x8F92_EAB1u32.to_le_bytes());
    if let Some((at, bits)) = file.flip
        && let Some(byte) = bytes.get_mut(usize::from(at))
    {
        *byte ^= bits;
    }
    let mut path = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    path.write_all(&bytes).expect("written");
    let Ok(bundle) = Bundle::open(path.path()) else { return };
    let verified = bundle.verify(1, &Events::silent()).is_ok();
    for digest in bundle.lock().blobs().keys() {
        let read = bundle.open(digest).map(|mut blob| std::io::copy(&mut blob, &mut std::io::sink()));
        let opened = bundle.opened(digest).is_some();
        assert!(!verified || opened || matches!(read, Ok(Ok(_))), "verified and not readable");
    }
});
