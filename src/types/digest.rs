//! SHA-256 digests as OCI writes them: `sha256:` and 64 hexadecimal digits
//! (<https://github.com/opencontainers/image-spec/blob/main/descriptor.md#digests>).

use std::fmt;
use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use super::{InvalidValue, string_value};

/// The SHA-256 digest of a blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Reads `sha256:<64 hex digits>`, or the bare 64 digits that checksum files carry.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| {
            InvalidValue::new("digest", text, "wants 'sha256:' and 64 hexadecimal digits")
        })?;
        Ok(Self(bytes))
    }

    /// The digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that somebody has written as bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The 64 lower-case hexadecimal digits, without the algorithm.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

string_value!(Digest);

/// Passes bytes through to a reader's caller and hashes them on the way.
#[derive(Debug)]
pub struct DigestReader<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> DigestReader<R> {
    /// Hashes what is read from `inner`.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// Digest and number of the bytes read so far.
    pub fn finish(self) -> (Digest, u64) {
        let (_, digest, bytes) = self.into_parts();
        (digest, bytes)
    }

    /// The inner reader, with digest and number of the bytes read so far.
    pub fn into_parts(self) -> (R, Digest, u64) {
        (self.inner, Digest(self.hash.finalize().into()), self.bytes)
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

/// Passes bytes on to a writer and hashes them on the way.
#[derive(Debug)]
pub struct DigestWriter<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> DigestWriter<W> {
    /// Hashes what is written to `inner`.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// What is written to.
    pub fn inner(&self) -> &W {
        &self.inner
    }

    /// Digest of the bytes written so far.
    pub fn digest(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }

    /// The inner writer, with digest and number of the bytes written.
    pub fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest(self.hash.finalize().into()), self.bytes)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_spellings_and_prints_the_oci_one() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b""), Digest::parse(empty).unwrap());
        assert_eq!(Digest::of(b"").to_string(), format!("sha256:{empty}"));
    }

    #[test]
    fn refuses_what_is_no_sha256() {
        for wrong in ["", "sha256:", "sha512:00", "sha256:zz", &"a".repeat(63)] {
            assert!(Digest::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reader_and_writer_hash_what_passes() {
        let mut reader = DigestReader::new(&b"kubexm"[..]);
        let mut writer = DigestWriter::new(Vec::new());
        io::copy(&mut reader, &mut writer).unwrap();
        let (bytes, written, count) = writer.finish();
        assert_eq!((bytes.as_slice(), count), (&b"kubexm"[..], 6));
        assert_eq!(written, Digest::of(b"kubexm"));
        assert_eq!(reader.finish(), (written, 6));
    }
}
