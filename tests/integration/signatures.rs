//! Signed bundles: only trusted keys are accepted. The real minisign decides what a valid signature is.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_bundle::{Access, Bundle, BundleError, Level, PackOptions, Signed, Signer};
use kubexm_types::PublicKey;
use kubexm_types::event::Events;

use crate::example::{example, kubexm, text, write_plain};
use crate::snapshots::filters;

/// Returns a key pair from the program: the files of the secret and of the public key.
fn keys(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let base = folder.join(name);
    let (code, printed) = kubexm(&[
        "bundle",
        "keygen",
        "--no-password",
        &base.display().to_string(),
    ]);
    assert_eq!(code, Some(0), "{printed}");
    (base.with_extension("key"), base.with_extension("pub"))
}

fn public(path: &Path) -> PublicKey {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

fn pack(path: &Path, signer: Option<&Signer>) {
    let (lock, blobs) = example(&[text(1, 30_000), text(2, 30_000)]);
    let options = PackOptions {
        signed: signer.map_or(Signed::No, Signed::By),
        ..PackOptions::new(Level::FAST, 1)
    };
    write_plain(path, &lock, &blobs, options).unwrap();
}

fn signer(path: &Path) -> Signer {
    Signer::load(path, || panic!("no password is asked for")).unwrap()
}

fn open(path: &Path, trust: &[&PublicKey]) -> Result<Bundle, BundleError> {
    let access = Access {
        trust: trust.iter().copied().cloned().collect(),
        ..Access::default()
    };
    Bundle::open_with(path, &access)
}

fn untrusted(opened: Result<Bundle, BundleError>) -> String {
    let error = opened.unwrap_err();
    assert!(matches!(error, BundleError::Untrusted { .. }), "{error}");
    error.to_string()
}

/// Keys are random, and so are their signatures.
fn filtered() -> [insta::internals::SettingsBindDropGuard; 2] {
    let outer = filters();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\bRW[\w+/]{54}", "[key]");
    settings.add_filter(r"\b[0-9A-F]{16}\b", "[key ID]");
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[digest]");
    settings.add_filter(r"\b[\d.]+ KiB\b", "[size]");
    [settings.bind_to_scope(), outer]
}

#[test]
fn only_bundles_of_trusted_keys_are_opened() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let ((own, own_public), (_, other_public)) =
        (keys(folder.path(), "own"), keys(folder.path(), "o"));
    let (own_public, other_public) = (public(&own_public), public(&other_public));
    let path = folder.path().join("b.tar.zst");
    pack(&path, None);
    open(&path, &[]).unwrap();
    insta::assert_snapshot!(untrusted(open(&path, &[&own_public])), @"
    [folder]/b.tar.zst: is not signed, but a signature by a trusted key is required
    hint: check where the bundle comes from; its builder signs it with `kubexm bundle sign`
    ");
    pack(&path, Some(&signer(&own)));
    open(&path, &[]).unwrap();
    open(&path, &[&own_public]).unwrap();
    open(&path, &[&other_public, &own_public]).unwrap();
    insta::assert_snapshot!(untrusted(open(&path, &[&other_public])), @"
    [folder]/b.tar.zst: is signed with a key that is not trusted ([key ID])
    hint: check where the bundle comes from; --trust and spec.bundle.trust name the trusted keys
    ");
}

#[test]
fn signature_of_another_bundle_is_refused() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let trusted = public(&own_public);
    let path = folder.path().join("b.tar.zst");
    pack(&path, Some(&signer(&own)));
    let opened = open(&path, &[&trusted]).unwrap();
    // Another lock with the same signature.
    let (lock, blobs) = example(&[text(1, 30_000), text(3, 30_000)]);
    let mut texts = opened.documents().clone();
    let other = kubexm_bundle::format::oci_layout::head(&lock).unwrap();
    texts.index = other.index;
    texts.manifest = other.manifest;
    texts.lock = other.lock;
    let options = PackOptions {
        signed: Signed::As(&texts),
        ..PackOptions::new(Level::FAST, 1)
    };
    write_plain(&path, &lock, &blobs, options).unwrap();
    open(&path, &[]).unwrap();
    insta::assert_snapshot!(untrusted(open(&path, &[&trusted])), @"
    [folder]/b.tar.zst: its signature is wrong: the index or the signature was changed
    hint: do not use this bundle
    ");
    // A text that is not a signature.
    texts.signature = Some(b"nonsense".to_vec());
    let options = PackOptions {
        signed: Signed::As(&texts),
        ..PackOptions::new(Level::FAST, 1)
    };
    write_plain(&path, &lock, &blobs, options).unwrap();
    insta::assert_snapshot!(untrusted(open(&path, &[&trusted])), @"
    [folder]/b.tar.zst: its signature is not a valid minisign signature
    hint: do not use this bundle
    ");
}

#[test]
fn bundle_is_signed_without_repacking() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let (path, signed) = (
        folder.path().join("b.tar.zst"),
        folder.path().join("s.tar.zst"),
    );
    pack(&path, None);
    let (key, from, to) = (
        own.display().to_string(),
        path.display().to_string(),
        signed.display().to_string(),
    );
    let (code, printed) = kubexm(&["bundle", "sign", &from, "--key", &key, "-o", &to]);
    assert_eq!(code, Some(0), "{printed}");
    let trusted = public(&own_public);
    insta::assert_snapshot!(printed.replace(&trusted.to_string(), "[own key]"), @"
    [folder]/s.tar.zst
      size     [size]
      sha256   [digest]
      trust    [own key]
    copy [folder]/s.tar.zst: done, [size] in [time]
    ");
    let bundle = open(&signed, &[&trusted]).unwrap();
    bundle.verify(1, &Events::silent()).unwrap();
    assert_eq!(
        bundle.lock_digest(),
        open(&path, &[]).unwrap().lock_digest()
    );
    // In place, with another key.
    let (second, second_public) = keys(folder.path(), "second");
    let (code, printed) = kubexm(&[
        "bundle",
        "sign",
        &to,
        "--key",
        &second.display().to_string(),
    ]);
    assert_eq!(code, Some(0), "{printed}");
    open(&signed, &[&public(&second_public)]).unwrap();
    insta::assert_snapshot!(untrusted(open(&signed, &[&trusted])), @"
    [folder]/s.tar.zst: is signed with a key that is not trusted ([key ID])
    hint: check where the bundle comes from; --trust and spec.bundle.trust name the trusted keys
    ");
}

#[test]
fn trusted_keys_come_from_options_and_cluster_file() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let ((own, own_public), (_, other_public)) =
        (keys(folder.path(), "own"), keys(folder.path(), "o"));
    let path = folder.path().join("b.tar.zst");
    pack(&path, Some(&signer(&own)));
    let (bundle, own_file, other_file) = (
        path.display().to_string(),
        own_public.display().to_string(),
        other_public.display().to_string(),
    );
    let line = public(&own_public).to_string();
    for trust in [&own_file, &line] {
        let (code, printed) = kubexm(&["bundle", "verify", &bundle, "--trust", trust]);
        assert_eq!(code, Some(0), "{printed}");
    }
    for command in ["inspect", "list", "verify"] {
        let (code, printed) = kubexm(&["bundle", command, &bundle, "--trust", &other_file]);
        assert_eq!(code, Some(3));
        insta::allow_duplicates!(insta::assert_snapshot!(printed, @"
            error: [folder]/b.tar.zst: is signed with a key that is not trusted ([key ID])
            hint: check where the bundle comes from; --trust and spec.bundle.trust name the trusted keys
            "));
    }
    let (code, printed) = kubexm(&["bundle", "verify", &bundle, "--trust", "RWrong"]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(printed, @"
    error: invalid value 'RWrong' for '--trust <KEY>': neither a minisign public key nor a file with one: No such file or directory (os error 2)

    For more information, try '--help'.
    ");
    // Keys in the cluster file count as much, for every command that reads it.
    let cluster = folder.path().join("cluster.yaml");
    let template = kubexm(&["config", "init"]).1;
    let trusting = |key: &PublicKey| {
        let trust = format!("spec:\n  bundle: {{trust: [{key}]}}\n");
        std::fs::write(&cluster, template.replacen("spec:\n", &trust, 1)).unwrap();
    };
    let file = cluster.display().to_string();
    for command in ["plan", "install"] {
        trusting(&public(&other_public));
        let (code, printed) = kubexm(&[command, "--bundle", &bundle, "-f", &file]);
        assert_eq!(code, Some(3));
        insta::allow_duplicates!(insta::assert_snapshot!(printed, @"
            error: [folder]/b.tar.zst: is signed with a key that is not trusted ([key ID])
            hint: check where the bundle comes from; --trust and spec.bundle.trust name the trusted keys
            "));
        std::fs::write(
            &cluster,
            template.replacen("spec:\n", "spec:\n  bundle: {trust: [x]}\n", 1),
        )
        .unwrap();
        let (code, printed) = kubexm(&[command, "--bundle", &bundle, "-f", &file]);
        assert_eq!(code, Some(2));
        insta::allow_duplicates!(insta::assert_snapshot!(printed, @"
        error: [folder]/cluster.yaml:7:20: spec.bundle.trust[0]: public key 'x': expected a minisign key: 56 characters that begin with RW
          hint: `kubexm config schema cluster` describes every field
        "));
    }
    trusting(&public(&own_public));
    let (_, printed) = kubexm(&["plan", "--bundle", &bundle, "-f", &file]);
    assert!(!printed.contains("key"), "{printed}");
}

#[test]
#[ignore = "needs minisign"]
fn minisign_and_kubexm_accept_each_others_keys_and_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let minisign = |arguments: &[&str]| {
        let mut command = Command::new("minisign");
        let output = command.args(arguments).current_dir(folder.path()).output();
        assert!(output.as_ref().unwrap().status.success(), "{output:?}");
    };
    minisign(&["-G", "-W", "-p", "m.pub", "-s", "m.key"]);
    let path = at("b.tar.zst");
    pack(&path, Some(&signer(&at("m.key"))));
    let bundle = open(&path, &[&public(&at("m.pub"))]).unwrap();
    std::fs::write(at("index.json"), &bundle.documents().index).unwrap();
    std::fs::write(
        at("index.json.minisig"),
        bundle.documents().signature.as_ref().unwrap(),
    )
    .unwrap();
    minisign(&["-V", "-p", "m.pub", "-m", "index.json"]);
    // kubexm accepts signatures of minisign, and minisign accepts keys of kubexm.
    let (own, own_public) = keys(folder.path(), "own");
    minisign(&[
        "-S",
        "-W",
        "-s",
        &own.display().to_string(),
        "-m",
        "index.json",
    ]);
    let text = std::fs::read_to_string(at("index.json.minisig")).unwrap();
    public(&own_public)
        .verify(&bundle.documents().index, &text)
        .unwrap();
}

#[test]
fn private_keys_are_readable_by_owner_only_and_never_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (own, _) = keys(folder.path(), "own");
    let mode = std::fs::metadata(&own).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(&own).unwrap();
    let name = folder.path().join("own").display().to_string();
    let (code, printed) = kubexm(&["bundle", "keygen", "--no-password", &name]);
    assert_eq!(code, Some(2));
    let _filters = filtered();
    insta::assert_snapshot!(printed, @"
    error: cannot write [folder]/own.key: the file exists, and keys are never replaced
    hint: choose another name, or move the old key away
    ");
    assert_eq!(std::fs::read(&own).unwrap(), before);
}
