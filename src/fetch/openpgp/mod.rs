//! OpenPGP keys that the user trusts, and the rules for signatures by them (RFC 9580).
//!
//! A signature is accepted if all of these hold:
//!
//! - It is a signature of a document (5.2.1.1, 5.2.1.2) with a creation time (5.2.3.11), it has not expired
//!   (5.2.3.18), and its digest is not MD5, SHA-1 or RIPEMD-160 (9.5).
//! - The key has a valid self-signature (5.2.3.10) and is not revoked (5.2.1.11, 5.2.1.12), for whatever
//!   reason and at whatever time, as in GnuPG.
//! - A subkey is bound by its primary key (5.2.1.8), and signed that binding itself (5.2.1.9, 5.2.3.34).
//! - The key has the flag for signing (5.2.3.29). A primary key without flags has all of them, as in GnuPG.
//! - The key and its primary key had not expired (5.2.3.13) when the signature was made. For metadata of
//!   repositories they must also be valid now; see [`Validity`].
//!
//! Self-signatures may use SHA-1, because the keyring is a file of the user: section 9.5 permits it for
//! messages in the user's own custody, and GnuPG does the same. They must not use MD5. Revocations by
//! other keys (5.2.3.23, deprecated) are not evaluated.

mod certificate;
mod error;
mod standing;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pgp::armor::Dearmor;
use pgp::composed::{CleartextSignedMessage, Deserializable, DetachedSignature};
use pgp::packet::{Packet, PacketParser, Signature, SignatureType};
use pgp::types::KeyDetails;

use certificate::certificates;
use kubexm_types::Untrusted;
use standing::{SigningKey, check_digest};

pub use error::{OpenPgpError, Refusal, Refused};

/// The first and the last line of each key in an armoured file (RFC 9580, 6.2). Other text may be between
/// the blocks.
const ARMOUR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const ARMOUR_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// Maximum size of a keyring file, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;
/// Maximum number of signatures of a document. Archives sign with two or three keys; each signature costs a
/// hash of the whole document.
const MOST_SIGNATURES: usize = 16;
/// Permitted difference of clocks between the signer and this machine, in seconds, as in rpm-sequoia.
const SKEW: u64 = 5 * 60;

/// The times at which a key must be valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// When the signature was made, and now. For metadata that a repository signs at each publication: apt
    /// refuses expired keys, too (`EXPKEYSIG` in its `methods/gpgv.cc`).
    Now,
    /// When the signature was made. For packages, which are signed once and outlive the key: rpm
    /// evaluates the key at the creation time of the signature (`pgp_verify_signature` of rpm-sequoia).
    AtSigning,
}

/// Keys of which one must have made a signature.
pub struct OpenPgpKeyring {
    keys: Vec<SigningKey>,
    /// The names of the files.
    names: String,
}

impl OpenPgpKeyring {
    /// Reads the keys of all files, binary or armoured.
    ///
    /// # Errors
    /// The first file that cannot be read or has no key.
    pub fn load(files: &[PathBuf]) -> Result<Self, OpenPgpError> {
        let contents = files.iter().map(|file| read(file));
        let contents = contents.collect::<Result<Vec<_>, _>>()?;
        let named = files.iter().zip(&contents);
        let named: Vec<(&Path, &[u8])> = named
            .map(|(file, content)| (file.as_path(), content.as_slice()))
            .collect();
        Self::parse(&named)
    }

    /// Parses the keys of all files, each with its name and content. Several copies of one key count as
    /// one key: a revocation in any file applies to all of them.
    ///
    /// # Errors
    /// The first file that has no key.
    pub fn parse(files: &[(&Path, &[u8])]) -> Result<Self, OpenPgpError> {
        let mut packets = Vec::new();
        for (file, content) in files {
            packets.extend(packets_of(file, content)?);
        }
        let names: Vec<String> = files
            .iter()
            .map(|(file, _)| file.display().to_string())
            .collect();
        Ok(Self {
            keys: certificates(packets)
                .iter()
                .flat_map(|certificate| certificate.signing_keys(now()))
                .collect(),
            names: names.join(", "),
        })
    }

    /// Returns the text of a clear-signed message, with line feeds as line ends, if one of the keys
    /// signed it.
    ///
    /// # Errors
    /// The message cannot be read, or none of its signatures is accepted.
    pub fn clear_signed(&self, message: &str, validity: Validity) -> Result<String, OpenPgpError> {
        let (message, _) = CleartextSignedMessage::from_string(message).map_err(unreadable)?;
        let text = message.signed_text();
        self.verify(text.as_bytes(), message.signatures(), validity)?;
        Ok(text.replace("\r\n", "\n"))
    }

    /// Checks a detached signature, binary or armoured.
    ///
    /// # Errors
    /// The signature cannot be read or is not accepted.
    pub fn detached(
        &self,
        content: &[u8],
        signature: &[u8],
        validity: Validity,
    ) -> Result<(), OpenPgpError> {
        let (signatures, _) = DetachedSignature::from_reader_many(signature).map_err(unreadable)?;
        let signatures = signatures.map(|found| found.map(|detached| detached.signature));
        let signatures: Vec<Signature> =
            signatures.collect::<Result<_, _>>().map_err(unreadable)?;
        self.verify(content, &signatures, validity)
    }

