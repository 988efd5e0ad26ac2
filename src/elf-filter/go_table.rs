//! Go's table of functions, files and lines (`.gopclntab`; <https://go.dev/s/go12symtab>, and
//! `runtime/symtab.go` for its form since Go 1.20).
//!
//! Encoding replaces numbers that grow from function to function by differences, and groups equal fields.

use std::ops::Range;

use super::progress::{Direction, Progress};

/// A table starts at a multiple of this offset in the program.
pub const ALIGNMENT: u64 = 16;
/// Size of the header in bytes.
pub const HEADER: usize = 72;
pub const MAGIC: [u8; 4] = [0xf1, 0xff, 0xff, 0xff];
/// Maximum number of functions; a table with more would need too much memory.
const MOST_FUNCTIONS: u64 = 1 << 19;
const LARGEST: u64 = 1 << 30;
/// Size of an entry of the function list in bytes: the function's offsets in the code and in the table.
const ENTRY: u64 = 8;
const WORD: usize = 4;
/// Number of words that every function has.
const FIXED: usize = 11;
/// Index of the word with the number of pc-value tables.
const NUMBERS: usize = 7;
/// Maximum size in bytes of a block that is sorted as a whole.
const SORTED: u64 = 1 << 20;

/// A table that is being converted.
#[derive(Debug)]
pub struct Table {
    functions: usize,
    /// Offset of the pc-value tables (`pctab`).
    steps: u64,
    /// Offset of the function list (`funcs`), to which the offsets of functions are relative.
    list: u64,
    /// Offsets of functions in the code and in the table, as far as they are known.
    known: Vec<(u32, u32)>,
    /// Number of converted functions.
    done: usize,
    pc_tables: PcTables,
    numbers: Numbers,
}

/// The state of the conversion of numbers.
#[derive(Debug, Default)]
struct Numbers {
    names: Counter,
    steps: Counter,
    data: Counter,
    unit: u32,
}

