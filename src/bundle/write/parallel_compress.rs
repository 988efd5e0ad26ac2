//! Compresses or copies the zstd frames of a bundle on several threads: one reads, [`WORKERS`] compress,
//! one writes.
//! The next frame starts while the last bytes of a frame are still being compressed.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::BundleError;
use crate::channel_reader::ChannelReader;
use crate::format::seek_table::Frame;
use crate::threads::ended;
use crate::write::compress;
use crate::write::compress::Effort;
use crate::write::ordered_semaphore::OrderedSemaphore;
use kubexm_types::Message;

/// Number of threads that compress. Frame `n` belongs to worker `n % WORKERS`.
const WORKERS: usize = 2;
/// Size of the buffers between threads, in bytes.
const STEP: u64 = 1 << 18;
/// Number of buffers that a channel holds.
const WAITING: usize = 32;
/// The error of a thread whose channel was closed, because another thread failed. The error of that other
/// thread takes precedence.
const CHANNEL_CLOSED: io::ErrorKind = io::ErrorKind::BrokenPipe;

/// A frame to make from the next bytes of a worker's input.
struct FrameJob {
    /// Index among all frames.
    number: usize,
    work: Work,
}

/// How a frame is made.
enum Work {
    /// Compresses this number of bytes.
    Compress { plain: u64, effort: Effort },
    /// Copies a compressed frame of the bundle with this path.
    Copy { frame: Frame, path: String },
}

impl Work {
    /// Returns the number of bytes of input.
    fn input(&self) -> u64 {
        match self {
            Self::Compress { plain, .. } => *plain,
            Self::Copy { frame, .. } => u64::from(frame.packed),
        }
    }

    /// Returns its share of the memory that all workers use.
    fn weight(&self) -> usize {
        match self {
            Self::Compress { effort, .. } => effort.weight(),
            Self::Copy { .. } => Effort::least().weight(),
        }
    }
}

/// A part of a worker's output.
enum FrameOutput {
    Bytes(Vec<u8>),
    /// The frame is complete.
    End(Frame),
}

/// Distributes frames to the workers.
pub struct FrameQueue {
    workers: Vec<JobSender>,
    frames: Cell<usize>,
}

/// The sending side of a worker's input.
struct JobSender {
    orders: Sender<FrameJob>,
    steps: SyncSender<Vec<u8>>,
    /// Buffers to reuse: allocating new ones costs more time than filling them.
    spare: Receiver<Vec<u8>>,
}

/// Compresses and copies frames on a thread.
struct Worker {
    orders: Receiver<FrameJob>,
    content: ChannelReader,
    out: Packed,
}

/// The receiving side of a worker's output.
struct OutputReceiver {
    made: Receiver<FrameOutput>,
    spare: Sender<Vec<u8>>,
}

impl FrameQueue {
    /// Sends a frame of exactly `plain` bytes from `source` to its worker.
    ///
    /// # Errors
    /// The source fails or is too short, or another thread failed.
    pub fn frame(&self, source: &mut dyn Read, plain: u64, effort: Effort) -> io::Result<()> {
        self.send(source, Work::Compress { plain, effort })
    }

    /// Sends a compressed frame, which the worker copies and whose checksum it verifies. `path` is the
    /// bundle that contains it.
    ///
    /// # Errors
    /// As [`FrameQueue::frame`], and the frame is damaged.
    pub fn copy(&self, source: &mut dyn Read, frame: Frame, path: &str) -> io::Result<()> {
        let path = path.to_owned();
        self.send(source, Work::Copy { frame, path })
    }

    fn send(&self, source: &mut dyn Read, work: Work) -> io::Result<()> {
        let number = self.frames.replace(self.frames.get() + 1);
        let worker = &self.workers[number % WORKERS];
        let mut left = work.input();
        let order = FrameJob { number, work };
        worker.orders.send(order).map_err(|_| CHANNEL_CLOSED)?;
        while left > 0 {
            let size = left.min(STEP);
            let mut step = worker.spare.try_recv().unwrap_or_default();
            step.clear();
            step.reserve_exact(size as usize);
            if source.take(size).read_to_end(&mut step)? as u64 != size {
                return Err(compress::short());
            }
            left -= size;
            worker.steps.send(step).map_err(|_| CHANNEL_CLOSED)?;
        }
        Ok(())
    }
}

