//! Metadata of a dnf repository: repomd, lists of packages and files (plain and compressed), modules, and packages.
//! What a lock gets stays in the repository, and no package is accepted.
#![no_main]
use std::path::Path;
use std::sync::LazyLock;

use kubexm_fetch::fuzzing::{self, DnfFile};
use kubexm_fetch::openpgp::OpenPgpKeyring;
use libfuzzer_sys::fuzz_target;

static KEYRING: LazyLock<OpenPgpKeyring> = LazyLock::new(|| {
    let keyring = include_bytes!("../keyring.asc");
    OpenPgpKeyring::parse(&[(Path::new("keyring"), keyring)]).expect("a keyring")
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let file = match kind {
        b'r' => DnfFile::Repomd,
        b'p' => DnfFile::Primary("primary.xml"),
        b'g' => DnfFile::Primary("primary.xml.gz"),
        b'x' => DnfFile::Primary("primary.xml.xz"),
        b'z' => DnfFile::Primary("primary.xml.zst"),
        b'f' => DnfFile::Filelists,
        b'm' => DnfFile::Modules,
        b'R' => DnfFile::Rpm,
        _ => return,
    };
    let is_package = matches!(file, DnfFile::Rpm);
    let read = fuzzing::dnf(&file, bytes, &KEYRING);
    assert!(!is_package || read.is_err());
    for package in read.unwrap_or_default() {
        let url = package.url.as_str();
        assert!(url.starts_with("https://rpm.example/el9/"), "{url}");
        assert!(!package.file_name.contains(['/', '\0', '\n']), "{:?}", package.file_name);
    }
});
