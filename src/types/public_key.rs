//! Whose signature is trusted: minisign's public keys (<https://jedisct1.github.io/minisign/>).

use std::fmt;

use super::{InvalidValue, string_value};

/// A minisign public key.
#[derive(Clone)]
pub struct PublicKey {
    /// As it is written: one line of base64.
    text: String,
    key: minisign_verify::PublicKey,
}

/// Why a signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadSignature {
    /// It is none of minisign's.
    Unreadable,
    /// Another key made it.
    OtherKey,
    /// What was signed or the signature was changed.
    Wrong,
}

impl PublicKey {
    /// Reads the line that begins with `RW`, or the whole file that minisign writes, where it is the
    /// second one.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut line = lines.next().unwrap_or_default();
        if line.starts_with("untrusted comment:") {
            line = lines.next().unwrap_or_default();
        }
        let key = minisign_verify::PublicKey::from_base64(line)
            .ok()
            .filter(|_| lines.next().is_none());
        let key = key.ok_or_else(|| {
            InvalidValue::new(
                "public key",
                text,
                "wants minisign's: 56 letters and digits that begin with RW",
            )
        })?;
        Ok(Self {
            text: line.to_owned(),
            key,
        })
    }

    /// Holds a signature file's text (minisign's, of the hash) against what it signs.
    ///
    /// # Errors
    /// It does not hold.
    pub fn verify(&self, content: &[u8], signature: &str) -> Result<(), BadSignature> {
        let signature =
            minisign_verify::Signature::decode(signature).map_err(|_| BadSignature::Unreadable)?;
        self.key
            .verify(content, &signature, false)
            .map_err(|error| match error {
                minisign_verify::Error::UnexpectedKeyId => BadSignature::OtherKey,
                _ => BadSignature::Wrong,
            })
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PublicKey {}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

string_value!(PublicKey);