    /// Checks that one of the signatures is by a key of the keyring. The others may be by other keys,
    /// because archives sign with their old key and their new one.
    fn verify(
        &self,
        content: &[u8],
        signatures: &[Signature],
        validity: Validity,
    ) -> Result<(), OpenPgpError> {
        if signatures.is_empty() {
            return Err(unreadable("it has no signature"));
        }
        if signatures.len() > MOST_SIGNATURES {
            return Err(unreadable(format!(
                "it has more than {MOST_SIGNATURES} signatures"
            )));
        }
        let mut refused = Vec::new();
        for signature in signatures {
            let keys = self.keys.iter();
            for key in keys.filter(|key| key.may_have_made(signature, content)) {
                match accept(key, content, signature, validity) {
                    Ok(()) => return Ok(()),
                    Err(refusal) if !refused.contains(&refusal) => refused.push(refusal),
                    Err(_) => {}
                }
            }
        }
        Err(if refused.is_empty() {
            OpenPgpError::OtherKey {
                keyring: self.names.clone(),
                signers: signatures.iter().flat_map(signers).collect(),
            }
        } else {
            OpenPgpError::Refused {
                keyring: self.names.clone(),
                refused,
            }
        })
    }
}

/// Applies the rules of this module to one signature by one key.
fn accept(
    key: &SigningKey,
    content: &[u8],
    signature: &Signature,
    validity: Validity,
) -> Result<(), Refused> {
    let refuse = |cause| key.refused(cause);
    let is_of_document = matches!(
        signature.typ(),
        Some(SignatureType::Binary | SignatureType::Text)
    );
    let made = signature.created().filter(|_| is_of_document);
    let made = u64::from(
        made.ok_or_else(|| refuse(Refusal::NotOfDocument))?
            .as_secs(),
    );
    check_digest(signature).map_err(refuse)?;
    if !key.verifies(signature, content) {
        return Err(refuse(Refusal::Mismatch));
    }
    let now = now();
    if made > now + SKEW {
        return Err(refuse(Refusal::InFuture { made }));
    }
    let lifetime = signature.signature_expiration_time();
    let lifetime = lifetime.map_or(0, |lifetime| u64::from(lifetime.as_secs()));
    if lifetime != 0 && made + lifetime <= now {
        return Err(refuse(Refusal::SignatureExpired {
            at: made + lifetime,
        }));
    }
    key.check_at(made, (validity == Validity::Now).then_some(now))
}

/// Returns the key IDs that a signature names.
fn signers(signature: &Signature) -> Vec<String> {
    let ids = signature.issuer_key_id();
    ids.iter().map(|id| error::shown(id)).collect()
}

/// Returns an error with a cause that may quote untrusted input: shortened, without control characters.
fn unreadable(cause: impl std::fmt::Display) -> OpenPgpError {
    let shown = Untrusted::one_line(&cause.to_string(), 200);
    OpenPgpError::Unreadable(shown.to_string())
}

/// Returns the current time, in seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn wrong(file: &Path, cause: String) -> OpenPgpError {
    OpenPgpError::Keyring {
        path: file.to_owned(),
        cause,
    }
}

fn read(file: &Path) -> Result<Vec<u8>, OpenPgpError> {
    let mut content = Vec::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(LARGEST + 1).read_to_end(&mut content))
        .map_err(|error| wrong(file, error.to_string()))?;
    if content.len() as u64 > LARGEST {
        Err(wrong(file, "it is larger than 16 MiB".to_owned()))
    } else {
        Ok(content)
    }
}

/// Parses the packets of a keyring.
fn packets_of(file: &Path, content: &[u8]) -> Result<Vec<Packet>, OpenPgpError> {
    let mut packets = Vec::new();
    // Packets of unknown kinds are ignored: newer keys beside the expected one may have them.
    let mut parse = |source: &mut dyn Read| {
        let parser = PacketParser::new(std::io::BufReader::new(source));
        packets.extend(parser.filter_map(Result::ok));
    };
    match std::str::from_utf8(content) {
        Ok(text) => blocks(text).for_each(|block| parse(&mut Dearmor::new(block.as_bytes()))),
        Err(_) => parse(&mut &*content),
    }
    let has_key = packets
        .iter()
        .any(|packet| matches!(packet, Packet::PublicKey(_)));
    if has_key {
        Ok(packets)
    } else {
        Err(wrong(
            file,
            "it does not contain an OpenPGP public key".to_owned(),
        ))
    }
}

/// Returns the armoured blocks of a text.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(ARMOUR).map(|(at, _)| {
        let end = text[at..].find(ARMOUR_END);
        let end = end.map_or(text.len(), |end| at + end + ARMOUR_END.len());
        &text[at..end]
    })
}

/// Whether a signature names this key as its maker; `None` if it names no key.
fn names(signature: &Signature, key: &impl KeyDetails) -> Option<bool> {
    let (ids, fingerprints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
    if ids.is_empty() && fingerprints.is_empty() {
        return None;
    }
    let is_key = ids.contains(&&key.legacy_key_id());
    Some(is_key || fingerprints.contains(&&key.fingerprint()))
}
