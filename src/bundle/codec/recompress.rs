//! Recompresses blobs that are stored as decompressed gzip, and verifies digests while blobs are read.

use std::io::{self, Read, Write};
use std::num::NonZeroUsize;

use gzip_exact::{GzipWriter, Recipe};

use crate::error::damaged;
use crate::threads::cores;
use kubexm_types::{Digest, DigestReader};

/// Number of bytes of content that are compressed at a time.
const STEP: usize = 1 << 17;

/// Reads the gzip stream that a recipe reproduces from its content.
pub struct RecompressingReader<R> {
    content: R,
    writer: Option<GzipWriter>,
    /// Compressed bytes; those before `read` have been read.
    made: Vec<u8>,
    read: usize,
    step: Vec<u8>,
}

impl<R: Read> RecompressingReader<R> {
    pub fn new(content: R, recipe: &Recipe) -> Self {
        Self::on(cores(), content, recipe)
    }

    /// Recompresses on this number of cores.
    pub fn on(cores: NonZeroUsize, content: R, recipe: &Recipe) -> Self {
        Self {
            content,
            writer: Some(recipe.writer_on(cores)),
            made: Vec::new(),
            read: 0,
            step: vec![0; STEP],
        }
    }
}

impl<R: Read> Read for RecompressingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.made.len() {
            let Some(mut writer) = self.writer.take() else {
                return Ok(0);
            };
            self.made.clear();
            self.read = 0;
            let count = self.content.read(&mut self.step)?;
            if count == 0 {
                self.made = writer.finish()?;
            } else {
                writer.write_all(&self.step[..count])?;
                self.made.append(writer.out());
                self.writer = Some(writer);
            }
        }
        let count = (&self.made[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

/// A reader that compares digest and size when the last byte is read, and fails if they differ.
pub struct Verified<R> {
    inner: Option<DigestReader<R>>,
    digest: Digest,
    size: u64,
}

impl<R: Read> Verified<R> {
    pub fn new(inner: R, digest: Digest, size: u64) -> Self {
        Self {
            inner: Some(DigestReader::new(inner)),
            digest,
            size,
        }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(inner) = &mut self.inner else {
            return Ok(0);
        };
        let count = inner.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        let Some(inner) = self.inner.take() else {
            return Ok(0);
        };
        let (digest, size) = inner.finish();
        compare(digest, size, self.digest, self.size)?;
        Ok(0)
    }
}

/// Returns an error if the digest or the size differs from the expected one.
pub fn compare(digest: Digest, size: u64, expected: Digest, length: u64) -> io::Result<()> {
    if digest == expected && size == length {
        return Ok(());
    }
    Err(damaged(&format!("expected {expected}, got {digest}")))
}
