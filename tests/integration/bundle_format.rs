//! The bundle format: packed blobs are unchanged, the same lock gives the same bytes, and damage is detected.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::example::{example, write_plain};
use kubexm_bundle::lock::LockedFile;
use kubexm_bundle::{Blobs, Bundle, BundleError, Level, PackOptions};
use kubexm_types::Digest;
use kubexm_types::event::Events;

fn pack(folder: &Path, contents: &[Vec<u8>], threads: u32) -> PathBuf {
    let (lock, blobs) = example(contents);
    let path = folder.join(format!("b{threads}.tar.zst"));
    write_plain(&path, &lock, &blobs, PackOptions::new(Level::FAST, threads)).unwrap();
    path
}

fn some_contents() -> Vec<Vec<u8>> {
    let noise: Vec<u8> = (0..300_000u64)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    vec![
        Vec::new(),
        b"kubexm".to_vec(),
        vec![7; 100_000],
        noise,
        vec![1; 512],
    ]
}

/// Returns all blobs that a reader gets, or the first error.
fn read_all(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let bundle = Bundle::open(path).map_err(|error| error.to_string())?;
    bundle
        .verify(2, &Events::silent())
        .map_err(|error| error.to_string())?;
    let read = |file: &LockedFile| {
        let mut content = Vec::new();
        bundle
            .open(&file.digest)
            .unwrap()
            .read_to_end(&mut content)
            .unwrap();
        content
    };
    Ok(bundle.lock().files.iter().map(read).collect())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    #[test]
    fn packed_blobs_are_unchanged(contents in proptest::collection::vec(
        proptest::collection::vec(proptest::prelude::any::<u8>(), 0..3000), 0..12)) {
        let folder = tempfile::tempdir().unwrap();
        let path = pack(folder.path(), &contents, 2);
        proptest::prop_assert_eq!(read_all(&path).unwrap(), contents);
    }
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let one = std::fs::read(pack(folder.path(), &some_contents(), 1)).unwrap();
    let four = std::fs::read(pack(folder.path(), &some_contents(), 4)).unwrap();
    assert_eq!(Digest::of(&one), Digest::of(&four));
}

#[test]
fn bundle_truncated_at_any_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(pack(folder.path(), &some_contents(), 1)).unwrap();
    let cut = folder.path().join("cut");
    let mut all = std::collections::BTreeSet::new();
    for length in (0..whole.len())
        .step_by(whole.len() / 60 + 1)
        .chain([whole.len() - 1])
    {
        std::fs::write(&cut, &whole[..length]).unwrap();
        all.insert(format!("{}\n", Bundle::open(&cut).unwrap_err()));
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(Vec::from_iter(all).concat(), @"
    [folder]/cut: is empty
    hint: copy the bundle again
    [folder]/cut: is truncated or is not a kubexm bundle
    hint: copy the bundle again, and compare its size
    ");
}

#[test]
fn every_flipped_bit_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let contents = some_contents();
    let whole = std::fs::read(pack(folder.path(), &contents, 1)).unwrap();
    let flipped = folder.path().join("flipped");
    for at in (0..whole.len()).step_by(whole.len() / 150 + 1) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&flipped, &bytes).unwrap();
        // A bit that the decoder ignores (a reserved one) must not change anything.
        if let Ok(read) = read_all(&flipped) {
            assert_eq!(read, contents, "the change of byte {at} is not detected");
        }
    }
}

#[test]
fn other_file_formats_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign");
    let tar_zst = zstd::encode_all(&vec![0u8; 4096][..], 1).unwrap();
    let mut all = String::new();
    for content in [
        vec![0u8; 10_000],
        b"PK\x03\x04 something else".repeat(20),
        tar_zst.repeat(9),
    ] {
        std::fs::write(&path, content).unwrap();
        all += &format!("{}\n", Bundle::open(&path).unwrap_err());
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    [folder]/foreign: is not a kubexm bundle: it is not compressed with zstd
    hint: give a file that `kubexm bundle build` wrote
    [folder]/foreign: is not a kubexm bundle: it is not compressed with zstd
    hint: give a file that `kubexm bundle build` wrote
    [folder]/foreign: is truncated or is not a kubexm bundle
    hint: copy the bundle again, and compare its size
    ");
}

#[test]
fn wrong_bytes_from_the_cache_leave_no_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, mut blobs) = example(&some_contents());
    if let Some(content) = blobs.0.values_mut().find(|content| content.len() == 6) {
        *content = b"KUBEXM".to_vec();
    }
    let path = folder.path().join("never.tar.zst");
    let options = PackOptions::new(Level::FAST, 1);
    let error = write_plain(&path, &lock, &blobs, options).unwrap_err();
    assert!(matches!(error, BundleError::Source { .. }), "{error}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

#[test]
fn zstd_and_tar_list_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = pack(folder.path(), &some_contents(), 2);
    let plain = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let mut archive = tar::Archive::new(&plain[..]);
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names[..2], ["oci-layout", "index.json"]);
    assert_eq!(names.len(), 6 + some_contents().len());
}
