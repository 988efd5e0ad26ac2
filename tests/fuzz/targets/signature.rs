//! A signature, and what it is asked about: nothing but the one right signature holds.
#![no_main]
use kubexm_bundle::signature::{check, key_id};
use kubexm_bundle::statement::Statement;
use kubexm_types::PublicKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&str, &str, &[u8])| {
    let (key, signature, index) = data;
    let _ = key_id(signature);
    if let Ok(Some(statement)) = Statement::parse(signature) {
        assert_eq!(statement.to_string(), signature);
    }
    let own: PublicKey = "RWRFvJDsmI2uXB9LtWpBT5Ac3xP9uTv8vmfcWwMEmIVMSgqFVZHIA8uE"
        .parse()
        .expect("a key");
    assert!(check(index, Some(signature), &[own]).is_err());
    if let Ok(key) = key.parse::<PublicKey>() {
        let _ = check(index, Some(signature), &[key]);
    }
});
