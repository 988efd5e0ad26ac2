//! Programs lie in a bundle as what compresses better: turned on the way in, and back on the way out.

use std::io::{self, Read};

use elf_filter::{Direction, Filter};

use crate::format::chunks::StoredBlob;

/// Bytes that are turned at a time.
const STEP: u64 = 1 << 17;

/// What lies in the file of a blob from its content, or the content from that: turned where it is to be.
pub struct ElfFilterReader<R> {
    inner: R,
    /// Bytes of it that are not read yet.
    left: u64,
    filter: Option<Filter>,
    step: Vec<u8>,
    /// What was turned and not read yet, from `read` on.
    made: Vec<u8>,
    read: usize,
}

/// A blob's content as it shall lie in the file.
pub fn packed<R: Read>(content: R, stored: &StoredBlob) -> ElfFilterReader<R> {
    ElfFilterReader::new(content, stored, Direction::Pack)
}

/// The content of a blob, from what lies in the file.
pub fn unpacked<R: Read>(lying: R, stored: &StoredBlob) -> ElfFilterReader<R> {
    ElfFilterReader::new(lying, stored, Direction::Unpack)
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

    /// What it reads.
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

/// Turns the steps of a stream back, where it was turned.
#[derive(Debug, Default)]
pub struct ElfDecoder(Option<Filter>);

impl ElfDecoder {
    /// For what lies in the file of a blob.
    pub fn new(stored: &StoredBlob) -> Self {
        Self(stored.filtered.then(|| Filter::new(Direction::Unpack)))
    }

    /// What the next bytes, or the last ones, were.
    pub fn step(&mut self, bytes: Vec<u8>, last: bool) -> Vec<u8> {
        let Some(filter) = &mut self.0 else {
            return bytes;
        };
        let mut out = Vec::with_capacity(bytes.len());
        filter.push(&bytes, last, &mut out);
        out
    }
}
