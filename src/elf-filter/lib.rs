//! Makes programs easier to compress, and gives them back byte by byte.
//!
//! Machine code names places by how far away they are: the same function is called by other bytes from
//! everywhere. What xz calls branch filters turn that into where the function is, so that every call of it
//! in a program is the same; here that is done for data, which programs for 64 bits name relative to the
//! instruction. But in the next program, which has most code in common with the first, all functions are
//! elsewhere. So calls get names that are the same there, too: how many other functions were called since
//! this one was. Where instructions have no fixed length, names and places go out of the code
//! besides: then code that two programs have in common is equal for as long as it is common, and whoever
//! compresses finds all of it at once. Of Go's table of functions the differences are taken.
//!
//! The filter goes along a stream of any content and any length, which it does not change, and finds the
//! programs in it: at its beginning, or in an archive, where files begin at multiples of 512 bytes. It
//! needs no more memory than its longest look ahead. What it does rests on nothing but bytes that it
//! leaves as they are, or has given back already: so every stream comes back, whatever is in it.

mod arm64;
mod elf;
mod go_table;
mod recent;
mod x86_64;

use elf::{Machine, Program};
use go_table::Table;
use recent::Recent;

/// Which way a filter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From programs to what compresses better.
    Pack,
    /// Back.
    Unpack,
}

/// Programs begin at multiples of this: it is a block of a tar.
const BLOCK: u64 = 512;
/// What is looked at of a program to know where its code is; never changed.
const HEAD: usize = 4096;
const MAGIC: [u8; 4] = *b"\x7fELF";

/// Filters a stream, step by step.
#[derive(Debug)]
pub struct Filter {
    direction: Direction,
    /// What came in and has not gone out yet.
    pending: Vec<u8>,
    /// Bytes of it that are waited for.
    awaited: usize,
    /// Where `pending` begins in the stream.
    at: u64,
    /// The program that the stream is in.
    inside: Option<Inside>,
}

/// A program on its way.
#[derive(Debug)]
struct Inside {
    program: Program,
    /// Where it begins in the stream.
    start: u64,
    /// Go's table, and where that begins in the program.
    table: Option<(u64, Table)>,
    called: Called,
}

/// Functions that were called lately.
#[derive(Debug)]
enum Called {
    X86_64(Recent<32>),
    Arm64(Recent<{ arm64::CALL }>),
}

impl Called {
    fn new(machine: Machine) -> Self {
        match machine {
            Machine::X86_64 => Self::X86_64(Recent::new()),
            Machine::Arm64 => Self::Arm64(Recent::new()),
        }
    }
}

/// How far one gets with what is known.
enum Progress {
    /// So many bytes are ready.
    Ready(usize),
    /// So many bytes must be known first.
    Wait(usize),
    /// It is over; what follows is something else.
    Over,
}

impl Filter {
    /// A filter at a stream's beginning.
    pub fn new(direction: Direction) -> Self {
        Self {
            direction,
            pending: Vec::new(),
            awaited: 0,
            at: 0,
            inside: None,
        }
    }

    /// Takes the next bytes of the stream, which end it if they are the `last`, and adds to `out` what is
    /// known of what becomes of it.
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
                Some(inside) => inside.go_on(place, ahead, self.direction, last),
                None => {
                    let (progress, begun) = outside(place, ahead);
                    self.inside = begun;
                    progress
                }
            };
            match progress {
                Progress::Ready(count) => ready += count,
                Progress::Over => self.inside = None,
                // What never comes changes nothing.
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

/// Goes on where there is no program, or to where one begins.
fn outside(place: u64, ahead: &[u8]) -> (Progress, Option<Inside>) {
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
    let inside = Program::read(head).map(|program| Inside {
        called: Called::new(program.machine),
        program,
        start: place,
        table: None,
    });
    (Progress::Ready(HEAD), inside)
}

impl Inside {
    fn go_on(
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
        // Programs are no larger than 1 GiB.
        let place = place as u32;
        match &mut self.called {
            Called::X86_64(called) => {
                let size = left.min(x86_64::STRETCH as u64) as usize;
                code.get_mut(..size).map_or(Progress::Wait(size), |code| {
                    x86_64::filter(code, place, called, direction);
                    Progress::Ready(size)
                })
            }
            Called::Arm64(called) => match arm64::filter(code, place, called, direction, ends) {
                0 => Progress::Wait(within + 1),
                ready => Progress::Ready(ready),
            },
        }
    }

    /// Goes on to where Go's table begins.
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
        // A table could begin at `at`, and its magic be cut off.
        match at.min(ahead.len()) {
            0 if (ahead.len() as u64) < left => Progress::Wait(ahead.len() + 1),
            0 => Progress::Ready(ahead.len()),
            ready => Progress::Ready(ready),
        }
    }
}
