//! Signatures in bundles: verified again, and kept when a bundle is rewritten.

use std::collections::BTreeSet;
use std::path::Path;

use kubexm_bundle::lock::{
    Descriptor, FileSignature, LockedImage, LockedSignature, PlatformManifest,
};
use kubexm_bundle::{Bundle, Inventory, Level, Lock, PackOptions, Placement, write};
use kubexm_sigstore::{Signer, document};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest};
use serde_json::{Value, json};

use super::authority::{IDENTITY, ISSUER, Sigstore, Wish, manifest};
use crate::example::{InMemory, example, kubexm, write_plain};

const OPTIONS: PackOptions<'_> = PackOptions::new(Level::MIN, 1);
pub const OCI: &str = "application/vnd.oci.image";
const SIGNED: &str = "registry.example/signed:1";
const PROGRAM: &[u8] = b"a program";
const PLAIN: &str = "registry.example/plain:1";

pub fn descriptor(blobs: &mut InMemory, media_type: &str, content: &[u8]) -> Descriptor {
    Descriptor {
        media_type: media_type.to_owned(),
        digest: blobs.add(content),
        size: content.len() as u64,
    }
}

fn image(blobs: &mut InMemory, name: &str) -> LockedImage {
    let config = descriptor(blobs, &format!("{OCI}.config.v1+json"), name.as_bytes());
    let top = json!({
        "schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"), "layers": [],
        "config": {"mediaType": config.media_type, "digest": config.digest, "size": config.size},
    });
    let manifest = descriptor(
        blobs,
        &format!("{OCI}.manifest.v1+json"),
        top.to_string().as_bytes(),
    );
    LockedImage {
        name: name.parse().unwrap(),
        manifest: manifest.clone(),
        platforms: vec![PlatformManifest {
            indexes: Vec::new(),
            arch: Some(Arch::Amd64),
            manifest,
            blobs: vec![config],
        }],
        signature: None,
        unsigned: None,
        checksum: None,
    }
}

/// Returns the record that a build writes into the lock for a verified signature of an image.
pub fn locked(sigstore: &Sigstore, blobs: &mut InMemory, image: Digest) -> LockedSignature {
    let claim = sigstore.claim(blobs, &Wish::right(image));
    let bytes = manifest(blobs, &[claim]).to_string().into_bytes();
    let parts = document::read(&bytes).unwrap().parts;
    let part = |part: document::Part| Descriptor {
        media_type: part.media_type,
        digest: part.digest,
        size: part.size,
    };
    let root = sigstore.trusted_root().to_string();
    LockedSignature {
        policy: "registry.example".parse().unwrap(),
        by: Signer::Identity {
            subject: IDENTITY.to_owned(),
            issuer: ISSUER.to_owned(),
            trusted_root: Some(Digest::of(root.as_bytes())),
        },
        manifest: descriptor(blobs, &format!("{OCI}.manifest.v1+json"), &bytes),
        blobs: parts.into_iter().map(part).collect(),
        referrers: None,
    }
}

/// Returns the same for a file.
fn beside(sigstore: &Sigstore, blobs: &mut InMemory) -> FileSignature {
    let (signature, certificate) = sigstore.beside(PROGRAM, &Wish::right(Digest::of(b"")));
    let root = sigstore.trusted_root().to_string();
    FileSignature {
        policy: "dl.example".parse().unwrap(),
        by: Signer::Identity {
            subject: IDENTITY.to_owned(),
            issuer: ISSUER.to_owned(),
            trusted_root: Some(Digest::of(root.as_bytes())),
        },
        signature: descriptor(blobs, "application/a", signature.as_bytes()),
        certificate: Some(descriptor(blobs, "application/b", certificate.as_bytes())),
    }
}

pub struct Case {
    folder: tempfile::TempDir,
    pub lock: Lock,
    pub blobs: InMemory,
    pub root: String,
}

impl Case {
    /// Two images, one of them signed, and a signed file.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sigstore = Sigstore::new();
        let (mut lock, mut blobs) = example(&[PROGRAM.to_vec()]);
        lock.files[0].signature = Some(beside(&sigstore, &mut blobs));
        let (mut signed, plain) = (image(&mut blobs, SIGNED), image(&mut blobs, PLAIN));
        signed.signature = Some(locked(&sigstore, &mut blobs, signed.manifest.digest));
        lock.images = vec![plain, signed];
        let root = folder.path().join("trusted_root.json");
        std::fs::write(&root, sigstore.trusted_root().to_string()).unwrap();
        Self {
            lock,
            blobs,
            root: root.display().to_string(),
            folder,
        }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn write(&self, name: &str, lock: &Lock) -> String {
        let path = self.at(name);
        write_plain(Path::new(&path), lock, &self.blobs, OPTIONS).unwrap();
        path
    }

