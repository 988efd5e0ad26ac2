//! Finds the code of a program from its program headers
//! (<https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html>).

/// Size in bytes of the start of a program, which describes where its code is and is never changed.
pub(super) const HEAD: usize = 4096;

/// Maximum end of a segment in bytes; operands in larger programs would need more than 31 bits.
const LARGEST: u64 = 1 << 30;
const LOADED: u32 = 1;
const EXECUTABLE: u32 = 1;
const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// The architecture of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    Arm64,
}

/// The layout of a program; offsets count from its first byte.
#[derive(Debug)]
pub struct Program {
    pub machine: Machine,
    /// Starts and ends of the code ranges, ascending.
    code: Vec<(u64, u64)>,
    end: u64,
}

impl Program {
    /// Parses the start of a program; returns `None` if it is not a 64-bit little-endian ELF program of a
    /// known architecture.
    pub fn read(head: &[u8]) -> Option<Self> {
        let short = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        // ELFCLASS64, ELFDATA2LSB.
        if head.get(4..6)? != [2, 1] {
            return None;
        }
        let machine = match short(18)? {
            62 => Machine::X86_64,
            183 => Machine::Arm64,
            _ => return None,
        };
        let segments = usize::try_from(long(32)?).ok()?;
        if segments < HEADER || usize::from(short(54)?) != SEGMENT {
            return None;
        }
        let (mut code, mut end) = (Vec::new(), 0);
        for number in 0..usize::from(short(56)?) {
            let at = segments.checked_add(number * SEGMENT)?;
            // All program headers must be in the part that is never changed.
            if at.checked_add(SEGMENT)? > HEAD {
                return None;
            }
            if word(at)? != LOADED {
                continue;
            }
            let start = long(at + 8)?;
            let stop = start.checked_add(long(at + 32)?)?;
            if stop > LARGEST {
                return None;
            }
            end = stop.max(end);
            if word(at + 4)? & EXECUTABLE != 0 && stop > HEAD as u64 {
                code.push((start.max(HEAD as u64), stop));
            }
        }
        code.sort_unstable();
        let apart = code.windows(2).all(|two| two[0].1 <= two[1].0);
        (apart && !code.is_empty()).then_some(Self { machine, code, end })
    }

    /// Returns whether there is code at an offset, and the number of bytes up to the next change; `None` after
    /// the end of the program.
    pub fn region(&self, place: u64) -> Option<(bool, u64)> {
        for (start, stop) in &self.code {
            if place < *start {
                return Some((false, start - place));
            }
            if place < *stop {
                return Some((true, stop - place));
            }
        }
        (place < self.end).then(|| (false, self.end - place))
    }
}
