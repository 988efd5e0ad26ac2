//! `src/bundle/FORMAT.md`: files of every version stay readable (`tests/golden/format`). A reader that is
//! written from the text alone (`tests/format/reader.py`) agrees with the program.

mod sample;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_bundle::lock::trust::TrustBasis;
use kubexm_bundle::read::verify::Recompressed;
use kubexm_bundle::write::rewrite;
use kubexm_bundle::{Access, Blobs, Bundle, EncoderCache, Inventory, Lock};
use kubexm_bundle::{BundleSet, DecompressedGzip, Placement, analyze_gzip, arrange};
use kubexm_types::Digest;
use kubexm_types::event::Events;

use crate::example::{all, assert_holds, kubexm};
use sample::{Layers, Sample};

/// The golden bundles that have all of their content, with the version of their format.
const COMPLETE: [(&str, u32); 6] = [
    ("bundle-v1.tar.zst", 1),
    ("bundle-v2.tar.zst", 2),
    ("bundle-v3.tar.zst", 3),
    ("bundle-v3-kept.tar.zst", 3),
    ("bundle-v3-proven.tar.zst", 3),
    ("bundle-v3-sequence.tar.zst", 3),
];
/// The golden bundles without the blobs of [`Sample::base`].
const INCREMENTAL: [(&str, u32); 2] = [
    ("bundle-v1-incremental.tar.zst", 1),
    ("bundle-v3-incremental.tar.zst", 3),
];

/// Returns the directory of all tests.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");

fn golden(name: &str) -> PathBuf {
    Path::new(TESTS).join("golden/format").join(name)
}

fn golden_text(name: &str) -> String {
    std::fs::read_to_string(golden(name)).unwrap()
}

/// Runs the program, which must succeed. Returns its output.
fn run(arguments: &[&str], path: &Path) -> String {
    let path = path.to_str().unwrap();
    let (code, output) = kubexm(&[arguments, &[path]].concat());
    assert_eq!(code, Some(0), "{path}: {output}");
    output
}

#[test]
fn golden_bundles_of_every_version_are_read() {
    let sample = Sample::new();
    for (name, version) in COMPLETE {
        let path = golden(name);
        let bundle = Bundle::open(&path).unwrap();
        assert_eq!(bundle.storage().storage_version, version, "{name}");
        assert_eq!(*bundle.lock(), sample.lock, "{name}");
        bundle.verify(1, &Events::silent()).unwrap();
        bundle
            .verify_recompressed(Recompressed::All, &Events::silent())
            .unwrap();
        assert_holds(&bundle, &sample.blobs);

        run(&["bundle", "verify"], &path);
        let list = run(&["bundle", "list"], &path);
        assert_eq!(list, run(&["bundle", "list"], &golden("bundle-v3.tar.zst")));
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let (code, output) = kubexm(&[
            "bundle",
            "extract",
            path.to_str().unwrap(),
            "kubeadm",
            "-o",
            out,
        ]);
        assert_eq!(code, Some(0), "{name}: {output}");
        let kubeadm = std::fs::read(folder.path().join("kubeadm")).unwrap();
        assert!(kubeadm == sample.blobs.0[&Digest::of(&kubeadm)], "{name}");
    }
}

#[test]
fn golden_incremental_bundles_are_read_with_their_base() {
    let sample = Sample::new();
    for (name, version) in INCREMENTAL {
        let bundle = Bundle::open(&golden(name)).unwrap();
        assert_eq!(bundle.storage().storage_version, version, "{name}");
        assert_eq!(bundle.base().unwrap().blobs, sample.base().blobs, "{name}");
        bundle.verify(1, &Events::silent()).unwrap();
        let paths = [golden("bundle-v1.tar.zst"), golden(name)];
        assert_holds(
            &BundleSet::open(&paths, &Access::default()).unwrap(),
            &sample.blobs,
        );
    }
}

