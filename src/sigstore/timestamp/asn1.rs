//! What timestamps are made of, beyond what they share with other messages of CMS (RFC 3161, 2.4.2;
//! RFC 5035).

use cms::cert::x509::ext::Extensions;
use cms::cert::x509::spki::AlgorithmIdentifierOwned;
use cms::content_info::ContentInfo;
use der::Sequence;
use der::asn1::{Any, ObjectIdentifier, OctetString};

/// `TimeStampResp`.
#[derive(Sequence)]
pub(super) struct Response {
    pub status: Status,
    #[asn1(optional = "true")]
    pub token: Option<ContentInfo>,
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

/// `TSTInfo`.
#[derive(Sequence)]
pub(super) struct Info {
    pub version: u8,
    pub policy: ObjectIdentifier,
    pub imprint: Imprint,
    pub serial_number: Any,
    /// May have fractions of a second, unlike the times of certificates.
    pub time: Any,
    #[asn1(optional = "true")]
    pub accuracy: Option<Accuracy>,
    #[asn1(default = "Default::default")]
    pub ordering: bool,
    #[asn1(optional = "true")]
    pub nonce: Option<der::asn1::Int>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    pub authority: Option<Any>,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub extensions: Option<Extensions>,
}

/// `MessageImprint`.
#[derive(Debug, Clone, PartialEq, Eq, Sequence)]
pub(super) struct Imprint {
    pub algorithm: AlgorithmIdentifierOwned,
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

/// `ESSCertIDv2`, whose hash is SHA-256 where it says no other.
#[derive(Sequence)]
pub(super) struct CertificateIdV2 {
    #[asn1(optional = "true")]
    pub algorithm: Option<AlgorithmIdentifierOwned>,
    pub hash: OctetString,
    #[asn1(optional = "true")]
    pub issuer: Option<Any>,
}
