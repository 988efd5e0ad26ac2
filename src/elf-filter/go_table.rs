//! The table by which Go programs find functions, files and lines (`.gopclntab`): of numbers that grow
//! from one function to the next, the differences, and like beside like
//! (<https://go.dev/s/go12symtab>, and `runtime/symtab.go` for its form since Go 1.20).

use std::ops::Range;

use super::{Direction, Progress};

/// Where a table may begin in a program.
pub const ALIGNMENT: u64 = 16;
/// Its first bytes, up to the places of its parts.
pub const HEADER: usize = 72;
pub const MAGIC: [u8; 4] = [0xf1, 0xff, 0xff, 0xff];
/// Tables of more functions are left alone: memory is needed for them.
const MOST_FUNCTIONS: u64 = 1 << 19;
const LARGEST: u64 = 1 << 30;
/// A function's place in the code, and in the table.
const ENTRY: u64 = 8;
const WORD: usize = 4;
/// Words of a function that every one has.
const FIXED: usize = 11;
/// The word of them that says how many numbers of steps follow.
const NUMBERS: usize = 7;
/// Bytes that are sorted at a time.
const SORTED: u64 = 1 << 20;

/// A table on its way.
#[derive(Debug)]
pub struct Table {
    functions: usize,
    /// Where the steps begin by which code and lines go on.
    steps: u64,
    /// Where the list of functions begins, and they themselves are counted from.
    list: u64,
    /// Places of functions in code and table, as far as they are known.
    known: Vec<(u32, u32)>,
    /// Functions that are done.
    done: usize,
    stepping: Stepping,
    numbers: Numbers,
}

/// What was seen of functions' numbers.
#[derive(Debug, Default)]
struct Numbers {
    names: Growing,
    steps: Growing,
    data: Growing,
    unit: u32,
}

