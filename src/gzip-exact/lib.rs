//! Gzip streams held as what is in them, and made again bit for bit.
//!
//! Image layers have digests over their compressed bytes, and what compressed them is nearly always
//! one of a few programs. A stream that one of the encoders here reproduces exactly is known by its
//! [`Recipe`], a few bytes, and its content; everything else stays as it came. Nothing is believed:
//! [`recognise`] has made the whole stream again and compared it.
//!
//! The encoders, each at every level, and who writes image layers by them unless told otherwise:
//!
//! | encoder | name here | used by |
//! | --- | --- | --- |
//! | Go's `compress/gzip` up to Go 1.26 | `go:6` | docker push (moby, `daemon/internal/distribution/push.go`), BuildKit (`util/compression/gzip.go`), containerd and nerdctl (`pkg/archive/compression/compression.go`), when built by such a Go |
//! | the same | `go:1` | ko, crane and kaniko (go-containerregistry, `internal/gzip/zip.go`: best speed) |
//! | the same since Go 1.27 | `go-1.27:6`, `go-1.27:1` | the same programs, when built by a newer Go (1.27 came in August 2026) |
//! | klauspost/pgzip, blocks of 1 MiB | `pgzip-1.15.11:5:1048576` | podman, buildah and skopeo with containers/image 5.23 to 5.36 (`pkg/compression/compression.go`; klauspost/compress from 1.15.11 to 1.18.0) |
//! | the same | `pgzip-1.18.2:5:1048576` | the same with containers/container-libs (klauspost/compress 1.18.5 in April 2026), and apko (`pkg/build/build_implementation.go`) |
//! | klauspost/compress without pgzip | `klauspost-1.15.11:5` | no builder of images that we know: containerd only reads by it |
//! | zlib | `zlib:6` | Python, Java; bazel's rules_oci by tar.bzl (bsdtar) |
//! | GNU gzip | `gnu:6` | `tar -z`, which most releases of programs are packed by |
//!
//! Read in August 2026 from what these projects publish on GitHub. Not made again: klauspost/compress
//! before 1.15.11 (podman 4.2 of 2022 and older), pgzip with blocks of other sizes than 1 MiB (what
//! older ones had; [`Recipe`] can say them, [`recognise`] does not look for them), zlib-ng,
//! libdeflate and pigz. Go programs and klauspost's before 1.20 estimate in 32-bit floats, which a
//! compiler for arm64 may round otherwise: layers that such a machine compressed may stay unknown.

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

/// What made the compressed part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoder {
    /// Go's `compress/flate` up to Go 1.26.
    Go(GoLevel),
    /// zlib, or GNU gzip.
    Zlib(Kind, ZlibLevel),
    /// klauspost/compress, and Go's `compress/flate` since Go 1.27.
    Klauspost(Era, GoLevel),
    /// klauspost/pgzip, with klauspost/compress of that era.
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
        // One spelling each: `go:06` and `go:+6` are none.
        encoder
            .filter(|encoder| encoder.to_string() == text)
            .ok_or(UnknownEncoder)
    }
}

/// No encoder has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownEncoder;

impl fmt::Display for UnknownEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "wants an encoder and its level, as in 'go:6', 'zlib:9' or 'pgzip-1.18.2:5:1048576'",
        )
    }
}

impl std::error::Error for UnknownEncoder {}

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
    pub fn writer(&self) -> GzipWriter {
        GzipWriter {
            deflate: Deflate::new(self.header.clone(), self.encoder),
            check: Crc::new(),
        }
    }

    /// Like [`Self::writer`], but works on up to `threads` threads besides the caller's where the
    /// stream allows it: pgzip's streams do, of any others one byte depends on all before it. Each
    /// thread takes the memory of about three blocks ([`BlockSize`]).
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

/// Makes a gzip stream. What is written last must be followed by [`GzipWriter::finish`]. (It writes
/// into memory, and is no generic: its loops are compiled here, as this crate is.)
pub struct GzipWriter {
    deflate: Deflate<Vec<u8>>,
    check: Crc,
}

impl GzipWriter {
    /// What has come out so far, to be taken away from there.
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.deflate.out()
    }

    /// Ends the stream; gives what has come out and was not taken away.
    ///
    /// # Errors
    /// None that memory could have; a thread cannot be started, where there are several.
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

    /// Nothing: a flush in the middle would change the bytes that come out.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Any of the encoders at work.
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

    /// Where bytes go.
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
    fn encoders_are_read_as_they_are_written() {
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
