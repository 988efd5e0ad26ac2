//! Manipulated and damaged bundles: the real program refuses each with one message and exit code 3, and uses
//! nothing of it.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::example::{example, write_plain};
use crate::snapshots::filters;
use kubexm_bundle::lock::Member;
use kubexm_bundle::{Blobs, Bundle, Level, Lock, PackOptions};
use kubexm_types::Digest;

const BLOCK: usize = 512;
const PLACES: &str = "kubexm.storage.json";

fn contents() -> [Vec<u8>; 3] {
    let noise = (0..90_000u64).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    [b"kubexm".to_vec(), vec![7; 70_000], noise.collect()]
}

fn lock() -> Lock {
    example(&contents()).0
}

fn pack(folder: &Path, lock: &Lock) -> PathBuf {
    let path = folder.join("b.tar.zst");
    let options = PackOptions::new(Level::FAST, 1);
    let (_, blobs) = example(&contents());
    write_plain(&path, lock, &blobs, options).unwrap();
    path
}

/// The parts of a bundle: its frames as stored, with the decompressed sizes of its seek table.
#[derive(Clone)]
struct Parts(Vec<(Vec<u8>, u32)>);

impl Parts {
    fn good(folder: &Path) -> Self {
        let bytes = std::fs::read(pack(folder, &lock())).unwrap();
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let count = number(bytes.len() - 9) as usize;
        let table = bytes.len() - 9 - 8 * count;
        let mut offset = 0;
        let frame = |at: usize| {
            let packed = number(table + 8 * at) as usize;
            offset += packed;
            let frame = bytes[offset - packed..offset].to_vec();
            (frame, number(table + 8 * at + 4))
        };
        Self((0..count).map(frame).collect())
    }

    fn plain(&self, at: usize) -> Vec<u8> {
        zstd::decode_all(&self.0[at].0[..]).unwrap()
    }

    /// Returns the parts with another content of a frame, and a seek table that matches it.
    fn with(&self, at: usize, plain: &[u8]) -> Self {
        let mut parts = self.clone();
        parts.0[at] = (zstd::encode_all(plain, 1).unwrap(), plain.len() as u32);
        parts
    }

    fn write(&self, path: &Path) {
        let table: Vec<(u32, u32)> = self.0.iter().map(|(f, p)| (f.len() as u32, *p)).collect();
        self.write_with(path, &table, table.len() as u32);
    }

    fn write_with(&self, path: &Path, table: &[(u32, u32)], count: u32) {
        let mut bytes: Vec<u8> = self.0.iter().flat_map(|(frame, _)| frame.clone()).collect();
        bytes.extend(0x184D_2A5Eu32.to_le_bytes());
        bytes.extend((table.len() as u32 * 8 + 9).to_le_bytes());
        for (packed, plain) in table {
            bytes.extend(packed.to_le_bytes());
            bytes.extend(plain.to_le_bytes());
        }
        bytes.extend(count.to_le_bytes());
        bytes.push(0);
        bytes.extend(0x8F92_EAB1u32.to_le_bytes());
        std::fs::write(path, bytes).unwrap();
    }
}

/// Returns a tar entry with any name and type.
fn entry(name: &[u8], kind: tar::EntryType, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

fn kubexm(arguments: &[&str], path: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
    let output = command.args(arguments).arg(path).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(!printed.contains("panicked"), "{printed}");
    (output.status.code(), printed)
}

/// Returns the one message with which the program refuses a bundle.
fn refused(path: &Path) -> String {
    let (code, printed) = kubexm(&["bundle", "verify"], path);
    assert_eq!(code, Some(3), "{printed}");
    let errors = printed.matches("error: ").count();
    assert_eq!(errors, 1, "{printed}");
    assert!(printed.contains(&path.display().to_string()), "{printed}");
    printed
}

#[test]
fn reassembled_bundle_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.tar.zst");
    Parts::good(folder.path()).write(&path);
    assert_eq!(kubexm(&["bundle", "verify"], &path).0, Some(0));
}