/// Compresses the frames that `fill` sends, and writes them to `out` in order.
///
/// # Errors
/// Those of `fill`, of compressing, or of writing.
pub fn frames(
    out: &mut (dyn Write + Send),
    threads: u32,
    fill: impl FnOnce(&FrameQueue) -> io::Result<()>,
) -> io::Result<Vec<Frame>> {
    let semaphore = OrderedSemaphore::new(Effort::TOTAL_WEIGHT);
    std::thread::scope(|scope| {
        let (mut senders, mut packing, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        for (sender, worker, receiver) in (0..WORKERS).map(|_| worker()) {
            let semaphore = &semaphore;
            senders.push(sender);
            packing.push(scope.spawn(move || worker.pack(semaphore, threads)));
            receivers.push(receiver);
        }
        let writing = scope.spawn(move || write(&receivers, out));
        let feed = FrameQueue {
            workers: senders,
            frames: Cell::new(0),
        };
        let mut results = vec![fill(&feed)];
        drop(feed);
        results.extend(packing.into_iter().map(|worker| ended(worker.join())));
        outcome(results, ended(writing.join()))
    })
}

/// Combines the results of all threads. A thread whose channel was closed reports [`CHANNEL_CLOSED`]; the
/// error that caused the shutdown takes precedence.
fn outcome(
    results: Vec<io::Result<()>>,
    written: io::Result<Vec<Frame>>,
) -> io::Result<Vec<Frame>> {
    let errors = results.into_iter().filter_map(Result::err);
    let (others, reasons): (Vec<_>, Vec<_>) = errors.partition(|e| e.kind() == CHANNEL_CLOSED);
    if let Some(reason) = reasons.into_iter().next() {
        return Err(reason);
    }
    let frames = written?;
    others.into_iter().next().map_or(Ok(frames), Err)
}

fn worker() -> (JobSender, Worker, OutputReceiver) {
    let (orders, ordered) = channel();
    let (steps, content) = sync_channel(WAITING);
    let (read, unread) = channel();
    let (making, made) = sync_channel(WAITING);
    let (written, unwritten) = channel();
    let sender = JobSender {
        orders,
        steps,
        spare: unread,
    };
    let worker = Worker {
        orders: ordered,
        content: ChannelReader::giving_back(content, read),
        out: Packed {
            made: making,
            step: Vec::new(),
            spare: unwritten,
        },
    };
    let receiver = OutputReceiver {
        made,
        spare: written,
    };
    (sender, worker, receiver)
}

impl Worker {
    /// Makes all frames of this worker.
    fn pack(mut self, semaphore: &OrderedSemaphore, threads: u32) -> io::Result<()> {
        let packed = self.frames(semaphore, threads);
        if packed.is_err() {
            // The other worker must not wait for the permits of frames that are never compressed.
            semaphore.close();
        }
        packed
    }

    fn frames(&mut self, semaphore: &OrderedSemaphore, threads: u32) -> io::Result<()> {
        for FrameJob { number, work } in &self.orders {
            let permit = semaphore
                .take(number, work.weight())
                .ok_or(CHANNEL_CLOSED)?;
            let (content, out) = (&mut self.content, &mut self.out);
            let frame = match work {
                Work::Compress { plain, effort } => {
                    compress::frame(content, plain, out, effort, threads)?
                }
                Work::Copy { frame, path } => compress::copy(content, frame, out)
                    .map_err(|error| damaged(&path, number, &error))?,
            };
            drop(permit);
            self.out.end(frame)?;
        }
        Ok(())
    }
}

/// Returns the error for a frame that cannot be copied. A closed channel is not damage.
fn damaged(path: &str, number: usize, error: &io::Error) -> io::Error {
    if error.kind() == CHANNEL_CLOSED {
        return CHANNEL_CLOSED.into();
    }
    io::Error::other(BundleError::Damaged {
        path: path.to_owned(),
        // The header frame is not in the queue.
        reason: Message::new(format!("frame {} is damaged: {error}", number + 1))
            .hint("copy the bundle again"),
    })
}

/// Writes the workers' output frame by frame, until all workers have ended.
fn write(workers: &[OutputReceiver], out: &mut dyn Write) -> io::Result<Vec<Frame>> {
    let mut frames = Vec::new();
    while let Ok(made) = workers[frames.len() % WORKERS].made.recv() {
        match made {
            FrameOutput::End(frame) => frames.push(frame),
            FrameOutput::Bytes(step) => {
                out.write_all(&step)?;
                // A worker that has ended needs no buffers.
                let _ = workers[frames.len() % WORKERS].spare.send(step);
            }
        }
    }
    Ok(frames)
}

/// Sends compressed bytes to the thread that writes.
struct Packed {
    made: SyncSender<FrameOutput>,
    step: Vec<u8>,
    /// Buffers to reuse.
    spare: Receiver<Vec<u8>>,
}

impl Packed {
    fn end(&mut self, frame: Frame) -> io::Result<()> {
        self.flush()?;
        self.made
            .send(FrameOutput::End(frame))
            .map_err(|_| CHANNEL_CLOSED.into())
    }
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
        let mut next = self.spare.try_recv().unwrap_or_default();
        next.clear();
        let step = std::mem::replace(&mut self.step, next);
        self.made
            .send(FrameOutput::Bytes(step))
            .map_err(|_| CHANNEL_CLOSED.into())
    }
}
