//! Metadata of an apt archive: a release, and a list of packages. What a lock gets stays in the archive.
#![no_main]
use kubexm_fetch::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for result in fuzzing::apt_release(text) {
        assert!(result.err().is_none_or(|error| !error.is_empty()));
    }
    for package in fuzzing::apt_packages(text).unwrap_or_default() {
        let url = package.url.as_str();
        assert!(url.starts_with("https://deb.example/debian/"), "{url}");
        assert!(!package.file_name.contains(['/', '\0', '\n']), "{:?}", package.file_name);
    }
});