impl Table {
    /// Parses a header; returns `None` if it is not valid.
    pub fn read(head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(&MAGIC)?;
        // Two zeros, the minimum size of an instruction, the size of a pointer.
        if !matches!(rest.get(..4)?, [0, 0, 1 | 4, 8]) {
            return None;
        }
        let long = |at: usize| {
            let bytes = head.get(8 + at * 8..16 + at * 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (functions, steps, list) = (long(0)?, long(6)?, long(7)?);
        let fits = (1..=MOST_FUNCTIONS).contains(&functions)
            && (HEADER as u64..=list).contains(&steps)
            && list < LARGEST;
        fits.then(|| Self {
            functions: functions as usize,
            steps,
            list,
            known: Vec::new(),
            done: 0,
            pc_tables: PcTables::default(),
            numbers: Numbers::default(),
        })
    }

    /// Continues at the offset `place` of the table.
    pub fn filter(&mut self, place: u64, ahead: &mut [u8], direction: Direction) -> Progress {
        if place < self.steps {
            return upto(self.steps - place, ahead);
        }
        if place < self.list {
            let size = (self.list - place).min(SORTED) as usize;
            return ahead.get_mut(..size).map_or(Progress::Wait(size), |steps| {
                self.pc_tables.sort(steps, direction);
                Progress::Ready(size)
            });
        }
        if self.known.len() < self.functions {
            return self.entries(ahead, direction);
        }
        self.some_functions(place, ahead, direction)
    }

    /// Converts entries of the function list.
    fn entries(&mut self, ahead: &mut [u8], direction: Direction) -> Progress {
        let left = self.functions - self.known.len();
        let mut ready = 0;
        for entry in ahead.chunks_exact_mut(ENTRY as usize).take(left) {
            let (code, own) = self.known.last().copied().unwrap_or_default();
            let (first, second) = entry.split_at_mut(WORD);
            let entry = (step(first, code, direction), step(second, own, direction));
            self.known.push(entry);
            ready += ENTRY as usize;
        }
        match ready {
            0 => Progress::Wait(ENTRY as usize),
            _ => Progress::Ready(ready),
        }
    }

    /// Converts a block of consecutive functions, or skips the bytes before them.
    fn some_functions(&mut self, place: u64, ahead: &mut [u8], direction: Direction) -> Progress {
        let Some((_, own)) = self.known.get(self.done) else {
            return Progress::Over;
        };
        let start = self.list + u64::from(*own);
        if place < start {
            return upto(start - place, ahead);
        }
        let functions = self.next_functions();
        let size = functions.last().map_or(0, |last| last.end);
        // Functions are in ascending order; otherwise this is not a table of this form.
        if place > start || size == 0 {
            return Progress::Over;
        }
        let Some(bytes) = ahead.get_mut(..size) else {
            return Progress::Wait(size);
        };
        if direction == Direction::Decode {
            unsort(bytes, &functions);
        }
        for (function, (code, _)) in functions.iter().zip(&self.known[self.done..]) {
            let function = &mut bytes[function.clone()];
            self.numbers.convert(function, *code, direction);
        }
        self.done += functions.len();
        if direction == Direction::Encode {
            sort(bytes, &functions);
        }
        Progress::Ready(size)
    }

    /// Returns the ranges of the next functions in a block that starts at the first one.
    fn next_functions(&self) -> Vec<Range<usize>> {
        let known = &self.known[self.done..];
        let first = known.first().map_or(0, |(_, own)| *own);
        let mut functions: Vec<Range<usize>> = Vec::new();
        for (at, (_, own)) in known.iter().enumerate() {
            // The table does not contain the end of the last function.
            let end = known
                .get(at + 1)
                .map_or(own.checked_add((FIXED * WORD) as u32), |next| Some(next.1));
            let (Some(start), Some(end)) = (
                own.checked_sub(first),
                end.and_then(|end| end.checked_sub(first)),
            ) else {
                break;
            };
            let whole = end.checked_sub(start).is_some_and(|size| {
                size as usize >= FIXED * WORD && (size as usize).is_multiple_of(WORD)
            });
            if !whole || u64::from(end) > SORTED {
                break;
            }
            functions.push(start as usize..end as usize);
        }
        functions
    }
}

impl Numbers {
    /// Converts the numbers of a function whose code is at the offset `code`.
    fn convert(&mut self, function: &mut [u8], code: u32, direction: Direction) {
        let words = function.len() / WORD;
        let steps = FIXED..words.min(FIXED.saturating_add(steps_of(function)));
        for at in 0..FIXED {
            let word = word(function, at);
            match at {
                0 => drop(step(word, code, direction)),
                1 => self.names.convert(word, direction),
                4..=6 => self.steps.convert(word, direction),
                8 => self.unit = step(word, self.unit, direction),
                _ => {}
            }
        }
        // The linker assigns the third number after the others.
        let third = FIXED + 2;
        for at in steps.clone().filter(|at| *at != third) {
            self.steps.convert(word(function, at), direction);
        }
        if steps.contains(&third) {
            self.steps.convert(word(function, third), direction);
        }
        // Offsets of pointer maps, objects and inlined calls; the other words are not offsets of this kind.
        for at in (steps.end..words).take(4) {
            self.data.convert(word(function, at), direction);
        }
    }
}

fn word(function: &mut [u8], at: usize) -> &mut [u8] {
    &mut function[at * WORD..(at + 1) * WORD]
}

/// Returns the number of pc-value tables of a function, whose offsets follow its fixed words.
fn steps_of(function: &[u8]) -> usize {
    function
        .get(NUMBERS * WORD..)
        .map_or(0, |rest| read(&rest[..WORD]) as usize)
}

/// Returns the offsets of the words that every function has: the first word of all functions, then the
/// second one, and so on.
fn fixed(functions: &[Range<usize>]) -> impl Iterator<Item = usize> {
    (0..FIXED).flat_map(|at| functions.iter().map(move |f| f.start + at * WORD))
}

/// Returns the offsets of the words after the fixed ones, in the same order: first the offsets of pc-value
/// tables, then the other words.
fn rest(bytes: &[u8], functions: &[Range<usize>]) -> Vec<usize> {
    let steps = functions.iter().map(|function| {
        let first = function.start + FIXED * WORD;
        let count = steps_of(&bytes[function.clone()]).min((function.end - first) / WORD);
        first..first + count * WORD
    });
    let steps: Vec<Range<usize>> = steps.collect();
    let behind = steps.iter().zip(functions);
    let behind = behind
        .map(|(steps, function)| steps.end..function.end)
        .collect();
    let mut places = Vec::new();
    for part in [steps, behind] {
        let most = part.iter().map(Range::len).max().unwrap_or(0);
        for at in (0..most).step_by(WORD) {
            let long = part.iter().filter(|words: &&Range<usize>| at < words.len());
            places.extend(long.map(|words| words.start + at));
        }
    }
    places
}

fn sort(bytes: &mut [u8], functions: &[Range<usize>]) {
    let mut sorted = Vec::with_capacity(bytes.len());
    for at in fixed(functions).chain(rest(bytes, functions)) {
        sorted.extend_from_slice(&bytes[at..at + WORD]);
    }
    bytes.copy_from_slice(&sorted);
}

fn unsort(bytes: &mut [u8], functions: &[Range<usize>]) {
    let sorted = bytes.to_vec();
    let mut words = sorted.chunks_exact(WORD);
    let mut put = |bytes: &mut [u8], at: usize| {
        if let Some(word) = words.next() {
            bytes[at..at + WORD].copy_from_slice(word);
        }
    };
    fixed(functions).for_each(|at| put(bytes, at));
    for at in rest(bytes, functions) {
        put(bytes, at);
    }
}

/// The position in the pc-value tables.
///
/// A table is a list of pairs of variable-length numbers: the change of a value, and the size of the code for
/// which the value holds. A change of 0 that is not the first one ends the table.
#[derive(Debug, Default, Clone, Copy)]
struct PcTables {
    /// Whether the next byte is part of a code size.
    code: bool,
    /// Whether the next byte continues a number.
    within: bool,
    /// Whether the next pair is the first one of a table.
    first: bool,
}

impl PcTables {
    /// Moves changes to the front, and code sizes to the back in reverse order. The bytes before a byte decide
    /// which of the two it is part of, so decoding knows it too.
    fn sort(&mut self, bytes: &mut [u8], direction: Direction) {
        let mut other = bytes.to_vec();
        let (mut front, mut back) = (0, bytes.len());
        for at in 0..bytes.len() {
            let sorted = if !self.code {
                front += 1;
                front - 1
            } else {
                back -= 1;
                back
            };
            let byte = match direction {
                Direction::Encode => bytes[at],
                Direction::Decode => bytes[sorted],
            };
            match direction {
                Direction::Encode => other[sorted] = byte,
                Direction::Decode => other[at] = byte,
            }
            self.see(byte);
        }
        bytes.copy_from_slice(&other);
    }

    fn see(&mut self, byte: u8) {
        if byte & 0x80 != 0 {
            self.within = true;
            return;
        }
        let ends = byte == 0 && !self.code && !self.within && !self.first;
        *self = if ends {
            Self {
                first: true,
                ..Self::default()
            }
        } else {
            Self {
                code: !self.code,
                ..Self::default()
            }
        };
    }
}

fn upto(left: u64, ahead: &[u8]) -> Progress {
    Progress::Ready(usize::try_from(left).unwrap_or(usize::MAX).min(ahead.len()))
}

fn read(word: &[u8]) -> u32 {
    word.try_into().map_or(0, u32::from_le_bytes)
}

/// Converts a number to its difference from the one before, or back. Returns the number.
fn step(word: &mut [u8], before: u32, direction: Direction) -> u32 {
    let value = read(word);
    let (number, converted) = match direction {
        Direction::Encode => (value, value.wrapping_sub(before)),
        Direction::Decode => (value.wrapping_add(before), value.wrapping_add(before)),
    };
    word.copy_from_slice(&converted.to_le_bytes());
    number
}

/// Numbers that are slightly greater than the greatest one so far, or equal to an earlier one.
#[derive(Debug, Default)]
struct Counter {
    greatest: u32,
}

impl Counter {
    /// Converts numbers below twice the greatest one. Those from the greatest one on become even: twice the
    /// difference. Smaller ones become odd: twice the number plus one. Other numbers are kept.
    fn convert(&mut self, word: &mut [u8], direction: Direction) {
        let (value, greatest) = (read(word), self.greatest);
        let (number, converted) = match direction {
            Direction::Encode => {
                let converted = match value {
                    below if below < greatest => 2 * below + 1,
                    above if above - greatest < greatest => 2 * (above - greatest),
                    _ => value,
                };
                (value, converted)
            }
            Direction::Decode => {
                let number = match value {
                    kept if kept >= 2 * greatest => kept,
                    odd if odd % 2 == 1 => odd / 2,
                    even => greatest + even / 2,
                };
                (number, number)
            }
        };
        word.copy_from_slice(&converted.to_le_bytes());
        // Twice the greatest number must fit into 32 bits.
        if number < 1 << 30 {
            self.greatest = greatest.max(number);
        }
    }
}
