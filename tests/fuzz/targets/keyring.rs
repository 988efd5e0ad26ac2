//! OpenPGP keyrings and signatures. `changed.asc` has the signature of another text by the key of
//! `keyring.asc`, so that no input matches a signature.
#![no_main]
use std::path::Path;
use std::sync::LazyLock;

use kubexm_fetch::openpgp::{OpenPgpError, OpenPgpKeyring, Validity};
use libfuzzer_sys::fuzz_target;

static KEYRING: LazyLock<OpenPgpKeyring> =
    LazyLock::new(|| parse(include_bytes!("../keyring.asc")).expect("a keyring"));
const CHANGED: &str = include_str!("../changed.asc");

fuzz_target!(|data: &[u8]| {
    if let Ok(keyring) = parse(data) {
        refused(keyring.clear_signed(CHANGED, Validity::AtSigning).map(drop));
    }
    refused(KEYRING.detached(b"Suite: lab\n", data, Validity::AtSigning));
    if let Ok(text) = std::str::from_utf8(data) {
        refused(KEYRING.clear_signed(text, Validity::Now).map(drop));
    }
});

fn parse(data: &[u8]) -> Result<OpenPgpKeyring, OpenPgpError> {
    OpenPgpKeyring::parse(&[(Path::new("keyring"), data)])
}

fn refused(result: Result<(), OpenPgpError>) {
    let text = result.expect_err("no key signed this").to_string();
    let (cause, hint) = text.split_once("\nhint: ").expect("a hint");
    for line in cause.lines().chain([hint]) {
        assert!(!line.contains(char::is_control), "{text:?}");
    }
}
