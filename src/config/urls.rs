//! Hosts of HTTP URLs in a text.

const SCHEMES: [&str; 2] = ["http://", "https://"];

/// Returns the host names and addresses of the HTTP URLs in a text, without ports. An IPv6 address has no brackets.
pub fn hosts(text: &str) -> impl Iterator<Item = &str> {
    let after = move |scheme| text.split(scheme).skip(1);
    SCHEMES.into_iter().flat_map(after).map(host)
}

/// Returns the host at the start of a text, which follows a scheme.
fn host(text: &str) -> &str {
    if let Some((address, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let end = text.find(|c| !in_name(c)).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_neither_ports_nor_brackets() {
        let text =
            "a https://one.example/x, http://192.0.2.1:80 and https://[fd00::1]:443/; ftp://two";
        let mut found: Vec<_> = hosts(text).collect();
        found.sort_unstable();
        assert_eq!(found, ["192.0.2.1", "fd00::1", "one.example"]);
    }
}
