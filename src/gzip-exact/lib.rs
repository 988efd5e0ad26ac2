#![doc = include_str!("README.md")]
#![warn(missing_docs)]

mod bits;
mod dynamic;
mod go;
mod header;
mod huffman;
mod klauspost;
mod recognise;
mod symbols;
mod zlib;

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::str::FromStr;

use flate2::Crc;
use go::GoEncoder;
pub use go::GoLevel;
pub use klauspost::{BlockSize, Era};
use klauspost::{FlateEncoder, ParallelEncoder, PgzipEncoder};
pub use recognise::{Recognition, recognise};
use zlib::ZlibEncoder;
pub use zlib::{Kind, ZlibLevel};

/// An encoder and its parameters: the source of the deflate data in a gzip stream.
///
/// The text form names it in a recipe that is stored: `go:6`, `go-1.27:1`, `klauspost-1.15.11:5`,
/// `pgzip-1.18.2:5:1048576`, `zlib:9` or `gnu:6`. It is stable, and each encoder has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoder {
    /// Go's `compress/flate` from Go 1.7 to Go 1.26.
    Go(GoLevel),
    /// zlib, or GNU gzip.
    Zlib(Kind, ZlibLevel),
    /// A release of klauspost/compress, or Go's `compress/flate` since Go 1.27.
    Klauspost(Era, GoLevel),
    /// klauspost/pgzip with a release of klauspost/compress and blocks of a fixed size.
    Pgzip(Era, GoLevel, BlockSize),
}

impl fmt::Display for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go(level) => write!(f, "go:{}", level.number()),
            Self::Zlib(Kind::Gnu, level) => write!(f, "gnu:{}", level.number()),
            Self::Zlib(Kind::Zlib, level) => write!(f, "zlib:{}", level.number()),
            Self::Klauspost(Era::Go1_27, level) => write!(f, "go-1.27:{}", level.number()),
            Self::Klauspost(era, level) => write!(f, "klauspost-{era}:{}", level.number()),
            Self::Pgzip(era, level, size) => {
                write!(f, "pgzip-{era}:{}:{}", level.number(), size.bytes())
            }
        }
    }
}

impl FromStr for Encoder {
    type Err = UnknownEncoder;

    fn from_str(text: &str) -> Result<Self, UnknownEncoder> {
        let zlib = |level: &str| ZlibLevel::new(level.parse().ok()?);
        let go = |level: &str| GoLevel::new(level.parse().ok()?);
        let encoder = text.split_once(':').and_then(|(family, level)| {
            Some(match family.split_once('-') {
                None if family == "go" => Self::Go(go(level)?),
                None if family == "gnu" => Self::Zlib(Kind::Gnu, zlib(level)?),
                None if family == "zlib" => Self::Zlib(Kind::Zlib, zlib(level)?),
                Some(("go" | "klauspost", era)) => Self::Klauspost(era.parse().ok()?, go(level)?),
                Some(("pgzip", era)) => {
                    let (level, size) = level.split_once(':')?;
                    let size = BlockSize::new(size.parse().ok()?)?;
                    Self::Pgzip(era.parse().ok()?, go(level)?, size)
                }
                _ => return None,
            })
        });
        // Each encoder has one text form: `go:06` and `go:+6` are not valid.
        encoder
            .filter(|encoder| encoder.to_string() == text)
            .ok_or(UnknownEncoder)
    }
}

/// The error of a text that is not the name of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownEncoder;

impl fmt::Display for UnknownEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected an encoder and its level, as in 'go:6', 'zlib:9' or 'pgzip-1.18.2:5:1048576'",
        )
    }
}

impl std::error::Error for UnknownEncoder {}

/// Everything that is needed besides the content to reproduce a gzip stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The gzip header as published (RFC 1952, section 2.3), at most 64 KiB.
    pub header: Vec<u8>,
    /// The encoder that compresses the content.
    pub encoder: Encoder,
}

impl Recipe {
    /// Returns a writer that reproduces the stream from the content that is written to it.
    pub fn writer(&self) -> GzipWriter {
        GzipWriter {
            deflate: Deflate::new(self.header.clone(), self.encoder),
            check: Crc::new(),
        }
    }

    /// Returns a writer like [`Self::writer`] that compresses on up to `threads` threads in addition to the
    /// caller's, if the encoder is [`Encoder::Pgzip`].
    ///
    /// Other streams cannot be divided, because each byte depends on all bytes before it. A thread uses the
    /// memory of about three blocks ([`BlockSize`]).
    pub fn writer_on(&self, threads: NonZeroUsize) -> GzipWriter {
        match self.encoder {
            Encoder::Pgzip(era, level, size) if threads.get() > 1 => {
                let out = self.header.clone();
                let encoder = ParallelEncoder::new(out, era, level, size, threads);
                GzipWriter {
                    deflate: Deflate::Parallel(Box::new(encoder)),
                    check: Crc::new(),
                }
            }
            _ => self.writer(),
        }
    }
}