#[test]
fn programs_in_the_filter_of_version_2_are_refused() {
    let path = golden("bundle-v2-filtered.tar.zst");
    let (code, output) = kubexm(&["bundle", "verify", path.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{output}");
    let error = Bundle::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("use the kubexm that built the bundle"),
        "{error}"
    );
}

#[test]
fn signature_of_a_golden_bundle_is_trusted() {
    let access = Access {
        trust: vec![golden_text("golden.pub").parse().unwrap()],
        ..Access::default()
    };
    Bundle::open_with(&golden("bundle-v3.tar.zst"), &access).unwrap();
    Bundle::open_with(&golden("bundle-v1.tar.zst"), &access).unwrap_err();
}

#[test]
fn readers_agree_on_what_a_golden_signature_states() {
    for (name, key, stated) in [
        ("bundle-v1.tar.zst", None, "not signed"),
        (
            "bundle-v3.tar.zst",
            Some("golden.pub"),
            "no creation time and no sequence number",
        ),
        (
            "bundle-v3-sequence.tar.zst",
            Some("golden-sequence.pub"),
            "created 2026-01-02T03:04:05Z, sequence 1767323045",
        ),
    ] {
        let path = golden(name);
        let said = reader(&["signature", path.to_str().unwrap()]).unwrap();
        assert_eq!(said, format!("{stated}\n"), "{name}");
        let Some(key) = key else { continue };
        let key = golden(key);
        let verified = run(
            &["bundle", "verify", "--trust", key.to_str().unwrap()],
            &path,
        );
        assert!(
            verified.contains(&format!("(verified): {stated}\n")),
            "{verified}"
        );
    }
}

#[test]
fn golden_locks_and_inventories_are_read() {
    let first = Lock::from_yaml(&golden_text("lock-v1-first.lock.yaml")).unwrap();
    assert_eq!(
        (first.files.len(), first.images.len(), first.artifacts.len()),
        (2, 1, 0)
    );
    let full = Lock::from_yaml(&golden_text("lock-v1.lock.yaml")).unwrap();
    assert_eq!(full.artifacts.len(), 3);
    assert!(full.files.iter().any(|file| file.signature.is_some()));
    let signed = full
        .images
        .iter()
        .filter_map(|image| image.signature.as_ref());
    assert!(
        signed
            .clone()
            .any(|signature| signature.referrers.is_some())
    );
    assert!(
        signed
            .clone()
            .any(|signature| signature.referrers.is_none())
    );
    let linked = Lock::from_yaml(&golden_text("lock-v3.lock.yaml")).unwrap();
    let member = linked.files[0].members[0].linking.as_ref().unwrap();
    assert_eq!(member.glibc.unwrap().to_string(), "2.34");
    assert_eq!(member.libraries.len(), 2);
    let nested = Lock::from_yaml(&golden_text("lock-v4.lock.yaml")).unwrap();
    let mut platforms = nested.images.iter().flat_map(|image| &image.platforms);
    let indexes = &platforms.find(|p| !p.indexes.is_empty()).unwrap().indexes;
    assert_eq!(indexes.len(), 2);
    let blobs = nested.blobs();
    assert!(
        indexes
            .iter()
            .all(|index| blobs.contains_key(&index.digest))
    );
    let artifacts = Lock::from_yaml(&golden_text("lock-v5.lock.yaml")).unwrap();
    let are = artifacts.images.iter().map(|image| image.is_artifact());
    assert_eq!(are.filter(|is| *is).count(), 2);
    let declared = Lock::from_yaml(&golden_text("lock-v6.lock.yaml")).unwrap();
    assert_eq!(declared.image_paths[0].kind.as_str(), "ClusterPolicy");
    let trust = Lock::from_yaml(&golden_text("lock-v2.lock.yaml")).unwrap();
    let bases: Vec<TrustBasis> = trust.trust().into_keys().collect();
    assert_eq!(
        bases,
        [
            TrustBasis::Signature,
            TrustBasis::PublisherChecksum,
            TrustBasis::ManifestDigest,
            TrustBasis::LocalFile,
            TrustBasis::FirstSeen,
            TrustBasis::MirrorChecksum,
            TrustBasis::NotRecorded,
        ]
    );
    // A lock that is read is written unchanged.
    for (name, lock) in [
        ("lock-v1.lock.yaml", &full),
        ("lock-v2.lock.yaml", &trust),
        ("lock-v3.lock.yaml", &linked),
        ("lock-v4.lock.yaml", &nested),
        ("lock-v5.lock.yaml", &artifacts),
        ("lock-v6.lock.yaml", &declared),
    ] {
        assert_eq!(serde_saphyr::to_string(lock).unwrap(), golden_text(name));
    }

    let sample = Sample::new();
    let inventory = Inventory::from_yaml(&golden_text("inventory-v1.yaml")).unwrap();
    let wanted: BTreeSet<Digest> = sample.lock.blobs().keys().copied().collect();
    assert_eq!(inventory.blobs, wanted);
    assert_eq!(inventory.bundles[0].name, "golden");
}

/// Members of a later version, and a signature as the trust basis without a signature.
#[test]
fn members_of_a_later_version_are_refused() {
    let lock = golden_text("lock-v2.lock.yaml");
    let error = Lock::from_yaml(&lock.replace("lockVersion: 2", "lockVersion: 1"))
        .unwrap_err()
        .text;
    assert!(
        error.contains("has version 1 and members of version 2"),
        "{error}"
    );
    let linked = golden_text("lock-v3.lock.yaml").replace("lockVersion: 3", "lockVersion: 2");
    let error = Lock::from_yaml(&linked).unwrap_err().text;
    assert!(
        error.contains("has version 2 and members of version 3"),
        "{error}"
    );
    let nested = golden_text("lock-v4.lock.yaml").replace("lockVersion: 4", "lockVersion: 3");
    let error = Lock::from_yaml(&nested).unwrap_err().text;
    assert!(
        error.contains("has version 3 and members of version 4"),
        "{error}"
    );
    let artifacts = golden_text("lock-v5.lock.yaml");
    let earlier = artifacts.replace("lockVersion: 5", "lockVersion: 4");
    let error = Lock::from_yaml(&earlier).unwrap_err().text;
    assert!(
        error.contains("has version 4 and members of version 5"),
        "{error}"
    );
    let declared = golden_text("lock-v6.lock.yaml");
    let earlier = declared.replace("lockVersion: 6", "lockVersion: 5");
    let error = Lock::from_yaml(&earlier).unwrap_err().text;
    assert!(
        error.contains("has version 5 and members of version 6"),
        "{error}"
    );
    let unsafe_kind = declared.replace("Foo:", "\"F\\eoo:\"");
    assert_ne!(unsafe_kind, declared);
    Lock::from_yaml(&unsafe_kind).unwrap_err();
    let mixed = artifacts.replacen("  - indexes:", "  - arch: amd64\n    indexes:", 1);
    assert_ne!(mixed, artifacts);
    let error = Lock::from_yaml(&mixed).unwrap_err().text;
    assert!(error.contains("invalid platforms of"), "{error}");
    let unsigned = lock.replace("checksum: firstSeen", "checksum: signed");
    assert_ne!(unsigned, lock);
    let error = Lock::from_yaml(&unsigned).unwrap_err().text;
    assert!(error.contains("invalid checksum of"), "{error}");
}

/// A later version has unknown members; the error names the version, not the members.
#[test]
fn unsupported_version_is_named_before_its_members() {
    let lock = golden_text("lock-v1-first.lock.yaml");
    let later = lock.replace("lockVersion: 1", "lockVersion: 7\nattestations: []");
    let error = Lock::from_yaml(&later).unwrap_err().text;
    assert!(error.contains("has version 7"), "{error}");
    let unknown = lock.replace("lockVersion: 1", "lockVersion: 1\nattestations: []");
    let error = Lock::from_yaml(&unknown).unwrap_err().text;
    assert!(error.contains("attestations"), "{error}");
    let later = "inventoryVersion: 2\nattestations: []";
    let error = Inventory::from_yaml(later).unwrap_err().text;
    assert!(error.contains("has version 2"), "{error}");
    let later = br#"{"storageVersion": 4, "attestations": []}"#;
    let error = Placement::read(later, &Sample::new().lock)
        .unwrap_err()
        .text;
    assert!(error.contains("has version 4"), "{error}");
}

/// Runs the Python reader. Returns its output.
pub fn reader(arguments: &[&str]) -> Result<String, String> {
    let program = Path::new(TESTS).join("format/reader.py");
    let output = Command::new("python3")
        .arg("-B")
        .arg(program)
        .args(arguments)
        .output()
        .unwrap();
    let [out, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    if output.status.success() {
        Ok(out)
    } else {
        Err(errors)
    }
}

/// Returns digest, or its beginning, and name of each line of a list.
fn items<'a>(list: &'a str, digest_at: usize) -> BTreeSet<(&'a str, &'a str, String)> {
    let item = |line: &'a str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let known =
            ["file", "image", "artifact", "chart", "manifest", "package"].contains(words.first()?);
        known.then(|| {
            (
                words[0],
                &words[digest_at][..12],
                words[digest_at + 1..].join(" "),
            )
        })
    };
    list.lines().filter_map(item).collect()
}

