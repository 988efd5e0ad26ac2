//! What `bundle export` writes is read by skopeo, and is bit for bit what the bundle was made of.

use std::path::Path;

use serde_json::Value;

use super::*;

/// `skopeo copy` needs no policy here: it compares digests all the same.
fn skopeo(arguments: &[&str]) -> Result<String, String> {
    tool("skopeo", &[&["--insecure-policy"], arguments].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Every file below `blobs/sha256` is named by its digest; gives their number.
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
fn a_layout_is_what_skopeo_reads_with_the_digests_of_the_publishers() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lock, _) = bundle(folder.path());
    let (path, out) = (path.display().to_string(), folder.path().join("layout"));
    let to = out.display().to_string();
    let (code, said, err) = kubexm(&["bundle", "export", &path, "--oci-layout", &to]);
    assert!(code == Some(0) && said.contains("3 images"), "{said}{err}");
    // Two manifests and four blobs of the whole image and its index; four of the sparse one; three.
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
    // Skopeo 1.9 finds only OCI's own types by name; without one it takes the only image.
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
fn a_docker_archive_holds_each_image_under_its_name_with_its_configuration() {
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
    insta::assert_snapshot!(err, @"error: the bundle has no image docker.io/library/sparse:2.0 for arm64, only for amd64; choose by --arch");
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
        // Copying opens the layers and compares them with the configuration.
        let copy = format!("dir:{}", folder.path().join("copy").display());
        skopeo(&["copy", &from, &copy]).unwrap();
    }
    // The same archive is a layout, for those who read that.
    let raw = skopeo(&["inspect", "--raw", &format!("oci-archive:{out}:1")]).unwrap();
    let whole = lock.image(&WHOLE.parse().unwrap()).unwrap();
    assert_eq!(
        Digest::of(raw.as_bytes()),
        whole.platforms[0].manifest.digest
    );
}

#[test]
fn an_export_never_overwrites_a_folder_and_leaves_nothing_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _) = bundle(folder.path());
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine"), "mine").unwrap();
    let (bundle, to) = (path.display().to_string(), full.display().to_string());
    let (code, _, err) = kubexm(&["bundle", "export", &bundle, "--oci-layout", &to]);
    assert_eq!(code, Some(3));
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"error: [folder]/full: is there already and is no empty folder; name a new one, or a file *.tar");
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

    // Behind the index nothing is as it was: the export fails, and nothing is there.
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
