//! What a site says that it has.
#![no_main]
use kubexm_bundle::Inventory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Inventory::is_one(text);
    let _ = Inventory::from_yaml(text);
});
