//! A group as it is read back: piece by piece, each under the name that it must have.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use crate::format::chunks::{Chunk, GroupLayout};
use crate::format::tar_entry::{TAR_BLOCK, entry_header};
use crate::format::volumes::{VolumeReader, VolumeSet};
use crate::write::compress::WINDOW;

/// Where some frames lie in the file.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// First byte.
    pub offset: u64,
    /// Bytes in the file.
    pub packed: u64,
}

pub type Decoder = zstd::Decoder<'static, BufReader<io::Take<VolumeReader>>>;

/// Decompresses what lies at a place.
pub fn decoder(medium: &VolumeSet, place: Place) -> io::Result<Decoder> {
    let packed = medium.reader(place.offset).take(place.packed);
    let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 17, packed))?;
    // A frame that asks for more of our memory is no frame of ours.
    decoder.window_log_max(WINDOW)?;
    Ok(decoder)
}

/// Reads on to the end, so that the frames' own checksums are held against what was read; there
/// must be so many zeros and nothing else, and not one byte more is taken.
pub fn zeros(rest: impl Read, count: u64) -> io::Result<()> {
    let mut read = Vec::new();
    rest.take(count + 1).read_to_end(&mut read)?;
    if read.len() as u64 == count && read.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    Err(damaged("something else follows it"))
}

pub fn damaged(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged: {words}"))
}

/// Goes through a group. Contents are not held against digests here.
pub struct GroupReader {
    plain: Decoder,
    layout: Arc<GroupLayout>,
    at: usize,
    /// Bytes of the piece that are not read yet.
    left: u64,
    /// Bytes of the padding behind it.
    padding: u64,
}

impl GroupReader {
    pub fn open(medium: &VolumeSet, place: Place, layout: Arc<GroupLayout>) -> io::Result<Self> {
        Ok(Self {
            plain: decoder(medium, place)?,
            layout,
            at: 0,
            left: 0,
            padding: 0,
        })
    }

    /// The next piece, whose content is read next; what is left of the one before is passed over.
    /// At the group's end, the file must be there too.
    pub fn next(&mut self) -> io::Result<Option<Chunk>> {
        let left = std::mem::take(&mut self.left);
        if io::copy(&mut (&mut self.plain).take(left), &mut io::sink())? != left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut padding = [0u8; TAR_BLOCK as usize];
        let padding = &mut padding[..self.padding as usize];
        self.plain.read_exact(padding)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(damaged("something else follows it"));
        }
        self.padding = 0;
        let Some(piece) = self.layout.piece(self.at) else {
            zeros(&mut self.plain, 0)?;
            return Ok(None);
        };
        let mut header = [0u8; TAR_BLOCK as usize];
        self.plain.read_exact(&mut header)?;
        if header != entry_header(&piece.name, piece.size) {
            return Err(damaged("another blob lies in its place"));
        }
        self.at += 1;
        self.left = piece.size;
        self.padding = piece.size.next_multiple_of(TAR_BLOCK) - piece.size;
        Ok(Some(piece))
    }
}

/// The content of the piece.
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

/// One blob of a group, as it lies in the file.
pub struct EntryReader {
    group: GroupReader,
    entry: usize,
    /// Whether the group stands at a piece of it.
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
            let piece = self.group.next()?;
            self.within = piece
                .as_ref()
                .is_some_and(|piece| piece.entry == self.entry);
            self.ended = piece.is_none_or(|piece| self.within && piece.last);
        }
    }
}
