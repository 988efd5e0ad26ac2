//! The zstd frames of a bundle, made of bytes that come from another thread: while the last of one
//! frame are compressed, those of the next one are read already.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use zstd::zstd_safe::CParameter;

use super::fed::Fed;
use super::frames::Frame;
use super::level::Level;
use super::workers::ended;

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
/// What is said where writing has failed, and so reading makes no more sense.
const UNWANTED: io::ErrorKind = io::ErrorKind::BrokenPipe;

/// How hard a frame is compressed.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    level: Level,
    /// Whether to look for what was there long ago.
    far: bool,
}

impl Effort {
    /// For so many bytes of so many blobs.
    pub fn new(level: Level, plain: u64, blobs: usize) -> Self {
        // A program alone gets a fiftieth smaller by what was in it long ago, and at levels of those
        // who want it fast takes half as long again.
        let far = plain >= FAR && (blobs > 1 || level > Level::FAST);
        Self { level, far }
    }

    /// For what is compressed already, or hardly worth it.
    pub fn least() -> Self {
        let (level, far) = (Level::LEAST, false);
        Self { level, far }
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
    /// Hands over a frame of exactly `plain` bytes from `source`.
    ///
    /// # Errors
    /// The source fails, or is too short; or nobody wants its bytes any more, and whoever wanted them
    /// says why.
    pub fn frame(&self, source: &mut dyn Read, plain: u64, effort: Effort) -> io::Result<()> {
        let ordered = self.orders.send(Order { plain, effort });
        ordered.map_err(|_| UNWANTED)?;
        let mut left = plain;
        while left > 0 {
            let size = left.min(STEP);
            let mut step = Vec::with_capacity(size as usize);
            if source.take(size).read_to_end(&mut step)? as u64 != size {
                return Err(short());
            }
            left -= size;
            self.steps.send(step).map_err(|_| UNWANTED)?;
        }
        Ok(())
    }
}

/// Makes frames of what `fill` hands over, and writes them, each in a thread of its own.
///
/// # Errors
/// Those of `fill`, of compressing, or of writing.
pub fn frames(
    out: &mut (dyn Write + Send),
    threads: u32,
    fill: impl FnOnce(&Feed) -> io::Result<()>,
) -> io::Result<Vec<Frame>> {
    std::thread::scope(|scope| {
        let (orders, ordered) = channel();
        let (steps, content) = sync_channel(WAITING);
        let (packed, made) = sync_channel(WAITING);
        let writing = scope.spawn(move || write(&made, out));
        let packing = scope.spawn(move || pack(&ordered, Fed::new(content), packed, threads));
        let feed = Feed { orders, steps };
        let filled = fill(&feed);
        drop(feed);
        match (filled, ended(packing), ended(writing)) {
            // Who has nobody to work for any more does not know why.
            (Err(error), _, _) if error.kind() != UNWANTED => Err(error),
            (_, Err(error), _) if error.kind() != UNWANTED => Err(error),
            (filled, packed, written) => written.and(filled).and(packed),
        }
    })
}

/// Makes the frames that are ordered.
fn pack(
    orders: &Receiver<Order>,
    mut content: Fed,
    packed: SyncSender<Vec<u8>>,
    threads: u32,
) -> io::Result<Vec<Frame>> {
    let mut out = Packed {
        steps: packed,
        step: Vec::new(),
    };
    let each = |Order { plain, effort }| frame(&mut content, plain, &mut out, effort, threads);
    let frames = orders.iter().map(each).collect::<io::Result<_>>()?;
    out.flush()?;
    Ok(frames)
}

fn write(packed: &Receiver<Vec<u8>>, out: &mut dyn Write) -> io::Result<()> {
    packed.iter().try_for_each(|step| out.write_all(&step))
}

/// Where the bytes of frames go that are to be written.
struct Packed {
    steps: SyncSender<Vec<u8>>,
    step: Vec<u8>,
}

impl Write for Packed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.step.extend_from_slice(buffer);
        if self.step.len() as u64 >= STEP {
            self.flush()?;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let step = std::mem::take(&mut self.step);
        self.steps.send(step).map_err(|_| UNWANTED.into())
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
