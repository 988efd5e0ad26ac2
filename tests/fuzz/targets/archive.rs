//! A published archive, gone through.
#![no_main]
use kubexm_bundle::archive::{each_member, list_members};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let all = each_member(data, |_, content| {
        std::io::copy(content, &mut std::io::sink()).map(|_| ())
    });
    let listed = list_members(data, |_| true, |member| {
        std::io::copy(member, &mut std::io::sink())?;
        Ok(None)
    });
    assert_eq!(all.is_ok(), listed.is_ok());
});
