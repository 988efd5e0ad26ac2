//! Reads the chunks of a group, and checks their tar headers (`FORMAT.md`, section 7).

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use crate::error::damaged;
use crate::format::chunks::{Chunk, GroupLayout};
use crate::format::tar_entry::{TAR_BLOCK, entry_header};
use crate::format::volumes::{VolumeReader, VolumeSet};
use crate::write::compress::WINDOW;

/// The position of consecutive frames in the file.
#[derive(Debug, Clone, Copy)]
pub struct FrameRange {
    /// Offset of the first byte.
    pub offset: u64,
    /// Compressed size in bytes.
    pub packed: u64,
}

pub type Decoder = zstd::Decoder<'static, BufReader<io::Take<VolumeReader>>>;

/// Returns a decoder of some frames.
pub fn decoder(volumes: &VolumeSet, range: FrameRange) -> io::Result<Decoder> {
    let packed = volumes.reader(range.offset).take(range.packed);
    let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 17, packed))?;
    // The format limits the window, so that a damaged frame cannot allocate more memory.
    decoder.window_log_max(WINDOW)?;
    Ok(decoder)
}

/// Reads exactly `count` zero bytes up to the end. Reading to the end also verifies the checksums of the
/// frames.
///
/// # Errors
/// There are other bytes, or a checksum is wrong.
pub fn zeros(rest: impl Read, count: u64) -> io::Result<()> {
    let mut read = Vec::new();
    rest.take(count + 1).read_to_end(&mut read)?;
    if read.len() as u64 == count && read.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    Err(damaged("other bytes follow it"))
}

/// Reads the chunks of a group in order. It does not verify digests.
pub struct GroupReader {
    plain: Decoder,
    layout: Arc<GroupLayout>,
    /// Index of the next chunk.
    at: usize,
    /// Number of unread bytes of the current chunk.
    left: u64,
    /// Number of padding bytes after the current chunk.
    padding: u64,
}

impl GroupReader {
    pub fn open(
        volumes: &VolumeSet,
        range: FrameRange,
        layout: Arc<GroupLayout>,
    ) -> io::Result<Self> {
        Ok(Self {
            plain: decoder(volumes, range)?,
            layout,
            at: 0,
            left: 0,
            padding: 0,
        })
    }

    /// Skips the rest of the current chunk and returns the next one, which is then read. Returns `None`
    /// after the last chunk.
    ///
    /// # Errors
    /// A tar header is not the expected one, or the frames do not end where the group ends.
    pub fn next(&mut self) -> io::Result<Option<Chunk>> {
        let left = std::mem::take(&mut self.left);
        if io::copy(&mut (&mut self.plain).take(left), &mut io::sink())? != left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut padding = [0u8; TAR_BLOCK as usize];
        let padding = &mut padding[..self.padding as usize];
        self.plain.read_exact(padding)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(damaged("other bytes follow it"));
        }
        self.padding = 0;
        let Some(chunk) = self.layout.chunk(self.at) else {
            zeros(&mut self.plain, 0)?;
            return Ok(None);
        };
        let mut header = [0u8; TAR_BLOCK as usize];
        self.plain.read_exact(&mut header)?;
        if header != entry_header(&chunk.name, chunk.size) {
            return Err(damaged("its place contains another tar entry"));
        }
        self.at += 1;
        self.left = chunk.size;
        self.padding = chunk.size.next_multiple_of(TAR_BLOCK) - chunk.size;
        Ok(Some(chunk))
    }
}

/// Reads the content of the current chunk.
impl Read for GroupReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = self.left.min(buffer.len() as u64) as usize;
        let count = self.plain.read(&mut buffer[..limit])?;
        if count == 0 && limit > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// Reads the stored bytes of one blob of a group.
pub struct EntryReader {
    group: GroupReader,
    entry: usize,
    /// Whether the current chunk of the group belongs to the blob.
    within: bool,
    ended: bool,
}

impl EntryReader {
    pub fn new(group: GroupReader, entry: usize) -> Self {
        Self {
            group,
            entry,
            within: false,
            ended: false,
        }
    }
}

impl Read for EntryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.within {
                let count = self.group.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            if self.ended {
                return Ok(0);
            }
            let chunk = self.group.next()?;
            self.within = chunk
                .as_ref()
                .is_some_and(|chunk| chunk.entry == self.entry);
            self.ended = chunk.is_none_or(|chunk| self.within && chunk.last);
        }
    }
}
