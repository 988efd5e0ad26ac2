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
    /// Parses `sha256:` and 64 lower-case hexadecimal digits. The prefix may be missing, as in checksum files.
    ///
    /// # Errors
    /// The text has another form. OCI does not allow upper-case digits.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let wrong = |reason| InvalidValue::new("digest", text, reason);
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(digits, &mut bytes)
            .map_err(|_| wrong("expected 'sha256:' and 64 hexadecimal digits"))?;
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(wrong("the hexadecimal digits must be in lower case"));
        }
        Ok(Self(bytes))
    }

    /// Computes the digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Creates a digest from its 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the 64 lower-case hexadecimal digits, without the algorithm.
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

/// A reader that hashes the bytes that pass through it.
#[derive(Debug)]
pub struct DigestReader<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> DigestReader<R> {
    /// Creates a reader that reads from `inner`.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// Returns the digest and the number of the bytes read so far.
    pub fn finish(self) -> (Digest, u64) {
        let (_, digest, bytes) = self.into_parts();
        (digest, bytes)
    }

    /// Returns the inner reader, and the digest and the number of the bytes read so far.
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

/// A writer that hashes the bytes that pass through it.
#[derive(Debug)]
pub struct DigestWriter<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> DigestWriter<W> {
    /// Creates a writer that writes to `inner`.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// Returns the inner writer.
    pub fn inner(&self) -> &W {
        &self.inner
    }

    /// Returns the digest of the bytes written so far.
    pub fn digest(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }

    /// Returns the inner writer, and the digest and the number of the bytes written.
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
    fn prefix_is_optional_and_always_printed() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b""), Digest::parse(empty).unwrap());
        assert_eq!(Digest::of(b"").to_string(), format!("sha256:{empty}"));
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in ["", "sha256:", "sha512:00", "sha256:zz", &"a".repeat(63)] {
            assert!(Digest::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn upper_case_digits_are_refused() {
        let upper = Digest::of(b"").hex().to_ascii_uppercase();
        for text in [upper.clone(), format!("sha256:{upper}")] {
            let error = Digest::parse(&text).unwrap_err().to_string();
            let reason = "the hexadecimal digits must be in lower case";
            assert_eq!(error, format!("digest '{text}': {reason}"));
        }
    }

    #[test]
    fn reader_and_writer_hash_all_bytes() {
        let mut reader = DigestReader::new(&b"kubexm"[..]);
        let mut writer = DigestWriter::new(Vec::new());
        io::copy(&mut reader, &mut writer).unwrap();
        let (bytes, written, count) = writer.finish();
        assert_eq!((bytes.as_slice(), count), (&b"kubexm"[..], 6));
        assert_eq!(written, Digest::of(b"kubexm"));
        assert_eq!(reader.finish(), (written, 6));
    }
}
