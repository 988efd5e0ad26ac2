//! A lock's text. What is taken is written and read again the same.
#![no_main]
use kubexm_bundle::{Lock, Placement};
use kubexm_bundle::format::oci_layout;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(lock) = Lock::from_yaml(text) else { return };
    let head = oci_layout::head(&lock).expect("a lock can be written");
    let again = std::str::from_utf8(&head.lock).expect("as text");
    assert_eq!(Lock::from_yaml(again).as_ref(), Ok(&lock));
    let _ = Placement::plain(&lock);
});