/// Compresses the content that is written to it to a gzip stream in memory.
///
/// Take the output from [`Self::out`] while you write, and call [`Self::finish`] after the last byte.
//
// The type is not generic, so that the encoders' loops are compiled with this crate's optimisation level.
pub struct GzipWriter {
    deflate: Deflate<Vec<u8>>,
    check: Crc,
}

impl GzipWriter {
    /// Returns the output so far. The caller may remove bytes from its start at any time.
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.deflate.out()
    }

    /// Ends the stream and returns the output that the caller has not removed.
    ///
    /// # Errors
    /// A thread of [`Recipe::writer_on`] cannot be started.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        let mut out = self.deflate.finish()?;
        // RFC 1952, section 2.3.1: the CRC and the length modulo 2^32.
        out.extend(self.check.sum().to_le_bytes());
        out.extend(self.check.amount().to_le_bytes());
        Ok(out)
    }
}

impl Write for GzipWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.deflate.write(data)?;
        self.check.update(data);
        Ok(data.len())
    }

    /// Does nothing, because a flush of the encoder would change the output.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An encoder with its state.
enum Deflate<W: Write> {
    Go(GoEncoder<W>),
    Zlib(Box<ZlibEncoder<W>>),
    Klauspost(Box<FlateEncoder<W>>),
    Pgzip(Box<PgzipEncoder<W>>),
    Parallel(Box<ParallelEncoder<W>>),
}

impl<W: Write> Deflate<W> {
    fn new(out: W, encoder: Encoder) -> Self {
        match encoder {
            Encoder::Go(level) => Self::Go(GoEncoder::new(out, level)),
            Encoder::Zlib(kind, level) => Self::Zlib(Box::new(ZlibEncoder::new(out, kind, level))),
            Encoder::Klauspost(era, level) => {
                Self::Klauspost(Box::new(FlateEncoder::new(out, era, level)))
            }
            Encoder::Pgzip(era, level, size) => {
                Self::Pgzip(Box::new(PgzipEncoder::new(out, era, level, size)))
            }
        }
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Go(encoder) => encoder.write(data),
            Self::Zlib(encoder) => encoder.write(data),
            Self::Klauspost(encoder) => encoder.write(data),
            Self::Pgzip(encoder) => encoder.write(data),
            Self::Parallel(encoder) => encoder.write(data),
        }
    }

    /// Returns the writer that receives the output.
    fn out(&mut self) -> &mut W {
        match self {
            Self::Go(encoder) => encoder.out(),
            Self::Zlib(encoder) => encoder.out(),
            Self::Klauspost(encoder) => encoder.out(),
            Self::Pgzip(encoder) => encoder.out(),
            Self::Parallel(encoder) => encoder.out(),
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Go(encoder) => encoder.finish(),
            Self::Zlib(encoder) => encoder.finish(),
            Self::Klauspost(encoder) => encoder.finish(),
            Self::Pgzip(encoder) => encoder.finish(),
            Self::Parallel(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_encoders_round_trip() {
        let go = GoLevel::ALL.into_iter().map(Encoder::Go);
        let zlib = ZlibLevel::ALL.into_iter();
        let zlib =
            zlib.flat_map(|level| [Kind::Gnu, Kind::Zlib].map(|kind| Encoder::Zlib(kind, level)));
        let klauspost = GoLevel::ALL.into_iter().flat_map(|level| {
            let size = BlockSize::DEFAULT;
            Era::ALL.into_iter().flat_map(move |era| {
                [
                    Encoder::Klauspost(era, level),
                    Encoder::Pgzip(era, level, size),
                ]
            })
        });
        for encoder in go.chain(zlib).chain(klauspost) {
            assert_eq!(encoder.to_string().parse(), Ok(encoder));
        }
        for text in [
            "",
            "go",
            "go:10",
            "go:06",
            "go:+6",
            "zlib:0",
            "gnu:-2",
            "Go:6",
            "xz:6",
            "go-1.26:6",
            "klauspost-1.27:6",
            "klauspost-1.17.0:6",
            "pgzip-1.18.2:6",
            "pgzip-1.18.2:6:16384",
            "pgzip-1.18.2:6:+1048576",
            "pgzip-1.18.2:6:1048576:1",
            "pgzip-1.18.2:6:4294967295",
        ] {
            assert_eq!(text.parse::<Encoder>(), Err(UnknownEncoder), "{text}");
        }
    }
}
