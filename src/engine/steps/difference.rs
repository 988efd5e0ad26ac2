//! The difference of a file on a host and its desired content, as text.

use similar::TextDiff;

/// Lines around each change.
const CONTEXT: usize = 2;
/// Maximum number of lines of a difference.
const LINES: usize = 60;
/// Words in a line whose value may be a secret.
const SECRET_WORDS: [&str; 6] = ["password", "passwd", "secret", "token", "key-data", "auth"];

/// Returns the difference in the format of `diff -u`, without the names of the files. The rest of a long difference is left
/// out. The files must not contain secrets.
pub fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut unified = diff.unified_diff();
    unified.context_radius(CONTEXT).missing_newline_hint(false);
    let text = unified.to_string();
    let mut lines: Vec<&str> = text.lines().collect();
    let rest = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    let mut shown = lines.join("\n");
    if rest > 0 {
        shown += &format!("\n({rest} more lines)");
    }
    shown
}

/// Returns the difference like [`unified`], and masks values that may be secrets.
pub(super) fn unified_and_masked(old: &str, new: &str) -> String {
    let text = unified(old, new);
    let lines: Vec<String> = text.lines().map(masked).collect();
    lines.join("\n")
}

/// Masks the value in a line such as `password: sesame` or `TOKEN=abc`.
fn masked(line: &str) -> String {
    let Some(at) = line.find([':', '=']) else {
        return line.to_owned();
    };
    let (name, value) = line.split_at(at + 1);
    let lower = name.to_lowercase();
    let is_secret = SECRET_WORDS.iter().any(|word| lower.contains(word));
    if is_secret && !value.trim().is_empty() {
        format!("{name} <secret>")
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_shows_changed_lines_and_no_secret() {
        let old = "a: 1\nb: 2\npassword: sesame\nd: 4\n";
        let new = "a: 1\nb: 3\npassword: other\nd: 4\n";
        insta::assert_snapshot!(unified_and_masked(old, new), @r"
        @@ -1,4 +1,4 @@
         a: 1
        -b: 2
        -password: <secret>
        +b: 3
        +password: <secret>
         d: 4
        ");
    }

    #[test]
    fn long_difference_is_cut() {
        let new: String = (0..100).map(|line| format!("{line}\n")).collect();
        let text = unified("", &new);
        assert!(text.ends_with("\n(41 more lines)"), "{text}");
    }
}
