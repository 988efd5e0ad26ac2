//! The zstd frames of a bundle, on several threads: one reads, two compress by turns, one writes. While
//! the last bytes of a frame are compressed, the next one is begun already.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::channel_reader::ChannelReader;
use crate::format::seek_table::Frame;
use crate::threads::ended;
use crate::write::compress;
use crate::write::compress::Effort;
use crate::write::ordered_semaphore::OrderedSemaphore;

/// Frames take these by turns.
const LANES: usize = 2;
/// Bytes that pass between threads at a time.
const STEP: u64 = 1 << 18;
/// Steps that may wait for a thread.
const WAITING: usize = 32;
/// What is said where another thread has failed, and so going on makes no more sense.
const UNWANTED: io::ErrorKind = io::ErrorKind::BrokenPipe;

/// A frame that is to be made of the next bytes of its lane.
struct FrameJob {
    /// Among all frames.
    number: usize,
    plain: u64,
    effort: Effort,
}

/// What a lane makes.
enum FrameOutput {
    Bytes(Vec<u8>),
    /// All bytes of a frame are made.
    End(Frame),
}

/// Where the bytes of frames go.
pub struct FrameQueue {
    lanes: Vec<JobSender>,
    frames: Cell<usize>,
}

struct JobSender {
    orders: Sender<FrameJob>,
    steps: SyncSender<Vec<u8>>,
    /// Buffers that are free again: memory of one's own each time would cost more than what is done in it.
    spare: Receiver<Vec<u8>>,
}

struct Worker {
    orders: Receiver<FrameJob>,
    content: ChannelReader,
    out: Packed,
}

struct OutputReceiver {
    made: Receiver<FrameOutput>,
    spare: Sender<Vec<u8>>,
}

impl FrameQueue {
    /// Hands over a frame of exactly `plain` bytes from `source`.
    ///
    /// # Errors
    /// The source fails, or is too short; or nobody wants its bytes any more, and whoever wanted them
    /// says why.
    pub fn frame(&self, source: &mut dyn Read, plain: u64, effort: Effort) -> io::Result<()> {
        let number = self.frames.replace(self.frames.get() + 1);
        let lane = &self.lanes[number % LANES];
        let order = FrameJob {
            number,
            plain,
            effort,
        };
        lane.orders.send(order).map_err(|_| UNWANTED)?;
        let mut left = plain;
        while left > 0 {
            let size = left.min(STEP);
            let mut step = lane.spare.try_recv().unwrap_or_default();
            step.clear();
            step.reserve_exact(size as usize);
            if source.take(size).read_to_end(&mut step)? as u64 != size {
                return Err(compress::short());
            }
            left -= size;
            lane.steps.send(step).map_err(|_| UNWANTED)?;
        }
        Ok(())
    }
}

/// Makes frames of what `fill` hands over, and writes them.
///
/// # Errors
/// Those of `fill`, of compressing, or of writing.
pub fn frames(
    out: &mut (dyn Write + Send),
    threads: u32,
    fill: impl FnOnce(&FrameQueue) -> io::Result<()>,
) -> io::Result<Vec<Frame>> {
    let turns = OrderedSemaphore::new(Effort::ALL_SHARES);
    std::thread::scope(|scope| {
        let (mut entrances, mut packing, mut exits) = (Vec::new(), Vec::new(), Vec::new());
        for (entrance, lane, exit) in (0..LANES).map(|_| lane()) {
            let turns = &turns;
            entrances.push(entrance);
            packing.push(scope.spawn(move || lane.pack(turns, threads)));
            exits.push(exit);
        }
        let writing = scope.spawn(move || write(&exits, out));
        let feed = FrameQueue {
            lanes: entrances,
            frames: Cell::new(0),
        };
        let mut results = vec![fill(&feed)];
        drop(feed);
        results.extend(packing.into_iter().map(|lane| ended(lane.join())));
        outcome(results, ended(writing.join()))
    })
}

/// What all came to. Who has nobody to work for any more does not know why.
fn outcome(
    results: Vec<io::Result<()>>,
    written: io::Result<Vec<Frame>>,
) -> io::Result<Vec<Frame>> {
    let errors = results.into_iter().filter_map(Result::err);
    let (others, reasons): (Vec<_>, Vec<_>) = errors.partition(|e| e.kind() == UNWANTED);
    if let Some(reason) = reasons.into_iter().next() {
        return Err(reason);
    }
    let frames = written?;
    others.into_iter().next().map_or(Ok(frames), Err)
}

fn lane() -> (JobSender, Worker, OutputReceiver) {
    let (orders, ordered) = channel();
    let (steps, content) = sync_channel(WAITING);
    let (read, unread) = channel();
    let (making, made) = sync_channel(WAITING);
    let (written, unwritten) = channel();
    let entrance = JobSender {
        orders,
        steps,
        spare: unread,
    };
    let lane = Worker {
        orders: ordered,
        content: ChannelReader::giving_back(content, read),
        out: Packed {
            made: making,
            step: Vec::new(),
            spare: unwritten,
        },
    };
    let exit = OutputReceiver {
        made,
        spare: written,
    };
    (entrance, lane, exit)
}

impl Worker {
    /// Makes the frames that are ordered.
    fn pack(mut self, turns: &OrderedSemaphore, threads: u32) -> io::Result<()> {
        let packed = self.frames(turns, threads);
        if packed.is_err() {
            // The other lane must not wait for frames that nobody makes.
            turns.close();
        }
        packed
    }

    fn frames(&mut self, turns: &OrderedSemaphore, threads: u32) -> io::Result<()> {
        for FrameJob {
            number,
            plain,
            effort,
        } in &self.orders
        {
            let turn = turns.take(number, effort.shares()).ok_or(UNWANTED)?;
            let (content, out) = (&mut self.content, &mut self.out);
            let frame = compress::frame(content, plain, out, effort, threads)?;
            drop(turn);
            self.out.end(frame)?;
        }
        Ok(())
    }
}

/// Writes what the lanes make, frame by frame, until they make no more.
fn write(lanes: &[OutputReceiver], out: &mut dyn Write) -> io::Result<Vec<Frame>> {
    let mut frames = Vec::new();
    while let Ok(made) = lanes[frames.len() % LANES].made.recv() {
        match made {
            FrameOutput::End(frame) => frames.push(frame),
            FrameOutput::Bytes(step) => {
                out.write_all(&step)?;
                // A lane that has ended needs no more.
                let _ = lanes[frames.len() % LANES].spare.send(step);
            }
        }
    }
    Ok(frames)
}

/// Where the bytes of frames go that are to be written.
struct Packed {
    made: SyncSender<FrameOutput>,
    step: Vec<u8>,
    /// Buffers that are free again.
    spare: Receiver<Vec<u8>>,
}

impl Packed {
    fn end(&mut self, frame: Frame) -> io::Result<()> {
        self.flush()?;
        self.made
            .send(FrameOutput::End(frame))
            .map_err(|_| UNWANTED.into())
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
            .map_err(|_| UNWANTED.into())
    }
}
