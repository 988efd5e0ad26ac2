//! Compresses standard input as an encoder does: `gzip ENCODER`, as in `gzip pgzip-1.18.2:5:1048576`.
//! The header is the shortest.

use std::io::{self, Read, Write};

use gzip_exact::Recipe;

fn main() -> io::Result<()> {
    let encoder = std::env::args().nth(1).unwrap_or_default();
    let encoder = encoder.parse().map_err(io::Error::other)?;
    let header = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut writer = Recipe { header, encoder }.writer();
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut step = vec![0; 1 << 17];
    loop {
        let count = input.read(&mut step)?;
        if count == 0 {
            break;
        }
        writer.write_all(&step[..count])?;
        output.write_all(writer.out())?;
        writer.out().clear();
    }
    output.write_all(&writer.finish()?)
}
