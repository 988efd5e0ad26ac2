//! Compresses standard input with an encoder: `gzip ENCODER [THREADS]`, such as `gzip
//! pgzip-1.18.2:5:1048576 4`. The header has no optional fields.

use std::io::{self, Read, Write};
use std::num::NonZeroUsize;

use gzip_exact::Recipe;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let encoder = arguments.next().unwrap_or_default();
    let encoder = encoder.parse().map_err(io::Error::other)?;
    let threads = arguments
        .next()
        .map_or(Ok(NonZeroUsize::MIN), |threads| threads.parse());
    let threads = threads.map_err(io::Error::other)?;
    let header = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut writer = Recipe { header, encoder }.writer_on(threads);
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
