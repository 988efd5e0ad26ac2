//! Public keys of minisign (<https://jedisct1.github.io/minisign/>).

use std::fmt;

use super::{InvalidValue, string_value};

/// A minisign public key.
#[derive(Clone)]
pub struct PublicKey {
    /// The key as one line of base64.
    text: String,
    key: minisign_verify::PublicKey,
}

/// Why a signature is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadSignature {
    /// The text is not a minisign signature.
    Unreadable,
    /// Another key made the signature.
    OtherKey,
    /// The signature does not match the content.
    Wrong,
}

impl PublicKey {
    /// Parses the line that begins with `RW`, or the file that minisign writes, which has a comment before
    /// that line.
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
                "expected a minisign key: 56 characters that begin with RW",
            )
        })?;
        Ok(Self {
            text: line.to_owned(),
            key,
        })
    }

    /// Verifies the text of a minisign signature file (prehashed) over `content`. Returns the trusted
    /// comment, which the signature covers.
    ///
    /// # Errors
    /// The signature is not valid.
    pub fn verify(&self, content: &[u8], signature: &str) -> Result<String, BadSignature> {
        let signature =
            minisign_verify::Signature::decode(signature).map_err(|_| BadSignature::Unreadable)?;
        self.key
            .verify(content, &signature, false)
            .map_err(|error| match error {
                minisign_verify::Error::UnexpectedKeyId => BadSignature::OtherKey,
                _ => BadSignature::Wrong,
            })?;
        Ok(signature.trusted_comment().to_owned())
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
