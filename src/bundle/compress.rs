//! The zstd frames of a bundle, made of bytes that come from another thread: while the last of one
//! frame are compressed, those of the next one are read already.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use zstd::zstd_safe::CParameter;

use super::fed::Fed;
use super::frames::Frame;

/// Largest window of a frame, as a power of two: what a reader needs of memory for each frame that
/// it reads.
pub const WINDOW: u32 = 26;
/// Plain bytes of a frame from which on the long window is worth its time.
const FAR: u64 = 16 * 1024 * 1024;
/// Bytes that a thread compresses at a time, in frames with the long window: without it, zstd would
/// take four windows, and as much memory for each thread.
const JOB: u32 = 16 * 1024 * 1024;
/// Bytes that pass between threads at a time.
const STEP: u64 = 1 << 18;
/// Steps that may wait to be compressed.
const WAITING: usize = 64;

/// More threads would take more memory than packing may: each has tables, which grow with the level.
fn most_threads(level: i32) -> u32 {
    match level {
        ..=9 => 8,
        10..=15 => 4,
        _ => 2,
    }
}

/// How hard a frame is compressed.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    level: i32,
    /// Whether to look for what was there long ago.
    far: bool,
}

impl Effort {
    /// For so many bytes.
    pub fn new(level: i32, plain: u64) -> Self {
        let far = plain >= FAR;
        Self { level, far }
    }

    /// For what is compressed already, or hardly worth it.
    pub fn least() -> Self {
        Self::new(1, 0)
    }
}

/// A frame that is to be made of the next bytes.
#[derive(Debug, Clone, Copy)]
struct Order {
    plain: u64,
    effort: Effort,
}

/// Where the bytes of frames go.
pub struct Feed {
    orders: Sender<Order>,
    steps: SyncSender<Vec<u8>>,
}

impl Feed {
    /// Hands over a frame of exactly `plain` bytes from `source`. Where they are no longer wanted, whoever
    /// wanted them says why.
    ///
    /// # Errors
    /// The source fails, or is too short.
    pub fn frame(&self, source: &mut dyn Read, plain: u64, effort: Effort) -> io::Result<()> {
        let mut wanted = self.orders.send(Order { plain, effort }).is_ok();
        let mut left = plain;
        while left > 0 && wanted {
            let size = left.min(STEP);
            let mut step = Vec::with_capacity(size as usize);
            if source.take(size).read_to_end(&mut step)? as u64 != size {
                return Err(short());
            }
            left -= size;
            wanted = self.steps.send(step).is_ok();
        }
        Ok(())
    }
}

/// Makes frames in a thread of its own, of what `fill` hands over, and writes them.
///
/// # Errors
/// Those of `fill` first, then those of writing.
pub fn frames(
    out: &mut (dyn Write + Send),
    threads: u32,
    fill: impl FnOnce(&Feed) -> io::Result<()>,
) -> io::Result<Vec<Frame>> {
    std::thread::scope(|scope| {
        let (orders, ordered) = channel();
        let (steps, content) = sync_channel(WAITING);
        let writer = scope.spawn(move || write_frames(&ordered, Fed::new(content), out, threads));
        let feed = Feed { orders, steps };
        let filled = fill(&feed);
        drop(feed);
        let written = writer.join();
        let written = written.unwrap_or_else(|_| Err(io::Error::other("compression failed")));
        filled.and(written)
    })
}

fn write_frames(
    orders: &Receiver<Order>,
    mut content: Fed,
    out: &mut dyn Write,
    threads: u32,
) -> io::Result<Vec<Frame>> {
    let each = |Order { plain, effort }| frame(&mut content, plain, out, effort, threads);
    orders.iter().map(each).collect()
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
    let mut encoder = zstd::Encoder::new(&mut counted, effort.level)?;
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

fn short() -> io::Error {
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
