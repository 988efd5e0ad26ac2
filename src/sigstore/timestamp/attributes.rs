//! The signed attributes of a timestamp (RFC 5652, 11; RFC 5035, 3 and 5).

use der::asn1::{Any, ObjectIdentifier, OctetString, SetOf};
use der::{Decode, Encode};
use sha1::{Digest as _, Sha1};

use super::asn1::{Attribute, SigningCertificate, SigningCertificateV2};
use super::{SHA256, UNREADABLE, hash};

const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const CERTIFICATE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.2.12");
const CERTIFICATE_V2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.2.47");

/// The attributes that verification uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attributes {
    content_type: ObjectIdentifier,
    digest: OctetString,
    /// SHA-1 of the signer's certificate (`SigningCertificate`).
    certificate: Option<OctetString>,
    /// Algorithm and hash of the signer's certificate (`SigningCertificateV2`).
    certificate_v2: Option<(ObjectIdentifier, OctetString)>,
}

impl Attributes {
    /// Parses the attributes.
    ///
    /// # Errors
    /// A required attribute is missing, or one cannot be read.
    pub fn read<const N: usize>(attributes: &SetOf<Any, N>) -> Result<Self, String> {
        let attributes = attributes.iter().map(Any::decode_as);
        let attributes: Result<Vec<Attribute>, der::Error> = attributes.collect();
        let attributes = &attributes.map_err(|_| UNREADABLE)?;
        let certificate = optional(attributes, CERTIFICATE)?;
        let certificate = certificate.and_then(|named: SigningCertificate| {
            named
                .certificates
                .into_iter()
                .next()
                .map(|named| named.hash)
        });
        let certificate_v2 = optional(attributes, CERTIFICATE_V2)?;
        let certificate_v2 = certificate_v2.and_then(|named: SigningCertificateV2| {
            let named = named.certificates.into_iter().next()?;
            Some((
                named.algorithm.map_or(SHA256, |named| named.kind),
                named.hash,
            ))
        });
        Ok(Self {
            content_type: optional(attributes, CONTENT_TYPE)?.ok_or(UNREADABLE)?,
            digest: optional(attributes, MESSAGE_DIGEST)?.ok_or(UNREADABLE)?,
            certificate,
            certificate_v2,
        })
    }

    /// Whether they belong to content of this type and hash.
    pub fn are_of(&self, content_type: &ObjectIdentifier, hash: &[u8]) -> bool {
        self.content_type == *content_type && self.digest.as_bytes() == hash
    }

    /// Whether they name no certificate other than this one, in DER.
    pub fn may_be_by(&self, certificate: &[u8]) -> bool {
        let older = self.certificate.as_ref();
        let newer = self.certificate_v2.as_ref();
        older.is_none_or(|named| named.as_bytes() == Sha1::digest(certificate).as_slice())
            && newer.is_none_or(|(kind, named)| {
                hash(kind, certificate).is_some_and(|hash| hash == named.as_bytes())
            })
    }
}

/// Returns the only value of an attribute, or `None` if the attribute is missing.
fn optional<T: for<'a> Decode<'a>>(
    attributes: &[Attribute],
    kind: ObjectIdentifier,
) -> Result<Option<T>, String> {
    let mut found = attributes.iter().filter(|attribute| attribute.kind == kind);
    let values = match (found.next(), found.next()) {
        (None, _) => return Ok(None),
        (Some(attribute), None) => &attribute.values,
        _ => return Err(UNREADABLE.to_owned()),
    };
    let value = values.get(0).filter(|_| values.len() == 1);
    let value = value.ok_or(UNREADABLE)?.to_der();
    let value = value.and_then(|der| T::from_der(&der));
    value.map(Some).map_err(|_| UNREADABLE.to_owned())
}
