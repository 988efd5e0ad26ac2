//! Streams of the original programs are recognised and reproduced exactly.

// A helper of a test panics if the test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod content;
mod klauspost;
mod programs;
mod serial;
mod skopeo;

use std::io::Write;

use gzip_exact::{Encoder, Recognition, recognise};

/// Returns the encoder of a stream and the stream that it reproduces, if it is known.
fn reproduced(packed: &[u8], content: &[u8]) -> Option<(Encoder, Vec<u8>)> {
    match recognise(packed, std::io::sink()).unwrap() {
        Recognition::Known { recipe, plain } => {
            assert_eq!(plain, content.len() as u64);
            let mut writer = recipe.writer();
            for part in content.chunks(10_007) {
                writer.write_all(part).unwrap();
            }
            Some((recipe.encoder, writer.finish().unwrap()))
        }
        Recognition::Unknown => None,
    }
}
