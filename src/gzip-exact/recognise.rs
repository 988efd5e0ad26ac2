//! Which encoder made a stream: all that may have are tried side by side, and whoever writes
//! another byte is out.

use std::io::{self, Read, Write};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::header::{self, Start};
use super::{BlockSize, Deflate, Encoder, Era, GoLevel, Kind, Recipe, ZlibLevel};

/// Compressed bytes that are read at a time.
const READ: usize = 1 << 16;
/// Content that is decompressed at a time.
const PLAIN: usize = 1 << 18;
/// And while several encoders are tried: about a block, which most of them do not survive.
const FIRST_PLAIN: usize = 1 << 16;
const TRAILER: usize = 8;

/// What became of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognition {
    /// It can be made again.
    Known {
        /// How.
        recipe: Recipe,
        /// Bytes of its content.
        plain: u64,
    },
    /// It must be kept as it is. The reader has not been read to its end.
    Unknown,
}

/// Tries to make a gzip stream again, and writes what is in it to `content` on the way; memory does
/// not grow with it.
///
/// # Errors
/// The reader or the writer fails.
pub fn recognise(mut source: impl Read, mut content: impl Write) -> io::Result<Recognition> {
    // No generic: the encoders' loops are compiled here, as this crate is.
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
    let mut tries: Vec<Try> = likely(&header)
        .into_iter()
        .map(|encoder| Try::new(encoder, stream.offset))
        .collect();
    let mut inflate = Decompress::new(false);
    let mut check = Crc::new();
    let mut plain = vec![0; PLAIN];
    let mut at = stream.offset;
    let ended = loop {
        if tries.is_empty() {
            return Ok(Recognition::Unknown);
        }
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let step = match tries.len() {
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
        tries.retain_mut(|one| one.write(fresh, &stream));
        if status == Status::StreamEnd {
            break at;
        }
        if inflate.total_in() == read && fresh.is_empty() && !stream.more()? {
            return Ok(Recognition::Unknown);
        }
        stream.forget(
            tries
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
        // Something follows that no recipe has: a second member, or padding.
        return Ok(Recognition::Unknown);
    }
    let found = tries.into_iter().find_map(|one| one.finish(&stream, ended));
    Ok(match found {
        Some(encoder) => Recognition::Known {
            recipe: Recipe { header, encoder },
            plain: inflate.total_out(),
        },
        None => Recognition::Unknown,
    })
}

/// Encoders that write such a header, the likeliest first. All mark their best and fastest levels
/// in the extra flags; Go and Python say that they do not know the system, the others name Unix
/// (RFC 1952, section 2.3.1).
fn likely(header: &[u8]) -> Vec<Encoder> {
    const UNIX: u8 = 3;
    const UNKNOWN: u8 = 255;
    /// What klauspost's writers make of a time that nobody set: the year 1, cut off to 32 bits.
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
                    let eras = Era::told_apart(level, parallel).iter();
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

/// The compressed bytes from the slowest try on.
struct Stream<R> {
    source: R,
    bytes: Vec<u8>,
    /// Place of the first byte in the stream.
    offset: u64,
    ended: bool,
}

impl<R: Read> Stream<R> {
    /// Reads on; `false` at the end.
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

    /// Takes the header off.
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
        // Moving the rest is only worth it now and then.
        if count >= READ {
            self.bytes.drain(..count);
            self.offset = before;
        }
    }
}

/// One encoder on its way through the stream.
struct Try {
    encoder: Encoder,
    deflate: Deflate<Vec<u8>>,
    /// Up to here the stream is as the encoder writes it.
    compared: u64,
}

impl Try {
    fn new(encoder: Encoder, start: u64) -> Self {
        Self {
            encoder,
            deflate: Deflate::new(Vec::new(), encoder),
            compared: start,
        }
    }

    /// Whether it still writes what the stream has.
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
        // An encoder may end a block whose last bits are not read yet: they wait.
        out.drain(..count);
        self.compared += count as u64;
        true
    }

    /// The encoder, if all that it writes up to the end is what the stream has.
    fn finish<R>(self, stream: &Stream<R>, end: u64) -> Option<Encoder> {
        let rest = self.deflate.finish().ok()?;
        let expected = stream.from(self.compared);
        let expected = expected.get(..(end - self.compared) as usize)?;
        (rest == expected).then_some(self.encoder)
    }
}
