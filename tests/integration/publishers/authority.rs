//! A Sigstore instance of the tests: a certificate authority, a log, and a signer of an image, correct or
//! with a fault.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_types::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData,
    SanType,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::example::InMemory;

pub const IDENTITY: &str = "robot@builds.example";
pub const ISSUER: &str = "https://accounts.example";
/// The begin of the validity of signers' certificates: 1 January 2024.
pub const BEGIN: i64 = 1_704_067_200;
/// The media type of the signed content.
pub const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

pub struct Sigstore {
    root: String,
    intermediate: String,
    intermediate_key: KeyPair,
    pub log: KeyPair,
    certificate_log: KeyPair,
}

/// The signed certificate timestamp in a signer's certificate.
#[derive(Clone)]
pub struct Seen {
    /// Its time, in seconds since 1970.
    pub at: i64,
    /// It is from an unknown log.
    pub by_unknown_log: bool,
    /// It is for another certificate.
    pub another: bool,
}

impl Seen {
    pub fn right() -> Self {
        Self {
            at: BEGIN,
            by_unknown_log: false,
            another: false,
        }
    }
}

/// What a signer does. The signature of [`Wish::right`] is valid.
#[derive(Clone)]
pub struct Wish {
    pub identity: &'static str,
    pub issuer: &'static str,
    /// Whether the certificate has the issuer in the older extension, and in the newer one.
    pub extensions: (bool, bool),
    pub usage: ExtendedKeyUsagePurpose,
    /// The digest in the payload.
    pub image: Digest,
    /// The begin of the certificate's validity, in seconds since 1970.
    pub begin: i64,
    /// The time of the entry in the log.
    pub logged_at: i64,
    /// Signed and logged instead of the payload.
    pub signed: Option<Vec<u8>>,
    pub logged: Option<Vec<u8>>,
    /// The log entry has the certificate of another signer.
    pub logged_other: bool,
    /// Whether a certificate transparency log has the certificate.
    pub seen: Option<Seen>,
}

impl Wish {
    pub fn right(image: Digest) -> Self {
        Self {
            identity: IDENTITY,
            issuer: ISSUER,
            extensions: (true, true),
            usage: ExtendedKeyUsagePurpose::CodeSigning,
            image,
            begin: BEGIN,
            logged_at: BEGIN + 60,
            signed: None,
            logged: None,
            logged_other: false,
            seen: None,
        }
    }
}

pub fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).unwrap()
}

pub fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = at(BEGIN - 3 * 365 * 86_400);
    params.not_after = at(BEGIN + 3650 * 86_400);
    params
}

pub fn sign(key: &KeyPair, message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    let der = key.serialize_der();
    if key.is_compatible(&PKCS_ED25519) {
        let key = Ed25519KeyPair::from_pkcs8(&der).unwrap();
        return key.sign(message).as_ref().to_vec();
    }
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random).unwrap();
    key.sign(&random, message).unwrap().as_ref().to_vec()
}

pub fn der(pem: &str) -> String {
    let inner: Vec<&str> = pem.lines().filter(|line| !line.contains("---")).collect();
    inner.concat()
}

