//! Encodes or decodes standard input: `filter encode` or `filter decode`.

use std::io::{self, Read, Write};

use elf_filter::{Direction, Filter};

fn main() -> io::Result<()> {
    let direction = match std::env::args().nth(1).as_deref() {
        Some("encode") => Direction::Encode,
        Some("decode") => Direction::Decode,
        _ => return Err(io::Error::other("expected 'encode' or 'decode'")),
    };
    let mut filter = Filter::new(direction);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut step, mut filtered) = (vec![0; 1 << 17], Vec::new());
    loop {
        let count = input.read(&mut step)?;
        filter.push(&step[..count], count == 0, &mut filtered);
        output.write_all(&filtered)?;
        filtered.clear();
        if count == 0 {
            return output.flush();
        }
    }
}
