//! Certificate transparency: a signed certificate timestamp (SCT) inside a certificate, with which a log
//! promises to publish it (RFC 6962, 3.2 and 3.3). Logs make certificates that an authority issued
//! wrongly visible.

use crate::cause::Cause;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{CtVersion, ParsedExtension, SignedCertificateTimestamp};

use super::trusted_root::{Log, UNKNOWN_LOG};
use kubexm_types::Digest;

/// OID of the extension with the SCT list, in DER: 1.3.6.1.4.1.11129.2.4.2.
const PROMISES: [u8; 12] = [6, 10, 43, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 2];
/// DER tags of a sequence and of the extensions in a certificate (RFC 5280, 4.1).
const SEQUENCE: u8 = 0x30;
const EXTENSIONS: u8 = 0xa3;

/// Checks that one of these logs, trusted at that time, recorded the certificate. `der` is the whole
/// certificate, `issuer` the certificate that issued it.
///
/// # Errors
/// None of the logs did.
pub(super) fn must_be_seen(
    certificate: &X509Certificate<'_>,
    der: &[u8],
    issuer: &X509Certificate<'_>,
    logs: &[Log],
) -> Result<(), Cause> {
    let unreadable = "its certificate cannot be read";
    let seen = without_promises(der).ok_or(unreadable)?;
    let issuer = Digest::of(issuer.public_key().raw);
    let is_promised = promises(certificate).any(|promise| {
        let seconds = i64::try_from(promise.timestamp / 1000).unwrap_or(i64::MAX);
        let signed = signed(promise, &issuer, &seen);
        let mut logs = logs.iter();
        logs.any(|log| {
            promise.version == CtVersion::V1
                && log.id.bytes() == promise.id.key_id
                && log.period.contains(seconds)
                && log.key.verifies(&signed, promise.signature.data)
        })
    });
    let ids: Vec<&[u8]> = promises(certificate)
        .map(|promise| &promise.id.key_id[..])
        .collect();
    let is_of_unknown_logs =
        !ids.is_empty() && logs.iter().all(|log| !ids.contains(&log.id.bytes()));
    match (is_promised, is_of_unknown_logs) {
        (true, _) => Ok(()),
        (false, true) => Err(Cause::of_unknown_log(format!(
            "{UNKNOWN_LOG} recorded its certificate, and no known one did"
        ))),
        (false, false) => Err(
            "its certificate has no valid SCT of a trusted certificate transparency log; do not \
             trust it"
                .into(),
        ),
    }
}

/// Returns the SCTs in a certificate.
fn promises<'a>(
    certificate: &'a X509Certificate<'a>,
) -> impl Iterator<Item = &'a SignedCertificateTimestamp<'a>> {
    let extensions = certificate.extensions().iter();
    let lists = extensions.filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SCT(promises) => Some(promises),
        _ => None,
    });
    lists.flatten()
}

/// Returns the bytes that a log signs for a precertificate.
fn signed(promise: &SignedCertificateTimestamp<'_>, issuer: &Digest, seen: &[u8]) -> Vec<u8> {
    let length = u32::try_from(seen.len()).unwrap_or(u32::MAX).to_be_bytes();
    let more = promise.extensions.0;
    let more_length = u16::try_from(more.len()).unwrap_or(u16::MAX).to_be_bytes();
    [
        // Version 1, a certificate timestamp.
        &[promise.version.0, 0][..],
        &promise.timestamp.to_be_bytes(),
        // A precertificate entry.
        &[0, 1],
        issuer.bytes(),
        &length[1..],
        seen,
        &more_length,
        more,
    ]
    .concat()
}

/// Returns the certificate's signed part without the SCT extension, as the log signed it.
fn without_promises(der: &[u8]) -> Option<Vec<u8>> {
    let (certificate, _) = part(der)?;
    let (signed, _) = part(certificate.content)?;
    let mut fields = Vec::new();
    let mut rest = signed.content;
    while !rest.is_empty() {
        let (field, after) = part(rest)?;
        match field.tag {
            EXTENSIONS => fields.extend(wrapped(EXTENSIONS, &others(field.content)?)),
            _ => fields.extend(field.whole),
        }
        rest = after;
    }
    Some(wrapped(SEQUENCE, &fields))
}

/// Returns the extensions without the one that has the SCT list.
fn others(extensions: &[u8]) -> Option<Vec<u8>> {
    let (list, _) = part(extensions)?;
    let mut others = Vec::new();
    let mut rest = list.content;
    while !rest.is_empty() {
        let (extension, after) = part(rest)?;
        if !extension.content.starts_with(&PROMISES) {
            others.extend(extension.whole);
        }
        rest = after;
    }
    Some(wrapped(SEQUENCE, &others))
}

/// A DER element.
struct Part<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// Parses the first DER element (X.690, 8.1); returns it and the bytes after it. Certificates do not
/// contain multi-byte tags.
fn part(der: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long - 0x80)?;
            let small = (1..=4).contains(&digits.len());
            let length = digits
                .iter()
                .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (small.then_some(length)?, rest)
        }
    };
    let (content, after) = rest.split_at_checked(length)?;
    let whole = &der[..der.len() - after.len()];
    let part = Part {
        tag: *tag,
        content,
        whole,
    };
    Some((part, after))
}

/// Encodes a DER element with this tag.
fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().take_while(|digit| **digit == 0).count()..];
    let count = u8::try_from(digits.len()).unwrap_or_default();
    match digits {
        [] => vec![tag, 0],
        [short @ 0..0x80] => [&[tag, *short], content].concat(),
        _ => [&[tag, 0x80 | count], digits, content].concat(),
    }
}
