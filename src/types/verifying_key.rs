//! Public keys of publishers, as cosign and X.509 certificates encode them: ECDSA over P-256 and P-384,
//! Ed25519, RSA (RFC 5280, 4.1.2.7, `SubjectPublicKeyInfo`).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::{Digest, InvalidValue, string_value};

/// Object identifiers of RFC 8410, RFC 8017 and RFC 5480.
const ED25519: &str = "1.3.101.112";
const RSA: &str = "1.2.840.113549.1.1.1";
const ELLIPTIC: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
/// Maximum length of a key in bytes.
const LONGEST: usize = 2048;

/// A public key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    kind: Kind,
    /// The `SubjectPublicKeyInfo`.
    der: Vec<u8>,
    /// The key inside, in the form of its kind.
    raw: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    Ed25519,
    Rsa,
}

impl VerifyingKey {
    /// Parses a PEM file (`BEGIN PUBLIC KEY`), or only its base64 text, as in locks.
    ///
    /// # Errors
    /// The text is not a public key, or the kind of the key is not supported.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = |reason: &str| InvalidValue::new("public key", text, reason);
        let form =
            "expected PEM that begins with '-----BEGIN PUBLIC KEY-----', as cosign writes it";
        if text.len() > 4 * LONGEST {
            return Err(wrong(form));
        }
        let der = if text.contains("-----BEGIN") {
            let (_, pem) =
                x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|_| wrong(form))?;
            if pem.label != "PUBLIC KEY" {
                return Err(wrong(form));
            }
            pem.contents
        } else {
            STANDARD.decode(text.trim()).map_err(|_| wrong(form))?
        };
        Self::from_der(&der).map_err(|reason| wrong(&reason))
    }

    /// Parses a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// The reason, which continues a sentence about the key.
    pub fn from_der(der: &[u8]) -> Result<Self, String> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der)
            .map_err(|_| "is not a public key in the form of RFC 5280".to_owned())?;
        if !rest.is_empty() || der.len() > LONGEST {
            return Err("is longer than a public key".to_owned());
        }
        let oid = info.algorithm.algorithm.to_id_string();
        let curve = info.algorithm.parameters.as_ref();
        let curve = curve.and_then(|any| any.as_oid().ok());
        let curve = curve.map(|oid| oid.to_id_string());
        let kind = match (oid.as_str(), curve.as_deref()) {
            (ELLIPTIC, Some(P256)) => Kind::P256,
            (ELLIPTIC, Some(P384)) => Kind::P384,
            (ED25519, _) => Kind::Ed25519,
            (RSA, _) => Kind::Rsa,
            _ => {
                return Err(
                    "has an unsupported kind; supported are ECDSA over P-256 or P-384, Ed25519 and RSA"
                        .to_owned(),
                );
            }
        };
        Ok(Self {
            kind,
            der: der.to_vec(),
            raw: info.subject_public_key.data.to_vec(),
        })
    }

    /// Returns the SHA-256 of the `SubjectPublicKeyInfo`: Sigstore's identifier of a log, and what `openssl pkey
    /// -pubin -outform DER | sha256sum` prints.
    pub fn fingerprint(&self) -> Digest {
        Digest::of(&self.der)
    }

    /// Returns the key identifier of a signed note, which contains its first 4 bytes. `name` is the signer's name
    /// in the note (<https://github.com/C2SP/C2SP/blob/main/signed-note.md#signatures>, and
    /// for RSA <https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_trustroot.proto>).
    pub fn note_id(&self, name: &str) -> Digest {
        let of =
            |kind: &[u8], key: &[u8]| Digest::of(&[name.as_bytes(), b"\n", kind, key].concat());
        match self.kind {
            Kind::P256 | Kind::P384 => self.fingerprint(),
            Kind::Ed25519 => of(&[1], &self.raw),
            Kind::Rsa => of(b"\xffPKIX-RSA-PKCS#1v1.5", &self.der),
        }
    }

    /// Returns true if the key made this signature of the message. The hash is one of SHA-2 that fits the key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithms: &[&'static dyn VerificationAlgorithm] = match self.kind {
            Kind::P256 => &[
                &signature::ECDSA_P256_SHA256_ASN1,
                &signature::ECDSA_P256_SHA384_ASN1,
            ],
            Kind::P384 => &[
                &signature::ECDSA_P384_SHA384_ASN1,
                &signature::ECDSA_P384_SHA256_ASN1,
            ],
            Kind::Ed25519 => &[&signature::ED25519],
            Kind::Rsa => &[
                &signature::RSA_PKCS1_2048_8192_SHA256,
                &signature::RSA_PKCS1_2048_8192_SHA384,
                &signature::RSA_PKCS1_2048_8192_SHA512,
            ],
        };
        algorithms.iter().any(|algorithm| {
            UnparsedPublicKey::new(*algorithm, &self.raw)
                .verify(message, signature)
                .is_ok()
        })
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.der))
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.fingerprint())
    }
}

string_value!(VerifyingKey);
