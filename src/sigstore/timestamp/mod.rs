//! RFC 3161 timestamps: an authority's signed statement of when it saw a hash, in a CMS message
//! (RFC 5652).

mod asn1;
mod attributes;

use der::asn1::{Any, ObjectIdentifier};
use der::{Decode, Encode, Tag, Tagged};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use time::PrimitiveDateTime;
use time::macros::format_description;
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

use asn1::{Imprint, Info, Response, Signer};
use attributes::Attributes;
use kubexm_types::VerifyingKey;

/// Maximum size of a response, in bytes; a response with all certificates is smaller.
const LONGEST: usize = 16 * 1024;
/// `granted` and `grantedWithMods` (RFC 3161, 2.4.2).
const GRANTED: [u8; 2] = [0, 1];

/// Content types: signed data (RFC 5652, 5.1) and a timestamp in it (RFC 3161, 2.4.2).
const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
/// Hash algorithms (RFC 5754, 2).
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");

const UNREADABLE: &str = "its timestamp cannot be read";

/// A parsed timestamp that is consistent in itself. Its signer is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timestamp {
    time: i64,
    imprint: Imprint,
    /// The certificates in the message, in DER.
    certificates: Vec<Vec<u8>>,
    attributes: Attributes,
    /// The signed bytes: the attributes, one of which is the hash of the content.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

impl Timestamp {
    /// Parses an authority's response (`TimeStampResp`) in DER.
    ///
    /// # Errors
    /// It is not a timestamp, or the signed attributes do not match the content.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        if der.len() > LONGEST {
            return Err("its timestamp is larger than 16 KiB".to_owned());
        }
        let response = Response::from_der(der).map_err(|_| UNREADABLE)?;
        if !GRANTED.contains(&response.status.status) {
            return Err("its timestamp was refused by the timestamp authority".to_owned());
        }
        let token = response.token.ok_or(UNREADABLE)?;
        let message = token.message;
        if (token.kind, message.content.kind) != (SIGNED_DATA, INFO) {
            return Err("its timestamp is a CMS message with other content".to_owned());
        }
        let content = message.content.content.as_bytes();
        let info = Info::from_der(content).map_err(|_| UNREADABLE)?;
        must_be_understood(&info)?;
        let signer = message.signers.get(0).ok_or(UNREADABLE)?;
        let signer: Signer = signer.decode_as().map_err(|_| UNREADABLE)?;
        let certificates = message.certificates.iter().flat_map(|all| all.iter());
        let certificates = certificates.map(Encode::to_der).collect::<Result<_, _>>();
        Ok(Self {
            time: seconds(&info.time).ok_or(UNREADABLE)?,
            imprint: info.imprint,
            certificates: certificates.map_err(|_| UNREADABLE)?,
            attributes: attributes(&signer, content)?,
            // Encoded with the tag of a set, not with the implicit tag of the message (RFC 5652, 5.4).
            signed: signer.signed.to_der().map_err(|_| UNREADABLE)?,
            signature: signer.signature.as_bytes().to_vec(),
        })
    }

    /// Returns when the timestamp was made, in seconds since 1970.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// Returns the certificates in the message, in DER.
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.certificates
    }

    /// Checks that the timestamp is of these bytes.
    ///
    /// # Errors
    /// It is of other bytes.
    pub fn must_be_of(&self, bytes: &[u8]) -> Result<(), String> {
        let hash = hash(&self.imprint.algorithm.kind, bytes);
        if hash.is_some_and(|hash| hash == self.imprint.hash.as_bytes()) {
            Ok(())
        } else {
            Err("its timestamp is of another signature".to_owned())
        }
    }

    /// Whether the certificate's key signed the timestamp, and the attributes name no other certificate.
    pub fn is_signed_by(&self, certificate: &[u8]) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let key = VerifyingKey::from_der(parsed.public_key().raw);
        self.attributes.may_be_by(certificate)
            && key.is_ok_and(|key| key.verifies(&self.signed, &self.signature))
    }
}

fn must_be_understood(info: &Info) -> Result<(), String> {
    let mut extensions = info.extensions.iter().flatten();
    if info.version == 1 && !extensions.any(|extension| extension.critical) {
        Ok(())
    } else {
        Err(
            "its timestamp has a version or a critical extension that kubexm does not support"
                .to_owned(),
        )
    }
}

/// Parses the signed attributes and checks that they match the content.
fn attributes(signer: &Signer, content: &[u8]) -> Result<Attributes, String> {
    let attributes = Attributes::read(&signer.signed)?;
    let hash = hash(&signer.hash.kind, content);
    if hash.is_some_and(|hash| attributes.are_of(&INFO, &hash)) {
        Ok(attributes)
    } else {
        Err("its timestamp was changed".to_owned())
    }
}

/// Parses a `GeneralizedTime` in UTC, with or without fractions, and returns whole seconds since 1970
/// (RFC 3161, 2.4.2).
fn seconds(time: &Any) -> Option<i64> {
    let text = std::str::from_utf8(time.value()).ok()?;
    let text = text
        .strip_suffix('Z')
        .filter(|_| time.tag() == Tag::GeneralizedTime)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = !fraction.is_empty() && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let format = format_description!("[year][month][day][hour][minute][second]");
    let time = PrimitiveDateTime::parse(whole, format).ok()?;
    is_number.then(|| time.assume_utc().unix_timestamp())
}

/// Computes a hash of the SHA-2 family; returns `None` for any other algorithm.
fn hash(algorithm: &ObjectIdentifier, bytes: &[u8]) -> Option<Vec<u8>> {
    match *algorithm {
        SHA256 => Some(Sha256::digest(bytes).to_vec()),
        SHA384 => Some(Sha384::digest(bytes).to_vec()),
        SHA512 => Some(Sha512::digest(bytes).to_vec()),
        _ => None,
    }
}
