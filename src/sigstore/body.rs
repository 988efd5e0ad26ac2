//! What an entry of Rekor's log says: that it saw a signature of something, with whose certificate
//! (<https://github.com/sigstore/rekor/tree/main/pkg/types>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::certificate;
use super::claim::at;
use crate::spec::Digest;

/// What an entry must say.
pub(super) struct Noted<'a> {
    /// Kinds of entries that may say it, all of them in version 0.0.1.
    pub kinds: &'static [Kind],
    /// SHA-256 of what is signed.
    pub hash: Digest,
    /// The signature.
    pub signature: &'a [u8],
    /// The certificate in DER.
    pub certificate: &'a [u8],
}

/// Kinds of entries that are made of signatures. The first two say what counts here in the same words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    HashedRekord,
    Rekord,
    Dsse,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::HashedRekord => "hashedrekord",
            Self::Rekord => "rekord",
            Self::Dsse => "dsse",
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
        let named = body["kind"].as_str().unwrap_or_default();
        let kind = self.kinds.iter().find(|kind| kind.name() == named);
        let kind = kind.filter(|_| body["apiVersion"] == "0.0.1");
        let kind = kind.ok_or("its entry of the log is of a kind that is not known")?;
        let spec = &body["spec"];
        let (hash, signature, key) = match kind {
            Kind::HashedRekord | Kind::Rekord => (
                &spec["data"]["hash"],
                &spec["signature"]["content"],
                &spec["signature"]["publicKey"]["content"],
            ),
            Kind::Dsse => (
                &spec["payloadHash"],
                &spec["signatures"][0]["signature"],
                &spec["signatures"][0]["verifier"],
            ),
        };
        let is_single = spec["signatures"]
            .as_array()
            .is_none_or(|all| all.len() == 1);
        let is_content = hash["algorithm"] == "sha256" && hash["value"] == self.hash.hex().as_str();
        let is_signature = decoded(signature).as_deref() == Some(self.signature);
        let key = decoded(key).and_then(|pem| String::from_utf8(pem).ok());
        let key = key.and_then(|pem| certificate::from_pem(&pem).ok());
        if is_single && is_content && is_signature && key.as_deref() == Some(self.certificate) {
            return Ok(());
        }
        let when = at(time);
        Err(format!(
            "its entry of the log, of {when}, is about another signature"
        ))
    }
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}
