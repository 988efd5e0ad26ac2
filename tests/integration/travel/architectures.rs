//! Bundles for several architectures: listed, extracted, exported and reduced for one of them.

use std::collections::BTreeSet;

use kubexm_bundle::lock::{LockedPackage, LockedPackages, PackageFormat};
use kubexm_bundle::{Bundle, Placement};
use kubexm_engine::seed::RegistryContent;

use super::*;

const TOOL: &str = "registry.example/team/tool:1";

/// Returns a lock for amd64 and arm64: an image with one common layer, and a package that is the same for
/// both.
fn for_both() -> (Lock, InMemory) {
    let (mut lock, mut blobs) = example(&[text(98, 90_000)]);
    lock.architectures = vec![Arch::Amd64, Arch::Arm64];
    let (shared, _) = layer(30);
    let platforms = [Arch::Amd64, Arch::Arm64].map(|arch| {
        let seed = if arch == Arch::Amd64 { 31 } else { 32 };
        let mut platform = platform(&mut blobs, OCI, arch, seed);
        let kind = platform.blobs[1].media_type.clone();
        platform.blobs.push(descriptor(&mut blobs, &kind, &shared));
        platform
    });
    lock.images = vec![indexed(&mut blobs, TOOL, platforms.to_vec(), true)];
    let digest = blobs.add(b"a package for all");
    for arch in lock.architectures.clone() {
        let index = descriptor(&mut blobs, "", arch.name().as_bytes());
        lock.packages.push(LockedPackages {
            distribution: "debian".to_owned(),
            release: "trixie".to_owned(),
            arch,
            requested: vec!["netbase".to_owned()],
            format: PackageFormat::Deb,
            index: Descriptor {
                media_type: PackageFormat::Deb.index_type().to_owned(),
                ..index
            },
            packages: vec![LockedPackage {
                name: "netbase".to_owned(),
                version: "6.5".to_owned(),
                file_name: "netbase_6.5_all.deb".to_owned(),
                url: "http://deb.example/netbase_6.5_all.deb".parse().unwrap(),
                size: 17,
                digest,
            }],
        });
    }
    (lock, blobs)
}

fn written(folder: &Path, name: &str, lock: &Lock, blobs: &InMemory) -> String {
    let path = folder.join(name);
    let storage = Placement::plain(lock);
    write(&path, lock, &storage, blobs, OPTIONS, &Events::silent()).unwrap();
    path.display().to_string()
}

#[test]
fn bundle_without_an_architecture_equals_one_built_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, blobs) = for_both();
    let both = written(folder.path(), "both.tar.zst", &lock, &blobs);
    let amd64 = lock.only(&BTreeSet::from([Arch::Amd64]));
    let alone = written(folder.path(), "alone.tar.zst", &amd64, &blobs);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (out, cache) = (at("out.tar.zst"), at("cache"));
    let remove = ["bundle", "remove", &both, "-o", &out, "--cache", &cache];
    let (code, said, err) = kubexm(&[&remove[..], &["--arch", "arm64"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(
        said.contains("- package netbase debian trixie arm64"),
        "{said}"
    );
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&alone).unwrap());
    // What both architectures need is in it; the layer of the other one is not.
    let bundle = Bundle::open(Path::new(&out)).unwrap();
    bundle.verify(2, &Events::silent()).unwrap();
    let of_arm64 = &lock.images[0].platforms[1].blobs;
    assert!(bundle.carries(&of_arm64[2].digest) && !bundle.carries(&of_arm64[1].digest));

    let mut all = String::new();
    for arches in [
        &["--arch", "arm64", "--arch", "amd64"][..],
        &["--arch", "riscv64"],
        &[],
    ] {
        let (got, _, err) = kubexm(&[&remove[..], arches].concat());
        assert_eq!(got, Some(2), "{arches:?}: {err}");
        all += &err;
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    error: cannot remove the only architecture of the bundle
    error: invalid value 'riscv64' for '--arch <ARCH>': architecture 'riscv64': expected amd64 or arm64

    For more information, try '--help'.
    error: the following required arguments were not provided:
      <NAMES>...

    Usage: kubexm bundle remove --out <NEW> --cache <DIR> <BUNDLE> <NAMES>...

    For more information, try '--help'.
    ");
    let again = [
        "bundle", "remove", &out, "-o", &out, "--cache", &cache, "--arch", "arm64",
    ];
    let (code, _, err) = kubexm(&again);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(err, @"error: the bundle has no content for arm64, only for amd64");
}

#[test]
fn one_architecture_is_listed_exported_and_extracted() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, blobs) = for_both();
    let both = written(folder.path(), "both.tar.zst", &lock, &blobs);
    let out = folder.path().join("out").display().to_string();
    let (_, all, _) = kubexm(&["bundle", "list", &both]);
    insta::assert_snapshot!(all, @"
    file       87.89 KiB c624eb59d692 part0000 1.0.0 amd64
    image     282.88 KiB 52e5bbf9836b registry.example/team/tool:1 (amd64, arm64)
    package         17 B 6a422bddd144 netbase 6.5 (debian trixie amd64)
    package         17 B 6a422bddd144 netbase 6.5 (debian trixie arm64)
    ");
    let (_, one, _) = kubexm(&["bundle", "list", &both, "--arch", "arm64"]);
    insta::assert_snapshot!(one, @"
    image     188.46 KiB 52e5bbf9836b registry.example/team/tool:1 (arm64)
    package         17 B 6a422bddd144 netbase 6.5 (debian trixie arm64)
    ");
    assert!(!one.contains("amd64"), "{one}");
    // The bytes are the same for both, so no architecture must be selected.
    let (code, _, err) = kubexm(&["bundle", "extract", &both, "netbase", "-o", &out]);
    assert_eq!(code, Some(0), "{err}");
    let file = folder.path().join("out/netbase_6.5_all.deb");
    assert_eq!(std::fs::read(file).unwrap(), b"a package for all");

    let layout = folder.path().join("layout");
    let to = layout.display().to_string();
    let export = [
        "bundle",
        "export",
        &both,
        "--oci-layout",
        &to,
        "--arch",
        "arm64",
    ];
    let (code, _, err) = kubexm(&export);
    assert_eq!(code, Some(0), "{err}");
    let there = |digest: &Digest| layout.join("blobs/sha256").join(digest.hex()).exists();
    let image = &lock.images[0];
    let [amd64, arm64] = &image.platforms[..] else {
        panic!("two")
    };
    assert!(
        there(&image.manifest.digest),
        "its index as it was published"
    );
    assert!(there(&arm64.manifest.digest) && arm64.blobs.iter().all(|b| there(&b.digest)));
    assert!(!there(&amd64.manifest.digest) && !there(&amd64.blobs[1].digest));
}

#[test]
fn cluster_registry_gets_no_images_of_other_architectures() {
    let (lock, _) = for_both();
    let amd64 = lock.only(&BTreeSet::from([Arch::Amd64]));
    let [of_amd64, of_arm64] = &lock.images[0].platforms[..] else {
        panic!("two")
    };
    let content = format!("{:?}", RegistryContent::new(&amd64));
    let has = |digest: &Digest| content.contains(&digest.hex());
    assert!(has(&lock.images[0].manifest.digest), "what the tag names");
    assert!(of_amd64.blobs.iter().all(|blob| has(&blob.digest)));
    assert!(!has(&of_arm64.manifest.digest) && !has(&of_arm64.blobs[1].digest));
}
