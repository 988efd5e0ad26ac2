//! The results of `bundle export`: skopeo reads them, and their bytes are those of the bundle.

use std::path::Path;

use serde_json::Value;

use super::*;

/// Copies with skopeo, without a policy: it compares digests without one.
fn skopeo(arguments: &[&str]) -> Result<String, String> {
    tool("skopeo", &[&["--insecure-policy"], arguments].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Checks that every file below `blobs/sha256` is named by its digest. Returns their number.
fn all_right(layout: &Path) -> usize {
    let blobs = std::fs::read_dir(layout.join("blobs/sha256")).unwrap();
    let right = |blob: std::io::Result<std::fs::DirEntry>| {
        let blob = blob.unwrap();
        let content = std::fs::read(blob.path()).unwrap();
        assert_eq!(
            Digest::of(&content).hex(),
            blob.file_name().to_string_lossy()
        );
    };
    blobs.map(right).count()
}

#[test]
fn skopeo_reads_an_exported_layout_with_published_digests() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lock, _) = bundle(folder.path());
    let (path, out) = (path.display().to_string(), folder.path().join("layout"));
    let to = out.display().to_string();
    let (code, said, err) = kubexm(&["bundle", "export", &path, "--oci-layout", &to]);
    assert!(code == Some(0) && said.contains("3 images"), "{said}{err}");
    // Two manifests and four blobs of the complete image with its index; four of the sparse one; three.
    assert_eq!(all_right(&out), 7 + 4 + 3);

    for image in [WHOLE, SPARSE] {
        let from = format!("oci:{to}:{image}");
        let raw = skopeo(&["inspect", "--raw", &from]).unwrap();
        let name = image.parse().unwrap();
        let locked = lock.image(&name).unwrap();
        assert_eq!(
            Digest::of(raw.as_bytes()),
            locked.manifest.digest,
            "{image}"
        );
        let copy = format!("dir:{}", folder.path().join("copy").display());
        let amd64 = ["--override-arch", "amd64", "copy", &from, &copy];
        skopeo(&amd64).unwrap();
        let layer = locked.platforms[0].blobs[1].digest.hex();
        assert!(folder.path().join("copy").join(layer).exists(), "{image}");
    }
    // Skopeo 1.9 finds only OCI media types by name. Without a name it uses the only image.
    let single = folder.path().join("single.tar").display().to_string();
    let only = [
        "bundle",
        "export",
        &path,
        "--oci-layout",
        &single,
        "--image",
        SINGLE,
    ];
    let (code, _, err) = kubexm(&only);
    assert_eq!(code, Some(0), "{err}");
    let raw = skopeo(&["inspect", "--raw", &format!("oci-archive:{single}")]).unwrap();
    let digest = lock
        .image(&SINGLE.parse().unwrap())
        .unwrap()
        .manifest
        .digest;
    assert_eq!(Digest::of(raw.as_bytes()), digest);
}

#[test]
fn docker_archive_has_each_image_with_name_and_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lock, blobs) = bundle(folder.path());
    let path = path.display().to_string();
    let out = folder.path().join("images.tar").display().to_string();
    let arguments = ["bundle", "export", &path, "--docker-archive", &out];
    let (code, _, err) = kubexm(&arguments);
    assert_eq!(code, Some(2));
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"error: a docker archive has one architecture, the bundle amd64, arm64: choose by --arch");
    let (code, _, err) = kubexm(&[&arguments[..], &["--arch", "arm64"]].concat());
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(err, @"
    error: the bundle has no image docker.io/library/sparse:2.0 for arm64, only for amd64
    hint: choose an architecture with --arch
    ");
    assert!(!Path::new(&out).exists());
    let (code, _, err) = kubexm(&[&arguments[..], &["--arch", "amd64"]].concat());
    assert_eq!(code, Some(0), "{err}");
    for name in [WHOLE, SPARSE, SINGLE] {
        let from = format!("docker-archive:{out}:{name}");
        let config = skopeo(&["inspect", "--config", "--raw", &from]).unwrap();
        let locked = lock.image(&name.parse().unwrap()).unwrap();
        let blob = &locked.platforms[0].blobs[0];
        assert_eq!(
            json(&config),
            json(std::str::from_utf8(&blobs.0[&blob.digest]).unwrap())
        );
        // The copy decompresses the layers and compares them with the configuration.
        let copy = format!("dir:{}", folder.path().join("copy").display());
        skopeo(&["copy", &from, &copy]).unwrap();
    }
    // The archive is also an OCI layout.
    let raw = skopeo(&["inspect", "--raw", &format!("oci-archive:{out}:1")]).unwrap();
    let whole = lock.image(&WHOLE.parse().unwrap()).unwrap();
    assert_eq!(
        Digest::of(raw.as_bytes()),
        whole.platforms[0].manifest.digest
    );
}

#[test]
fn export_keeps_existing_directories_and_leaves_no_partial_result() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _) = bundle(folder.path());
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine"), "mine").unwrap();
    let (bundle, to) = (path.display().to_string(), full.display().to_string());
    let (code, _, err) = kubexm(&["bundle", "export", &bundle, "--oci-layout", &to]);
    assert_eq!(code, Some(3));
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"
    error: [folder]/full: already exists and is not an empty directory
    hint: name a new directory, or a file *.tar
    ");
    let (code, _, err) = kubexm(&[
        "bundle",
        "export",
        &bundle,
        "--oci-layout",
        &to,
        "--image",
        "registry.example/none:1",
    ]);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(err, @"
    error: the bundle has no image registry.example/none:1; it has
      docker.io/library/sparse:2.0
      registry.example/team/whole:1
      registry.example:5000/single:v3
    ");

    // After the index everything is damaged: the export fails and leaves nothing.
    let mut bytes = std::fs::read(&path).unwrap();
    let (from, to) = (bytes.len() / 3, bytes.len() - 3000);
    bytes[from..to].fill(7);
    std::fs::write(&path, bytes).unwrap();
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    let to = folder.path().join("never.tar").display().to_string();
    for target in [
        &["--oci-layout", &to][..],
        &["--docker-archive", &to, "--arch", "amd64"],
    ] {
        let arguments = [&["bundle", "export", &bundle, "--image", WHOLE], target].concat();
        let (code, _, err) = kubexm(&arguments);
        assert!(
            code == Some(3) && err.contains(&bundle),
            "{target:?}: {err}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before);
}
