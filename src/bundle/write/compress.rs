//! Compresses the zstd frames of a bundle.

use std::io::{self, BufRead, BufReader, Read, Write};

use zstd::zstd_safe::CParameter;

use crate::format::seek_table::Frame;
use crate::level::Level;

/// Maximum window of a frame, as a power of two. A reader needs this much memory for each frame that it
/// reads.
pub const WINDOW: u32 = 26;
/// Minimum uncompressed frame size, in bytes, for which long-distance matching is enabled.
const LONG_DISTANCE_SIZE: u64 = 16 * 1024 * 1024;
/// Size of zstd's jobs in frames with long-distance matching, in bytes. By default zstd uses four windows,
/// and that much memory for each thread.
const JOB: u32 = 16 * 1024 * 1024;

/// Compression level and long-distance matching of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    level: Level,
    long_distance: bool,
}

impl Effort {
    /// Total weight of the frames that are compressed at the same time; it limits the memory.
    pub const TOTAL_WEIGHT: usize = 2;

    /// Returns the effort for a frame of `plain` bytes. `similar` means that the frame contains several
    /// files, which may have common content.
    pub fn new(level: Level, plain: u64, similar: bool) -> Self {
        // A single program gets 2 % smaller by long-distance matching, and takes 50 % more time at fast
        // levels.
        let long_distance = plain >= LONG_DISTANCE_SIZE && (similar || level > Level::FAST);
        Self {
            level,
            long_distance,
        }
    }

    /// Returns the effort for content that is compressed already.
    pub fn least() -> Self {
        Self {
            level: Level::NONE,
            long_distance: false,
        }
    }

    /// Returns the weight of a frame: its part of the memory.
    pub fn weight(self) -> usize {
        if self.long_distance || self.level > Level::MEDIUM_MEMORY {
            Self::TOTAL_WEIGHT
        } else {
            1
        }
    }
}

/// Writes one zstd frame of exactly `plain` bytes from `source`. There is always at least one worker thread,
/// because the output of zstd with threads differs from that without, but not with their number.
pub fn frame(
    source: &mut dyn BufRead,
    plain: u64,
    out: &mut dyn Write,
    effort: Effort,
    threads: u32,
) -> io::Result<Frame> {
    let too_large = || io::Error::other("a frame grew beyond 4 GiB");
    let mut counted = Counted {
        inner: out,
        bytes: 0,
    };
    let mut encoder = zstd::Encoder::new(&mut counted, effort.level.number())?;
    encoder.multithread(threads.clamp(1, most_threads(effort.level)))?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(plain))?;
    if effort.long_distance {
        encoder.long_distance_matching(true)?;
        encoder.window_log(WINDOW)?;
        encoder.set_parameter(CParameter::JobSize(JOB))?;
    }
    let mut left = plain;
    while left > 0 {
        let bytes = source.fill_buf()?;
        let count = left.min(bytes.len() as u64);
        if count == 0 {
            return Err(short());
        }
        encoder.write_all(&bytes[..count as usize])?;
        source.consume(count as usize);
        left -= count;
    }
    encoder.finish()?;
    Ok(Frame {
        packed: u32::try_from(counted.bytes).map_err(|_| too_large())?,
        plain: u32::try_from(plain).map_err(|_| too_large())?,
    })
}

/// Copies the next compressed frame of `source` to `out`, and verifies its checksum and its sizes.
pub fn copy(source: &mut impl BufRead, frame: Frame, out: &mut impl Write) -> io::Result<Frame> {
    let copied = Copied {
        source: source.take(u64::from(frame.packed)),
        out,
    };
    let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 17, copied))?;
    decoder.window_log_max(WINDOW)?;
    if io::copy(&mut decoder, &mut io::sink())? != u64::from(frame.plain) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not have the size in the seek table",
        ));
    }
    Ok(frame)
}

/// Writes what is read to `out`.
struct Copied<R, W> {
    source: R,
    out: W,
}

impl<R: Read, W: Write> Read for Copied<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.out.write_all(&buffer[..count])?;
        Ok(count)
    }
}

/// Returns the maximum number of threads. Each needs memory for tables, which grow with the level.
fn most_threads(level: Level) -> u32 {
    match level.number() {
        ..=9 => 8,
        10..=15 => 4,
        _ => 2,
    }
}

/// Returns the error for a source that ends too early.
pub fn short() -> io::Error {
    io::Error::other("a blob is shorter than the lock says")
}

struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
