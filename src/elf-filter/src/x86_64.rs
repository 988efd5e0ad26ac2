//! Code for x86-64: calls and jumps with 32 bits of distance, and instructions that name data relative to
//! themselves (Intel's manual, volume 2, sections 2.1.5 and 2.2.1.6).

use super::Direction;

/// Bytes of the longest instruction part that is looked at: opcode, ModR/M and distance.
const LONGEST: usize = 6;
/// Places that are turned are below this.
const SPAN: i64 = 1 << 27;

/// Turns the distances in `code`, whose first byte is at `place`; how many bytes are ready. Unless it
/// `ends` there, some are left for when more is known.
pub fn filter(code: &mut [u8], place: u32, direction: Direction, ends: bool) -> usize {
    let mut at = 0;
    while at + LONGEST <= code.len() {
        let (distance, behind) = match OPERAND[usize::from(code[at])] {
            Operand::None => {
                at += 1;
                continue;
            }
            Operand::Distance => (at + 1, at + 5),
            Operand::Data(_) if code[at + 1] & 0xc7 != 0x05 => {
                at += 1;
                continue;
            }
            Operand::Data(more) => (at + 2, at + 6 + usize::from(more)),
        };
        let next = place.wrapping_add(behind as u32);
        turn(&mut code[distance..distance + 4], next, direction);
        at = distance + 4;
    }
    match ends {
        true => code.len(),
        false => at,
    }
}

/// What follows an opcode.
#[derive(Clone, Copy)]
enum Operand {
    None,
    /// 32 bits of distance.
    Distance,
    /// ModR/M, 32 bits of distance if that says so, and so many bytes of a constant.
    Data(u8),
}

/// By the opcode, or the second byte of those with two. Prefixes need not be known.
const OPERAND: [Operand; 256] = {
    let mut operands = [Operand::None; 256];
    operands[0xe8] = Operand::Distance;
    operands[0xe9] = Operand::Distance;
    let data = [
        0x03, 0x0f, 0x10, 0x11, 0x23, 0x28, 0x29, 0x2b, 0x2e, 0x33, 0x38, 0x39, 0x3a, 0x3b, 0x54,
        0x57, 0x58, 0x59, 0x5c, 0x5e, 0x63, 0x6f, 0x7f, 0x84, 0x85, 0x87, 0x88, 0x89, 0x8a, 0x8b,
        0x8d, 0xb1, 0xb6, 0xb7, 0xc1, 0xef, 0xff,
    ];
    let mut at = 0;
    while at < data.len() {
        operands[data[at]] = Operand::Data(0);
        at += 1;
    }
    operands[0x80] = Operand::Data(1);
    operands[0x83] = Operand::Data(1);
    operands[0xc6] = Operand::Data(1);
    operands[0xf6] = Operand::Data(1);
    operands[0x69] = Operand::Data(4);
    operands[0x81] = Operand::Data(4);
    operands[0xc7] = Operand::Data(4);
    operands[0xf7] = Operand::Data(4);
    operands
};

/// Turns a distance from `next` into a place, or back, where both are plausible; the others are kept, and
/// those that would be taken for turned ones change their place with those that were. So the set of values
/// that are turned is the same on both sides.
fn turn(bytes: &mut [u8], next: u32, direction: Direction) {
    let Ok(four) = <[u8; 4]>::try_from(&*bytes) else {
        return;
    };
    let (value, next) = (i64::from(i32::from_le_bytes(four)), i64::from(next));
    if value < -next || value >= SPAN {
        return;
    }
    let turned = match direction {
        Direction::Pack if value < SPAN - next => value + next,
        Direction::Pack => value - SPAN,
        Direction::Unpack if value >= 0 => value - next,
        Direction::Unpack => value + SPAN,
    };
    // Both are within 32 bits: places are below 2^31, and the span is smaller.
    bytes.copy_from_slice(&(turned as i32).to_le_bytes());
}