impl Sigstore {
    pub fn new() -> Self {
        let (root_key, intermediate_key) =
            (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let root = authority("test root").self_signed(&root_key).unwrap().pem();
        let issuer = Issuer::from_ca_cert_pem(&root, root_key).unwrap();
        let intermediate = authority("test intermediate")
            .signed_by(&intermediate_key, &issuer)
            .unwrap();
        Self {
            root,
            intermediate: intermediate.pem(),
            intermediate_key,
            log: KeyPair::generate().unwrap(),
            certificate_log: KeyPair::generate().unwrap(),
        }
    }

    /// Returns the trusted root that other tools of Sigstore also read.
    pub fn trusted_root(&self) -> Value {
        let key = self.log.subject_public_key_info();
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [{
                "baseUrl": "https://log.example", "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": STANDARD.encode(&key), "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": {"start": "2023-06-01T00:00:00Z"},
                },
                "logId": {"keyId": STANDARD.encode(hex::decode(self.log_id()).unwrap())},
            }],
            "certificateAuthorities": [{
                "subject": {"commonName": "test intermediate"}, "uri": "https://authority.example",
                "certChain": {"certificates": [
                    {"rawBytes": der(&self.intermediate)}, {"rawBytes": der(&self.root)},
                ]},
                "validFor": {"start": "2023-06-01T00:00:00.000Z", "end": "2025-06-01T00:00:00.000Z"},
            }],
        })
    }

    /// Returns the trusted root with a certificate transparency log that has all certificates since it
    /// started.
    pub fn transparent_root(&self) -> Value {
        let mut root = self.trusted_root();
        let key = self.certificate_log.subject_public_key_info();
        root["ctlogs"] = json!([{
            "baseUrl": "https://certificates.example", "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": STANDARD.encode(&key), "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": "2023-06-01T00:00:00Z"},
            },
            "logId": {"keyId": STANDARD.encode(Digest::of(&key).bytes())},
        }]);
        root
    }

    pub fn log_id(&self) -> String {
        Digest::of(&self.log.subject_public_key_info()).hex()
    }

    pub fn certificate(&self, wish: &Wish, key: &KeyPair) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = wish.identity.to_owned().try_into().unwrap();
        params.subject_alt_names = vec![if wish.identity.contains("://") {
            SanType::URI(name)
        } else {
            SanType::Rfc822Name(name)
        }];
        let bare = wish.issuer.as_bytes().to_vec();
        let mut text = vec![0x0c, u8::try_from(bare.len()).unwrap()];
        text.extend(&bare);
        let extension = |last, content| {
            CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, last], content)
        };
        let (older, newer) = wish.extensions;
        params.custom_extensions = [(older, 1, bare), (newer, 8, text)]
            .into_iter()
            .filter(|(wanted, _, _)| *wanted)
            .map(|(_, last, content)| extension(last, content))
            .collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![wish.usage.clone()];
        params.not_before = at(wish.begin);
        params.not_after = at(wish.begin) + Duration::minutes(10);
        let issuer_key = KeyPair::from_pem(&self.intermediate_key.serialize_pem()).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&self.intermediate, issuer_key).unwrap();
        params.serial_number = Some(4711.into());
        if let Some(seen) = &wish.seen {
            let mut shown = params.clone();
            if seen.another {
                shown.serial_number = Some(4712.into());
            }
            let shown = shown.signed_by(key, &issuer).unwrap();
            let promise = CustomExtension::from_oid_content(
                &[1, 3, 6, 1, 4, 1, 11129, 2, 4, 2],
                self.promise(seen, shown.der()),
            );
            params.custom_extensions.push(promise);
        }
        params.signed_by(key, &issuer).unwrap().pem()
    }

    /// Returns the signed certificate timestamp for the issued certificate (RFC 6962, 3.3).
    fn promise(&self, seen: &Seen, shown: &[u8]) -> Vec<u8> {
        let (_, shown) = x509_parser::parse_x509_certificate(shown).unwrap();
        let shown = shown.tbs_certificate.as_ref();
        let issuer = Digest::of(&self.intermediate_key.subject_public_key_info());
        let other_signer = KeyPair::generate().unwrap();
        let log = if seen.by_unknown_log {
            &other_signer
        } else {
            &self.certificate_log
        };
        let id = Digest::of(&log.subject_public_key_info());
        let time = u64::try_from(seen.at * 1000).unwrap().to_be_bytes();
        let length = u32::try_from(shown.len()).unwrap().to_be_bytes();
        let signed = [
            &[0, 0],
            &time[..],
            &[0, 1],
            issuer.bytes(),
            &length[1..],
            shown,
            &[0, 0],
        ];
        let signature = sign(log, &signed.concat());
        let short = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let promise = [
            &[0],
            id.bytes(),
            &time,
            &[0, 0, 4, 3, 0, short(&signature)],
            &signature,
        ];
        let promise = promise.concat();
        let list = [&[0, short(&promise)], &promise[..]].concat();
        let list = [&[0, short(&list)], &list[..]].concat();
        assert!(list.len() < 0x80);
        [&[4, short(&list)], &list[..]].concat()
    }

    /// Returns what the log entry has of the signer.
    pub fn certificate_in_log(&self, wish: &Wish, certificate: &str) -> String {
        if wish.logged_other {
            self.certificate(wish, &KeyPair::generate().unwrap())
        } else {
            certificate.to_owned()
        }
    }

    /// Returns the files beside a published file: its signature, and the certificate in the form of
    /// Kubernetes.
    pub fn beside(&self, content: &[u8], wish: &Wish) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(wish, &key);
        (
            STANDARD.encode(sign(&key, content)),
            STANDARD.encode(certificate),
        )
    }

    /// Returns the layer of a signature manifest; its payload is added to `blobs`.
    pub fn claim(&self, blobs: &mut InMemory, wish: &Wish) -> Value {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(wish, &key);
        let payload = payload(&wish.image);
        let signature = sign(&key, wish.signed.as_deref().unwrap_or(&payload));
        let logged = wish.logged.as_deref().unwrap_or(&payload);
        let in_log = self.certificate_in_log(wish, &certificate);
        let body = message_entry(&Digest::of(logged), &signature, &in_log);
        let body = STANDARD.encode(body.to_string());
        let (time, id) = (wish.logged_at, self.log_id());
        let promised =
            format!(r#"{{"body":"{body}","integratedTime":{time},"logID":"{id}","logIndex":7}}"#);
        let entry = json!({
            "SignedEntryTimestamp": STANDARD.encode(sign(&self.log, promised.as_bytes())),
            "Payload": {"logIndex": 7, "logID": id, "body": body, "integratedTime": time},
        });
        json!({
            "mediaType": PAYLOAD, "digest": blobs.add(&payload), "size": payload.len(),
            "annotations": {
                "dev.cosignproject.cosign/signature": STANDARD.encode(&signature),
                "dev.sigstore.cosign/certificate": certificate,
                "dev.sigstore.cosign/chain": format!("{}{}", self.intermediate, self.root),
                "dev.sigstore.cosign/bundle": entry.to_string(),
            },
        })
    }
}

/// Returns the log entry of a signature of bytes.
pub fn message_entry(hash: &Digest, signature: &[u8], certificate: &str) -> Value {
    json!({
        "apiVersion": "0.0.1", "kind": "hashedrekord",
        "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": hash.hex()}},
            "signature": {
                "content": STANDARD.encode(signature),
                "publicKey": {"content": STANDARD.encode(certificate)},
            },
        },
    })
}

/// Returns the payload that cosign signs.
pub fn payload(image: &Digest) -> Vec<u8> {
    json!({
        "critical": {
            "identity": {"docker-reference": "registry.example/app"},
            "image": {"docker-manifest-digest": image},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
    .to_string()
    .into_bytes()
}

/// Returns the manifest of some claims.
pub fn manifest(blobs: &mut InMemory, claims: &[Value]) -> Value {
    let config =
        br#"{"architecture":"","config":{},"os":"","rootfs":{"type":"layers","diff_ids":[]}}"#;
    json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": blobs.add(config), "size": config.len(),
        },
        "layers": claims,
    })
}
