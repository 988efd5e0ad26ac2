//! A timestamp authority of the tests, based on openssl: `openssl ts` for the current time, and `openssl cms`
//! for any time.

use std::path::Path;
use std::process::Command;

use kubexm_types::Digest;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
use time::macros::format_description;

use super::authority::{BEGIN, at, authority, der};

/// Object identifiers in DER: the purposes timestamping and code signing (RFC 5280, 4.2.1.12).
pub const STAMPS: [u8; 10] = [6, 8, 43, 6, 1, 5, 5, 7, 3, 8];
pub const SIGNS: [u8; 10] = [6, 8, 43, 6, 1, 5, 5, 7, 3, 3];
/// The content types of a timestamp, and of any data (RFC 3161, 2.4.2; RFC 5652, 4).
pub const INFO: &str = "1.2.840.113549.1.9.16.1.4";
pub const DATA: &str = "1.2.840.113549.1.7.1";

pub struct TimestampAuthority {
    folder: tempfile::TempDir,
    root: String,
    signer: String,
}

/// The properties of an authority. The timestamps of [`Made::right`] are valid.
#[derive(Clone)]
pub struct Made {
    /// The key, as arguments of openssl: its kind and its parameters.
    pub key: [&'static str; 2],
    /// The purpose of the certificate, and whether it is critical.
    pub usage: [u8; 10],
    pub is_critical: bool,
    /// The end of the certificate's validity, in seconds since 1970.
    pub until: i64,
}

impl Made {
    pub fn right() -> Self {
        Self {
            key: ["EC", "ec_paramgen_curve:P-256"],
            usage: STAMPS,
            is_critical: true,
            until: BEGIN + 3650 * 86_400,
        }
    }
}

/// The content of a timestamp.
#[derive(Clone)]
pub struct Wish {
    /// In seconds since 1970.
    pub time: i64,
    /// The fraction of a second, and the status.
    pub fraction: &'static str,
    pub status: u8,
    pub content: &'static str,
    /// Whether it includes the certificate.
    pub with_certificate: bool,
}

impl Wish {
    pub fn right() -> Self {
        Self {
            time: BEGIN + 60,
            fraction: "",
            status: 0,
            content: INFO,
            with_certificate: true,
        }
    }
}

pub fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {printed}");
}

/// Returns a value in DER with its tag and its length.
fn part(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82], &length[..], content].concat()
}

/// Returns the same with the shortest form of the length.
fn short(tag: u8, content: &[u8]) -> Vec<u8> {
    match u8::try_from(content.len()).unwrap() {
        length @ 0..0x80 => [&[tag, length], content].concat(),
        length => [&[tag, 0x81, length], content].concat(),
    }
}

impl TimestampAuthority {
    pub fn new(made: &Made) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root_key = KeyPair::generate().unwrap();
        let root = authority("test timestamp root");
        let root = root.self_signed(&root_key).unwrap().pem();
        let issuer = Issuer::from_ca_cert_pem(&root, root_key).unwrap();
        let [kind, option] = made.key;
        let generate = ["genpkey", "-algorithm", kind, "-pkeyopt", option];
        openssl(
            folder.path(),
            &[&generate[..], &["-out", "signer.key"]].concat(),
        );
        let key = std::fs::read_to_string(folder.path().join("signer.key")).unwrap();
        let key = KeyPair::from_pem(&key).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = "test timestamps";
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let usage = short(0x30, &made.usage);
        let mut usage = CustomExtension::from_oid_content(&[2, 5, 29, 37], usage);
        usage.set_criticality(made.is_critical);
        params.custom_extensions = vec![usage];
        params.not_before = at(BEGIN - 86_400);
        params.not_after = at(made.until);
        let signer = params.signed_by(&key, &issuer).unwrap().pem();
        let twin = params.clone();
        for (name, content) in [
            ("signer.pem", &signer),
            ("twin.pem", &twin.signed_by(&key, &issuer).unwrap().pem()),
            ("serial", &"01".to_owned()),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        Self {
            folder,
            root,
            signer,
        }
    }

    /// Returns the chain for a trusted root, complete or without the lowest certificate.
    pub fn trusted(&self, with_signer: bool) -> Value {
        let signer = json!({"rawBytes": der(&self.signer)});
        let root = json!({"rawBytes": der(&self.root)});
        let chain = if with_signer {
            json!([signer, root])
        } else {
            json!([root])
        };
        json!({
            "subject": {"commonName": "test timestamps"}, "uri": "https://timestamps.example",
            "certChain": {"certificates": chain}, "validFor": {"start": "2023-06-01T00:00:00Z"},
        })
    }

    /// Returns a response for any time.
    pub fn stamp(&self, wish: &Wish, of: &[u8]) -> Vec<u8> {
        self.stamp_by("signer.pem", wish, of)
    }

    /// Returns the response with another certificate of the same key.
    pub fn stamp_by_twin(&self, wish: &Wish, of: &[u8]) -> Vec<u8> {
        self.stamp_by("twin.pem", wish, of)
    }

    fn stamp_by(&self, signer: &str, wish: &Wish, of: &[u8]) -> Vec<u8> {
        let format = format_description!("[year][month][day][hour][minute][second]");
        let time = at(wish.time).format(format).unwrap();
        let time = format!("{time}{}Z", wish.fraction);
        let sha256 = short(0x30, &[6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1]);
        let imprint = [sha256, short(4, Digest::of(of).bytes())].concat();
        let info = [
            vec![2, 1, 1, 6, 3, 42, 3, 4],
            short(0x30, &imprint),
            vec![2, 1, 7],
            short(0x18, time.as_bytes()),
        ];
        let at = |name: &str| self.folder.path().join(name);
        std::fs::write(at("info"), short(0x30, &info.concat())).unwrap();
        let sign = [
            "cms",
            "-sign",
            "-binary",
            "-nodetach",
            "-cades",
            "-outform",
            "DER",
            "-md",
            "sha256",
        ];
        let files = ["-in", "info", "-out", "token", "-inkey", "signer.key"];
        let whose = ["-signer", signer, "-econtent_type", wish.content];
        let without: &[&str] = if wish.with_certificate {
            &[]
        } else {
            &["-nocerts"]
        };
        openssl(
            self.folder.path(),
            &[&sign[..], &files, &whose, without].concat(),
        );
        let token = std::fs::read(at("token")).unwrap();
        part(0x30, &[&[0x30, 3, 2, 1, wish.status], &token[..]].concat())
    }

    /// Returns a response for the current time, for a hash of some kind.
    pub fn answer(&self, hash: &str, more: &[&str], of: &[u8]) -> Vec<u8> {
        let at = |name: &str| self.folder.path().join(name);
        let config = "[tsa]\nserial = serial\ndefault_policy = 1.2.3.4\n\
            digests = sha256, sha384, sha512\nsigner_digest = sha384\naccuracy = secs:1, millisecs:500\n\
            clock_precision_digits = 3\ntsa_name = yes\nordering = yes\n";
        std::fs::write(at("config"), config).unwrap();
        std::fs::write(at("data"), of).unwrap();
        let hash = format!("-{hash}");
        let query = ["ts", "-query", "-data", "data", "-out", "query", &hash];
        openssl(self.folder.path(), &[&query[..], more].concat());
        let by = ["-signer", "signer.pem", "-inkey", "signer.key"];
        let reply = ["ts", "-reply", "-config", "config", "-section", "tsa"];
        let files = ["-queryfile", "query", "-out", "answer"];
        openssl(self.folder.path(), &[&reply[..], &by, &files].concat());
        std::fs::read(at("answer")).unwrap()
    }
}
