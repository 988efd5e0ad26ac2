//! The first frame of a bundle: tar headers, index, signature, manifest, lock and placement document. With a
//! trusted key, no input is accepted, and nothing behind the signature is read.
#![no_main]
use std::io::Read;

use kubexm_bundle::format::header;
use kubexm_types::PublicKey;
use libfuzzer_sys::fuzz_target;

/// Counts the bytes that the parser reads.
struct Counted<'a>(&'a [u8], usize);

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(into)?;
        self.1 += count;
        Ok(count)
    }
}

fuzz_target!(|data: &[u8]| {
    let size = data.len() as u64;
    let _ = header::read(data, size, &[]);
    let own: PublicKey = "RWRFvJDsmI2uXB9LtWpBT5Ac3xP9uTv8vmfcWwMEmIVMSgqFVZHIA8uE"
        .parse()
        .expect("a key");
    let mut counted = Counted(data, 0);
    assert!(header::read(&mut counted, size, &[own]).is_err());
    let end_of_third = entries_end(data, 3);
    assert!(counted.1 <= end_of_third, "{} of {end_of_third} bytes", counted.1);
});

/// Returns where the first `count` entries end, or the size of the data.
fn entries_end(data: &[u8], count: usize) -> usize {
    let mut end = 0usize;
    for _ in 0..count {
        let digits = data.get(end + 124..end + 135).and_then(|digits| std::str::from_utf8(digits).ok());
        let size = digits.and_then(|digits| usize::from_str_radix(digits, 8).ok());
        let padded = size.and_then(|size| size.checked_next_multiple_of(512));
        let next = padded.and_then(|padded| (end + 512).checked_add(padded));
        match next {
            Some(next) if next <= data.len() => end = next,
            _ => return data.len(),
        }
    }
    end
}
