//! ASN.1 types of timestamps: the authority's response (RFC 3161, 2.4.2), the CMS message in it
//! (RFC 5652, 5), and the reference to a certificate (RFC 5035). Set sizes are limited, so that untrusted
//! input is parsed quickly.

use der::Sequence;
use der::asn1::{Any, Int, ObjectIdentifier, OctetString, SetOf};

/// Maximum number of hash algorithms of a message, of its certificates or revocation lists, and of the
/// attributes of its signature.
const MOST_HASHES: usize = 8;
const MOST_CERTIFICATES: usize = 8;
const MOST_ATTRIBUTES: usize = 16;

/// `TimeStampResp`.
#[derive(Sequence)]
pub(super) struct Response {
    pub status: Status,
    #[asn1(optional = "true")]
    pub token: Option<Token>,
}

/// `PKIStatusInfo`.
#[derive(Sequence)]
pub(super) struct Status {
    pub status: u8,
    #[asn1(optional = "true")]
    pub text: Option<Any>,
    #[asn1(optional = "true")]
    pub failure: Option<Any>,
}

/// `ContentInfo` with a signed message.
#[derive(Sequence)]
pub(super) struct Token {
    pub kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    pub message: Message,
}

/// `SignedData`.
#[derive(Sequence)]
pub(super) struct Message {
    pub version: u8,
    pub hashes: SetOf<Any, MOST_HASHES>,
    pub content: Content,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    pub certificates: Option<SetOf<Any, MOST_CERTIFICATES>>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub revocations: Option<SetOf<Any, MOST_CERTIFICATES>>,
    /// A timestamp has exactly one (RFC 3161, 2.4.2).
    pub signers: SetOf<Any, 1>,
}

/// `EncapsulatedContentInfo`.
#[derive(Sequence)]
pub(super) struct Content {
    pub kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    pub content: OctetString,
}

/// `SignerInfo`.
#[derive(Sequence)]
pub(super) struct Signer {
    pub version: u8,
    pub id: Any,
    pub hash: Algorithm,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    pub signed: SetOf<Any, MOST_ATTRIBUTES>,
    pub algorithm: Algorithm,
    pub signature: OctetString,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub unsigned: Option<SetOf<Any, MOST_ATTRIBUTES>>,
}

/// `Attribute`.
#[derive(Sequence)]
pub(super) struct Attribute {
    pub kind: ObjectIdentifier,
    pub values: SetOf<Any, MOST_ATTRIBUTES>,
}

/// `AlgorithmIdentifier`.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct Algorithm {
    pub kind: ObjectIdentifier,
    #[asn1(optional = "true")]
    pub parameters: Option<Any>,
}

/// `TSTInfo`.
#[derive(Sequence)]
pub(super) struct Info {
    pub version: u8,
    pub policy: ObjectIdentifier,
    pub imprint: Imprint,
    pub serial_number: Int,
    /// May have fractions of a second, unlike the times in certificates.
    pub time: Any,
    #[asn1(optional = "true")]
    pub accuracy: Option<Accuracy>,
    #[asn1(default = "Default::default")]
    pub ordering: bool,
    #[asn1(optional = "true")]
    pub nonce: Option<Int>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub authority: Option<Any>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub extensions: Option<Vec<Extension>>,
}

/// `MessageImprint`.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct Imprint {
    pub algorithm: Algorithm,
    pub hash: OctetString,
}

/// `Accuracy`.
#[derive(Sequence)]
pub(super) struct Accuracy {
    #[asn1(optional = "true")]
    pub seconds: Option<u64>,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT", optional = "true")]
    pub milliseconds: Option<u16>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub microseconds: Option<u16>,
}

/// `Extension`.
#[derive(Sequence)]
pub(super) struct Extension {
    pub kind: ObjectIdentifier,
    #[asn1(default = "Default::default")]
    pub critical: bool,
    pub value: OctetString,
}

/// `SigningCertificate`.
#[derive(Sequence)]
pub(super) struct SigningCertificate {
    pub certificates: Vec<CertificateId>,
    #[asn1(optional = "true")]
    pub policies: Option<Any>,
}

/// `ESSCertID`, whose hash is SHA-1.
#[derive(Sequence)]
pub(super) struct CertificateId {
    pub hash: OctetString,
    #[asn1(optional = "true")]
    pub issuer: Option<Any>,
}

/// `SigningCertificateV2`.
#[derive(Sequence)]
pub(super) struct SigningCertificateV2 {
    pub certificates: Vec<CertificateIdV2>,
    #[asn1(optional = "true")]
    pub policies: Option<Any>,
}

/// `ESSCertIDv2`; the default hash is SHA-256.
#[derive(Sequence)]
pub(super) struct CertificateIdV2 {
    #[asn1(optional = "true")]
    pub algorithm: Option<Algorithm>,
    pub hash: OctetString,
    #[asn1(optional = "true")]
    pub issuer: Option<Any>,
}