/// Compares what the Python reader and the program find in a bundle.
fn assert_agrees(path: &Path, access: &Access) {
    let bundle = Bundle::open_with(path, access).unwrap();
    let name = path.to_str().unwrap();
    let list = reader(&["list", name]).unwrap();
    let said = reader(&["proven", name]).unwrap();
    let opened = bundle
        .carried()
        .filter_map(|blob| Some((blob, bundle.opened(blob)?)));
    let proven = opened.filter(|(blob, opened)| bundle.proves(blob, opened));
    let proven: String = proven
        .map(|(blob, _)| format!("{}\n", blob.hex()))
        .collect();
    assert_eq!(said, proven, "{name}");
    let first = format!(
        "golden (bundle {}, lock 1",
        bundle.storage().storage_version
    );
    assert!(list.starts_with(&first), "{list}");
    assert!(
        list.lines()
            .next()
            .unwrap()
            .ends_with(&bundle.lock_digest().to_string()),
        "{list}"
    );
    // `file   4.00 KiB 0123456789ab kubeadm 1.36.3 amd64`
    let expected = run(&["bundle", "list"], path);
    let expected = items(&expected, 3);
    assert!(expected.len() > 8, "{expected:?}");
    assert_eq!(items(&list, 1), expected, "{name}");

    let blobs: BTreeMap<&str, (u64, &str)> = list
        .lines()
        .filter_map(|line| line.strip_prefix("blob "))
        .map(|line| {
            let [hex, size, encoding] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            (hex, (size.parse().unwrap(), encoding))
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    reader(&["verify", name, folder.path().to_str().unwrap()]).unwrap();
    let all_blobs = bundle.lock().blobs();
    assert_eq!(blobs.len(), all_blobs.len());
    for (digest, blob) in all_blobs {
        let hex = digest.hex();
        let (listed, encoding) = blobs[&*hex];
        assert_eq!(listed, blob.size, "{digest}");
        let content = std::fs::read(folder.path().join(&hex));
        let expected = match bundle.opened(digest) {
            _ if !bundle.carries(digest) => {
                assert_eq!(encoding, "absent");
                assert!(content.is_err(), "{digest}");
                continue;
            }
            Some(opened) => {
                let gzip = format!("gzip({})", opened.recipe.encoder());
                assert!(encoding.starts_with(&gzip), "{encoding}");
                bundle.open_content(digest)
            }
            None => {
                assert!(encoding.starts_with("kept"), "{encoding}");
                bundle.open(digest)
            }
        };
        assert!(content.unwrap() == all(expected.unwrap()), "{digest}");
    }
}

#[test]
fn python_reader_extracts_the_same_blob() {
    let folder = tempfile::tempdir().unwrap();
    let [own, theirs] = ["own", "theirs"].map(|name| folder.path().join(name));
    for (name, _) in COMPLETE {
        let path = golden(name);
        let path = path.to_str().unwrap();
        let (code, output) = kubexm(&[
            "bundle",
            "extract",
            path,
            "kubelet",
            "-o",
            own.to_str().unwrap(),
        ]);
        assert_eq!(code, Some(0), "{output}");
        let kubelet = std::fs::read(own.join("kubelet")).unwrap();
        let hex = Digest::of(&kubelet).hex();
        reader(&["extract", path, &hex, theirs.to_str().unwrap()]).unwrap();
        assert!(std::fs::read(&theirs).unwrap() == kubelet, "{name}");
    }
    // A gzip archive: its content is in the bundle, and the reader has no encoder.
    let path = golden("bundle-v3.tar.zst");
    let (path, theirs) = (path.to_str().unwrap(), theirs.to_str().unwrap());
    let runtime = Sample::new().lock.files[5].digest.hex();
    let error = reader(&["extract", path, &runtime, theirs]).unwrap_err();
    assert!(
        error.contains("stored as its content: gzip(go:6)+elf"),
        "{error}"
    );
    reader(&["content", path, &runtime, theirs]).unwrap();
    let archive = std::fs::read(theirs).unwrap();
    assert_eq!(archive.get(..12), Some(&b"bin/runtime\0"[..]));
}

#[test]
fn python_reader_agrees_on_golden_files() {
    for (name, _) in COMPLETE.iter().chain(&INCREMENTAL) {
        assert_agrees(&golden(name), &Access::default());
    }
    let filtered = golden("bundle-v2-filtered.tar.zst");
    let refused = reader(&["verify", filtered.to_str().unwrap()]).unwrap_err();
    assert!(
        refused.contains("filter of an earlier version"),
        "{refused}"
    );

    for name in [
        "lock-v1-first.lock.yaml",
        "lock-v1.lock.yaml",
        "lock-v2.lock.yaml",
        "lock-v3.lock.yaml",
        "lock-v4.lock.yaml",
        "lock-v5.lock.yaml",
    ] {
        let lock = Lock::from_yaml(&golden_text(name)).unwrap();
        let list = reader(&["list", golden(name).to_str().unwrap()]).unwrap();
        let blobs = list.lines().filter_map(|line| line.strip_prefix("blob "));
        let expected = lock.blobs().iter();
        let expected = expected.map(|(digest, blob)| format!("{} {}", digest.hex(), blob.size));
        assert!(blobs.map(str::trim).eq(expected), "{list}");
    }

    let path = golden("inventory-v1.yaml");
    let inventory = Inventory::from_yaml(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let mut expected = format!("{}\n", inventory.site);
    for held in &inventory.bundles {
        expected += &format!("bundle {} {}\n", held.name, held.lock);
    }
    for blob in &inventory.blobs {
        expected += &format!("blob {}\n", blob.hex());
    }
    assert_eq!(
        reader(&["inventory", path.to_str().unwrap()]).unwrap(),
        expected
    );
}

/// Stores no results of earlier builds.
struct NoCache;

impl EncoderCache for NoCache {
    fn recall(&self, _: &Digest) -> Option<Option<DecompressedGzip>> {
        None
    }
    fn keep(&self, _: &Digest, _: Option<&DecompressedGzip>) {}
}

#[test]
fn python_reader_agrees_on_new_bundles() {
    let sample = Sample::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.tar.zst");
    for layers in [Layers::Keep, Layers::Decompress, Layers::Filter] {
        sample.write(&path, &sample.storage(layers));
        assert_agrees(&path, &Access::default());
    }
    // In the arrangement of `kubexm bundle build`.
    let (lock, blobs) = (&sample.lock, &sample.blobs);
    let opened = analyze_gzip(lock, blobs, &NoCache, 1, &Events::silent(), &|| false).unwrap();
    sample.write(&path, &arrange(lock, &opened));
    assert_agrees(&path, &Access::default());

    let split = folder.path().join("split.tar.zst");
    let bundle = Bundle::open(&path).unwrap();
    rewrite::resplit(&bundle, &split, Some(2000), &Events::silent(), &|| false).unwrap();
    assert!(!split.exists());
    assert_agrees(&split, &Access::default());
}

#[test]
fn python_reader_refuses_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.tar.zst");
    let whole = std::fs::read(golden("bundle-v3.tar.zst")).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 14) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let read = reader(&["verify", path.to_str().unwrap()]);
        // zstd ignores a reserved bit; the content is still correct.
        let program = Bundle::open(&path).and_then(|b| b.verify(1, &Events::silent()));
        assert_eq!(
            read.is_ok(),
            program.is_ok(),
            "byte {at}: {read:?} {program:?}"
        );
    }
}

