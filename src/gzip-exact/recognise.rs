//! Finds the encoder of a stream: all candidates compress the content side by side, and a candidate
//! is dropped at its first byte that differs.

use std::io::{self, Read, Write};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::header::{self, Start};
use super::{BlockSize, Deflate, Encoder, Era, GoLevel, Kind, Recipe, ZlibLevel};

/// Number of compressed bytes that are read at a time.
const READ: usize = 1 << 16;
/// Number of content bytes that are decompressed at a time.
const PLAIN: usize = 1 << 18;
/// The same while there are several candidates: about one block, after which most candidates are
/// dropped.
const FIRST_PLAIN: usize = 1 << 16;
const TRAILER: usize = 8;

/// The result of [`recognise`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognition {
    /// The recipe and the content reproduce the stream exactly; this was verified for every byte.
    Known {
        /// What reproduces the stream from its content.
        recipe: Recipe,
        /// Size of the content in bytes.
        plain: u64,
    },
    /// No encoder of this crate reproduces the stream, it is damaged, or it is not one gzip member.
    ///
    /// The reader was not read to its end, and the content that was written is incomplete.
    Unknown,
}

/// Decompresses a gzip stream (RFC 1952) to `content` and finds the recipe that reproduces it.
///
/// The stream must be one member without trailing bytes. Every candidate compresses the content again, and
/// its output is compared with the stream, so a [`Recognition::Known`] is verified. The time is that of the
/// compression by the candidates; most of them differ within the first block. The memory does not depend on
/// the size of the stream.
///
/// # Errors
/// The reader or the writer fails. A stream that is not valid is not an error, but
/// [`Recognition::Unknown`].
pub fn recognise(mut source: impl Read, mut content: impl Write) -> io::Result<Recognition> {
    // Not generic, so that the encoders' loops are compiled with this crate's optimisation level.
    run(&mut source, &mut content)
}

fn run(source: &mut dyn Read, content: &mut dyn Write) -> io::Result<Recognition> {
    let mut stream = Stream {
        source,
        bytes: Vec::new(),
        offset: 0,
        ended: false,
    };
    let Some(header) = stream.header()? else {
        return Ok(Recognition::Unknown);
    };
    let mut candidates: Vec<Candidate> = likely(&header)
        .into_iter()
        .map(|encoder| Candidate::new(encoder, stream.offset))
        .collect();
    let mut inflate = Decompress::new(false);
    let mut check = Crc::new();
    let mut plain = vec![0; PLAIN];
    let mut at = stream.offset;
    let ended = loop {
        if candidates.is_empty() {
            return Ok(Recognition::Unknown);
        }
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let step = match candidates.len() {
            1 => PLAIN,
            _ => FIRST_PLAIN,
        };
        let plain = &mut plain[..step];
        let Ok(status) = inflate.decompress(stream.from(at), plain, FlushDecompress::None) else {
            return Ok(Recognition::Unknown);
        };
        at += inflate.total_in() - read;
        let fresh = &plain[..(inflate.total_out() - written) as usize];
        check.update(fresh);
        content.write_all(fresh)?;
        candidates.retain_mut(|one| one.write(fresh, &stream));
        if status == Status::StreamEnd {
            break at;
        }
        if inflate.total_in() == read && fresh.is_empty() && !stream.more()? {
            return Ok(Recognition::Unknown);
        }
        stream.forget(
            candidates
                .iter()
                .map(|one| one.compared)
                .min()
                .unwrap_or(at)
                .min(at),
        );
    };
    while stream.more()? && stream.from(ended).len() <= TRAILER {}
    let trailer = [check.sum().to_le_bytes(), check.amount().to_le_bytes()].concat();
    if stream.from(ended) != trailer {
        // A recipe does not describe a second member or padding.
        return Ok(Recognition::Unknown);
    }
    let found = candidates
        .into_iter()
        .find_map(|one| one.finish(&stream, ended));
    Ok(match found {
        Some(encoder) => Recognition::Known {
            recipe: Recipe { header, encoder },
            plain: inflate.total_out(),
        },
        None => Recognition::Unknown,
    })
}

