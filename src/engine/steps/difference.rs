//! The difference of a file on a host and its desired content, as text.

use kubexm_types::redacted;
use similar::TextDiff;

/// Lines around each change.
const CONTEXT: usize = 2;
/// Maximum number of lines of a difference.
const LINES: usize = 60;

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

/// Returns the difference like [`unified`], without what looks like a secret.
pub fn unified_and_redacted(old: &str, new: &str) -> String {
    redacted::without_in(&unified(old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_shows_changed_lines_and_no_secret() {
        let old = "a: 1\nb: 2\npassword: sesame\nd: 4\n";
        let new = "a: 1\nb: 3\npassword: other\nd: 4\n";
        insta::assert_snapshot!(unified_and_redacted(old, new), @r"
        @@ -1,4 +1,4 @@
         a: 1
        -b: 2
        -password: [redacted]
        +b: 3
        +password: [redacted]
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