    pub fn verify(&self, bundle: &str) -> (Option<i32>, String) {
        kubexm(&["bundle", "verify", bundle, "--trusted-root", &self.root])
    }

    /// Returns a bundle whose lock has other data about the signature.
    pub fn verify_changed(&self, change: impl FnOnce(&mut Lock)) -> (Option<i32>, String) {
        let mut lock = self.lock.clone();
        change(&mut lock);
        self.verify(&self.write("changed.tar.zst", &lock))
    }
}

pub fn signature(lock: &mut Lock) -> &mut LockedSignature {
    lock.images[1].signature.as_mut().unwrap()
}

#[test]
fn signature_claims_of_a_lock_are_verified_again() {
    let case = Case::new();
    let bundle = case.write("b.tar.zst", &case.lock);
    let (code, said) = case.verify(&bundle);
    let signed = format!("1 images and 1 files: signed by {IDENTITY} by {ISSUER}");
    assert!(code == Some(0) && said.contains(&signed), "{said}");
    // Without the trusted root, the result is unknown, and verify says so.
    let (code, said) = kubexm(&["bundle", "verify", &bundle]);
    for name in [SIGNED, "part0000 1.0.0 amd64"] {
        let unknown = format!("not verified: {name}");
        assert!(code == Some(0) && said.contains(&unknown), "{said}");
    }
    let (_, said) = kubexm(&["bundle", "inspect", &bundle]);
    assert!(
        said.contains("signed         1 images and 1 files by"),
        "{said}"
    );
    let (_, said) = kubexm(&["bundle", "list", &bundle]);
    assert_eq!(
        said.matches("signed by robot@builds.example").count(),
        2,
        "{said}"
    );
    assert!(!said.contains(": signed by"), "{said}");

    let refused = |(code, said): (Option<i32>, String), reason: &str| {
        assert!(
            code == Some(3) && said.contains(&format!("{SIGNED}: ")) && said.contains(reason),
            "{reason}: {said}"
        );
    };
    let somebody = |lock: &mut Lock| {
        let Signer::Identity { subject, .. } = &mut signature(lock).by else {
            panic!("an identity");
        };
        "krel@evil.example".clone_into(subject);
    };
    refused(
        case.verify_changed(somebody),
        "it is by robot@builds.example",
    );
    let public = |lock: &mut Lock| {
        let Signer::Identity { trusted_root, .. } = &mut signature(lock).by else {
            panic!("an identity");
        };
        *trusted_root = None;
    };
    refused(
        case.verify_changed(public),
        "its entry is in an unknown transparency log",
    );
    let by_key = |lock: &mut Lock| {
        let key = rcgen::KeyPair::generate().unwrap().public_key_pem();
        signature(lock).by = Signer::Key(key.parse().unwrap());
    };
    refused(
        case.verify_changed(by_key),
        "made by an identity, not with a key of the policy",
    );
    let of_another = |lock: &mut Lock| {
        let image = &lock.images[0];
        (lock.images[1].manifest, lock.images[1].platforms) =
            (image.manifest.clone(), image.platforms.clone());
    };
    refused(
        case.verify_changed(of_another),
        "it is a signature of sha256:",
    );
    let nothing = |lock: &mut Lock| {
        let manifest = lock.images[0].manifest.clone();
        *signature(lock) = LockedSignature {
            manifest,
            ..signature(lock).clone()
        };
    };
    refused(
        case.verify_changed(nothing),
        "does not carry a cosign signature",
    );
    let changed = |lock: &mut Lock| {
        let file = &mut lock.files[0];
        (file.digest, file.size) = (lock.images[0].manifest.digest, lock.images[0].manifest.size);
    };
    let (code, said) = case.verify_changed(changed);
    let reason = "part0000 1.0.0 amd64: its signature is of other content";
    assert!(code == Some(3) && said.contains(reason), "{said}");
}

