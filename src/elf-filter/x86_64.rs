//! Code for x86-64: calls, and instructions that name data relative to themselves (Intel's manual,
//! volume 2, sections 2.1.5 and 2.2.1.6).

use super::Direction;
use super::recent::Recent;

/// Bytes of code that are turned at a time, if there are so many.
pub const STRETCH: usize = 1 << 18;
/// Bytes of the longest instruction part that is looked at: opcode, ModR/M and distance.
const LONGEST: usize = 6;
/// Bytes of a distance.
const DISTANCE: usize = 4;

/// Turns a stretch of code, whose first byte is at `place`: distances are taken out of it, turned into
/// what is the same for the same, and put behind the rest, first those of calls. Between programs that
/// have much in common, what is left of the code then is equal for as long as they have.
pub fn filter(code: &mut [u8], place: u32, called: &mut Recent<32>, direction: Direction) {
    let distances = distances(code, direction);
    let turn = |distance: &Distance, word: &[u8]| {
        let next = place.wrapping_add(distance.next);
        let word = word.try_into().map_or(0, u32::from_le_bytes);
        let turned = match (distance.call, direction) {
            (true, _) => called.turn(word, next, direction),
            (false, Direction::Pack) => word.wrapping_add(next),
            (false, Direction::Unpack) => word.wrapping_sub(next),
        };
        turned.to_le_bytes()
    };
    let turned = match direction {
        Direction::Pack => take_out(code, &distances, turn),
        Direction::Unpack => put_back(code, &distances, turn),
    };
    code.copy_from_slice(&turned);
}

/// The code without its distances, and those behind it.
fn take_out(
    code: &[u8],
    distances: &[Distance],
    mut turn: impl FnMut(&Distance, &[u8]) -> [u8; DISTANCE],
) -> Vec<u8> {
    let mut all = Vec::with_capacity(code.len());
    let mut done = 0;
    for distance in distances {
        all.extend_from_slice(&code[done..distance.at()]);
        done = distance.at() + DISTANCE;
    }
    all.extend_from_slice(&code[done..]);
    for distance in sorted(distances) {
        let at = distance.at();
        all.extend_from_slice(&turn(distance, &code[at..at + DISTANCE]));
    }
    all
}

/// The code with the distances where they were.
fn put_back(
    code: &[u8],
    distances: &[Distance],
    mut turn: impl FnMut(&Distance, &[u8]) -> [u8; DISTANCE],
) -> Vec<u8> {
    let (rest, words) = code.split_at(code.len() - distances.len() * DISTANCE);
    let mut all = Vec::with_capacity(code.len());
    let mut done = 0;
    for (before, distance) in distances.iter().enumerate() {
        let upto = distance.at() - before * DISTANCE;
        all.extend_from_slice(&rest[done..upto]);
        all.extend_from_slice(&[0; DISTANCE]);
        done = upto;
    }
    all.extend_from_slice(&rest[done..]);
    for (distance, word) in sorted(distances).zip(words.chunks_exact(DISTANCE)) {
        let at = distance.at();
        all[at..at + DISTANCE].copy_from_slice(&turn(distance, word));
    }
    all
}

/// A distance in a stretch of code.
struct Distance {
    /// Its first byte.
    at: u32,
    /// Where the next instruction is, from which it counts.
    next: u32,
    /// Whether it is to a function, or else to data.
    call: bool,
}

impl Distance {
    fn at(&self) -> usize {
        self.at as usize
    }
}

/// As they lie behind the code.
fn sorted(distances: &[Distance]) -> impl Iterator<Item = &Distance> {
    let calls = distances.iter().filter(|distance| distance.call);
    calls.chain(distances.iter().filter(|distance| !distance.call))
}

/// Finds the distances in a stretch, whether they are still in it or were taken out: what they are
/// themselves is not asked.
fn distances(code: &[u8], direction: Direction) -> Vec<Distance> {
    let worth = worth_a_look(code);
    let mut found = Vec::with_capacity(code.len() / 8);
    let (mut at, mut taken) = (0, 0);
    loop {
        at = next_worth(&worth, at);
        if at + taken + LONGEST > code.len() {
            return found;
        }
        let kind = OPCODE[usize::from(code[at])] & SECOND[usize::from(code[at + 1])];
        let (start, behind) = match kind {
            0 => {
                at += 1;
                continue;
            }
            JUMP => {
                at += 1 + DISTANCE;
                continue;
            }
            BRANCH => {
                at += 2 + DISTANCE;
                continue;
            }
            CALL => (at + 1, 0),
            DATA => (at + 2, 0),
            DATA_AND_BYTE => (at + 2, 1),
            _ => (at + 2, 4),
        };
        let whole = start + taken;
        found.push(Distance {
            at: whole as u32,
            next: (whole + DISTANCE + behind) as u32,
            call: kind == CALL,
        });
        at = start;
        match direction {
            Direction::Pack => at += DISTANCE,
            Direction::Unpack => taken += DISTANCE,
        }
    }
}

