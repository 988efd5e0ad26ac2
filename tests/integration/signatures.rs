//! Signed bundles: only trusted keys are accepted. The real minisign decides what a valid signature is.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_bundle::format::header::{self, HeaderError};
use kubexm_bundle::format::placement::DecompressedGzips;
use kubexm_bundle::{
    Access, Bundle, BundleError, CreationTime, Level, PackOptions, Revision, Signed, Signer,
};
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

/// Loads a key whose signatures state 2026-01-02T03:04:05Z and this sequence number.
fn signer_of(path: &Path, sequence: u64) -> Signer {
    let created = CreationTime::of_source_date_epoch(Some("1767323045")).unwrap();
    let revision = Revision::new(created.unwrap(), Some(sequence.try_into().unwrap()));
    Signer::load(path, revision, || panic!("no password is asked for")).unwrap()
}

fn signer(path: &Path) -> Signer {
    signer_of(path, 7)
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
    settings.add_filter(r"  created  20\d\d-\S+Z", "  created  [created]");
    settings.add_filter(r"(?m)^  sequence \d+", "  sequence [sequence]");
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
    let other = kubexm_bundle::format::oci_layout::head(&lock, &DecompressedGzips::new()).unwrap();
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
      created  [created]
      sequence [sequence]
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

#[test]
fn signature_states_creation_time_and_sequence_number() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let path = folder.path().join("b.tar.zst").display().to_string();
    let (own, trust) = (own.display().to_string(), own_public.display().to_string());
    pack(Path::new(&path), None);
    let verify = |options: &[&str]| {
        kubexm(&[&["bundle", "verify", &path, "--metadata-only"], options].concat())
    };
    assert!(verify(&[]).1.ends_with("signature: none\n"));
    let sign = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
        command.args(["bundle", "sign", &path, "--key", &own]);
        let epoch = command.env("SOURCE_DATE_EPOCH", "1767323045");
        let output = epoch.args(options).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    sign(&[]);
    insta::assert_snapshot!(verify(&["--trust", &trust]).1, @"
    [folder]/b.tar.zst: the index matches the file; no content was read
      signature: key [key ID] (verified): created 2026-01-02T03:04:05Z, sequence 1767323045
    ");
    insta::assert_snapshot!(verify(&[]).1, @"
    [folder]/b.tar.zst: the index matches the file; no content was read
      signature: key [key ID] (not verified, give --trust): created 2026-01-02T03:04:05Z, sequence 1767323045
    ");
    sign(&["--sequence", "12"]);
    let (_, inspected) = kubexm(&["bundle", "inspect", &path, "--trust", &trust]);
    assert!(
        inspected.contains("(verified): created 2026-01-02T03:04:05Z, sequence 12\n"),
        "{inspected}"
    );
    let options = [
        "bundle", "inspect", &path, "--trust", &trust, "--output", "json",
    ];
    let inspected: serde_json::Value = serde_json::from_str(&kubexm(&options).1).unwrap();
    let signature = &inspected["signature"];
    assert_eq!(signature["verified"], true);
    assert_eq!(signature["sequence"], 12);
    assert_eq!(signature["created"], "2026-01-02T03:04:05Z");
    // A caller that knows the newest number refuses an old bundle, whatever the name of its file.
    assert_eq!(
        verify(&["--trust", &trust, "--min-sequence", "12"]).0,
        Some(0)
    );
    let (code, printed) = verify(&["--trust", &trust, "--min-sequence", "13"]);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(printed, @"
    error: [folder]/b.tar.zst: its sequence number 12 is less than 13
    hint: get the newest bundle
    ");
    let (code, printed) = kubexm(&["bundle", "sign", &path, "--key", &own, "--sequence", "x"]);
    assert_eq!(code, Some(2));
    assert!(
        printed.contains("'--sequence <N>': expected a number from 0 to 9007199254740991"),
        "{printed}"
    );
}

#[test]
fn signature_of_an_earlier_version_has_no_sequence_number() {
    let golden = |name: &str| {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/format");
        format!("{tests}/{name}")
    };
    let (bundle, key) = (golden("bundle-v3.tar.zst"), golden("golden.pub"));
    let verify = ["bundle", "verify", &bundle, "--trust", &key];
    let (code, printed) = kubexm(&verify);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("(verified): no creation time and no sequence number\n"),
        "{printed}"
    );
    let (code, printed) = kubexm(&[&verify[..], &["--min-sequence", "0"]].concat());
    assert_eq!(code, Some(3), "{printed}");
    assert!(
        printed.contains("its signature has no sequence number"),
        "{printed}"
    );
}

#[test]
fn signature_that_names_another_bundle_is_refused() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let path = folder.path().join("b.tar.zst");
    let (lock, blobs) = example(&[text(1, 30_000)]);
    let mut texts =
        kubexm_bundle::format::oci_layout::head(&lock, &DecompressedGzips::new()).unwrap();
    texts.sign(&signer(&own), "another").unwrap();
    let options = PackOptions {
        signed: Signed::As(&texts),
        ..PackOptions::new(Level::FAST, 1)
    };
    write_plain(&path, &lock, &blobs, options).unwrap();
    insta::assert_snapshot!(untrusted(open(&path, &[&public(&own_public)])), @"
    [folder]/b.tar.zst: its signature is for the bundle 'another' with the lock sha256:[digest], but it is the bundle 'example' with the lock sha256:[digest]
    hint: do not use this bundle
    ");
}

#[test]
fn nothing_behind_a_signature_is_parsed_before_it_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let (_, other_public) = keys(folder.path(), "other");
    let path = folder.path().join("b.tar.zst");
    pack(&path, Some(&signer(&own)));
    let file = std::fs::read(&path).unwrap();
    let mut head = Vec::new();
    let mut frame = zstd::Decoder::new(&file[..]).unwrap().single_frame();
    std::io::Read::read_to_end(&mut frame, &mut head).unwrap();
    let read = |head: &[u8], key: &Path| {
        header::read(head, head.len() as u64, &[public(key)]).map(|header| header.signature)
    };
    assert!(read(&head, &own_public).unwrap().unwrap().verified);
    // The artifact manifest follows the signature. A wrong byte in it is damage only for the right key.
    let name = b"index.json.minisig";
    let place = head
        .windows(name.len())
        .position(|bytes| bytes == name)
        .unwrap();
    for changed in place + 2 * 512..head.len() {
        head[changed] ^= 1;
        let refused = read(&head, &other_public).unwrap_err();
        assert!(
            matches!(refused, HeaderError::Untrusted(_)),
            "{changed}: {refused:?}"
        );
        if changed % 97 == 0 {
            let refused = read(&head, &own_public);
            assert!(
                !matches!(refused, Err(HeaderError::Untrusted(_))),
                "{changed}"
            );
        }
        head[changed] ^= 1;
    }
}

#[test]
fn public_key_is_recognized_before_a_password_is_requested() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (_, own_public) = keys(folder.path(), "own");
    let path = folder.path().join("b.tar.zst");
    pack(&path, None);
    let (bundle, key) = (path.display().to_string(), own_public.display().to_string());
    let (code, printed) = kubexm(&["bundle", "sign", &bundle, "--key", &key]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(printed, @"
    error: [folder]/own.pub: this is a public key, but a signature needs the secret key
    hint: give the .key file that belongs to it
    ");
}

/// Writes a cluster file whose hosts refuse connections.
fn unreachable_cluster(folder: &Path) -> String {
    let cluster = folder.join("cluster.yaml");
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: first}\nspec:\n  \
                hosts: [{name: node1, address: 127.0.0.1, port: 1, user: root}]\n  \
                roleGroups: {control-plane: [node1]}\n  kubernetes: {version: v1.36.3}\n";
    std::fs::write(&cluster, text).unwrap();
    cluster.display().to_string()
}

#[test]
fn install_without_a_key_requires_unsigned() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let path = folder.path().join("b.tar.zst");
    pack(&path, Some(&signer(&own)));
    let state = folder.path().join("state").display().to_string();
    let (bundle, cluster) = (
        path.display().to_string(),
        unreachable_cluster(folder.path()),
    );
    let install = |options: &[&str]| {
        let command = ["install", &bundle, "-f", &cluster, "--state", &state];
        kubexm(&[&command[..], options].concat())
    };
    for options in [&[][..], &["--dry-run"]] {
        let (code, printed) = install(options);
        assert_eq!(code, Some(2));
        insta::allow_duplicates!(insta::assert_snapshot!(printed, @"
        error: [folder]/b.tar.zst: cannot verify the signature: neither --trust nor spec.bundle.trust in [folder]/cluster.yaml names a key
        hint: give the public key of the bundle's builder with --trust FILE, or install without this check with --unsigned
        "));
    }
    let (code, printed) = install(&["--unsigned"]);
    assert_eq!(code, Some(4), "{printed}");
    assert!(
        printed.contains("the signature is not verified, because of --unsigned"),
        "{printed}"
    );
    let key = own_public.display().to_string();
    assert_eq!(install(&["--trust", &key]).0, Some(4));
    assert_eq!(install(&["--trust", &key, "--unsigned"]).0, Some(2));
    let text = std::fs::read_to_string(&cluster).unwrap();
    let trust = format!("spec:\n  bundle: {{trust: {}}}\n", public(&own_public));
    std::fs::write(&cluster, text.replacen("spec:\n", &trust, 1)).unwrap();
    assert_eq!(install(&[]).0, Some(4));
    let (code, printed) = install(&["--unsigned"]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(printed, @"
    error: --unsigned contradicts spec.bundle.trust in [folder]/cluster.yaml: the key there must have signed the bundle
    hint: leave out --unsigned, or remove the keys
    ");
}

#[test]
fn install_refuses_an_older_signed_bundle_under_any_name() {
    let _filters = filtered();
    let folder = tempfile::tempdir().unwrap();
    let (own, own_public) = keys(folder.path(), "own");
    let at = |name: &str| folder.path().join(name);
    pack(&at("old.tar.zst"), Some(&signer_of(&own, 5)));
    pack(&at("same.tar.zst"), Some(&signer_of(&own, 9)));
    std::fs::copy(at("old.tar.zst"), at("newest.tar.zst")).unwrap();
    pack(&at("unsigned.tar.zst"), None);
    let state = at("state");
    std::fs::create_dir(&state).unwrap();
    let record = state.join("newest-bundle.json");
    let newest = serde_json::json!({
        "name": "kubernetes", "lock": kubexm_types::Digest::of(b"lock"),
        "created": "2026-02-03T04:05:06Z", "sequence": 9,
    });
    std::fs::write(&record, newest.to_string()).unwrap();
    let (cluster, key) = (
        unreachable_cluster(folder.path()),
        own_public.display().to_string(),
    );
    let install = |name: &str, options: &[&str]| {
        let (bundle, state) = (at(name).display().to_string(), state.display().to_string());
        let command = ["install", &bundle, "-f", &cluster, "--state", &state];
        kubexm(&[&command[..], options].concat())
    };
    let trust = ["--trust", &key];
    let (code, printed) = install("newest.tar.zst", &trust);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(printed, @"
    error: [folder]/newest.tar.zst: the cluster was installed from a newer bundle: this one has sequence number 5, created 2026-01-02T03:04:05Z; [folder]/state/newest-bundle.json records sequence number 9 of the bundle 'kubernetes', created 2026-02-03T04:05:06Z
    hint: install the newest bundle, or accept this one with --allow-older
    ");
    assert_eq!(
        install("old.tar.zst", &["--trust", &key, "--dry-run"]).0,
        Some(3)
    );
    let (code, printed) = install("unsigned.tar.zst", &["--unsigned"]);
    assert_eq!(code, Some(3));
    assert!(
        printed.contains("this one has no sequence number that a trusted key signed"),
        "{printed}"
    );
    // Another bundle has the number of the recorded one.
    let (code, printed) = install("same.tar.zst", &trust);
    assert_eq!(code, Some(3));
    let lock = kubexm_bundle::Bundle::open(&at("same.tar.zst"))
        .unwrap()
        .lock_digest();
    let printed = printed.replace(&lock.to_string(), "sha256:[given]");
    let printed = printed.replace(
        &kubexm_types::Digest::of(b"lock").to_string(),
        "sha256:[recorded]",
    );
    insta::assert_snapshot!(printed, @"
    error: [folder]/same.tar.zst: the cluster was installed from another bundle with the same sequence number: this one has sequence number 9, created 2026-01-02T03:04:05Z, lock sha256:[given]; [folder]/state/newest-bundle.json records sequence number 9 of the bundle 'kubernetes', created 2026-02-03T04:05:06Z, lock sha256:[recorded]
    hint: sign the bundle that is newer with a larger number (`kubexm bundle sign --sequence`), or accept this one with --allow-older
    ");
    let (code, printed) = install("same.tar.zst", &["--trust", &key, "--allow-older"]);
    assert_eq!(code, Some(4), "{printed}");
    // These go on to the hosts, which cannot be reached.
    let mut same = newest.clone();
    same["lock"] = lock.to_string().into();
    std::fs::write(&record, same.to_string()).unwrap();
    assert_eq!(install("same.tar.zst", &trust).0, Some(4));
    let (code, printed) = install("old.tar.zst", &["--trust", &key, "--allow-older"]);
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains("--allow-older accepts it"), "{printed}");
    // Images and tests of an older bundle also run in the cluster. Another name makes no other Kubernetes of it.
    let old = kubexm_bundle::Bundle::open(&at("old.tar.zst")).unwrap();
    for name in [&*old.lock().name, "site"] {
        same["name"] = name.into();
        std::fs::write(&record, same.to_string()).unwrap();
        for command in [&["registry", "add"][..], &["conformance"]] {
            let (bundle, state) = (
                at("old.tar.zst").display().to_string(),
                state.display().to_string(),
            );
            let options = ["--bundle", &bundle, "-f", &cluster, "--state", &state];
            let (code, printed) = kubexm(&[command, &options, &trust].concat());
            let says = printed.contains("the cluster was installed from a newer bundle");
            assert_eq!((code, says), (Some(3), true), "{printed}");
        }
    }
    std::fs::write(&record, "{}").unwrap();
    let (code, printed) = install("same.tar.zst", &trust);
    assert_eq!(code, Some(2), "{printed}");
    assert!(
        printed.contains("restore the file from a backup"),
        "{printed}"
    );
}