impl Table {
    /// Reads a table's first bytes; `None` where none begins.
    pub fn read(head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(&MAGIC)?;
        // Two zeros, the least length of instructions, the size of pointers.
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
            stepping: Stepping::default(),
            numbers: Numbers::default(),
        })
    }

    /// Goes on, `place` bytes from the table's beginning.
    pub fn filter(&mut self, place: u64, ahead: &mut [u8], direction: Direction) -> Progress {
        if place < self.steps {
            return upto(self.steps - place, ahead);
        }
        if place < self.list {
            let size = (self.list - place).min(SORTED) as usize;
            return ahead.get_mut(..size).map_or(Progress::Wait(size), |steps| {
                self.stepping.sort(steps, direction);
                Progress::Ready(size)
            });
        }
        if self.known.len() < self.functions {
            return self.entries(ahead, direction);
        }
        self.some_functions(place, ahead, direction)
    }

    /// The list of functions.
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

    /// Functions that lie one behind the other, or what stands before them.
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
        // Functions lie in their order, or this is no such table.
        if place > start || size == 0 {
            return Progress::Over;
        }
        let Some(bytes) = ahead.get_mut(..size) else {
            return Progress::Wait(size);
        };
        if direction == Direction::Unpack {
            unsort(bytes, &functions);
        }
        for (function, (code, _)) in functions.iter().zip(&self.known[self.done..]) {
            let function = &mut bytes[function.clone()];
            self.numbers.turn(function, *code, direction);
        }
        self.done += functions.len();
        if direction == Direction::Pack {
            sort(bytes, &functions);
        }
        Progress::Ready(size)
    }

    /// Where the next functions lie, the first at 0; as many as are sorted at a time.
    fn next_functions(&self) -> Vec<Range<usize>> {
        let known = &self.known[self.done..];
        let first = known.first().map_or(0, |(_, own)| *own);
        let mut functions: Vec<Range<usize>> = Vec::new();
        for (at, (_, own)) in known.iter().enumerate() {
            // Where the last one ends is not written down.
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
    /// Turns the numbers of a function whose code is at `code`.
    fn turn(&mut self, function: &mut [u8], code: u32, direction: Direction) {
        let words = function.len() / WORD;
        let steps = FIXED..words.min(FIXED.saturating_add(steps_of(function)));
        for at in 0..FIXED {
            let word = word(function, at);
            match at {
                0 => drop(step(word, code, direction)),
                1 => self.names.turn(word, direction),
                4..=6 => self.steps.turn(word, direction),
                8 => self.unit = step(word, self.unit, direction),
                _ => {}
            }
        }
        // The linker has the third for the last.
        let third = FIXED + 2;
        for at in steps.clone().filter(|at| *at != third) {
            self.steps.turn(word(function, at), direction);
        }
        if steps.contains(&third) {
            self.steps.turn(word(function, third), direction);
        }
        // Maps of pointers, objects and inlined calls; the others lie elsewhere.
        for at in (steps.end..words).take(4) {
            self.data.turn(word(function, at), direction);
        }
    }
}

fn word(function: &mut [u8], at: usize) -> &mut [u8] {
    &mut function[at * WORD..(at + 1) * WORD]
}

/// Numbers of steps that a function has behind its fixed words.
fn steps_of(function: &[u8]) -> usize {
    function
        .get(NUMBERS * WORD..)
        .map_or(0, |rest| read(&rest[..WORD]) as usize)
}

/// Places of the words that every function has: first all first ones, and so on.
fn fixed(functions: &[Range<usize>]) -> impl Iterator<Item = usize> {
    (0..FIXED).flat_map(|at| functions.iter().map(move |f| f.start + at * WORD))
}

/// Places of the words behind them, by what the fixed ones in `bytes` say: in the same way the numbers of
/// steps, then the others.
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

/// Steps are pairs of numbers, which take as many bytes as they need: by how much a value changes, and
/// for how much code it holds. A change of nothing that is not the first one ends a list of them.
#[derive(Debug, Default, Clone, Copy)]
struct Stepping {
    /// Whether the next byte is of how much code it is.
    code: bool,
    /// Whether a number goes on.
    within: bool,
    /// Whether the list has only begun.
    first: bool,
}

impl Stepping {
    /// Puts changes in front and lengths of code behind, backwards; or back. Whose byte is next is known
    /// by those before it.
    fn sort(&mut self, bytes: &mut [u8], direction: Direction) {
        let mut other = bytes.to_vec();
        let (mut front, mut back) = (0, bytes.len());
        for at in 0..bytes.len() {
            let sorted = match self.code {
                false => {
                    front += 1;
                    front - 1
                }
                true => {
                    back -= 1;
                    back
                }
            };
            let byte = match direction {
                Direction::Pack => bytes[at],
                Direction::Unpack => bytes[sorted],
            };
            match direction {
                Direction::Pack => other[sorted] = byte,
                Direction::Unpack => other[at] = byte,
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
        *self = match ends {
            true => Self {
                first: true,
                ..Self::default()
            },
            false => Self {
                code: !self.code,
                ..Self::default()
            },
        };
    }
}

fn upto(left: u64, ahead: &[u8]) -> Progress {
    Progress::Ready(usize::try_from(left).unwrap_or(usize::MAX).min(ahead.len()))
}

fn read(word: &[u8]) -> u32 {
    word.try_into().map_or(0, u32::from_le_bytes)
}

/// Turns a number into how much more it is than the one before, or back; the number itself.
fn step(word: &mut [u8], before: u32, direction: Direction) -> u32 {
    let value = read(word);
    let (number, turned) = match direction {
        Direction::Pack => (value, value.wrapping_sub(before)),
        Direction::Unpack => (value.wrapping_add(before), value.wrapping_add(before)),
    };
    word.copy_from_slice(&turned.to_le_bytes());
    number
}

/// Numbers that are either a little more than the greatest before, or one that was there before.
#[derive(Debug, Default)]
struct Growing {
    greatest: u32,
}

impl Growing {
    /// Turns numbers up to twice the greatest: those above it become even ones, by how much more they
    /// are, and those below it odd ones, in which each is always the same. Others are kept.
    fn turn(&mut self, word: &mut [u8], direction: Direction) {
        let (value, greatest) = (read(word), self.greatest);
        let (number, turned) = match direction {
            Direction::Pack => {
                let turned = match value {
                    below if below < greatest => 2 * below + 1,
                    above if above - greatest < greatest => 2 * (above - greatest),
                    _ => value,
                };
                (value, turned)
            }
            Direction::Unpack => {
                let number = match value {
                    kept if kept >= 2 * greatest => kept,
                    odd if odd % 2 == 1 => odd / 2,
                    even => greatest + even / 2,
                };
                (number, number)
            }
        };
        word.copy_from_slice(&turned.to_le_bytes());
        // Twice the greatest must still be a number.
        if number < 1 << 30 {
            self.greatest = greatest.max(number);
        }
    }
}
