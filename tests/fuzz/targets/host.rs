//! What a host prints: facts, the output of commands, and its record of the cluster. Texts for users have no control
//! characters and a limited length.
#![no_main]
use kubexm_host::fuzzing;
use kubexm_types::untrusted::is_unprintable;
use kubexm_types::{ClusterIdentity, Untrusted};
use libfuzzer_sys::fuzz_target;

/// At most 20 lines of 300 characters, with a note about lines that are left out, of both streams.
const LONGEST: usize = 2 * 22 * 1300;

fuzz_target!(|data: (&str, Vec<&[u8]>, Vec<&[u8]>, i32)| {
    let (text, parts, errors, status) = data;
    if let Ok((facts, clock)) = fuzzing::facts(text) {
        assert!(clock.is_finite());
        facts.arch();
        facts.is_node();
        facts.releases();
    }
    if let Ok(identity) = ClusterIdentity::from_json(text) {
        assert_eq!(ClusterIdentity::from_json(&identity.to_json()), Ok(identity));
    }
    clean(Untrusted::last(text).as_str());
    clean(Untrusted::one_line(text, 200).as_str());
    let (output, last) = fuzzing::output(&parts, &errors, status);
    clean(&last);
    if let Some(output) = output {
        output.text();
        clean(output.complaint().as_str());
    }
});

fn clean(text: &str) {
    assert!(text.len() <= LONGEST, "{} bytes", text.len());
    assert!(!text.contains(|c| !matches!(c, '\n' | '\t') && is_unprintable(c)), "{text:?}");
}
