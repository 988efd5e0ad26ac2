//! AArch64: calls (BL) and page addresses of data (ADRP)
//! (Arm Architecture Reference Manual, DDI 0487, sections C6.2.36 and C6.2.11).

use super::progress::Direction;
use super::recent_targets::RecentTargets;

/// Number of bits of a call's operand, which counts instructions.
pub const CALL: u32 = 26;

/// Converts the operands in `code`, whose first byte is at the offset `place` in the program. Returns the
/// number of complete bytes. Unless the code `ends` here, an incomplete instruction is not counted.
pub fn filter(
    code: &mut [u8],
    place: u32,
    recent: &mut RecentTargets<CALL>,
    direction: Direction,
    ends: bool,
) -> usize {
    // Instructions are aligned to four bytes; the bytes before the first one are not code.
    let first = (place.next_multiple_of(4) - place) as usize;
    let mut at = first;
    while at + 4 <= code.len() {
        let bytes = &mut code[at..at + 4];
        if let Ok(four) = <[u8; 4]>::try_from(&*bytes) {
            let place = place + at as u32;
            let converted = convert(u32::from_le_bytes(four), place, recent, direction);
            bytes.copy_from_slice(&converted.to_le_bytes());
        }
        at += 4;
    }
    if ends { code.len() } else { at.min(code.len()) }
}

/// Converts the operand of an instruction at `place`.
fn convert(
    instruction: u32,
    place: u32,
    recent: &mut RecentTargets<CALL>,
    direction: Direction,
) -> u32 {
    if instruction >> CALL == 0b100_101 {
        let words = recent.convert(instruction & 0x03ff_ffff, place >> 2, direction);
        return instruction & 0xfc00_0000 | words;
    }
    if instruction & 0x9f00_0000 == 0x9000_0000 {
        let pages = (instruction >> 29 & 3) | (instruction >> 3 & 0x001f_fffc);
        // The arithmetic wraps, so that every operand can be decoded.
        let pages = match direction {
            Direction::Encode => pages.wrapping_add(place >> 12),
            Direction::Decode => pages.wrapping_sub(place >> 12),
        };
        return instruction & 0x9f00_001f | (pages & 3) << 29 | (pages & 0x001f_fffc) << 3;
    }
    instruction
}