#[test]
fn signers_in_a_lock_have_no_control_characters() {
    let case = Case::new();
    let text = serde_saphyr::to_string(&case.lock).unwrap();
    assert!(Lock::from_yaml(&text).unwrap() == case.lock);
    for (from, to) in [
        (IDENTITY.to_owned(), "\"\\u001b[2J\"".to_owned()),
        (ISSUER.to_owned(), "x".repeat(400)),
        (
            "policy: registry.example".to_owned(),
            "policy: evil".to_owned(),
        ),
        ("trustedRoot: ".to_owned(), "trustedRoot: x".to_owned()),
    ] {
        assert!(text.contains(&from), "{from}");
        assert!(
            Lock::from_yaml(&text.replace(&from, &to)).is_err(),
            "{from}"
        );
    }
    let mut huge = case.lock.clone();
    signature(&mut huge).blobs[0].size = 1 << 40;
    let text = serde_saphyr::to_string(&huge).unwrap();
    assert!(
        Lock::from_yaml(&text)
            .unwrap_err()
            .text
            .contains("invalid size")
    );
    // Locks without signatures are read and written unchanged.
    let mut older = case.lock.clone();
    older.images[1].signature = None;
    older.files[0].signature = None;
    let text = serde_saphyr::to_string(&older).unwrap();
    assert!(!text.contains("signature") && Lock::from_yaml(&text).unwrap() == older);
}

#[test]
fn signature_of_another_image_is_refused() {
    let case = Case::new();
    let bundle = case.write("b.tar.zst", &case.lock);
    let top = case.lock.images[1].signature.clone().unwrap().manifest;

    // In the index of the layout, under the name for which cosign looks.
    let opened = Bundle::open(Path::new(&bundle)).unwrap();
    let index: Value = serde_json::from_slice(&opened.documents().index).unwrap();
    let entries = index["manifests"].as_array().unwrap().iter();
    let entry = entries.filter(|e| e["digest"] == top.digest.to_string());
    let names: Vec<&Value> = entry
        .map(|e| &e["annotations"]["org.opencontainers.image.ref.name"])
        .collect();
    let image = case.lock.images[1].manifest.digest.hex();
    let name = format!("registry.example/signed:sha256-{image}.sig");
    assert_eq!(names, [&json!(name)]);

    // Beside their files, under their published names.
    let manifest = String::from_utf8(opened.documents().manifest.clone()).unwrap();
    for suffix in ["", ".sig", ".cert"] {
        let title = format!("\"part0000/1.0.0/amd64/part0000{suffix}\"");
        assert!(manifest.contains(&title), "{manifest}");
    }

    // An incremental bundle for a site that has the signed image leaves it out; a merge restores it.
    let mut fewer = case.lock.clone();
    fewer.images.remove(0);
    let base = case.write("base.tar.zst", &fewer);
    let site = Inventory::new("site", &[Bundle::open(Path::new(&base)).unwrap()]);
    let wanted: BTreeSet<Digest> = case.lock.blobs().keys().copied().collect();
    let storage =
        Placement::plain(&case.lock).without(site.base(Digest::of(b"site"), &wanted).unwrap());
    let new = case.at("new.tar.zst");
    let events = Events::silent();
    write(
        Path::new(&new),
        &case.lock,
        &storage,
        &case.blobs,
        OPTIONS,
        &events,
    )
    .unwrap();
    let (code, said) = case.verify(&new);
    assert!(
        code == Some(0) && said.contains("2: their signatures are in"),
        "{said}"
    );
    let whole = case.at("whole.tar.zst");
    let (code, said) = kubexm(&["bundle", "apply", &base, &new, "-o", &whole]);
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = case.verify(&whole);
    assert!(said.contains("1 images and 1 files: signed by"), "{said}");

    // Removed together with its image, and reported by diff.
    let out = case.at("without.tar.zst");
    let cache = case.at("cache");
    let remove = [
        "bundle", "remove", &bundle, SIGNED, "-o", &out, "--cache", &cache,
    ];
    let (code, said) = kubexm(&remove);
    assert_eq!(code, Some(0), "{said}");
    let (repository, _) = SIGNED.rsplit_once(':').unwrap();
    let refusal = format!("- signature of {repository} {IDENTITY} by {ISSUER}");
    assert!(said.contains(&refusal), "{said}");
    assert!(!Bundle::open(Path::new(&out)).unwrap().carries(&top.digest));
    let (_, said) = kubexm(&["bundle", "diff", &out, &bundle]);
    assert!(said.contains(&refusal.replace("- ", "+ ")), "{said}");
}
