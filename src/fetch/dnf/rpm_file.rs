//! The rpm file format: the signature of the header, and the payload's digest in the header
//! (<https://rpm-software-management.github.io/rpm/manual/format_v4.html>).
//!
//! The signature covers the header, and the header has the digest of the payload. Name and version in the
//! header must be those of the requested package; otherwise a mirror could replace a package by any other
//! signed package.

use std::io::{self, Read};

use base64::Engine;

use super::package::Package;
use crate::openpgp::{OpenPgpError, OpenPgpKeyring, Validity};
use kubexm_types::{Digest, DigestReader};

const LEAD: usize = 96;
const LEAD_MAGIC: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
const HEADER_MAGIC: [u8; 4] = [0x8e, 0xad, 0xe8, 0x01];
/// Maximum size of a header, in bytes; that of the kernel has 10 MiB.
const LARGEST_HEADER: usize = 128 * 1024 * 1024;

/// Tags of the signature header.
const SIGNATURE_DSA: u32 = 267;
const SIGNATURE_RSA: u32 = 268;
const SIGNATURE_OPENPGP: u32 = 278;
/// Tags of the header.
const NAME: u32 = 1000;
const VERSION: u32 = 1001;
const RELEASE: u32 = 1002;
const EPOCH: u32 = 1003;
const ARCH: u32 = 1022;
const PAYLOAD_DIGEST: u32 = 5092;
const PAYLOAD_DIGEST_ALGORITHM: u32 = 5093;
const SHA256: u32 = 8;

/// Why a package file is not accepted.
#[derive(Debug)]
pub enum RpmError {
    /// The file is not the requested package, or is damaged. The text completes a sentence about it.
    Content(String),
    /// No trusted key signed the header.
    Signature(OpenPgpError),
}

impl From<String> for RpmError {
    fn from(reason: String) -> Self {
        Self::Content(reason)
    }
}

/// Reads and verifies a package file.
///
/// # Errors
/// Why the file is not the requested package, or why that cannot be verified.
pub fn verify(
    mut file: impl Read,
    package: &Package,
    keyring: &OpenPgpKeyring,
) -> Result<(), RpmError> {
    let cut = |error: io::Error| format!("it cannot be read as an rpm: {error}");
    let mut lead = [0; LEAD];
    file.read_exact(&mut lead).map_err(cut)?;
    if lead[..4] != LEAD_MAGIC {
        return Err("it is not an rpm".to_owned().into());
    }
    let signatures = Header::read(&mut file)?;
    let padding = (8 - signatures.bytes.len() % 8) % 8;
    file.read_exact(&mut [0; 8][..padding]).map_err(cut)?;
    let header = Header::read(&mut file)?;
    signed(&signatures, &header, keyring)?;
    same(&header, package)?;
    let mut payload = DigestReader::new(file);
    io::copy(&mut payload, &mut io::sink()).map_err(cut)?;
    let (got, _) = payload.finish();
    if header.number(PAYLOAD_DIGEST_ALGORITHM) != Some(SHA256) {
        let reason = "its header has no SHA-256 of its payload (it was built with rpm before 4.14)";
        return Err(reason.to_owned().into());
    }
    let expected = header.text(PAYLOAD_DIGEST).unwrap_or_default();
    match expected.parse::<Digest>() {
        Ok(expected) if expected == got => Ok(()),
        _ => Err("its payload is not the one that was signed"
            .to_owned()
            .into()),
    }
}

fn signed(signatures: &Header, header: &Header, keyring: &OpenPgpKeyring) -> Result<(), RpmError> {
    let mut found: Vec<Vec<u8>> = [SIGNATURE_RSA, SIGNATURE_DSA]
        .into_iter()
        .filter_map(|tag| signatures.binary(tag))
        .map(<[u8]>::to_vec)
        .collect();
    let texts = signatures.texts(SIGNATURE_OPENPGP).into_iter();
    found.extend(
        texts.filter_map(|text| base64::engine::general_purpose::STANDARD.decode(text).ok()),
    );
    let mut refused = RpmError::Content("its header has no signature".to_owned());
    for signature in found {
        match keyring.detached(&header.bytes, &signature, Validity::AtSigning) {
            Ok(()) => return Ok(()),
            Err(error) => refused = RpmError::Signature(error),
        }
    }
    Err(refused)
}

fn same(header: &Header, package: &Package) -> Result<(), String> {
    let text = |tag| header.text(tag).unwrap_or_default();
    let epoch = header.number(EPOCH).unwrap_or(0);
    let (name, version, release, arch) = (text(NAME), text(VERSION), text(RELEASE), text(ARCH));
    let nevra = format!("{name}-{epoch}:{version}-{release}.{arch}");
    if nevra == package.nevra() {
        Ok(())
    } else {
        let shown: String = nevra
            .chars()
            .take(200)
            .flat_map(char::escape_default)
            .collect();
        Err(format!(
            "it contains {shown}, another package than the requested one"
        ))
    }
}

/// A header: an index of tags and the data that they refer to.
struct Header {
    /// The whole header, which is what the signature covers.
    bytes: Vec<u8>,
    entries: usize,
}

/// Size of the header's introduction and of an index entry, in bytes.
const INTRO: usize = 16;
const ENTRY: usize = 16;

impl Header {
    fn read(file: &mut impl Read) -> Result<Self, String> {
        let cut = |error: io::Error| format!("its header cannot be read: {error}");
        let mut intro = [0; INTRO];
        file.read_exact(&mut intro).map_err(cut)?;
        let entries = number(&intro, 8).unwrap_or(0) as usize;
        let store = number(&intro, 12).unwrap_or(0) as usize;
        let rest = entries.saturating_mul(ENTRY).saturating_add(store);
        if intro[..4] != HEADER_MAGIC || rest > LARGEST_HEADER {
            return Err("its header is not valid".to_owned());
        }
        let mut bytes = intro.to_vec();
        let got = file
            .take(rest as u64)
            .read_to_end(&mut bytes)
            .map_err(cut)?;
        if got == rest {
            Ok(Self { bytes, entries })
        } else {
            Err("its header is cut off".to_owned())
        }
    }

    /// Returns a tag's data and the number of its values.
    fn find(&self, tag: u32) -> Option<(&[u8], usize)> {
        let index = self.bytes.get(INTRO..INTRO + self.entries * ENTRY)?;
        let entry = index
            .chunks_exact(ENTRY)
            .find(|entry| number(entry, 0) == Some(tag))?;
        let (offset, count) = (number(entry, 8)? as usize, number(entry, 12)? as usize);
        let store = self.bytes.get(INTRO + self.entries * ENTRY..)?;
        Some((store.get(offset..)?, count))
    }

    fn number(&self, tag: u32) -> Option<u32> {
        number(self.find(tag)?.0, 0)
    }

    fn binary(&self, tag: u32) -> Option<&[u8]> {
        let (data, count) = self.find(tag)?;
        data.get(..count)
    }

    fn text(&self, tag: u32) -> Option<&str> {
        self.texts(tag).first().copied()
    }

    fn texts(&self, tag: u32) -> Vec<&str> {
        let Some((data, count)) = self.find(tag) else {
            return Vec::new();
        };
        data.split(|byte| *byte == 0)
            .take(count)
            .map_while(|text| std::str::from_utf8(text).ok())
            .collect()
    }
}

/// Reads a big-endian number.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(four))
}
