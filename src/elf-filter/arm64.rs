//! Code for arm64: calls (BL), and the pages of data (ADRP)
//! (Arm's manual, DDI 0487, sections C6.2.36 and C6.2.11).

use super::Direction;
use super::recent::Recent;

/// Bits of a call's distance, in instructions.
pub const CALL: u32 = 26;

/// Turns the distances in `code`, whose first byte is at `place`; how many bytes are ready. Unless it
/// `ends` there, an instruction that is not whole is left for when more is known.
pub fn filter(
    code: &mut [u8],
    place: u32,
    called: &mut Recent<CALL>,
    direction: Direction,
    ends: bool,
) -> usize {
    // Instructions are aligned; code that does not begin so begins with something else.
    let first = (place.next_multiple_of(4) - place) as usize;
    let mut at = first;
    while at + 4 <= code.len() {
        let bytes = &mut code[at..at + 4];
        if let Ok(four) = <[u8; 4]>::try_from(&*bytes) {
            let place = place + at as u32;
            let turned = turn(u32::from_le_bytes(four), place, called, direction);
            bytes.copy_from_slice(&turned.to_le_bytes());
        }
        at += 4;
    }
    match ends {
        true => code.len(),
        false => at.min(code.len()),
    }
}

/// Turns the distance in an instruction at `place`, or back.
fn turn(instruction: u32, place: u32, called: &mut Recent<CALL>, direction: Direction) -> u32 {
    if instruction >> CALL == 0b100_101 {
        let words = called.turn(instruction & 0x03ff_ffff, place >> 2, direction);
        return instruction & 0xfc00_0000 | words;
    }
    if instruction & 0x9f00_0000 == 0x9000_0000 {
        let pages = (instruction >> 29 & 3) | (instruction >> 3 & 0x001f_fffc);
        // All of it goes round: so every distance comes back.
        let pages = match direction {
            Direction::Pack => pages.wrapping_add(place >> 12),
            Direction::Unpack => pages.wrapping_sub(place >> 12),
        };
        return instruction & 0x9f00_001f | (pages & 3) << 29 | (pages & 0x001f_fffc) << 3;
    }
    instruction
}
