//! Commands that inspect, extract and compare bundles.

use super::*;

#[test]
fn bundle_is_described_listed_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path(), 2).display().to_string();
    let _filters = filters();
    let (_, inspected, _) = run(&["bundle", "inspect", &path]);
    insta::assert_snapshot!(inspected, @"
    example ([folder]/small.tar.zst)
      size           6.01 KiB
      signature      none
      lock           sha256:f04c33a3613f9cde43e352c9a0d459acb898d08eb83f9053b22b63a69bc58e6a
      kubernetes     1.36.3
      architectures  amd64
      files          2
      images         0
      trust          2 files: digest in the bundle manifest
        file part0000 1.0.0 amd64
        file part0001 1.0.0 amd64
    ");
    let (_, listed, _) = run(&["bundle", "list", &path]);
    insta::assert_snapshot!(listed, @"
    file        4.88 KiB 120017acd130 part0000 1.0.0 amd64
    file        4.88 KiB 120017acd130 part0001 1.0.0 amd64
    ");
    let (_, verified, _) = run(&["bundle", "verify", &path]);
    insta::assert_snapshot!(verified, @"
    [folder]/small.tar.zst: every blob matches its digest
      signature: none
    ");
}

#[test]
fn extract_writes_only_the_named_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let (mut lock, InMemory(mut blobs)) = alike(1, 5000);
    // An archive with one program, and the same program for another architecture.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut tar = tar::Builder::new(&mut packed);
    let mut header = tar::Header::new_gnu();
    header.set_size(7);
    header.set_mode(0o755);
    tar.append_data(&mut header, "bin/tool", &b"program"[..])
        .unwrap();
    tar.into_inner().unwrap();
    let packed = packed.finish().unwrap();
    for arch in [Arch::Amd64, Arch::Arm64] {
        lock.files.push(LockedFile {
            component: "tools".to_owned(),
            arch,
            file_name: format!("tools-{}.tar.gz", arch.name()),
            size: packed.len() as u64,
            digest: Digest::of(&packed),
            format: FileFormat::TarGz,
            members: vec![kubexm_bundle::lock::Member {
                path: "bin/tool".to_owned(),
                size: 7,
                digest: match arch {
                    Arch::Amd64 => Digest::of(b"program"),
                    Arch::Arm64 => Digest::of(b"another"),
                },
                linking: None,
            }],
            ..lock.files[0].clone()
        });
    }
    lock.architectures.push(Arch::Arm64);
    blobs.insert(Digest::of(&packed), packed.clone());
    write_plain(&path, &lock, &InMemory(blobs), OPTIONS).unwrap();

    let bundle = path.display().to_string();
    let out = folder.path().join("out").display().to_string();
    let take = |arguments: &[&str]| {
        let command = [&["bundle", "extract", &bundle, "-o", &out], arguments].concat();
        run(&command)
    };
    let _filters = filters();
    let (code, _, err) = take(&["part0000", "nothing"]);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(err, @"error: the bundle has no 'nothing'; kubexm bundle list shows what there is");
    assert!(
        !Path::new(&out).exists(),
        "a wrong name comes after a right one"
    );
    let (code, _, err) = take(&["tool"]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(err, @"
    error: the bundle has 'tool' more than once; choose by --version, --arch or the full file name:
      bin/tool of tools 1.0.0 amd64
      bin/tool of tools 1.0.0 arm64
    ");
    let (code, said, err) = take(&["part0000", "tool", "--arch", "amd64"]);
    assert_eq!(code, Some(0), "{err}");
    insta::assert_snapshot!(said, @"
    [folder]/out/part0000 (part0000 1.0.0 amd64)
    [folder]/out/tool (bin/tool of tools 1.0.0 amd64)
    ");
    assert_eq!(std::fs::read(format!("{out}/tool")).unwrap(), b"program");
    let mode = std::os::unix::fs::PermissionsExt::mode;
    assert_eq!(
        mode(
            &std::fs::metadata(format!("{out}/tool"))
                .unwrap()
                .permissions()
        ) & 0o777,
        0o755
    );
    take(&["tools-arm64.tar.gz"]);
    assert_eq!(
        std::fs::read(format!("{out}/tools-arm64.tar.gz")).unwrap(),
        packed
    );
    let mut there = names(Path::new(&out));
    there.sort();
    assert_eq!(there, ["part0000", "tool", "tools-arm64.tar.gz"]);
}

/// Writes a lock file and returns its path.
fn write_lock(folder: &Path, name: &str, lock: &Lock) -> String {
    let path = folder.join(name);
    std::fs::write(&path, serde_saphyr::to_string(lock).unwrap()).unwrap();
    path.display().to_string()
}

#[test]
fn diff_reports_added_removed_and_changed_content() {
    let folder = tempfile::tempdir().unwrap();
    let (old, _) = alike(2, 5000);
    let mut new = old.clone();
    new.files[0].version = Version::new(2, 0, 0);
    new.files[0].digest = Digest::of(b"newer");
    new.files[0].size = 1024;
    new.files[1].component = "other".to_owned();
    let (first, second) = (
        write_lock(folder.path(), "a.lock.yaml", &old),
        write_lock(folder.path(), "b.lock.yaml", &new),
    );
    let (code, said, err) = run(&["bundle", "diff", &first, &second]);
    assert_eq!(code, Some(0), "{err}");
    insta::assert_snapshot!(said, @"
    + file other amd64 1.0.0 (120017acd130)
    ~ file part0000 amd64 1.0.0 -> 2.0.0
    - file part0001 amd64 1.0.0 (120017acd130)

    files: 1 changed, 1 added, 1 removed
    1.00 KiB only in the second bundle
    ");
    let bundle = bundle(folder.path(), 2).display().to_string();
    let (_, said, _) = run(&["bundle", "diff", &first, &bundle]);
    assert_eq!(said, "no difference in content\n");
    let (code, ..) = run(&["bundle", "diff", &first, "/no/such.lock.yaml"]);
    assert_eq!(code, Some(2));
    for (other, expected) in [(&second, 1), (&bundle, 0)] {
        let (code, said, err) = run(&["bundle", "diff", &first, other, "--exit-code"]);
        assert_eq!((code, err.as_str()), (Some(expected), ""), "{said}");
    }
}

#[test]
fn diff_reports_a_replaced_version_as_one_change() {
    let folder = tempfile::tempdir().unwrap();
    let (mut old, _) = alike(4, 5000);
    let file = |lock: &mut Lock, at: usize, name: &str, version: Version, content: &str| {
        lock.files[at].component = name.to_owned();
        lock.files[at].version = version;
        lock.files[at].digest = Digest::of(content.as_bytes());
    };
    file(&mut old, 0, "containerd", Version::new(2, 3, 6), "c6");
    file(&mut old, 1, "kubeadm", Version::new(1, 9, 3), "k9");
    file(&mut old, 2, "kubeadm", Version::new(1, 10, 1), "k10");
    file(&mut old, 3, "runc", Version::new(1, 3, 0), "r");
    let image = |name: &str| LockedImage {
        name: name.parse().unwrap(),
        manifest: Descriptor {
            media_type: "application/vnd.oci.image.index.v1+json".to_owned(),
            digest: Digest::of(name.as_bytes()),
            size: 100,
        },
        platforms: Vec::new(),
        signature: None,
        unsigned: None,
        checksum: None,
    };
    old.images = vec![image("r.example/a:1"), image("r.example/gone:1")];
    let mut new = old.clone();
    new.images = vec![image("r.example/a:2"), image("r.example/new:1")];
    file(&mut new, 0, "containerd", Version::new(2, 3, 7), "c7");
    // One of two versions is replaced, and one gets other content.
    file(&mut new, 2, "kubeadm", Version::new(1, 10, 2), "k10.2");
    file(&mut new, 3, "runc", Version::new(1, 3, 0), "other");
    let (first, second) = (
        write_lock(folder.path(), "a.lock.yaml", &old),
        write_lock(folder.path(), "b.lock.yaml", &new),
    );
    let (code, said, err) = run(&["bundle", "diff", &first, &second]);
    assert_eq!(code, Some(0), "{err}");
    insta::assert_snapshot!(said, @"
    ~ file containerd amd64 2.3.6 -> 2.3.7
    ~ file kubeadm amd64 1.10.1 -> 1.10.2
    ~ file runc amd64 1.3.0 (454349e422f0) -> 1.3.0 (d9298a10d1b0)
    ~ image r.example/a 1 -> 2
    - image r.example/gone:1 e7b61e80b8f3 ()
    + image r.example/new:1 bb7a19a9a901 ()

    files: 3 changed
    images: 1 changed, 1 added, 1 removed
    14.84 KiB only in the second bundle
    ");
    let (_, document, _) = run(&["bundle", "diff", &first, &second, "--output", "json"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(
        document["summary"],
        serde_json::json!([
            {"kind": "file", "changed": 3, "added": 0, "removed": 0},
            {"kind": "image", "changed": 1, "added": 1, "removed": 1},
        ])
    );
}

#[test]
fn locked_build_without_a_lock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("b.tar.zst").display().to_string();
    let manifest = "manifests/kubernetes-1.36.yaml";
    let cache = folder.path().display().to_string();
    let arguments = [
        "bundle", "build", "-f", manifest, "-o", &out, "--locked", "--cache", &cache,
    ];
    let (code, _, err) = run(&arguments);
    assert_eq!(code, Some(2));
    let _filters = filters();
    insta::assert_snapshot!(err, @"
    error: cannot read the lock [folder]/b.lock.yaml: there is no such file
    hint: build once without --locked to get one
    ");
}
