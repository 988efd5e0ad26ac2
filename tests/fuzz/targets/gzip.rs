//! A gzip stream: what is recognised can be made again bit for bit.
#![no_main]
use std::io::Write;

use gzip_exact::{Recognition, recognise};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut content = Vec::new();
    if let Ok(Recognition::Known { recipe, plain }) = recognise(&mut &data[..], &mut content) {
        assert_eq!(plain, content.len() as u64);
        let mut writer = recipe.writer();
        writer.write_all(&content).expect("memory");
        assert_eq!(writer.finish().expect("memory"), data);
    }
});
