#![doc = include_str!("README.md")]
#![warn(missing_docs)]

mod arm64;
mod elf;
mod go_table;
mod progress;
mod recent_targets;
mod x86_64;

use elf::{HEAD, Machine, Program};
use go_table::Table;
pub use progress::Direction;
use progress::Progress;
use recent_targets::RecentTargets;

/// A program starts at a multiple of this offset in bytes: the block size of a tar.
const BLOCK: u64 = 512;
const MAGIC: [u8; 4] = *b"\x7fELF";

/// Encodes or decodes one stream, step by step.
///
/// The output has the size of the input, and no input is an error. Decoding the encoded stream returns the original stream, whatever it
/// contains and however it is divided into steps. The memory is that of one step, of copies of blocks of at
/// most 1 MiB, and of 8 bytes per function of a Go program (at most 4 MiB).
#[derive(Debug)]
pub struct Filter {
    direction: Direction,
    /// Input that is not in the output yet.
    pending: Vec<u8>,
    /// Number of bytes of `pending` that the next unit needs.
    awaited: usize,
    /// Offset of `pending` in the stream.
    at: u64,
    /// The program that contains the current offset.
    inside: Option<CurrentProgram>,
}

/// A program that is being filtered.
#[derive(Debug)]
struct CurrentProgram {
    program: Program,
    /// Offset of its first byte in the stream.
    start: u64,
    /// Go's function table and its offset in the program.
    table: Option<(u64, Table)>,
    recent: Recent,
}

/// The recent targets of calls in a program.
#[derive(Debug)]
enum Recent {
    X86_64(RecentTargets<32>),
    Arm64(RecentTargets<{ arm64::CALL }>),
}

impl Recent {
    fn new(machine: Machine) -> Self {
        match machine {
            Machine::X86_64 => Self::X86_64(RecentTargets::new()),
            Machine::Arm64 => Self::Arm64(RecentTargets::new()),
        }
    }
}

impl Filter {
    /// Creates a filter for a stream.
    pub fn new(direction: Direction) -> Self {
        Self {
            direction,
            pending: Vec::new(),
            awaited: 0,
            at: 0,
            inside: None,
        }
    }

    /// Filters the next bytes of the stream and appends all complete output to `out`.
    ///
    /// `last` marks the end of the stream; `bytes` may then be empty. After it, the filter must not be used
    /// again.
    pub fn push(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() < self.awaited && !last {
            return;
        }
        self.awaited = 0;
        let mut ready = 0;
        while ready < self.pending.len() {
            let place = self.at + ready as u64;
            let ahead = &mut self.pending[ready..];
            let progress = match &mut self.inside {
                Some(inside) => inside.advance(place, ahead, self.direction, last),
                None => {
                    let (progress, begun) = outside(place, ahead);
                    self.inside = begun;
                    progress
                }
            };
            match progress {
                Progress::Ready(count) => ready += count,
                Progress::Over => self.inside = None,
                // An incomplete unit at the end of the stream is not changed.
                Progress::Wait(_) if last => ready = self.pending.len(),
                Progress::Wait(count) => {
                    self.awaited = count;
                    break;
                }
            }
        }
        out.extend_from_slice(&self.pending[..ready]);
        self.pending.drain(..ready);
        self.at += ready as u64;
    }
}

/// Continues outside a program, or finds the start of one.
fn outside(place: u64, ahead: &[u8]) -> (Progress, Option<CurrentProgram>) {
    let to_block = (place.next_multiple_of(BLOCK) - place) as usize;
    if to_block > 0 {
        return (Progress::Ready(to_block.min(ahead.len())), None);
    }
    if ahead.len() < MAGIC.len() {
        return (Progress::Wait(MAGIC.len()), None);
    }
    if !ahead.starts_with(&MAGIC) {
        return (Progress::Ready(ahead.len().min(BLOCK as usize)), None);
    }
    let Some(head) = ahead.get(..HEAD) else {
        return (Progress::Wait(HEAD), None);
    };
    let inside = Program::read(head).map(|program| CurrentProgram {
        recent: Recent::new(program.machine),
        program,
        start: place,
        table: None,
    });
    (Progress::Ready(HEAD), inside)
}

impl CurrentProgram {
    fn advance(
        &mut self,
        place: u64,
        ahead: &mut [u8],
        direction: Direction,
        last: bool,
    ) -> Progress {
        let place = place - self.start;
        if let Some((start, table)) = &mut self.table {
            match table.filter(place - *start, ahead, direction) {
                Progress::Over => self.table = None,
                progress => return progress,
            }
        }
        let Some((is_code, left)) = self.program.region(place) else {
            return Progress::Over;
        };
        let within = usize::try_from(left).unwrap_or(usize::MAX).min(ahead.len());
        if !is_code {
            return self.data(place, &ahead[..within], left);
        }
        let ends = last || within as u64 == left;
        let code = &mut ahead[..within];
        // The code of a program ends within its first GiB (`elf::LARGEST`).
        let place = place as u32;
        match &mut self.recent {
            Recent::X86_64(recent) => {
                let size = left.min(x86_64::STRETCH as u64) as usize;
                code.get_mut(..size).map_or(Progress::Wait(size), |code| {
                    x86_64::filter(code, place, recent, direction);
                    Progress::Ready(size)
                })
            }
            Recent::Arm64(recent) => match arm64::filter(code, place, recent, direction, ends) {
                0 => Progress::Wait(within + 1),
                ready => Progress::Ready(ready),
            },
        }
    }

    /// Continues in a data range up to the start of Go's function table.
    fn data(&mut self, place: u64, ahead: &[u8], left: u64) -> Progress {
        let first = (place.next_multiple_of(go_table::ALIGNMENT) - place) as usize;
        let mut at = first;
        while let Some(rest) = ahead.get(at..)
            && rest.len() >= go_table::MAGIC.len()
        {
            if rest.starts_with(&go_table::MAGIC) {
                if at > 0 {
                    return Progress::Ready(at);
                }
                if rest.len() < go_table::HEADER && (rest.len() as u64) < left {
                    return Progress::Wait(go_table::HEADER);
                }
                if let Some(table) = Table::read(rest) {
                    self.table = Some((place, table));
                    return Progress::Ready(go_table::HEADER);
                }
            }
            at += go_table::ALIGNMENT as usize;
        }
        // A table may start at `at` although its magic number is not known completely.
        match at.min(ahead.len()) {
            0 if (ahead.len() as u64) < left => Progress::Wait(ahead.len() + 1),
            0 => Progress::Ready(ahead.len()),
            ready => Progress::Ready(ready),
        }
    }
}
