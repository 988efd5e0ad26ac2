//! Bits in the order of RFC 1951, section 3.1.1: the first bit is the lowest one of a byte.

use std::io::{self, Write};

use super::symbols::{
    Code, END_OF_BLOCK, FIRST_LENGTH, HEADER_ORDER, Token, distance_code, length_code,
};

/// Capacity in bytes; enough for most blocks.
const BUFFER: usize = 1 << 16;

/// Writes up to 32 bits at a time, and whole bytes.
pub(super) struct BitWriter<W> {
    out: W,
    buffer: Vec<u8>,
    bits: u64,
    count: u32,
}

impl<W: Write> BitWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            buffer: Vec::with_capacity(BUFFER + 8),
            bits: 0,
            count: 0,
        }
    }

    /// Adds the lowest `count` bits of `value`; the other bits must be zero.
    #[inline]
    pub(super) fn put(&mut self, value: u32, count: u32) {
        self.bits |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.buffer
                .extend_from_slice(&(self.bits as u32).to_le_bytes());
            self.bits >>= 32;
            self.count -= 32;
        }
    }

    /// Adds the code of a symbol.
    #[inline]
    pub(super) fn code(&mut self, code: Code) {
        self.put(code.bits.into(), code.length.into());
    }

    /// Adds literals.
    pub(super) fn literals(&mut self, bytes: &[u8], codes: &[Code]) {
        // Two codes fit into one call.
        let (pairs, rest) = bytes.as_chunks();
        for [first, second] in pairs {
            let (first, second) = (codes[usize::from(*first)], codes[usize::from(*second)]);
            let bits = u32::from(first.bits) | u32::from(second.bits) << first.length;
            self.put(bits, u32::from(first.length) + u32::from(second.length));
        }
        for byte in rest {
            self.code(codes[usize::from(*byte)]);
        }
    }

    /// Adds the code lengths of a dynamic block: the first `listed` lengths of the code that
    /// encodes them, then the run-length encoded lengths as symbols, each with the value and
    /// number of its extra bits.
    pub(super) fn lengths(&mut self, listed: usize, codes: &[Code], symbols: &[(u8, u32, u32)]) {
        self.put(listed as u32 - 4, 4);
        for symbol in &HEADER_ORDER[..listed] {
            self.put(codes[*symbol].length.into(), 3);
        }
        for (symbol, value, extra) in symbols {
            self.code(codes[usize::from(*symbol)]);
            self.put(*value, *extra);
        }
    }

    /// Adds the tokens of a block and its end.
    pub(super) fn tokens(&mut self, tokens: &[Token], literals: &[Code], distances: &[Code]) {
        self.open_tokens(tokens, literals, distances);
        self.code(literals[END_OF_BLOCK]);
    }

    /// Adds the tokens of a block and leaves the block open.
    pub(super) fn open_tokens(&mut self, tokens: &[Token], literals: &[Code], distances: &[Code]) {
        let lengths = with_extra_bits(literals);
        for token in tokens {
            match token.split() {
                Ok(literal) => self.code(literals[literal]),
                Err((length, distance)) => {
                    let (bits, count) = lengths[length as usize];
                    self.put(bits, count);
                    let (number, extra) = distance_code(distance);
                    let code = distances[number];
                    let bits = (distance & ((1 << extra) - 1)) << code.length;
                    self.put(u32::from(code.bits) | bits, u32::from(code.length) + extra);
                }
            }
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Fills the last byte with zeros.
    pub(super) fn align(&mut self) {
        while self.count > 0 {
            self.buffer.push(self.bits as u8);
            self.bits >>= 8;
            self.count = self.count.saturating_sub(8);
        }
        self.bits = 0;
    }

    /// Adds whole bytes after a complete last byte.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.align();
        self.buffer.extend_from_slice(bytes);
    }

    /// Writes the complete bytes.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes everything; fills the last byte with zeros.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.align();
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Returns the code and extra bits of each length less 3, and their number.
fn with_extra_bits(literals: &[Code]) -> [(u32, u32); 256] {
    std::array::from_fn(|length| {
        let length = length as u32;
        let (number, extra) = length_code(length);
        // A block without matches may have no codes for lengths.
        let code = literals.get(FIRST_LENGTH + number).copied();
        let code = code.unwrap_or_default();
        let bits = (length & ((1 << extra) - 1)) << code.length;
        (u32::from(code.bits) | bits, u32::from(code.length) + extra)
    })
}