#[test]
fn entries_with_unsafe_paths_or_types_are_refused() {
    use tar::EntryType as T;
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts::good(folder.path());
    let path = folder.path().join("hostile.tar.zst");
    let digest = Digest::of(b"x");
    let blob = format!("blobs/sha256/{}", digest.hex());
    let mut all = BTreeSet::new();
    for (name, kind, link, content) in [
        ("../../etc/cron.d/evil", T::Regular, "", "x"),
        ("blobs/sha256/../../../evil", T::Regular, "", "x"),
        ("/etc/shadow", T::Regular, "", "x"),
        ("notes.txt", T::Regular, "", "x"),
        ("\u{1b}[2Jevil", T::Regular, "", "x"),
        (&blob, T::Symlink, "/etc/shadow", ""),
        (&blob, T::Link, "../../etc/shadow", ""),
        ("index.json", T::Symlink, "/etc/shadow", ""),
        (&blob, T::Char, "", ""),
        (&blob, T::Block, "", ""),
        (&blob, T::Fifo, "", ""),
        ("blobs/", T::Directory, "", ""),
        ("././@LongLink", T::GNULongName, "", "../../evil"),
        ("pax", T::XHeader, "", "20 path=../../evil12\n"),
        (&blob, T::Regular, "", "not what its name says"),
        ("index.json", T::Regular, "", "{}"),
        ("oci-layout", T::Regular, "", "{}"),
    ] {
        for first in [true, false] {
            let (head, evil) = (
                parts.plain(0),
                entry(name.as_bytes(), kind, link, content.as_bytes()),
            );
            let plain = if first {
                [evil, head].concat()
            } else {
                [head, evil].concat()
            };
            parts.with(0, &plain).write(&path);
            let printed = refused(&path);
            assert!(!printed.contains('\u{1b}'), "{printed}");
            all.insert(format!("=== {} {kind:?}\n{printed}", name.escape_default()));
        }
    }
    let _filters = filters();
    insta::assert_snapshot!(Vec::from_iter(all).concat(), @r"
    === ../../etc/cron.d/evil Regular
    error: [folder]/hostile.tar.zst: its header has an entry '../../etc/cron.d/evil' that the format does not allow
    hint: do not use this bundle
    === ././@LongLink GNULongName
    error: [folder]/hostile.tar.zst: its header has an entry '././@LongLink' that the format does not allow
    hint: do not use this bundle
    === /etc/shadow Regular
    error: [folder]/hostile.tar.zst: its header has an entry '/etc/shadow' that the format does not allow
    hint: do not use this bundle
    === \u{1b}[2Jevil Regular
    error: [folder]/hostile.tar.zst: its header has an entry '\u{1b}[2Jevil' that the format does not allow
    hint: do not use this bundle
    === blobs/ Directory
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/' that the format does not allow
    hint: do not use this bundle
    === blobs/sha256/../../../evil Regular
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/sha256/../../../evil' that the format does not allow
    hint: do not use this bundle
    === blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 Block
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' that the format does not allow
    hint: do not use this bundle
    === blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 Char
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' that the format does not allow
    hint: do not use this bundle
    === blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 Fifo
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' that the format does not allow
    hint: do not use this bundle
    === blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 Link
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' that the format does not allow
    hint: do not use this bundle
    === blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 Regular
    error: [folder]/hostile.tar.zst: its header's entry 'blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' does not have the digest in its name
    hint: copy the bundle again
    === blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 Symlink
    error: [folder]/hostile.tar.zst: its header has an entry 'blobs/sha256/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' that the format does not allow
    hint: do not use this bundle
    === index.json Regular
    error: [folder]/hostile.tar.zst: its header has the entry 'index.json' twice
    hint: do not use this bundle
    === index.json Symlink
    error: [folder]/hostile.tar.zst: its header has an entry 'index.json' that the format does not allow
    hint: do not use this bundle
    === notes.txt Regular
    error: [folder]/hostile.tar.zst: its header has an entry 'notes.txt' that the format does not allow
    hint: do not use this bundle
    === oci-layout Regular
    error: [folder]/hostile.tar.zst: its header has the entry 'oci-layout' twice
    hint: do not use this bundle
    === pax XHeader
    error: [folder]/hostile.tar.zst: its header has an entry 'pax' that the format does not allow
    hint: do not use this bundle
    ");
}

#[test]
fn blob_with_another_name_or_content_is_refused() {
    use tar::EntryType as T;
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts::good(folder.path());
    let path = folder.path().join("hostile.tar.zst");
    let mut all = String::new();
    for at in 1..parts.0.len() - 1 {
        let plain = parts.plain(at);
        let mut other = plain.clone();
        other[BLOCK] ^= 1;
        let mut named = plain.clone();
        let body = plain.len() - BLOCK;
        let evil = entry(b"../../evil", T::Regular, "", &plain[BLOCK..BLOCK + body]);
        named[..BLOCK].copy_from_slice(&evil[..BLOCK]);
        let mut linked = plain.clone();
        let evil = entry(b"blobs/sha256/x", T::Symlink, "/etc/shadow", b"");
        linked[..BLOCK].copy_from_slice(&evil[..BLOCK]);
        for plain in [other, named, linked] {
            parts.with(at, &plain).write(&path);
            all += &refused(&path);
        }
    }
    let end = parts.0.len() - 1;
    parts.with(end, &[1; 2 * BLOCK]).write(&path);
    all += &refused(&path);
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0001 (sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e): damaged: expected sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e, got sha256:e6bef4a0d3fe44225168a555e154e04dc5d2a51652ae0c2254a3a718f2e2f720
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0001 (sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e): damaged: its place contains another tar entry
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0001 (sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e): damaged: its place contains another tar entry
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0002 (sha256:911c98e5c2401c8f2eefcbe81643fb0682396a7866e590d5e964c81ff6429c2d): damaged: expected sha256:911c98e5c2401c8f2eefcbe81643fb0682396a7866e590d5e964c81ff6429c2d, got sha256:294f1e7064b86d0c57c74783613b8a7470af7290f792be200aa98d56f3f25164
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0002 (sha256:911c98e5c2401c8f2eefcbe81643fb0682396a7866e590d5e964c81ff6429c2d): damaged: its place contains another tar entry
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0002 (sha256:911c98e5c2401c8f2eefcbe81643fb0682396a7866e590d5e964c81ff6429c2d): damaged: its place contains another tar entry
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0000 (sha256:9f84ba3e7c38c1d03251865ca9e1d1e57df20c3ecc657911d8a8d4e513dd4735): damaged: expected sha256:9f84ba3e7c38c1d03251865ca9e1d1e57df20c3ecc657911d8a8d4e513dd4735, got sha256:c3fb37ddf682844c7c0e226938c4d51f73efe754bc6a094a230035493818625c
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0000 (sha256:9f84ba3e7c38c1d03251865ca9e1d1e57df20c3ecc657911d8a8d4e513dd4735): damaged: its place contains another tar entry
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      part0000 (sha256:9f84ba3e7c38c1d03251865ca9e1d1e57df20c3ecc657911d8a8d4e513dd4735): damaged: its place contains another tar entry
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 1 of 4 parts are damaged:
      the end of the tar
    hint: copy the bundle again
    ");
}

/// A change of the pairs of compressed and decompressed sizes in a seek table.
type Lie<'a> = &'a dyn Fn(&mut Vec<(u32, u32)>);

#[test]
fn false_seek_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts::good(folder.path());
    let path = folder.path().join("hostile.tar.zst");
    let good: Vec<(u32, u32)> = parts.0.iter().map(|(f, p)| (f.len() as u32, *p)).collect();
    let lies: [Lie; 8] = [
        &|table| table[0].1 += 1,
        &|table| table[0].1 = u32::MAX,
        &|table| table[1].1 += 512,
        &|table| (table[1].0, table[2].0) = (table[1].0 + 3, table[2].0 - 3),
        &|table| (table[0].0, table[1].0) = (table[0].0 - 1, table[1].0 + 1),
        &|table| table[2].0 = u32::MAX,
        &|table| table.swap(1, 2),
        &|table| table.truncate(1),
    ];
    let mut all = String::new();
    for lie in lies {
        let mut table = good.clone();
        lie(&mut table);
        parts.write_with(&path, &table, table.len() as u32);
        all += &refused(&path);
    }
    for count in [0, 1, u32::MAX, good.len() as u32 + 1] {
        parts.write_with(&path, &good, count);
        all += &refused(&path);
    }
    // The file does not contain a blob that the lock names.
    let mut fewer = parts.clone();
    fewer.0.remove(2);
    fewer.write(&path);
    all += &refused(&path);
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    error: [folder]/hostile.tar.zst: its header does not have the size in its seek table
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its header is larger than 64 MiB
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    verify [folder]/hostile.tar.zst: stopped, [size] in [time]
    error: [folder]/hostile.tar.zst: 2 of 4 parts are damaged:
      part0001 (sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e): incomplete frame
      part0002 (sha256:911c98e5c2401c8f2eefcbe81643fb0682396a7866e590d5e964c81ff6429c2d): Unknown frame descriptor
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its header cannot be decompressed
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match the size of the file
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match the size of the file
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match the size of the file
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match the size of the file
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: is truncated or is not a kubexm bundle
    hint: copy the bundle again, and compare its size
    error: [folder]/hostile.tar.zst: its seek table does not match the size of the file
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    ");
}

/// Returns a frame of some KiB that decompresses to 4 GiB of zeros
/// (<https://github.com/facebook/zstd/blob/dev/doc/zstd_compression_format.md>, RLE blocks).
fn bomb(start: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    let raw = (start.len() as u32) << 3;
    frame.extend(&raw.to_le_bytes()[..3]);
    frame.extend(start);
    for block in 0..32_768u32 {
        let header = (131_072 << 3) | (1 << 1) | u32::from(block == 32_767);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn frame_is_not_decompressed_beyond_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts::good(folder.path());
    let path = folder.path().join("bomb.tar.zst");
    for at in [0, 1, parts.0.len() - 1] {
        let mut bombed = parts.clone();
        bombed.0[at].0 = bomb(&parts.plain(at));
        bombed.write(&path);
        // Less address space than the content requires, and 60 seconds of processor time.
        let limited = format!(
            "ulimit -v 2000000; ulimit -t 60; exec '{}' bundle verify '{}'",
            env!("CARGO_BIN_EXE_kubexm"),
            path.display()
        );
        let output = Command::new("bash")
            .args(["-c", &limited])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "frame {at}: {printed}");
    }
}

#[test]
fn lock_with_unsafe_texts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lies: [&dyn Fn(&mut Lock); 7] = [
        &|lock| lock.name = "\u{1b}]0;evil\u{7}".into(),
        &|lock| lock.files[0].file_name = "../../etc/cron.d/evil".into(),
        &|lock| lock.files[0].file_name = "/etc/shadow".into(),
        &|lock| lock.files[0].component = "a\nimage  1 GiB trusted".into(),
        &|lock| lock.files[0].file_name = "x".repeat(5000),
        &|lock| {
            lock.files[0].members = vec![Member {
                path: "bin/../../../etc/passwd".into(),
                size: 1,
                digest: Digest::of(b"x"),
                linking: None,
            }];
        },
        &|lock| {
            let mut twice = lock.files[0].clone();
            twice.size += 1;
            lock.files.push(twice);
        },
    ];
    let mut all = String::new();
    for lie in lies {
        let mut lock = lock();
        lie(&mut lock);
        let path = pack(folder.path(), &lock);
        let printed = refused(&path);
        assert!(
            !printed.contains('\u{1b}') && printed.len() < 1000,
            "{printed}"
        );
        all += &printed;
    }
    let _filters = filters();
    insta::assert_snapshot!(all, @r"
    error: [folder]/b.tar.zst: its lock has an invalid name '\u{1b}]0;evil\u{7}'
    hint: do not use this bundle
    error: [folder]/b.tar.zst: its lock has an invalid file name '../../etc/cron.d/evil'
    hint: do not use this bundle
    error: [folder]/b.tar.zst: its lock has an invalid file name '/etc/shadow'
    hint: do not use this bundle
    error: [folder]/b.tar.zst: its lock has an invalid component 'a\nimage  1 GiB trusted'
    hint: do not use this bundle
    error: [folder]/b.tar.zst: its lock has an invalid file name 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    hint: do not use this bundle
    error: [folder]/b.tar.zst: its lock has an invalid path 'bin/../../../etc/passwd'
    hint: do not use this bundle
    error: [folder]/b.tar.zst: its lock has two sizes for sha256:9f84ba3e7c38c1d03251865ca9e1d1e57df20c3ecc657911d8a8d4e513dd4735
    hint: do not use this bundle
    ");
}

#[test]
fn index_that_differs_from_the_lock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts::good(folder.path());
    let path = folder.path().join("hostile.tar.zst");
    let lie = |index: &mut serde_json::Value| {
        let manifests = index["manifests"].as_array_mut().unwrap();
        manifests.push(serde_json::json!({
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "digest": Digest::of(b"evil"), "size": u64::MAX,
        }));
    };
    with_text(&parts, "index.json", &lie).write(&path);
    let _filters = filters();
    insta::assert_snapshot!(refused(&path), @"
    error: [folder]/hostile.tar.zst: its index names sha256:b5c1fb2efc6d6b4674c2fdcc48ce01b43a3b7c03763c0c3355de0099ee0f8c73 with 18446744073709551615 bytes, and its lock does not
    hint: do not use this bundle
    ");
}

/// Returns the parts with a change in one document of the header.
fn with_text(parts: &Parts, name: &str, change: &dyn Fn(&mut serde_json::Value)) -> Parts {
    let head = parts.plain(0);
    let mut archive = tar::Archive::new(&head[..]);
    let mut plain = Vec::new();
    for file in archive.entries().unwrap() {
        let Ok(mut file) = file else { break };
        let path = file.path().unwrap().display().to_string();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        if path == name {
            let mut value = serde_json::from_slice(&content).unwrap();
            change(&mut value);
            content = value.to_string().into_bytes();
        }
        let kind = tar::EntryType::Regular;
        plain.extend(entry(path.as_bytes(), kind, "", &content));
    }
    parts.with(0, &plain)
}

#[test]
fn false_placement_is_refused() {
    use serde_json::json;
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts::good(folder.path());
    let path = folder.path().join("hostile.tar.zst");
    let opened = |size: u64, encoder: &str| {
        json!({"content": Digest::of(b"x"), "size": size, "header": "1f8b0800000000000000",
               "encoder": encoder})
    };
    type Change<'a> = &'a dyn Fn(&mut serde_json::Value);
    let lies: [Change; 18] = [
        &|places| places["storageVersion"] = json!(4),
        &|places| {
            places["storageVersion"] = json!(2);
            places["groups"][0]["entries"][0]["filtered"] = json!(true);
        },
        &|places| places["groups"] = json!([]),
        &|places| drop(places["groups"].as_array_mut().unwrap().pop()),
        &|places| places["groups"][0] = places["groups"][1].clone(),
        &|places| places["groups"][0]["entries"][0]["blob"] = json!(Digest::of(b"evil")),
        &|places| places["groups"][0]["entries"] = json!([]),
        &|places| places["groups"][0]["pieces"] = json!(0),
        &|places| places["groups"][0]["pieces"] = json!(1_000_000),
        &|places| places["groups"][0]["pieces"] = json!(-1),
        &|places| places["groups"][0]["entries"][0]["opened"] = opened(u64::MAX, "go:6"),
        &|places| places["groups"][0]["entries"][0]["opened"] = opened(9, "go:17"),
        &|places| places["groups"].as_array_mut().unwrap().swap(0, 1),
        &|places| places["groups"][0]["pieces"] = json!(7),
        &|places| places["base"] = json!({"name": "x", "digest": Digest::of(b"x"), "blobs": []}),
        &|places| {
            let blobs = [Digest::of(b"x")];
            let name = "x\u{1b}[2J";
            places["base"] = json!({"name": name, "digest": Digest::of(b"x"), "blobs": blobs});
        },
        &|places| {
            let blob = places["groups"][0]["entries"][0]["blob"].clone();
            places["base"] = json!({"name": "x", "digest": Digest::of(b"x"), "blobs": [blob]});
        },
        &|places| {
            let group = places["groups"].as_array_mut().unwrap().pop().unwrap();
            let blob = group["entries"][0]["blob"].clone();
            places["base"] = json!({"name": "x", "digest": Digest::of(b"x"), "blobs": [blob]});
        },
    ];
    let mut all = String::new();
    for lie in lies {
        with_text(&parts, PLACES, lie).write(&path);
        all += &refused(&path);
    }
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    error: [folder]/hostile.tar.zst: its placement document has version 4, but this kubexm reads 1 to 3
    hint: use a newer kubexm
    error: [folder]/hostile.tar.zst: an earlier kubexm stored its programs in another form
    hint: use the kubexm that built the bundle, or build the bundle again
    error: [folder]/hostile.tar.zst: its placement document does not match its lock: sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e has no entry
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its placement document does not match its lock: sha256:9f84ba3e7c38c1d03251865ca9e1d1e57df20c3ecc657911d8a8d4e513dd4735 has no entry
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its placement document does not match its lock: sha256:911c98e5c2401c8f2eefcbe81643fb0682396a7866e590d5e964c81ff6429c2d is in it twice, or is not in the lock
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document does not match its lock: sha256:b5c1fb2efc6d6b4674c2fdcc48ce01b43a3b7c03763c0c3355de0099ee0f8c73 is in it twice, or is not in the lock
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document has an invalid group
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document has an invalid group
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document has an invalid group
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document cannot be parsed: invalid value: integer `-1`, expected u32 at line 1 column 137
    error: [folder]/hostile.tar.zst: its placement document has an invalid size for the content of sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    error: [folder]/hostile.tar.zst: its placement document has an empty `base.blobs`
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document has an invalid `base.name`
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its placement document does not match its lock: sha256:4f772cad45a568461aeb93ed8e3451422e5ba92d94c01a3355cb02e75c4b387e must not be in `base.blobs`
    hint: do not use this bundle
    error: [folder]/hostile.tar.zst: its seek table does not match its placement document
    hint: copy the bundle again
    ");
    with_text(&parts, PLACES, &|_| {}).write(&path);
    assert_eq!(kubexm(&["bundle", "verify"], &path).0, Some(0), "none");
    // Placements of earlier versions are read, as long as no blob is filtered.
    for version in [1, 2] {
        let earlier: Change = &|places| places["storageVersion"] = json!(version);
        with_text(&parts, PLACES, earlier).write(&path);
        assert_eq!(kubexm(&["bundle", "verify"], &path).0, Some(0), "{version}");
    }
}

#[test]
fn truncated_bundle_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(pack(folder.path(), &lock())).unwrap();
    let path = folder.path().join("cut.tar.zst");
    let cuts = (0..whole.len()).step_by(whole.len() / 50 + 1);
    let mut all = BTreeSet::new();
    for length in cuts.chain([whole.len() - 1]) {
        std::fs::write(&path, &whole[..length]).unwrap();
        all.insert(refused(&path));
    }
    let _filters = filters();
    insta::assert_snapshot!(Vec::from_iter(all).concat(), @"
    error: [folder]/cut.tar.zst: is empty
    hint: copy the bundle again
    error: [folder]/cut.tar.zst: is truncated or is not a kubexm bundle
    hint: copy the bundle again, and compare its size
    ");
}

#[test]
fn flipped_bits_are_detected_or_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(pack(folder.path(), &lock())).unwrap();
    let path = folder.path().join("flipped.tar.zst");
    // Knuth's generator with a fixed seed: the same positions in every run.
    let mut state = 42u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut unseen = 0;
    for _ in 0..200 {
        let (at, bit) = (next() % whole.len(), next() % 8);
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        std::fs::write(&path, &bytes).unwrap();
        let (code, printed) = kubexm(&["bundle", "verify"], &path);
        if code == Some(0) {
            // The decoder ignores some header bits of zstd; in this case every byte must be the same.
            unseen += 1;
            let bundle = Bundle::open(&path).unwrap();
            for content in contents() {
                let mut read = Vec::new();
                let mut blob = bundle.open(&Digest::of(&content)).unwrap();
                blob.read_to_end(&mut read).unwrap();
                assert_eq!(read, content, "bit {bit} of byte {at}");
            }
        } else {
            assert_eq!(code, Some(3), "bit {bit} of byte {at}: {printed}");
        }
    }
    assert!(unseen <= 2, "{unseen} of 200 flips went unseen");
}

