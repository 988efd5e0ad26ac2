//! Streams that real programs made are recognised and made again, bit for bit.

// A test that fails shall panic, helper or not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod content;
mod klauspost;
mod programs;
mod serial;
mod skopeo;

use std::io::Write;

use gzip_exact::{Encoder, Recognition, recognise};

/// What a stream is made again from, and the stream that this gives.
fn made_again(packed: &[u8], content: &[u8]) -> Option<(Encoder, Vec<u8>)> {
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
