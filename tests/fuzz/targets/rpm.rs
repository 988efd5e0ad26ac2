//! Databases of packages in images: rpm's in SQLite, ndb and Berkeley DB, and the texts of dpkg and apk.
#![no_main]
use kubexm_sbom::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut addresses = fuzzing::rpm(data).unwrap_or_default();
    if let Ok(text) = std::str::from_utf8(data) {
        addresses.extend(fuzzing::texts(text));
    }
    for address in addresses {
        assert!(address.starts_with("pkg:"), "{address}");
        assert!(!address.contains(char::is_control), "{address:?}");
    }
});
