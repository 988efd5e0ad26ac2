//! SBOM documents: their content, and that they are reproducible.

use super::*;

const STATUS: &[u8] =
    b"Package: libssl3\nStatus: install ok installed\nMaintainer: Debian QA <q@d.example>\n\
Architecture: amd64\nSource: openssl\nVersion: 3.0.15-1~deb12u1\nDescription: x\n";
const INSTALLED: &[u8] =
    b"P:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\no:musl\n\nP:odd\nV:1.0-r2\nA:x86_64\n\
L:custom words\no:odd-source\n";

/// Returns three images with shared and hidden layers, with each media type of layers.
fn bundle() -> Made {
    let base = tar(&[
        ("etc/os-release", DEBIAN.as_bytes()),
        ("var/lib/dpkg/status", STATUS),
        ("usr/share/filler", &vec![7; 80_000]),
    ]);
    let gone = tar(&[("var/lib/dpkg/.wh.status", b"")]);
    let distroless = tar(&[
        (
            "var/lib/dpkg/status.d/tzdata",
            b"Package: tzdata\nVersion: 2024a\nArchitecture: all\n",
        ),
        (
            "var/lib/dpkg/status.d/tzdata.md5sums",
            b"Package: no\nVersion: 1\n",
        ),
        ("usr/share/more", &vec![9; 90_000]),
    ]);
    let alpine = tar(&[
        ("lib/apk/db/installed", INSTALLED),
        ("usr/lib/os-release", ALPINE.as_bytes()),
    ]);
    let zstd = zstd::encode_all(&alpine[..], 3).unwrap();
    Made::new()
        .image("registry.example/full:v1", &[(GZIP, gzip(&base))])
        .image(
            "registry.example/emptied:v1",
            &[
                (GZIP, gzip(&base)),
                (
                    "application/vnd.docker.image.rootfs.diff.tar.gzip",
                    gzip(&gone),
                ),
            ],
        )
        .image(
            "registry.example/distroless:v1",
            &[
                (GZIP, gzip(&base)),
                (GZIP, gzip(&gone)),
                ("application/vnd.oci.image.layer.v1.tar", distroless),
            ],
        )
        .image(
            "registry.example/small:v1",
            &[("application/vnd.oci.image.layer.v1.tar+zstd", zstd)],
        )
}

const LIBSSL: &str =
    "pkg:deb/debian/libssl3@3.0.15-1~deb12u1?arch=amd64&distro=debian-12&upstream=openssl";
const TZDATA: &str = "pkg:deb/debian/tzdata@2024a?arch=all&distro=debian-12";

#[test]
fn image_packages_come_from_the_top_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    bundle().pack(&path);
    let document = sbom(&path);
    for (image, packages) in [
        ("full", &[LIBSSL][..]),
        ("emptied", &[]),
        ("distroless", &[TZDATA]),
        (
            "small",
            &[
                "pkg:apk/alpine/musl@1.2.5-r0?arch=x86_64&distro=alpine-3.20.3",
                "pkg:apk/alpine/odd@1.0-r2?arch=x86_64&distro=alpine-3.20.3&upstream=odd-source",
            ],
        ),
    ] {
        let image = component(&document, &format!("registry.example/{image}"));
        let expected = packages.iter().map(|purl| (*purl).to_owned()).collect();
        assert_eq!(below(&document, &image["bom-ref"]), expected);
    }
    let libssl = component(&document, "libssl3");
    let place = "registry.example/full:v1 (amd64): /var/lib/dpkg/status";
    assert_eq!(libssl["evidence"]["occurrences"][0]["location"], place);
    assert_eq!(
        libssl["evidence"]["occurrences"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        component(&document, "musl")["licenses"][0]["expression"],
        "MIT"
    );
    assert_eq!(
        component(&document, "odd")["licenses"][0]["license"]["name"],
        "custom words"
    );
}

#[test]
fn sbom_does_not_depend_on_the_storage_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let [kept, opened] = ["kept", "opened"].map(|name| folder.path().join(name));
    bundle().pack(&kept);
    bundle().pack_opened(&opened);
    let texts: BTreeSet<String> = [&kept, &opened, &opened]
        .into_iter()
        .map(|path| kubexm(&["bundle", "sbom", path.to_str().unwrap()]).0)
        .collect();
    assert_eq!(texts.len(), 1);
    assert!(!texts.first().unwrap().contains("timestamp"));
}