/// The current version writes the same documents in the header as its golden files have. `KUBEXM_GOLDEN_OUT`
/// names a directory that keeps the written files, for the golden files of a new version.
#[test]
fn current_version_is_written_like_its_golden_files() {
    let sample = Sample::new();
    let kept = std::env::var_os("KUBEXM_GOLDEN_OUT").map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let folder = kept.unwrap_or_else(|| temporary.path().to_owned());
    let filtered = sample.storage(Layers::Filter);
    let incremental = filtered.clone().without(sample.base());
    let kept = sample.storage(Layers::Keep);
    let gzip = sample.gzip();
    for (suffix, storage, proven) in [
        ("", &filtered, None),
        ("-incremental", &incremental, None),
        ("-kept", &kept, None),
        ("-proven", &filtered, Some(&gzip)),
    ] {
        let name = format!("bundle-v{}{suffix}.tar.zst", Placement::VERSION);
        let path = folder.join(&name);
        sample.write_proven(&path, storage, proven);
        let [new, old] = [&path, &golden(&name)].map(|path| Bundle::open(path).unwrap());
        assert_eq!(new.storage(), old.storage(), "{name}");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!(
            text(&new.documents().lock),
            text(&old.documents().lock),
            "{name}"
        );
        assert_eq!(
            text(&new.documents().manifest),
            text(&old.documents().manifest),
            "{name}"
        );
        assert_eq!(
            text(&new.documents().index),
            text(&old.documents().index),
            "{name}"
        );
        assert_eq!(
            text(&new.documents().config),
            text(&old.documents().config),
            "{name}"
        );
    }
    let bundle = Bundle::open(&golden("bundle-v3.tar.zst")).unwrap();
    let inventory = Inventory::new("a site with a name", &[bundle]);
    let inventory = serde_saphyr::to_string(&inventory).unwrap();
    assert_eq!(inventory, golden_text("inventory-v1.yaml"));
}
