//! Gzip streams held as what is in them, and made again bit for bit.
//!
//! Image layers have digests over their compressed bytes, and what compressed them is nearly always
//! one of a few programs. A stream that one of the encoders here reproduces exactly is known by its
//! [`Recipe`], a few bytes, and its content; everything else stays as it came. Nothing is believed:
//! [`recognise`] has made the whole stream again and compared it.
//!
//! The encoders: Go's `compress/gzip` at every level, as it was up to Go 1.26 (docker, BuildKit, ko,
//! crane, kaniko, and much else).

mod bits;
mod block;
mod chain;
mod fast;
mod header;
mod huffman;
mod plain;
mod recognise;

use std::io::{self, Write};

use chain::ChainEncoder;
use fast::FastEncoder;
use flate2::Crc;
use plain::PlainEncoder;
pub use recognise::{Recognition, recognise};

/// What made the compressed part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoder {
    /// Go's `compress/flate` up to Go 1.26.
    Go(GoLevel),
}

/// A level of Go's `compress/flate`: 0 to 9, or -2 for literals only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoLevel(i8);

impl GoLevel {
    /// What `gzip.NewWriter` uses.
    pub const DEFAULT: Self = Self(6);
    /// Every level, the likely ones first.
    const ALL: [Self; 11] = [
        Self(6),
        Self(1),
        Self(9),
        Self(5),
        Self(7),
        Self(8),
        Self(4),
        Self(3),
        Self(2),
        Self(0),
        Self(-2),
    ];

    /// `None` where there is no such level.
    pub fn new(level: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.0 == level)
    }

    /// Its number.
    pub fn number(self) -> i8 {
        self.0
    }
}

/// All that a stream has besides its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The gzip header, as it came.
    pub header: Vec<u8>,
    /// What to compress with.
    pub encoder: Encoder,
}

impl Recipe {
    /// A writer that makes the stream again from the content that is written to it.
    ///
    /// # Errors
    /// `out` fails.
    pub fn writer<W: Write>(&self, mut out: W) -> io::Result<GzipWriter<W>> {
        out.write_all(&self.header)?;
        Ok(GzipWriter {
            deflate: Deflate::new(out, self.encoder),
            check: Crc::new(),
        })
    }
}

/// Makes a gzip stream. What is written last must be followed by [`GzipWriter::finish`].
pub struct GzipWriter<W: Write> {
    deflate: Deflate<W>,
    check: Crc,
}

impl<W: Write> GzipWriter<W> {
    /// Ends the stream.
    ///
    /// # Errors
    /// The writer below fails.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.deflate.finish()?;
        // RFC 1952, section 2.3.1: the CRC and the length modulo 2^32.
        out.write_all(&self.check.sum().to_le_bytes())?;
        out.write_all(&self.check.amount().to_le_bytes())?;
        out.flush()?;
        Ok(out)
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.deflate.write(data)?;
        self.check.update(data);
        Ok(data.len())
    }

    /// Nothing: a flush in the middle would change the bytes that come out.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Any of the encoders.
enum Deflate<W: Write> {
    Chain(Box<ChainEncoder<W>>),
    Fast(Box<FastEncoder<W>>),
    Plain(Box<PlainEncoder<W>>),
}

impl<W: Write> Deflate<W> {
    fn new(out: W, encoder: Encoder) -> Self {
        let Encoder::Go(level) = encoder;
        match level.0 {
            0 => Self::Plain(Box::new(PlainEncoder::new(out, false))),
            -2 => Self::Plain(Box::new(PlainEncoder::new(out, true))),
            1 => Self::Fast(Box::new(FastEncoder::new(out))),
            level => Self::Chain(Box::new(ChainEncoder::new(out, level))),
        }
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Chain(encoder) => encoder.write(data),
            Self::Fast(encoder) => encoder.write(data),
            Self::Plain(encoder) => encoder.write(data),
        }
    }

    /// Where bytes go.
    fn out(&mut self) -> &mut W {
        match self {
            Self::Chain(encoder) => encoder.out(),
            Self::Fast(encoder) => encoder.out(),
            Self::Plain(encoder) => encoder.out(),
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Chain(encoder) => encoder.finish(),
            Self::Fast(encoder) => encoder.finish(),
            Self::Plain(encoder) => encoder.finish(),
        }
    }
}