#[test]
fn every_sbom_reference_resolves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst").display().to_string();
    bundle().pack(Path::new(&path));
    let out = folder.path().join("b.spdx.json").display().to_string();
    kubexm(&[
        "bundle",
        "sbom",
        &path,
        "--format",
        "spdx-json",
        "--out",
        &out,
    ]);
    let spdx: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let packages = spdx["packages"].as_array().unwrap();
    let mut known: BTreeSet<&str> = packages
        .iter()
        .map(|p| p["SPDXID"].as_str().unwrap())
        .collect();
    assert_eq!(known.len(), packages.len());
    known.insert("SPDXRef-DOCUMENT");
    let relationships = spdx["relationships"].as_array().unwrap();
    for relationship in relationships {
        for end in ["spdxElementId", "relatedSpdxElement"] {
            assert!(
                known.contains(relationship[end].as_str().unwrap()),
                "{relationship}"
            );
        }
    }
    // The bundle has four images; three of them have one or two packages.
    let contains = relationships
        .iter()
        .filter(|r| r["relationshipType"] == "CONTAINS");
    assert_eq!(contains.count(), 4 + 4);
    let texts = spdx["hasExtractedLicensingInfos"].as_array().unwrap();
    let odd = packages.iter().find(|p| p["name"] == "odd").unwrap();
    assert_eq!(odd["licenseDeclared"], texts[0]["licenseId"]);
    assert_eq!(texts[0]["extractedText"], "custom words");
    assert_eq!(
        packages.iter().find(|p| p["name"] == "musl").unwrap()["licenseDeclared"],
        "MIT"
    );

    let cyclonedx = sbom(Path::new(&path));
    let components = cyclonedx["components"].as_array().unwrap().iter();
    let mut known: std::collections::HashSet<&Value> = components.map(|c| &c["bom-ref"]).collect();
    known.insert(&cyclonedx["metadata"]["component"]["bom-ref"]);
    for own in cyclonedx["dependencies"].as_array().unwrap() {
        let ends = own["dependsOn"].as_array().unwrap().iter();
        assert!(
            ends.chain([&own["ref"]]).all(|end| known.contains(end)),
            "{own}"
        );
    }
}

#[test]
fn sbom_has_the_given_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    Made::new().pack(&path);
    let with = |epoch: &str, format: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
        command.args(["bundle", "sbom", path.to_str().unwrap(), "--format", format]);
        command.env("SOURCE_DATE_EPOCH", epoch).output().unwrap()
    };
    for format in ["cyclonedx-json", "spdx-json"] {
        let out = String::from_utf8(with("1700000000", format).stdout).unwrap();
        assert!(out.contains("\"2023-11-14T22:13:20Z\""), "{out}");
    }
    assert_eq!(with("yesterday", "spdx-json").status.code(), Some(2));
}

#[test]
fn unreadable_layers_are_named_and_the_others_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let base = tar(&[
        ("etc/os-release", DEBIAN.as_bytes()),
        ("var/lib/dpkg/status", STATUS),
        ("var/lib/rpm/Packages", b"no database"),
        // A name that would clear the terminal.
        (
            "var/lib/dpkg/status.d/\u{1b}[2Jx",
            b"Package: odd\nVersion: 1\nArchitecture: all\n",
        ),
    ]);
    let mut broken = gzip(&tar(&[("x", &vec![1; 5000])]));
    broken.truncate(60);
    bundle()
        .image(
            "registry.example/broken:v1",
            &[(GZIP, gzip(&base)), (GZIP, broken)],
        )
        .pack(&path);
    let (out, err) = kubexm(&["bundle", "sbom", path.to_str().unwrap()]);
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"
    note: registry.example/broken:v1 (amd64): /var/lib/rpm/Packages is not an rpm database that kubexm knows
    note: registry.example/broken:v1 (amd64): layer sha256:a6a58d7c8d76fa2ef6d335c4193cfc61a5d453b3bb754775977ff3b242d965e8 cannot be read: incomplete deflate stream
    ");
    let (table, notes) = kubexm(&[
        "bundle",
        "sbom",
        path.to_str().unwrap(),
        "--format",
        "table",
    ]);
    assert!(table.contains("[2Jx"), "{table}");
    assert!(!(table + &notes).contains('\u{1b}'));
    let document: Value = serde_json::from_str(&out).unwrap();
    let notes = document["metadata"]["properties"].as_array().unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    let image = component(&document, "registry.example/broken");
    assert!(below(&document, &image["bom-ref"]).contains(LIBSSL));
}

#[test]
fn large_package_database_is_read_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let mut status = STATUS.to_vec();
    status.extend(b" ");
    status.resize(50 << 20, b'x');
    let layer = tar(&[
        ("etc/os-release", DEBIAN.as_bytes()),
        ("var/lib/dpkg/status", &status),
    ]);
    let name = "registry.example/large:v1";
    Made::new().image(name, &[(GZIP, gzip(&layer))]).pack(&path);
    assert_eq!(
        purls(&sbom(&path), "deb"),
        BTreeSet::from([LIBSSL.to_owned()])
    );
}

#[test]
fn damaged_bundle_gives_no_sbom() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    bundle().pack_opened(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    // After the header, in the frames of the layers.
    let at = bytes.len() / 2;
    bytes[at] ^= 0x40;
    std::fs::write(&path, bytes).unwrap();
    let (code, out, err) = kubexm_as_it_ends(&["bundle", "sbom", path.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"
    error: [folder]/b.tar.zst: damaged: expected sha256:0f75d225c18f724d0e66efc77ad7c3ed0bfe51bda7fbd572adc4c5399c58042a, got sha256:6117d83d15ca07a5244babdb24b44f6448046bd6064c2a705910129b3e617df2
    hint: copy the bundle again
    ");
}
