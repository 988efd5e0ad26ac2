//! Prefixes of paths, URLs and names of images, whose parts are separated by `/`.

/// Removes a prefix of whole parts from a text, and returns the rest: `/b` if the text is `/a/b` and the prefix is `/a`.
/// Returns `None` if the prefix ends inside a part, as `/a` does in `/ab`.
pub fn strip_path_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(prefix)?;
    let is_whole = rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/');
    is_whole.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_between_parts() {
        for (text, prefix, rest) in [
            ("/a/b", "/a", Some("/b")),
            ("/a/b", "/a/", Some("b")),
            ("/a", "/a", Some("")),
            ("/ab", "/a", None),
            ("/a", "/a/", None),
            ("/b", "/a", None),
        ] {
            assert_eq!(strip_path_prefix(text, prefix), rest, "{text} {prefix}");
        }
    }
}
