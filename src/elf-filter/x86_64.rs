//! x86-64: calls, and instructions that address data relative to the next instruction
//! (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, sections 2.1.5 and 2.2.1.6).

use super::progress::Direction;
use super::recent_targets::RecentTargets;

/// Size of a stretch in bytes: the code that is converted as a whole.
pub const STRETCH: usize = 1 << 18;
/// Size in bytes of the longest part of an instruction that matters: opcode, ModR/M and operand.
const LONGEST: usize = 6;
/// Size of an operand in bytes.
const OPERAND: usize = 4;

/// Converts a stretch of code whose first byte is at the offset `place` in the program.
///
/// Encoding moves the converted operands of calls, and then those of data, after the rest of the code. The
/// rest of common code is then equal in both programs, without interruption by operands.
pub fn filter(code: &mut [u8], place: u32, recent: &mut RecentTargets<32>, direction: Direction) {
    let operands = operands(code, direction);
    let convert = |operand: &Operand, word: &[u8]| {
        let next = place.wrapping_add(operand.next);
        let word = word.try_into().map_or(0, u32::from_le_bytes);
        let converted = match (operand.call, direction) {
            (true, _) => recent.convert(word, next, direction),
            (false, Direction::Encode) => word.wrapping_add(next),
            (false, Direction::Decode) => word.wrapping_sub(next),
        };
        converted.to_le_bytes()
    };
    let converted = match direction {
        Direction::Encode => extract(code, &operands, convert),
        Direction::Decode => insert(code, &operands, convert),
    };
    code.copy_from_slice(&converted);
}

/// Returns the code without operands, followed by the converted operands.
fn extract(
    code: &[u8],
    operands: &[Operand],
    mut convert: impl FnMut(&Operand, &[u8]) -> [u8; OPERAND],
) -> Vec<u8> {
    let mut all = Vec::with_capacity(code.len());
    let mut done = 0;
    for operand in operands {
        all.extend_from_slice(&code[done..operand.at()]);
        done = operand.at() + OPERAND;
    }
    all.extend_from_slice(&code[done..]);
    for operand in sorted(operands) {
        let at = operand.at();
        all.extend_from_slice(&convert(operand, &code[at..at + OPERAND]));
    }
    all
}

/// Returns the code with the operands at their original offsets.
fn insert(
    code: &[u8],
    operands: &[Operand],
    mut convert: impl FnMut(&Operand, &[u8]) -> [u8; OPERAND],
) -> Vec<u8> {
    let (rest, words) = code.split_at(code.len() - operands.len() * OPERAND);
    let mut all = Vec::with_capacity(code.len());
    let mut done = 0;
    for (before, operand) in operands.iter().enumerate() {
        let upto = operand.at() - before * OPERAND;
        all.extend_from_slice(&rest[done..upto]);
        all.extend_from_slice(&[0; OPERAND]);
        done = upto;
    }
    all.extend_from_slice(&rest[done..]);
    for (operand, word) in sorted(operands).zip(words.chunks_exact(OPERAND)) {
        let at = operand.at();
        all[at..at + OPERAND].copy_from_slice(&convert(operand, word));
    }
    all
}

/// An operand in a stretch of code.
struct Operand {
    /// Offset of its first byte in the stretch.
    at: u32,
    /// Offset of the next instruction, to which the operand is relative.
    next: u32,
    /// Whether the operand is that of a call; otherwise it addresses data.
    call: bool,
}

impl Operand {
    fn at(&self) -> usize {
        self.at as usize
    }
}

/// Returns the operands in the order in which they follow the code.
fn sorted(operands: &[Operand]) -> impl Iterator<Item = &Operand> {
    let calls = operands.iter().filter(|operand| operand.call);
    calls.chain(operands.iter().filter(|operand| !operand.call))
}

/// Finds the operands of a stretch, before or after they are moved: the values of operands do not influence
/// the search.
fn operands(code: &[u8], direction: Direction) -> Vec<Operand> {
    let candidates = candidates(code);
    let mut found = Vec::with_capacity(code.len() / 8);
    let (mut at, mut taken) = (0, 0);
    loop {
        at = next_candidate(&candidates, at);
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
                at += 1 + OPERAND;
                continue;
            }
            BRANCH => {
                at += 2 + OPERAND;
                continue;
            }
            CALL => (at + 1, 0),
            DATA => (at + 2, 0),
            DATA_AND_BYTE => (at + 2, 1),
            _ => (at + 2, 4),
        };
        let whole = start + taken;
        found.push(Operand {
            at: whole as u32,
            next: (whole + OPERAND + behind) as u32,
            call: kind == CALL,
        });
        at = start;
        match direction {
            Direction::Encode => at += OPERAND,
            Direction::Decode => taken += OPERAND,
        }
    }
}

/// Number of bytes that are checked together.
const GROUP: usize = 8;

/// Returns the index of the first candidate from `at` on, or the length.
fn next_candidate(candidates: &[u8], mut at: usize) -> usize {
    while let Some(ahead) = candidates.get(at..at + GROUP) {
        let ahead = ahead.try_into().map_or(0, u64::from_le_bytes);
        if ahead != 0 {
            return at + ahead.trailing_zeros() as usize / 8;
        }
        at += GROUP;
    }
    candidates.len()
}

/// Returns a byte for each byte of the code: 1 if an operand may follow, otherwise 0. Zeros follow.
fn candidates(code: &[u8]) -> Vec<u8> {
    let pairs = code.iter().zip(code.get(1..).unwrap_or_default());
    // Without branches and tables, so that the compiler uses vector instructions.
    let candidates = pairs.map(|(first, second)| {
        let data = u8::from(second & 0xc7 == 0x05);
        let call_or_jump = u8::from(first & 0xfe == 0xe8);
        let branch = u8::from(*first == 0x0f) & u8::from(second & 0xf0 == 0x80);
        data | call_or_jump | branch
    });
    let mut all = Vec::with_capacity(code.len() + GROUP);
    all.extend(candidates);
    all.resize(code.len() + GROUP, 0);
    all
}

/// A jump, usually within a function: its operand does not depend on the address of the function.
const JUMP: u8 = 1;
/// The operand of a call.
const CALL: u8 = 2;
/// ModR/M, followed by an operand if ModR/M says so.
const DATA: u8 = 4;
/// The same, followed by an immediate value of one byte.
const DATA_AND_BYTE: u8 = 8;
/// The same, followed by an immediate value of four bytes.
const DATA_AND_WORD: u8 = 16;
/// The first byte of a two-byte opcode of a branch.
const BRANCH: u8 = 32;

/// What follows an opcode, or the second byte of a two-byte opcode. Prefixes are not parsed.
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

/// The kinds that the byte after an opcode permits: as ModR/M it must announce a relative operand.
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
