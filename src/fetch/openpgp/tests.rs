//! Keys and signatures of the real GnuPG. Where apt's rule for the output of `gpgv` gives an answer, ours
//! must be the same.

use kubexm_types::Message;
use std::path::PathBuf;
use std::process::Command;

use pgp::composed::{Deserializable, SignedPublicKey};
use pgp::packet::SubpacketData;
use pgp::ser::Serialize;

use super::*;

const CONTENT: &str = "Suite: lab  \n- dashed\n\nlast line\n";

/// A home directory of GnuPG with the files that a script made in it.
struct Made(tempfile::TempDir);

impl Made {
    /// Runs a shell script in an empty home directory. It writes `content.sig`.
    fn by(script: &str) -> Self {
        const SHORTHANDS: &str = r#"
chmod 700 .
export GNUPGHOME="$PWD" LC_ALL=C
g() { gpg --batch --quiet --yes --pinentry-mode loopback --passphrase '' "$@" 2>>gpg.log; }
primary() { g --with-colons --list-keys | awk -F: '/^fpr/ {print $10}' | head -n 1; }
edit() {
  printf "$1" | gpg --no-tty --quiet --expert --pinentry-mode loopback --passphrase '' --command-fd 0 \
    --edit-key "$(primary)" >>gpg.log 2>&1
}
sign() { g "$@" --output content.sig --detach-sign content; }
revocation() { sed 's/^:---/---/' openpgp-revocs.d/*.rev; }
trap 'code=$?; [ $code = 0 ] || cat gpg.log >&2; gpgconf --kill all' EXIT
"#;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("content"), CONTENT).unwrap();
        let made = Command::new("sh")
            .args(["-euc", &format!("{SHORTHANDS}\n{script}")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{log}");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn keyring(&self, keys: &[&str]) -> OpenPgpKeyring {
        let files: Vec<PathBuf> = keys.iter().map(|name| self.path(name)).collect();
        OpenPgpKeyring::load(&files).unwrap()
    }

    /// Checks `content.sig` with the keys of files.
    fn verify(&self, keys: &[&str], validity: Validity) -> Result<(), OpenPgpError> {
        let signature = std::fs::read(self.path("content.sig")).unwrap();
        let keyring = self.keyring(keys);
        keyring.detached(CONTENT.as_bytes(), &signature, validity)
    }

    /// Checks `content.sig` now, and compares the result with apt's.
    fn verify_now(&self, key: &str) -> Result<(), OpenPgpError> {
        let ours = self.verify(&[key], Validity::Now);
        assert_eq!(ours.is_ok(), self.apt_accepts(key), "{key}: {ours:?}");
        ours
    }

    /// Returns why `content.sig` is refused now.
    fn refusal(&self, key: &str) -> Refusal {
        cause(self.verify_now(key))
    }

    /// Whether apt accepts `content.sig`: it reads the status of `gpgv` and refuses MD5, SHA-1 and
    /// RIPEMD-160.
    fn apt_accepts(&self, key: &str) -> bool {
        let output = Command::new("gpgv")
            .args(["--status-fd", "1", "--keyring"])
            .arg(self.path(key))
            .args([self.path("content.sig"), self.path("content")])
            .env("GNUPGHOME", self.0.path())
            .output()
            .unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        let digest = status
            .lines()
            .find_map(|line| line.strip_prefix("[GNUPG:] VALIDSIG "));
        let digest = digest.and_then(|fields| fields.split(' ').nth(7));
        status.contains("[GNUPG:] GOODSIG") && !matches!(digest, Some("1" | "2" | "3"))
    }

    /// Writes a variant of a key.
    fn change(&self, from: &str, to: &str, change: impl Fn(&mut SignedPublicKey)) {
        let bytes = std::fs::read(self.path(from)).unwrap();
        let mut key = SignedPublicKey::from_bytes(bytes.as_slice()).unwrap();
        change(&mut key);
        std::fs::write(self.path(to), key.to_bytes().unwrap()).unwrap();
    }
}

fn cause(result: Result<(), OpenPgpError>) -> Refusal {
    match result {
        Err(OpenPgpError::Refused { mut refused, .. }) => refused.remove(0).cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn signatures_of_distributions_algorithms_are_accepted() {
    for (certify, algorithm, options) in [
        // Old keys of distributions have self-signatures with SHA-1.
        ("--cert-digest-algo SHA1", "rsa2048", "--digest-algo SHA256"),
        ("", "rsa4096", "--digest-algo SHA512"),
        ("", "ed25519", "--digest-algo SHA512"),
        ("", "nistp256", "--digest-algo SHA256"),
        ("", "rsa2048", "--textmode"),
        ("", "rsa2048", "--armor"),
    ] {
        let made = Made::by(&format!(
            "g {certify} --quick-gen-key a@lab.example {algorithm} sign never
             g --export >key; g --armor --export >key.asc; sign {options}"
        ));
        assert_eq!(made.verify_now("key"), Ok(()), "{algorithm} {options}");
        assert_eq!(made.verify(&["key.asc"], Validity::AtSigning), Ok(()));
        std::fs::write(made.path("content"), "Suite: other\n").unwrap();
        let signature = std::fs::read(made.path("content.sig")).unwrap();
        let changed = made.keyring(&["key"]);
        let changed = changed.detached(b"Suite: other\n", &signature, Validity::Now);
        assert_eq!(cause(changed), Refusal::Mismatch, "{algorithm} {options}");
    }
}

#[test]
fn clear_signed_text_is_returned_as_signed() {
    let made = Made::by(
        "g --quick-gen-key a@lab.example ed25519 sign never
         g --export >key; g --output signed --clear-sign content
         { cat signed; echo after; } >surrounded
         sed 's/^Suite/Other/' signed >changed",
    );
    let text = |name: &str| {
        let message = std::fs::read_to_string(made.path(name)).unwrap();
        made.keyring(&["key"]).clear_signed(&message, Validity::Now)
    };
    assert_eq!(
        text("signed").as_deref(),
        Ok("Suite: lab\n- dashed\n\nlast line")
    );
    assert_eq!(cause(text("changed").map(drop)), Refusal::Mismatch);
    for name in ["surrounded", "content"] {
        let refused = text(name);
        assert!(
            matches!(refused, Err(OpenPgpError::Unreadable(_))),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn one_of_several_signatures_and_keys_is_enough() {
    let made = Made::by(
        "for k in a b c; do g --quick-gen-key $k@lab.example ed25519 sign never; done
         for k in a b c; do g --armor --export $k@lab.example >$k; done
         cat a c >blocks; g --armor --export c@lab.example b@lab.example >block
         sign -u a@lab.example -u b@lab.example",
    );
    for keys in [&["a"][..], &["b"], &["c", "b"], &["blocks"], &["block"]] {
        assert_eq!(made.verify(keys, Validity::Now), Ok(()), "{keys:?}");
    }
    let refused = made.verify(&["c"], Validity::Now);
    assert!(
        matches!(&refused, Err(OpenPgpError::OtherKey { signers, .. }) if signers.len() == 2),
        "{refused:?}"
    );
    // A signature costs a hash of the whole content, so that their number is limited.
    let signatures = std::fs::read(made.path("content.sig")).unwrap();
    std::fs::write(made.path("content.sig"), signatures.repeat(9)).unwrap();
    let refused = made.verify(&["a"], Validity::Now);
    assert!(
        matches!(refused, Err(OpenPgpError::Unreadable(_))),
        "{refused:?}"
    );
}

#[test]
fn expired_key_signs_packages_of_its_time_and_no_metadata() {
    let made = Made::by(
        "g --faked-system-time 20200101T000000 --quick-gen-key a@lab.example ed25519 sign 30d
         g --export >expired
         sign --faked-system-time 20200102T000000
         g --quick-set-expire $(primary) 0
         g --export >extended
         cat extended expired >both; cat expired extended >reverse",
    );
    let at = 1_577_836_800 + 30 * 24 * 3600;
    assert_eq!(made.refusal("expired"), Refusal::Expired { at });
    assert_eq!(made.verify(&["expired"], Validity::AtSigning), Ok(()));
    assert_eq!(made.verify_now("extended"), Ok(()));
    // The newest self-signature of all copies decides.
    for keys in [&["both"][..], &["reverse"], &["expired", "extended"]] {
        assert_eq!(made.verify(keys, Validity::Now), Ok(()), "{keys:?}");
    }
}

#[test]
fn key_that_was_expired_at_signing_is_refused() {
    let made = Made::by(
        "g --faked-system-time 20200101T000000 --quick-gen-key a@lab.example ed25519 sign never
         sign --faked-system-time 20200601T000000
         g --faked-system-time 20200102T000000 --quick-set-expire $(primary) 30d
         g --export >key",
    );
    for validity in [Validity::AtSigning, Validity::Now] {
        let refused = cause(made.verify(&["key"], validity));
        assert!(
            matches!(refused, Refusal::ExpiredAtSigning { .. }),
            "{refused:?}"
        );
    }
    assert!(!made.apt_accepts("key"));
}

#[test]
fn revoked_key_is_refused_wherever_its_revocation_is() {
    let made = Made::by(
        "g --quick-gen-key a@lab.example ed25519 sign never
         g --export >before; g --armor --export >before.asc; sign
         revocation >revocation; cat before.asc revocation >appended
         g --import revocation; g --export >revoked",
    );
    assert_eq!(made.verify_now("before"), Ok(()));
    assert_eq!(made.refusal("revoked"), Refusal::Revoked);
    for keys in [
        &["before", "revoked"][..],
        &["revoked", "before"],
        &["appended"],
    ] {
        let refused = cause(made.verify(keys, Validity::AtSigning));
        assert_eq!(refused, Refusal::Revoked, "{keys:?}");
    }
}

#[test]
fn key_with_only_revoked_user_ids_is_refused() {
    let made = Made::by(
        "g --quick-gen-key a@lab.example ed25519 sign never
         g --quick-add-uid $(primary) b@lab.example
         g --export >both; sign
         g --quick-revoke-uid $(primary) b@lab.example; g --export >one",
    );
    for key in ["both", "one"] {
        assert_eq!(made.verify_now(key), Ok(()), "{key}");
    }
    made.change("one", "none", |key| {
        key.details.users.retain(|user| user.signatures.len() > 1);
    });
    assert_eq!(
        cause(made.verify(&["none"], Validity::Now)),
        Refusal::NotSelfSigned
    );
}

/// A key for certification with a subkey for signing.
const SUBKEY: &str = "
g --quick-gen-key a@lab.example ed25519 cert never
g --quick-add-key $(primary) ed25519 sign never
g --export >good; sign
";

#[test]
fn subkey_must_be_for_signing_and_not_revoked() {
    let made = Made::by(&format!(
        "{SUBKEY}
         edit 'key 1\\nchange-usage\\nS\\nA\\nQ\\nsave\\n'; g --export >usage
         edit 'key 1\\nrevkey\\ny\\n0\\n\\ny\\nsave\\n'; g --export >revoked"
    ));
    assert_eq!(made.verify_now("good"), Ok(()));
    assert_eq!(made.refusal("revoked"), Refusal::Revoked);
    assert_eq!(
        cause(made.verify(&["good", "revoked"], Validity::Now)),
        Refusal::Revoked
    );
    // gpgv does not check the flags of subkeys.
    assert_eq!(
        cause(made.verify(&["usage"], Validity::Now)),
        Refusal::NotForSigning
    );
}

#[test]
fn subkey_of_revoked_or_expired_key_is_refused() {
    let revoked = Made::by(&format!(
        "{SUBKEY}
         revocation >revocation; g --import revocation; g --export >revoked"
    ));
    assert_eq!(revoked.refusal("revoked"), Refusal::Revoked);
    let expired = Made::by(
        "then='--faked-system-time 20200101T000000'
         g $then --quick-gen-key a@lab.example ed25519 cert never
         g $then --quick-add-key $(primary) ed25519 sign 30d
         sign --faked-system-time 20200102T000000; g --export >subkey
         g $then --quick-set-expire $(primary) 30d; g --export >primary",
    );
    for key in ["subkey", "primary"] {
        let refused = expired.refusal(key);
        assert!(
            matches!(refused, Refusal::Expired { .. }),
            "{key}: {refused:?}"
        );
        assert_eq!(expired.verify(&[key], Validity::AtSigning), Ok(()));
    }
}

#[test]
fn subkey_must_be_bound_to_its_primary_key() {
    let made = Made::by(&format!(
        "{SUBKEY}
         g --quick-gen-key b@lab.example ed25519 sign never; g --export b@lab.example >other"
    ));
    let bytes = std::fs::read(made.path("good")).unwrap();
    let good = SignedPublicKey::from_bytes(bytes.as_slice()).unwrap();
    let subkey = &good.public_subkeys[0];
    // A subkey below another primary key, with the binding of its own.
    made.change("other", "moved", |key| {
        key.public_subkeys = vec![subkey.clone()];
    });
    let refused = made.refusal("moved");
    assert!(matches!(refused, Refusal::NotBound(_)), "{refused:?}");
    // A subkey without a binding is not read at all.
    made.change("good", "unbound", |key| {
        key.public_subkeys[0].signatures = key.details.users[0].signatures.clone();
    });
    let refused = made.verify_now("unbound");
    assert!(
        matches!(refused, Err(OpenPgpError::OtherKey { .. })),
        "{refused:?}"
    );
}

#[test]
fn signing_subkey_must_sign_its_binding() {
    let made = Made::by(SUBKEY);
    let other = Made::by(SUBKEY);
    let strip = |key: &mut SignedPublicKey| {
        let binding = &mut key.public_subkeys[0].signatures[0];
        let unhashed = &binding.config().unwrap().unhashed_subpackets;
        let at = unhashed
            .iter()
            .position(|one| matches!(one.data, SubpacketData::EmbeddedSignature(_)));
        binding.unhashed_subpacket_remove(at.unwrap()).unwrap()
    };
    made.change("good", "stripped", |key| drop(strip(key)));
    let bytes = std::fs::read(other.path("good")).unwrap();
    let mut other = SignedPublicKey::from_bytes(bytes.as_slice()).unwrap();
    let back = strip(&mut other);
    made.change("good", "exchanged", |key| {
        strip(key);
        let binding = &mut key.public_subkeys[0].signatures[0];
        binding.unhashed_subpacket_push(back.clone()).unwrap();
    });
    for key in ["stripped", "exchanged"] {
        let refused = made.refusal(key);
        assert!(
            matches!(refused, Refusal::NoBackSignature(_)),
            "{key}: {refused:?}"
        );
    }
}

#[test]
fn primary_key_must_be_for_signing_and_self_signed() {
    let made = Made::by(
        "g --quick-gen-key a@lab.example ed25519 sign,cert never
         g --export >good; sign
         edit 'change-usage\\nS\\nQ\\nsave\\n'; g --export >usage",
    );
    assert_eq!(made.verify_now("good"), Ok(()));
    // gpgv does not check the flags of primary keys.
    assert_eq!(
        cause(made.verify(&["usage"], Validity::Now)),
        Refusal::NotForSigning
    );
    made.change("good", "bare", |key| key.details.users.clear());
    assert_eq!(
        cause(made.verify(&["bare"], Validity::Now)),
        Refusal::NotSelfSigned
    );
}

#[test]
fn weak_digests_are_refused() {
    for (option, name) in [
        ("SHA1", "SHA-1"),
        ("RIPEMD160", "RIPEMD-160"),
        ("MD5", "MD5"),
    ] {
        let made = Made::by(&format!(
            "g --quick-gen-key a@lab.example rsa2048 sign never; g --export >key
             sign --allow-weak-digest-algos --digest-algo {option}"
        ));
        assert_eq!(made.refusal("key"), Refusal::WeakDigest(name.to_owned()));
    }
}

#[test]
fn expired_and_future_signatures_are_refused() {
    let expired = Made::by(
        "g --faked-system-time 20200101T000000 --quick-gen-key a@lab.example ed25519 sign never
         g --export >key
         sign --faked-system-time 20200101T000000 --default-sig-expire 30d",
    );
    let refused = expired.refusal("key");
    assert!(
        matches!(refused, Refusal::SignatureExpired { .. }),
        "{refused:?}"
    );
    let future = Made::by(
        "g --quick-gen-key a@lab.example ed25519 sign never; g --export >key
         sign --faked-system-time 20990101T000000",
    );
    let refused = cause(future.verify(&["key"], Validity::AtSigning));
    assert!(matches!(refused, Refusal::InFuture { .. }), "{refused:?}");
}

#[test]
fn files_without_a_key_are_refused() {
    let made = Made::by("g --quick-gen-key a@lab.example ed25519 sign never; sign");
    for content in [
        &b""[..],
        b"no key",
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA",
        &std::fs::read(made.path("content.sig")).unwrap(),
    ] {
        std::fs::write(made.path("file"), content).unwrap();
        let refused = OpenPgpKeyring::load(&[made.path("file")]).err();
        assert!(
            matches!(refused, Some(OpenPgpError::Keyring { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn errors_state_keyring_key_cause_and_action() {
    let made = Made::by(
        "g --faked-system-time 20200101T000000 --quick-gen-key a@lab.example ed25519 sign 30d
         g --export >key; g --quick-gen-key b@lab.example ed25519 sign never
         g --export b@lab.example >other; sign --faked-system-time 20200102T000000 -u a@lab.example",
    );
    let mut settings = insta::Settings::clone_current();
    let folder = made.0.path().display().to_string();
    settings.add_filter(&folder, "[folder]");
    settings.add_filter(r"\b[0-9A-F]{16}\b", "[key ID]");
    let _filters = settings.bind_to_scope();
    let expired = made.verify(&["key"], Validity::Now).unwrap_err();
    insta::assert_snapshot!(Message::from(&expired), @r"
    cannot verify the signature with [folder]/key: key [key ID]: the key expired at 2020-01-31T00:00:00Z
    hint: get the publisher's current key, which may have a later expiry, and replace the file in signedBy
    ");
    let other = made.verify(&["other"], Validity::Now).unwrap_err();
    insta::assert_snapshot!(Message::from(&other), @r"
    cannot verify the signature with [folder]/other: it is by key [key ID], which the keyring does not have
    hint: get the publisher's key from a trusted place and add its file to signedBy; else the content may have been changed
    ");
    let missing = OpenPgpKeyring::load(&[made.path("none")]).err().unwrap();
    insta::assert_snapshot!(Message::from(&missing), @r"
    cannot read the keyring [folder]/none: No such file or directory (os error 2)
    hint: take the file from the distribution's medium, its keyring package or an installed host; `gpg --export KEY` writes one
    ");
    let html = made.keyring(&["key"]);
    let html = html.clear_signed("<html>", Validity::Now).unwrap_err();
    let html = Message::from(&html).to_string();
    assert!(
        html.starts_with("cannot read the OpenPGP signature: ") && html.contains("\nhint: "),
        "{html}"
    );
    let header = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: \u{1b}[2J\n\nx\n";
    let refused = made.keyring(&["key"]);
    let refused = refused.clear_signed(header, Validity::Now).unwrap_err();
    assert!(!refused.to_string().contains('\u{1b}'), "{refused:?}");
}
