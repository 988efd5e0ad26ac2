//! Removes what looks like a secret from a text. Hosts do the same before they print anything (`doctor/support.sh`); this is
//! for the cluster file, and the second line of defence for hosts.

/// Words in names of fields whose values are secret, in lower case.
const WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "auth_pass",
    "authorization",
    "apikey",
    "-key-data",
];
const REPLACEMENT: &str = "[redacted]";

/// Returns the text without private keys and without values of fields with such names.
pub(super) fn without(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for line in text.lines() {
        if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY-----") {
            inside = !line.contains("-----END ");
            out.push_str("[redacted: a private key]\n");
            continue;
        }
        if inside {
            inside = !line.contains("-----END ");
            continue;
        }
        out.push_str(&line_without(line));
        out.push('\n');
    }
    out
}

fn line_without(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let values = WORDS.iter().filter_map(|word| value_after(&lower, word));
    let mut text = match values.min() {
        Some(start) => format!("{}{REPLACEMENT}", &line[..start]),
        None => line.to_owned(),
    };
    if let Some(start) = text.find("://")
        && let Some(end) = text[start + 3..].find('@')
        && text[start + 3..start + 3 + end].contains(':')
        && !text[start + 3..start + 3 + end].contains(['/', ' ', '"'])
    {
        text.replace_range(start + 3..start + 3 + end, REPLACEMENT);
    }
    text
}

/// Returns where the value begins that follows this word and `:` or `=`. The line is in lower case, which keeps the positions
/// of ASCII.
fn value_after(lower: &str, word: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = lower[from..].find(word) {
        let end = from + at + word.len();
        let rest = &lower[end..];
        let quoted = rest.trim_start_matches(['"', '\'', '\\', ' ']);
        if let Some(value) = quoted.strip_prefix([':', '=']) {
            let value = value.trim_start();
            if !value.is_empty() && !value.starts_with(['{', '[']) {
                return Some(lower.len() - value.len());
            }
        }
        from = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_cluster_file_are_removed() {
        let text = "hosts:\n- {name: a, password: PLANTED, port: 22}\n- name: b\n  password: \"PLANTED\"\n  passwordFile: /etc/p\n\
                    proxy: http://user:PLANTED@proxy:3128\n-----BEGIN EC PRIVATE KEY-----\nPLANTED\n-----END EC PRIVATE KEY-----\nend";
        let expected = "hosts:\n- {name: a, password: [redacted]\n- name: b\n  password: [redacted]\n  passwordFile: /etc/p\n\
                        proxy: http://[redacted]@proxy:3128\n[redacted: a private key]\nend\n";
        assert_eq!(without(text), expected);
    }

    #[test]
    fn other_text_stays() {
        for line in [
            "image: registry.k8s.io/kube-apiserver:v1.36.3",
            "- --service-account-signing-key-file=/etc/kubernetes/pki/sa.key",
            "tokens:",
            "secret",
            "https://example.com/a:b@c",
        ] {
            assert_eq!(without(line), format!("{line}\n"));
        }
    }
}