/// Returns the encoders that write such a header, the most frequent ones first.
///
/// All encoders mark their best and fastest levels in the extra flags. Go and Python write "unknown" as the
/// operating system, the others Unix (RFC 1952, section 2.3.1).
fn likely(header: &[u8]) -> Vec<Encoder> {
    const UNIX: u8 = 3;
    const UNKNOWN: u8 = 255;
    /// The modification time that klauspost's writers write by default: the year 1, truncated to 32 bits.
    const YEAR_1: [u8; 4] = (-62_135_596_800i64 as u32).to_le_bytes();
    let (time, flags, system) = (&header[4..8], header[8], header[9]);
    let mark = |level: i8| match level {
        9 => 2,
        1 => 4,
        _ => 0,
    };
    let levels = GoLevel::ALL.into_iter();
    let go = levels.filter(|level| mark(level.number()) == flags);
    let zlib = |kind| {
        let levels = ZlibLevel::ALL.into_iter();
        levels
            .filter(|level| mark(level.number() as i8) == flags)
            .map(move |level| Encoder::Zlib(kind, level))
    };
    match system {
        UNKNOWN if time == YEAR_1 => {
            let eras = |parallel| {
                let levels = go.clone();
                levels.flat_map(move |level| {
                    let eras = Era::distinct(level, parallel).iter();
                    eras.map(move |era| (*era, level))
                })
            };
            let size = BlockSize::DEFAULT;
            eras(true)
                .map(|(era, level)| Encoder::Pgzip(era, level, size))
                .chain(eras(false).map(|(era, level)| Encoder::Klauspost(era, level)))
                .collect()
        }
        UNKNOWN => {
            let new = go
                .clone()
                .map(|level| Encoder::Klauspost(Era::Go1_27, level));
            go.map(Encoder::Go)
                .chain(new)
                .chain(zlib(Kind::Zlib))
                .collect()
        }
        UNIX => zlib(Kind::Gnu).chain(zlib(Kind::Zlib)).collect(),
        _ => zlib(Kind::Zlib).collect(),
    }
}

/// The compressed bytes that a candidate has not been compared with yet.
struct Stream<R> {
    source: R,
    bytes: Vec<u8>,
    /// Offset of the first byte in the stream.
    offset: u64,
    ended: bool,
}

impl<R: Read> Stream<R> {
    /// Reads more bytes. Returns whether there were any.
    fn more(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let count = (&mut self.source)
            .take(READ as u64)
            .read_to_end(&mut self.bytes)?;
        self.ended = count < READ;
        Ok(count > 0)
    }

    /// Removes and returns the header.
    fn header(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            match header::start(&self.bytes) {
                Start::Header(length) => {
                    self.offset = length as u64;
                    return Ok(Some(self.bytes.drain(..length).collect()));
                }
                Start::Unfinished if self.more()? => {}
                _ => return Ok(None),
            }
        }
    }
}

impl<R> Stream<R> {
    fn from(&self, at: u64) -> &[u8] {
        let start = (at - self.offset) as usize;
        self.bytes.get(start..).unwrap_or_default()
    }

    fn forget(&mut self, before: u64) {
        let count = (before - self.offset) as usize;
        // Moving the rest for every block would be slow.
        if count >= READ {
            self.bytes.drain(..count);
            self.offset = before;
        }
    }
}

/// An encoder whose output has been equal to the stream so far.
struct Candidate {
    encoder: Encoder,
    deflate: Deflate<Vec<u8>>,
    /// Offset in the stream up to which the output is equal.
    compared: u64,
}

impl Candidate {
    fn new(encoder: Encoder, start: u64) -> Self {
        Self {
            encoder,
            deflate: Deflate::new(Vec::new(), encoder),
            compared: start,
        }
    }

    /// Compresses content. Returns whether the output is still equal to the stream.
    fn write<R>(&mut self, plain: &[u8], stream: &Stream<R>) -> bool {
        // Writing to memory does not fail.
        if self.deflate.write(plain).is_err() {
            return false;
        }
        let out = self.deflate.out();
        let expected = stream.from(self.compared);
        let count = out.len().min(expected.len());
        if out[..count] != expected[..count] {
            return false;
        }
        // An encoder may write bytes that have not been read from the stream yet: they stay in `out`.
        out.drain(..count);
        self.compared += count as u64;
        true
    }

    /// Returns the encoder if its output is equal to the stream up to the end.
    fn finish<R>(self, stream: &Stream<R>, end: u64) -> Option<Encoder> {
        let rest = self.deflate.finish().ok()?;
        let expected = stream.from(self.compared);
        let expected = expected.get(..(end - self.compared) as usize)?;
        (rest == expected).then_some(self.encoder)
    }
}
