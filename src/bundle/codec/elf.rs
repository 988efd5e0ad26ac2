//! Encodes and decodes ELF programs with the ELF filter (`FORMAT.md`, section 8.3).

use std::io::{self, Read};

use elf_filter::{Direction, Filter};

use crate::format::chunks::StoredBlob;

/// Number of bytes that are filtered at a time.
const STEP: u64 = 1 << 17;

/// A reader that encodes or decodes a blob with the ELF filter, if the blob is marked as filtered.
pub struct ElfFilterReader<R> {
    inner: R,
    /// Number of bytes of `inner` that are not read yet.
    left: u64,
    filter: Option<Filter>,
    step: Vec<u8>,
    /// Filtered bytes; those before `read` have been read.
    made: Vec<u8>,
    read: usize,
}

/// Returns the stored form of a blob's content.
pub fn encode<R: Read>(content: R, stored: &StoredBlob) -> ElfFilterReader<R> {
    ElfFilterReader::new(content, stored, Direction::Encode)
}

/// Returns the content of a blob from its stored form.
pub fn decode<R: Read>(content: R, stored: &StoredBlob) -> ElfFilterReader<R> {
    ElfFilterReader::new(content, stored, Direction::Decode)
}

impl<R: Read> ElfFilterReader<R> {
    fn new(inner: R, stored: &StoredBlob, direction: Direction) -> Self {
        Self {
            inner,
            left: stored.stored_size(),
            filter: stored.filtered.then(|| Filter::new(direction)),
            step: Vec::new(),
            made: Vec::new(),
            read: 0,
        }
    }

    /// Returns the reader below.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: Read> Read for ElfFilterReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(filter) = &mut self.filter else {
            return self.inner.read(buffer);
        };
        while self.read == self.made.len() && self.left > 0 {
            self.step.resize(self.left.min(STEP) as usize, 0);
            let count = self.inner.read(&mut self.step)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.left -= count as u64;
            self.made.clear();
            self.read = 0;
            let (last, bytes) = (self.left == 0, &self.step[..count]);
            filter.push(bytes, last, &mut self.made);
        }
        let count = (&self.made[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

/// Decodes a blob buffer by buffer, if the blob is marked as filtered.
#[derive(Debug, Default)]
pub struct ElfDecoder(Option<Filter>);

impl ElfDecoder {
    /// Creates a decoder for the stored form of a blob.
    pub fn new(stored: &StoredBlob) -> Self {
        Self(stored.filtered.then(|| Filter::new(Direction::Decode)))
    }

    /// Decodes the next bytes. `last` marks the end of the blob.
    pub fn step(&mut self, bytes: Vec<u8>, last: bool) -> Vec<u8> {
        let Some(filter) = &mut self.0 else {
            return bytes;
        };
        let mut out = Vec::with_capacity(bytes.len());
        filter.push(&bytes, last, &mut out);
        out
    }
}
