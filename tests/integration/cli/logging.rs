//! `-v`, `-vv` and `--log`.

use super::*;

#[test]
fn log_has_the_levels_of_the_verbosity() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path(), 1).display().to_string();
    let out = folder.path().join("out").display().to_string();
    let log = folder.path().join("kubexm.log");
    let split = |extra: &[&str]| {
        let arguments = ["bundle", "split", &path, "--size", "8KiB", "-o", &out];
        run(&[&arguments[..], extra].concat())
    };
    let (code, _, quiet) = split(&[]);
    assert_eq!(code, Some(0), "{quiet}");
    assert!(!quiet.contains("kubexm::"), "{quiet}");
    let (_, _, verbose) = split(&["-vv"]);
    assert!(verbose.contains("DEBUG"), "{verbose}");
    assert!(verbose.contains("transfer-started"), "{verbose}");

    let (_, _, err) = split(&["--log", &log.display().to_string()]);
    assert!(!err.contains("DEBUG"), "{err}");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("transfer-ended"), "{text}");
    // A second run appends.
    split(&["--log", &log.display().to_string()]);
    assert!(std::fs::read_to_string(&log).unwrap().starts_with(&text));

    let (code, _, err) = split(&["--log", "/nowhere/kubexm.log"]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(err, @"error: cannot write the log /nowhere/kubexm.log: No such file or directory (os error 2)");
}