/// Bytes of which one learns at once whether one of them is worth a look.
const WORTH: usize = 8;

/// The first byte from `at` on that is worth a look, or what lies behind them all.
fn next_worth(worth: &[u8], mut at: usize) -> usize {
    while let Some(ahead) = worth.get(at..at + WORTH) {
        let ahead = ahead.try_into().map_or(0, u64::from_le_bytes);
        if ahead != 0 {
            return at + ahead.trailing_zeros() as usize / 8;
        }
        at += WORTH;
    }
    worth.len()
}

/// For each byte 1 where a distance may follow it, 0 where none does; and zeros behind them.
fn worth_a_look(code: &[u8]) -> Vec<u8> {
    let pairs = code.iter().zip(code.get(1..).unwrap_or_default());
    // Without branches and tables, since that is done for many bytes at once.
    let worth = pairs.map(|(first, second)| {
        let data = u8::from(second & 0xc7 == 0x05);
        let call_or_jump = u8::from(first & 0xfe == 0xe8);
        let branch = u8::from(*first == 0x0f) & u8::from(second & 0xf0 == 0x80);
        data | call_or_jump | branch
    });
    let mut all = Vec::with_capacity(code.len() + WORTH);
    all.extend(worth);
    all.resize(code.len() + WORTH, 0);
    all
}

/// A distance within a function, mostly: the same wherever that is.
const JUMP: u8 = 1;
/// A distance to a function.
const CALL: u8 = 2;
/// ModR/M, and a distance if that says so.
const DATA: u8 = 4;
/// The same, and a byte behind it.
const DATA_AND_BYTE: u8 = 8;
/// The same, and four bytes behind it.
const DATA_AND_WORD: u8 = 16;
/// The first byte of two, if the second says that a distance within the function follows.
const BRANCH: u8 = 32;

/// What follows an opcode, or the second byte of those with two. Prefixes need not be known.
const OPCODE: [u8; 256] = {
    let mut opcodes = [0; 256];
    opcodes[0xe8] = CALL;
    opcodes[0xe9] = JUMP;
    let data = [
        0x03, 0x0f, 0x10, 0x11, 0x23, 0x28, 0x29, 0x2b, 0x2e, 0x33, 0x38, 0x39, 0x3a, 0x3b, 0x54,
        0x57, 0x58, 0x59, 0x5c, 0x5e, 0x63, 0x6f, 0x7f, 0x84, 0x85, 0x87, 0x88, 0x89, 0x8a, 0x8b,
        0x8d, 0xb1, 0xb6, 0xb7, 0xc1, 0xef, 0xff,
    ];
    let mut at = 0;
    while at < data.len() {
        opcodes[data[at]] = DATA;
        at += 1;
    }
    opcodes[0x0f] |= BRANCH;
    opcodes[0x80] = DATA_AND_BYTE;
    opcodes[0x83] = DATA_AND_BYTE;
    opcodes[0xc6] = DATA_AND_BYTE;
    opcodes[0xf6] = DATA_AND_BYTE;
    opcodes[0x69] = DATA_AND_WORD;
    opcodes[0x81] = DATA_AND_WORD;
    opcodes[0xc7] = DATA_AND_WORD;
    opcodes[0xf7] = DATA_AND_WORD;
    opcodes
};

/// What the byte behind an opcode leaves of that: as ModR/M it must say that a distance follows.
const SECOND: [u8; 256] = {
    let mut seconds = [JUMP | CALL; 256];
    let mut at = 0x05;
    while at < 0x40 {
        seconds[at] = !BRANCH;
        at += 8;
    }
    let mut at = 0x80;
    while at < 0x90 {
        seconds[at] |= BRANCH;
        at += 1;
    }
    seconds
};
