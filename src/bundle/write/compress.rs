//! A zstd frame of a bundle, and how hard it is compressed.

use std::io::{self, BufRead, Write};

use zstd::zstd_safe::CParameter;

use crate::format::seek_table::Frame;
use crate::level::Level;

/// Largest window of a frame, as a power of two: what a reader needs of memory for each frame that
/// it reads.
pub const WINDOW: u32 = 26;
/// Plain bytes of a frame from which on the long window is worth its time.
const FAR: u64 = 16 * 1024 * 1024;
/// Bytes that a thread compresses at a time, in frames with the long window: without it, zstd would
/// take four windows, and as much memory for each thread.
const JOB: u32 = 16 * 1024 * 1024;

/// How hard a frame is compressed.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    level: Level,
    /// Whether to look for what was there long ago.
    far: bool,
}

impl Effort {
    /// Shares of the memory that packing may take.
    pub const TOTAL_WEIGHT: usize = 2;

    /// For so many bytes, of which some may be kin to others.
    pub fn new(level: Level, plain: u64, kin: bool) -> Self {
        // A program alone gets a fiftieth smaller by what was in it long ago, and at levels of those
        // who want it fast takes half as long again.
        let far = plain >= FAR && (kin || level > Level::FAST);
        Self { level, far }
    }

    /// For what is compressed already, or hardly worth it.
    pub fn least() -> Self {
        let (level, far) = (Level::NONE, false);
        Self { level, far }
    }

    /// How many weight of the memory a frame takes.
    pub fn weight(self) -> usize {
        match self.far || self.level > Level::MEDIUM_MEMORY {
            true => Self::TOTAL_WEIGHT,
            false => 1,
        }
    }
}

/// One zstd frame of exactly `plain` bytes from `source`. There is always at least one worker thread:
/// zstd's threaded output differs from its single-threaded one, but not with the number of threads.
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
    if effort.far {
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

/// More threads would take more memory than packing may: each has tables, which grow with the level.
fn most_threads(level: Level) -> u32 {
    match level.number() {
        ..=9 => 8,
        10..=15 => 4,
        _ => 2,
    }
}

/// What is said where the source of a frame ends too early.
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
