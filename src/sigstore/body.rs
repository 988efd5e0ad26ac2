//! What an entry of Rekor's log says: that it saw a signature of something, with whose certificate
//! (<https://github.com/sigstore/rekor/tree/main/pkg/types>, and since version 2
//! <https://github.com/sigstore/protobuf-specs/tree/main/service-protos/rekor/v2>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha384, Sha512};

use super::{at, certificate};
use kubexm_types::Digest;

/// What an entry must say.
pub(super) struct Noted<'a> {
    /// Kinds of entries that may say it.
    pub kinds: &'static [Kind],
    /// What is signed.
    pub signed: &'a [u8],
    /// What is in the envelope where that is signed; the same where there is no envelope.
    pub payload: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// The certificate in DER.
    pub certificate: &'a [u8],
}

/// Kinds of entries that are made of signatures, in the versions 0.0.1 and, since Rekor's version 2, 0.0.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of anything.
    HashedRekord,
    /// The same, with what is signed.
    Rekord,
    /// Of an envelope, by what is in it.
    Dsse,
    /// Of anything, and of envelopes by what is signed of them.
    HashedRekord2,
    /// Of an envelope, by what is in it, as the first logs of version 2 took it.
    Dsse2,
}

/// What an entry says of a signature, as far as it can be read.
struct Said {
    is_of_content: bool,
    signature: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
}

impl Kind {
    fn name_and_version(self) -> (&'static str, &'static str) {
        match self {
            Self::HashedRekord => ("hashedrekord", "0.0.1"),
            Self::Rekord => ("rekord", "0.0.1"),
            Self::Dsse => ("dsse", "0.0.1"),
            Self::HashedRekord2 => ("hashedrekord", "0.0.2"),
            Self::Dsse2 => ("dsse", "0.0.2"),
        }
    }

    /// What an entry of this kind says, which tells of `noted` or of something else.
    fn said(self, spec: &Value, noted: &Noted<'_>) -> Said {
        match self {
            Self::HashedRekord | Self::Rekord => Said {
                is_of_content: is_of(&spec["data"]["hash"], noted.signed),
                signature: decoded(&spec["signature"]["content"]),
                certificate: from_pem(&spec["signature"]["publicKey"]["content"]),
            },
            Self::Dsse => {
                let signature = single(&spec["signatures"]);
                Said {
                    is_of_content: is_of(&spec["payloadHash"], noted.payload),
                    signature: decoded(&signature["signature"]),
                    certificate: from_pem(&signature["verifier"]),
                }
            }
            Self::HashedRekord2 => {
                let spec = &spec["hashedRekordV002"];
                Said::in_version_2(&spec["data"], noted.signed, &spec["signature"])
            }
            Self::Dsse2 => {
                let spec = &spec["dsseV002"];
                let signature = single(&spec["signatures"]);
                Said::in_version_2(&spec["payloadHash"], noted.payload, signature)
            }
        }
    }
}

impl Said {
    /// Hash and signature as Rekor's version 2 writes both.
    fn in_version_2(hash: &Value, content: &[u8], signature: &Value) -> Self {
        let hashed = match hash["algorithm"].as_str() {
            Some("SHA2_256") => Some(Digest::of(content).bytes().to_vec()),
            Some("SHA2_384") => Some(Sha384::digest(content).to_vec()),
            Some("SHA2_512") => Some(Sha512::digest(content).to_vec()),
            _ => None,
        };
        let certificate = &signature["verifier"]["x509Certificate"]["rawBytes"];
        Self {
            is_of_content: hashed.is_some() && decoded(&hash["digest"]) == hashed,
            signature: decoded(&signature["content"]),
            certificate: decoded(certificate),
        }
    }
}

impl Noted<'_> {
    /// Whether an entry, of this time in seconds since 1970, is about just this signature.
    ///
    /// # Errors
    /// It is about something else.
    pub fn must_stand_in(&self, body: &[u8], time: i64) -> Result<(), String> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|_| "its entry of the log says nothing that can be read")?;
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        let named = (text("kind"), text("apiVersion"));
        let mut kinds = self.kinds.iter();
        let kind = kinds.find(|kind| kind.name_and_version() == named);
        let kind = kind.ok_or("its entry of the log is of a kind that is not known")?;
        let said = kind.said(&body["spec"], self);
        if said.is_of_content
            && said.signature.as_deref() == Some(self.signature)
            && said.certificate.as_deref() == Some(self.certificate)
        {
            return Ok(());
        }
        let when = at(time);
        Err(format!(
            "its entry of the log, of {when}, is about another signature"
        ))
    }
}

/// Whether a hash, as Rekor's version 1 writes it, is of this content.
fn is_of(hash: &Value, content: &[u8]) -> bool {
    hash["algorithm"] == "sha256" && hash["value"] == Digest::of(content).hex().as_str()
}

/// What is alone in a list; nothing where there are others.
fn single(list: &Value) -> &Value {
    match list.as_array().map(Vec::as_slice) {
        Some([single]) => single,
        _ => &Value::Null,
    }
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// A certificate in base64 of PEM.
fn from_pem(value: &Value) -> Option<Vec<u8>> {
    let pem = String::from_utf8(decoded(value)?).ok()?;
    certificate::from_pem(&pem).ok()
}
