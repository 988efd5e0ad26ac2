//! The first frame of a bundle: tar headers, index, manifest, lock and placement document.
#![no_main]
use kubexm_bundle::format::header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = header::read(data, &[]);
});
