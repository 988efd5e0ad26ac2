//! Text from outside controls neither the terminal nor the readers of JSON.

use super::run;

/// The title of the window, a cleared screen, a colour, the direction of text.
const HOSTILE: &str = "\u{1b}]0;PWNED\u{7}\u{1b}[2J\u{1b}[31mwell\u{202e}";

fn has_control(text: &str) -> bool {
    text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}')
}

#[test]
fn last_message_has_no_control_sequence() {
    let path = format!("/nonexistent/{HOSTILE}.yaml");
    let (code, _, err) = run(&["config", "validate", &path]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("/nonexistent/well.yaml"), "{err:?}");
    assert!(!has_control(&err), "{err:?}");
    let (_, out, err) = run(&["config", "validate", &path, "--output", "json"]);
    assert!(!has_control(&out) && !has_control(&err), "{out:?} {err:?}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(document.to_string().contains("well"), "{document}");
}

#[test]
fn errors_show_the_invisible_characters_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.yaml");
    std::fs::write(&path, "kind: Cluster\nab\u{202e}c\u{200b}: 1\n").unwrap();
    let (code, _, err) = run(&["config", "validate", path.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("ab\\u{202e}c\\u{200b}"), "{err}");
    assert!(!has_control(&err), "{err:?}");
}

#[test]
fn log_file_has_no_control_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let file = format!("/nonexistent/{HOSTILE}");
    run(&[
        "bundle",
        "list",
        &file,
        "-vv",
        "--log",
        log.to_str().unwrap(),
    ]);
    run(&[
        "install",
        &file,
        "-f",
        &file,
        "--log",
        log.to_str().unwrap(),
    ]);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!has_control(&text), "{text:?}");
}
