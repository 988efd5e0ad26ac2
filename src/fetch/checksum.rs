//! Checksum files of publishers: only the digits, or lines of digits and a file name as `sha256sum`
//! prints them.

use kubexm_types::Digest;

/// Returns the SHA-256 of `file_name` in a checksum file. Returns `None` if the text is another page, lists
/// only other files or contradicts itself.
///
/// Digits without a name count only if the text has nothing else. Among other lines it would be unclear
/// which file they belong to.
pub fn find(text: &str, file_name: &str) -> Option<Digest> {
    let lines: Vec<&str> = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if let [only] = lines[..]
        && let Some(digest) = digits(only)
    {
        return Some(digest);
    }
    let mut found = lines.iter().filter_map(|line| parse_line(line, file_name));
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Returns the digest of a line `digits  name`, if the name is that of the file, in any directory.
fn parse_line(line: &str, file_name: &str) -> Option<Digest> {
    let (digest, name) = line.split_once(char::is_whitespace)?;
    // `*` marks a file that was read in binary mode.
    let name = name.trim();
    let name = name.strip_prefix('*').unwrap_or(name);
    let last = name.rsplit('/').next()?;
    (last == file_name).then(|| digits(digest))?
}

/// Parses exactly 64 hexadecimal digits. Unlike OCI, publishers may use upper case.
fn digits(token: &str) -> Option<Digest> {
    (token.len() == 64).then(|| Digest::parse(&token.to_ascii_lowercase()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn every_form_that_publishers_use_is_read() {
        for text in [
            EMPTY.to_owned(),
            format!("{EMPTY}\n"),
            format!("\u{feff}{}\r\n", EMPTY.to_uppercase()),
            format!("{EMPTY}  crictl.tar.gz\n"),
            format!("{EMPTY} *crictl.tar.gz"),
            format!("{EMPTY}  ./crictl.tar.gz\n"),
            format!("{EMPTY}\t_output/releases/crictl.tar.gz\n"),
            format!("{OTHER}  crictl-arm.tar.gz\r\n{EMPTY}  crictl.tar.gz\r\n"),
            format!("{EMPTY}  a/crictl.tar.gz\n{EMPTY}  b/crictl.tar.gz\n"),
        ] {
            let found = find(&text, "crictl.tar.gz");
            assert_eq!(found, Some(Digest::of(b"")), "{text}");
        }
    }

    #[test]
    fn what_does_not_name_the_file_is_refused() {
        for text in [
            String::new(),
            "\n\n".to_owned(),
            format!("{EMPTY}  another.tar.gz\n"),
            format!("{EMPTY}  not-crictl.tar.gz\n"),
            format!("{EMPTY}\n{OTHER}\n"),
            format!("{EMPTY}  crictl.tar.gz\n{OTHER}  crictl.tar.gz\n"),
            format!("{}  crictl.tar.gz\n", &EMPTY[1..]),
            format!("{EMPTY}00  crictl.tar.gz\n"),
            "<!DOCTYPE html><html><body>Sign in crictl.tar.gz</body></html>".to_owned(),
            format!("<html>\n<p>{EMPTY}</p>\n</html>"),
            "crictl.tar.gz".to_owned(),
        ] {
            assert_eq!(find(&text, "crictl.tar.gz"), None, "{text}");
        }
    }
}
