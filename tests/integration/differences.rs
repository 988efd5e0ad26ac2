//! Incremental bundles.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kubexm_bundle::format::placement::Base;
use kubexm_bundle::{
    Bundle, BundleError, BundleSet, Inventory, Level, PackOptions, Placement, write,
};
use kubexm_types::Digest;
use kubexm_types::event::Events;

use crate::example::{InMemory, assert_holds, example, kubexm, text, write_plain};

fn base_of(contents: &[Vec<u8>]) -> Base {
    Base {
        name: "what was there".into(),
        digest: Digest::of(b"its lock"),
        blobs: contents.iter().map(|content| Digest::of(content)).collect(),
    }
}

/// Writes a bundle of the contents without the blobs of the base.
fn write_incremental(path: &Path, contents: &[Vec<u8>], base: &[Vec<u8>]) -> InMemory {
    let (lock, blobs) = example(contents);
    let storage = Placement::plain(&lock).without(base_of(base));
    let options = PackOptions::new(Level::FAST, 1);
    write(path, &lock, &storage, &blobs, options, &Events::silent()).unwrap();
    blobs
}

fn write_whole(path: &Path, contents: &[Vec<u8>]) {
    let (lock, blobs) = example(contents);
    write_plain(path, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
}

fn open_set(paths: &[&PathBuf]) -> Result<BundleSet, BundleError> {
    let (last, bases) = paths.split_last().unwrap();
    let bases = bases.iter().map(|path| Bundle::open(path));
    BundleSet::new(Bundle::open(last)?, bases.collect::<Result<_, _>>()?)
}

fn contents(seeds: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    seeds.map(|seed| text(seed, 20_000)).collect()
}

#[test]
fn chained_incremental_bundles_have_the_content_of_the_whole_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (old, next, last) = (at("old"), at("next"), at("last"));
    write_whole(&old, &contents(0..6));
    write_incremental(&next, &contents(2..8), &contents(2..6));
    let blobs = write_incremental(&last, &contents(3..10), &contents(3..8));
    let sizes: Vec<u64> = [&old, &next, &last]
        .map(|path| std::fs::metadata(path).unwrap().len())
        .into();
    assert!(
        sizes[1] < sizes[0] / 2 && sizes[2] < sizes[0] / 2,
        "{sizes:?}"
    );
    let all = open_set(&[&old, &next, &last]).unwrap();
    all.verify(2, &Events::silent()).unwrap();
    assert_holds(&all, &blobs);
    // The order of the bases does not matter.
    assert_holds(&open_set(&[&next, &old, &last]).unwrap(), &blobs);
}

#[test]
fn blobs_missing_without_a_base_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (old, last) = (at("old"), at("last"));
    write_whole(&old, &contents(0..3));
    write_incremental(&last, &contents(0..6), &contents(0..4));
    let error = open_set(&[&last]).unwrap_err().to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(error, @"
    [folder]/last: this is an incremental bundle; 4 blobs of its base what was there are missing (part0000, part0003, part0002, part0001)
    hint: give the base bundle before it: --bundle BASE --bundle [folder]/last
    ");
    let error = open_set(&[&old, &last]).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"
    [folder]/last: this is an incremental bundle; 1 blobs of its base what was there are missing (part0003)
    hint: give the base bundle before it: --bundle BASE --bundle [folder]/last
    ");
    let (old, last) = (old.display().to_string(), last.display().to_string());
    let cluster = folder.path().join("cluster.yaml");
    std::fs::write(&cluster, kubexm(&["config", "init"]).1).unwrap();
    let cluster = cluster.display().to_string();
    let (code, printed) = kubexm(&["plan", "--bundle", &old, "--bundle", &last, "-f", &cluster]);
    assert_eq!(code, Some(3), "{printed}");
    insta::assert_snapshot!(printed, @"
    error: [folder]/last: this is an incremental bundle; 1 blobs of its base what was there are missing (part0003)
    hint: give the base bundle before it: --bundle BASE --bundle [folder]/last
    ");
}

#[test]
fn damaged_base_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (old, last) = (at("old"), at("last"));
    write_whole(&old, &contents(0..4));
    write_incremental(&last, &contents(2..6), &contents(2..4));
    let mut bytes = std::fs::read(&old).unwrap();
    let middle = bytes.len() * 4 / 5;
    bytes[middle] ^= 1;
    std::fs::write(&old, bytes).unwrap();
    let (_, needed) = example(&contents(2..4));
    let damaged = Bundle::open(&old).unwrap().verify_blobs(
        Some(&needed.0.keys().copied().collect()),
        1,
        &Events::silent(),
    );
    let seen = open_set(&[&old, &last])
        .unwrap()
        .verify(1, &Events::silent());
    assert_eq!(
        seen.is_err(),
        damaged.is_err(),
        "just what is needed is read"
    );
    let whole_damaged = Bundle::open(&old).unwrap().verify(1, &Events::silent());
    assert!(whole_damaged.is_err());
}

#[test]
fn merge_reproduces_the_whole_bundle_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (old, last, made, wanted) = (at("old"), at("last"), at("made.tar.zst"), at("wanted"));
    write_whole(old.as_ref(), &contents(0..5));
    let blobs = write_incremental(last.as_ref(), &contents(2..8), &contents(2..5));
    let (code, printed) = kubexm(&["bundle", "apply", &old, &last, "-o", &made]);
    assert_eq!(code, Some(0), "{printed}");
    let bundle = Bundle::open(made.as_ref()).unwrap();
    assert!(bundle.base().is_none());
    assert_holds(&bundle, &blobs);
    // A second merge gives the same bytes.
    assert_eq!(
        kubexm(&["bundle", "apply", &old, &last, "-o", &wanted]).0,
        Some(0)
    );
    assert!(std::fs::read(&made).unwrap() == std::fs::read(&wanted).unwrap());
    let (code, printed) = kubexm(&["bundle", "apply", &last, "-o", &made]);
    assert_eq!(code, Some(2), "{printed}");
}

#[test]
fn inventory_lists_the_blobs_of_a_site() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (old, last, out) = (at("old"), at("last"), at("site.yaml"));
    write_whole(old.as_ref(), &contents(0..5));
    write_incremental(last.as_ref(), &contents(2..8), &contents(2..5));
    let (code, printed) = kubexm(&["inventory", &old, &last, "--site", "the ship", "-o", &out]);
    assert_eq!(code, Some(0), "{printed}");
    let text = std::fs::read_to_string(&out).unwrap();
    let inventory = Inventory::from_yaml(&text).unwrap();
    let (_, all) = example(&contents(0..8));
    assert_eq!(
        inventory.blobs,
        all.0.keys().copied().collect::<BTreeSet<_>>()
    );
    assert_eq!(inventory.site, "the ship");
    assert!(
        Inventory::from_yaml("inventoryVersion: 2\nsite: x\nbundles: []\nblobs: []\n").is_err()
    );
    assert!(Inventory::from_yaml("inventoryVersion: 1\nblobs: [sha256:00]\n").is_err());
    let commanding = "inventoryVersion: 1\nsite: \"\\x1b[2J\"\nbundles: []\nblobs: []\n";
    assert!(Inventory::from_yaml(commanding).is_err());
}
