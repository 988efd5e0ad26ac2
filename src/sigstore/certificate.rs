//! The signer's certificate: its identity, its issuer, and whether a trusted authority issued it
//! (<https://github.com/sigstore/fulcio/blob/main/docs/certificate-specification.md>).

use crate::cause::Cause;
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::text::{at, shown};
use super::trusted_root::TrustedRoot;
use kubexm_types::signature_policy::Identity;
use kubexm_types::{UtcTime, VerifyingKey};

/// Maximum size of a certificate, in bytes; Fulcio's certificates are shorter.
const LONGEST: usize = 64 * 1024;
/// Fulcio's extensions for the issuer: the older one is plain text, the one since 2022 an ASN.1 string
/// (<https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md>).
const ISSUER_BARE: &str = "1.3.6.1.4.1.57264.1.1";
const ISSUER: &str = "1.3.6.1.4.1.57264.1.8";

/// Decodes the first certificate of a PEM text.
pub(super) fn from_pem(text: &str) -> Result<Vec<u8>, String> {
    let wrong = "its certificate cannot be read";
    if text.len() > LONGEST {
        return Err(wrong.to_owned());
    }
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|_| wrong)?;
    match pem.label.as_str() {
        "CERTIFICATE" => Ok(pem.contents),
        _ => Err(wrong.to_owned()),
    }
}

/// Returns the start of a certificate's validity, in seconds since 1970; Fulcio sets it to the time of
/// issue.
pub(super) fn begin(der: &[u8]) -> Result<i64, String> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| "its certificate cannot be read".to_owned())?;
    Ok(certificate.validity().not_before.timestamp())
}

/// Returns the key of a certificate that has this identity and was valid at the time `made`, in seconds
/// since 1970.
///
/// # Errors
/// The identity differs, the certificate was not valid then, or no trusted authority issued it.
pub(super) fn check(
    der: &[u8],
    identity: &Identity,
    made: i64,
    root: &TrustedRoot,
) -> Result<VerifyingKey, Cause> {
    let (rest, certificate) =
        X509Certificate::from_der(der).map_err(|_| "its certificate cannot be read".to_owned())?;
    if !rest.is_empty() {
        return Err("its certificate cannot be read".into());
    }
    must_show(&certificate, identity)?;
    let validity = certificate.validity();
    let (from, until) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    if !(from..=until).contains(&made) {
        return Err(format!(
            "its certificate was valid from {} to {}, but the signature was made at {}",
            at(from),
            at(until),
            at(made)
        )
        .into());
    }
    must_be_in_period(identity, made)?;
    must_be_for_signing(&certificate)?;
    root.must_have_issued(&certificate, der, made)?;
    VerifyingKey::from_der(certificate.public_key().raw)
        .map_err(|reason| format!("the key in its certificate {reason}").into())
}

/// Checks that subject and issuer equal those of the identity.
fn must_show(certificate: &X509Certificate<'_>, identity: &Identity) -> Result<(), String> {
    let subjects = subjects(certificate)?;
    let issuers = issuers(certificate)?;
    let is_subject = subjects.contains(&identity.identity.as_str());
    let is_issuer = !issuers.is_empty() && issuers.iter().all(|issuer| *issuer == identity.issuer);
    if is_subject && is_issuer {
        return Ok(());
    }
    let named = |names: &[&str]| match names {
        [] => "no name".to_owned(),
        names => shown(&names.join(", ")),
    };
    Err(format!(
        "it is by {} ({})",
        named(&subjects),
        named(&issuers)
    ))
}

/// Checks that the identity is accepted for signatures of this time, in seconds since 1970.
fn must_be_in_period(identity: &Identity, made: i64) -> Result<(), String> {
    let time = at(made);
    let is_accepted = UtcTime::parse(&time).is_ok_and(|time| identity.period.contains(&time));
    if is_accepted {
        Ok(())
    } else {
        Err(format!(
            "{} signed it at {time}, but its signatures are accepted only{}",
            identity.identity, identity.period
        ))
    }
}

/// Returns the subject alternative names of the certificate.
fn subjects<'a>(certificate: &'a X509Certificate<'_>) -> Result<Vec<&'a str>, String> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| "its certificate names its subject twice".to_owned())?;
    let names = names.map(|names| &names.value.general_names[..]);
    let subject = |name: &'a GeneralName<'_>| match name {
        GeneralName::RFC822Name(text) | GeneralName::URI(text) => Some(*text),
        _ => None,
    };
    Ok(names
        .unwrap_or_default()
        .iter()
        .filter_map(subject)
        .collect())
}

/// Returns the issuers of each extension that names one.
fn issuers<'a>(certificate: &'a X509Certificate<'_>) -> Result<Vec<&'a str>, String> {
    let mut issuers = Vec::new();
    for extension in certificate.extensions() {
        let issuer = match extension.oid.to_id_string().as_str() {
            ISSUER_BARE => std::str::from_utf8(extension.value).ok(),
            ISSUER => utf8_string(extension.value),
            _ => continue,
        };
        issuers.push(issuer.ok_or("its certificate has an issuer that cannot be read")?);
    }
    issuers.dedup();
    Ok(issuers)
}

/// Decodes a DER `UTF8String` without trailing bytes.
fn utf8_string(der: &[u8]) -> Option<&str> {
    let (rest, text) = <&str>::from_der(der).ok()?;
    rest.is_empty().then_some(text)
}

/// Checks that the certificate is for code signing and has no unknown critical extension.
fn must_be_for_signing(certificate: &X509Certificate<'_>) -> Result<(), String> {
    let usage = certificate.extended_key_usage().ok().flatten();
    let signs = certificate.key_usage().ok().flatten();
    if !usage.is_some_and(|usage| usage.value.code_signing)
        || !signs.is_some_and(|usage| usage.value.digital_signature())
    {
        return Err("its certificate is not for code signing".to_owned());
    }
    let is_strange = |parsed: &ParsedExtension<'_>| {
        matches!(
            parsed,
            ParsedExtension::UnsupportedExtension { .. }
                | ParsedExtension::ParseError { .. }
                | ParsedExtension::Unparsed
        )
    };
    let mut critical = certificate.extensions().iter().filter(|e| e.critical);
    if critical.any(|extension| is_strange(extension.parsed_extension())) {
        Err("its certificate has a critical extension that kubexm does not support".to_owned())
    } else {
        Ok(())
    }
}