#[test]
fn file_that_is_not_a_bundle_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &[0; 4096]).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut all = String::new();
    for path in [
        file("archive.tar.gz", &gzip.finish().unwrap().repeat(9)),
        file("notes.txt", &b"remember the milk\n".repeat(9)),
        file("short.txt", b"milk\n"),
        file("empty", b""),
        folder.path().to_owned(),
        pipe,
        "/dev/null".into(),
        folder.path().join("nowhere.tar.zst"),
    ] {
        let printed = refused(&path);
        for command in ["inspect", "list"] {
            let (code, other) = kubexm(&["bundle", command], &path);
            assert_eq!((code, &other), (Some(3), &printed));
        }
        all += &printed;
    }
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    error: [folder]/archive.tar.gz: is not a kubexm bundle: it is not compressed with zstd
    hint: give a file that `kubexm bundle build` wrote
    error: [folder]/notes.txt: is not a kubexm bundle: it is not compressed with zstd
    hint: give a file that `kubexm bundle build` wrote
    error: [folder]/short.txt: is truncated or is not a kubexm bundle
    hint: copy the bundle again, and compare its size
    error: [folder]/empty: is empty
    hint: copy the bundle again
    error: [folder]: this directory does not contain a bundle (a file that ends with .tar.zst, or its volumes)
    hint: give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst
    error: [folder]/pipe: is not a regular file
    hint: give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst
    error: /dev/null: is not a regular file
    hint: give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst
    error: [folder]/nowhere.tar.zst: the bundle does not exist
    hint: give the path of a bundle that `kubexm bundle build` wrote
    ");
}
