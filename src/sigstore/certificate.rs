//! The certificate of who signed: who that is, on whose word, and whether an authority that is trusted
//! says so (<https://github.com/sigstore/fulcio/blob/main/docs/certificate-specification.md>).

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};

use super::trusted_root::TrustedRoot;
use super::{at, shown};
use kubexm_types::VerifyingKey;
use kubexm_types::signature_policy::Identity;

/// Certificates that Fulcio issues are shorter, in bytes.
const LONGEST: usize = 64 * 1024;
/// Fulcio's extensions for the issuer: first as bare text, since 2022 also as an ASN.1 string
/// (<https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md>).
const ISSUER_BARE: &str = "1.3.6.1.4.1.57264.1.1";
const ISSUER: &str = "1.3.6.1.4.1.57264.1.8";

/// The first certificate of a PEM text.
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

/// When a certificate begins to be good, in seconds since 1970: just when it was issued.
pub(super) fn begin(der: &[u8]) -> Result<i64, String> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| "its certificate cannot be read".to_owned())?;
    Ok(certificate.validity().not_before.timestamp())
}

/// The key in a certificate that shows this identity, and that was good at that time, in seconds since
/// 1970.
///
/// # Errors
/// It shows somebody else, was not good then, or no trusted authority issued it.
pub(super) fn check(
    der: &[u8],
    identity: &Identity,
    made: i64,
    root: &TrustedRoot,
) -> Result<VerifyingKey, String> {
    let (rest, certificate) =
        X509Certificate::from_der(der).map_err(|_| "its certificate cannot be read".to_owned())?;
    if !rest.is_empty() {
        return Err("its certificate cannot be read".to_owned());
    }
    must_show(&certificate, identity)?;
    let validity = certificate.validity();
    let (from, until) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    if !(from..=until).contains(&made) {
        return Err(format!(
            "its certificate was good from {} to {}, and the signature is of {}",
            at(from),
            at(until),
            at(made)
        ));
    }
    must_be_for_signing(&certificate)?;
    root.must_have_issued(&certificate, der, made)?;
    VerifyingKey::from_der(certificate.public_key().raw)
        .map_err(|reason| format!("the key in its certificate {reason}"))
}

/// Both names must be just those that are wanted.
fn must_show(certificate: &X509Certificate<'_>, identity: &Identity) -> Result<(), String> {
    let subjects = subjects(certificate)?;
    let issuers = issuers(certificate)?;
    let is_subject = subjects.contains(&identity.identity.as_str());
    let is_issuer = !issuers.is_empty() && issuers.iter().all(|issuer| *issuer == identity.issuer);
    if is_subject && is_issuer {
        return Ok(());
    }
    let named = |names: &[&str]| match names {
        [] => "nobody".to_owned(),
        names => shown(&names.join(", ")),
    };
    Err(format!(
        "it is by {} ({})",
        named(&subjects),
        named(&issuers)
    ))
}

/// Who the certificate is for: its alternative names.
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

/// On whose word, by each of the extensions that say it.
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

/// The text of a DER `UTF8String`, where there is nothing else.
fn utf8_string(der: &[u8]) -> Option<&str> {
    let (rest, text) = <&str>::from_der(der).ok()?;
    rest.is_empty().then_some(text)
}

/// Certificates of signers are for signing, and ask for nothing that is not understood here.
fn must_be_for_signing(certificate: &X509Certificate<'_>) -> Result<(), String> {
    let usage = certificate.extended_key_usage().ok().flatten();
    let signs = certificate.key_usage().ok().flatten();
    if !usage.is_some_and(|usage| usage.value.code_signing)
        || !signs.is_some_and(|usage| usage.value.digital_signature())
    {
        return Err("its certificate is not for signing".to_owned());
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
    match critical.any(|extension| is_strange(extension.parsed_extension())) {
        true => Err("its certificate asks for something that kubexm does not know".to_owned()),
        false => Ok(()),
    }
}
