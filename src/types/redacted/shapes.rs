//! Secrets that have a form of their own, and what follows a flag with a secret name.

use std::ops::Range;

use super::{REPLACEMENT, is_secret_name, tokens};

/// Finds the next secret of one kind from a position on.
type Find = fn(&str, usize) -> Option<Range<usize>>;

const TOKEN: &str = "[redacted: a token]";
const SHAPES: [(Find, &str); 12] = [
    (pem, "[redacted: PEM]"),
    (age_key, "[redacted: a key of age]"),
    (web_token, TOKEN),
    (bootstrap_token, TOKEN),
    (header, REPLACEMENT),
    (login, REPLACEMENT),
    (flag, REPLACEMENT),
    (tokens::of_service, TOKEN),
    (tokens::signature, REPLACEMENT),
    (tokens::hash, "[redacted: a hash]"),
    (tokens::sentence, REPLACEMENT),
    (tokens::option, REPLACEMENT),
];
/// What stands between a flag and its value, also in a list of JSON.
const BETWEEN: &str = "\"'\\, ";

/// Replaces the secrets in a line.
pub(super) fn without(line: String) -> String {
    let shapes = SHAPES.iter();
    shapes.fold(line, |line, (find, replacement)| {
        replaced(line, *find, replacement)
    })
}

fn replaced(line: String, find: Find, replacement: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    while let Some(found) = find(&line, from) {
        out.push_str(&line[from..found.start]);
        out.push_str(replacement);
        from = found.end;
    }
    match from {
        0 => line,
        _ => out + &line[from..],
    }
}

/// Returns the end of the characters of a kind that begin at a position.
fn run(text: &str, from: usize, is_part: impl Fn(char) -> bool) -> usize {
    let end = text[from..].find(|c| !is_part(c));
    end.map_or(text.len(), |length| from + length)
}

/// Returns the positions behind a word.
fn behind<'a>(text: &'a str, from: usize, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let found = text[from..].match_indices(word);
    found.map(move |(at, _)| from + at + word.len())
}

/// Finds the beginning of PEM in base64.
fn pem(text: &str, from: usize) -> Option<Range<usize>> {
    const BEGIN: &str = "LS0tLS1CRUdJTi";
    behind(text, from, BEGIN).find_map(|start| {
        let end = run(text, start, |c| {
            c.is_ascii_alphanumeric() || "+/=".contains(c)
        });
        (end > start).then(|| start - BEGIN.len()..end)
    })
}

fn age_key(text: &str, from: usize) -> Option<Range<usize>> {
    const BEGIN: &str = "AGE-SECRET-KEY-1";
    behind(text, from, BEGIN).find_map(|start| {
        let end = run(text, start, |c| {
            c.is_ascii_uppercase() || c.is_ascii_digit()
        });
        (end > start).then(|| start - BEGIN.len()..end)
    })
}

/// Finds a token of a service account: three parts of base64, of which the first is JSON.
fn web_token(text: &str, from: usize) -> Option<Range<usize>> {
    const BEGIN: &str = "eyJ";
    /// The least bytes of a part.
    const LEAST: usize = 8;
    let part = |start| {
        run(text, start, |c| {
            c.is_ascii_alphanumeric() || "_-".contains(c)
        })
    };
    behind(text, from, BEGIN).find_map(|start| {
        let first = part(start);
        let dot = |at: usize| text[at..].starts_with('.');
        if first - start < LEAST || !dot(first) {
            return None;
        }
        let second = part(first + 1);
        let end = if dot(second) {
            part(second + 1)
        } else {
            second
        };
        (second - first > LEAST).then(|| start - BEGIN.len()..end)
    })
}

/// Finds a bootstrap token: 6 characters, a full stop and 16 characters. A sentence can end behind it.
fn bootstrap_token(text: &str, from: usize) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
    let mut end = from;
    while let Some(distance) = text[end..].find(is_part) {
        let start = end + distance;
        end = run(text, start, is_part);
        let word = text[start..end].trim_end_matches('.');
        let lengths = word.split_once('.').map(|(id, secret)| {
            let is_one_part = !secret.contains('.');
            (id.len(), secret.len(), is_one_part)
        });
        if lengths == Some((6, 16, true)) {
            return Some(start..start + word.len());
        }
    }
    None
}

/// Finds a login in an HTTP header.
fn header(text: &str, from: usize) -> Option<Range<usize>> {
    /// The least bytes of a login.
    const LEAST: usize = 4;
    let lower = text.to_ascii_lowercase();
    let login = |end_of_word: usize| {
        let start = run(text, end_of_word, |c| " +".contains(c));
        let end = run(text, start, |c| {
            c.is_ascii_alphanumeric() || "._~+/=-".contains(c)
        });
        (start > end_of_word && end >= start + LEAST).then_some(start..end)
    };
    let first = |word| behind(&lower, from, word).find_map(login);
    let found = [first("basic"), first("bearer")].into_iter().flatten();
    found.min_by_key(|found| found.start)
}

/// Finds the login in a URL, with or without a password. A password can have `@`, and in a wrong URL `/`: the text before it is
/// not a name and a port then.
fn login(text: &str, from: usize) -> Option<Range<usize>> {
    behind(text, from, "://").find_map(|start| {
        let is_part = |c: char| !c.is_whitespace() && !"\"'".contains(c);
        let all = run(text, start, is_part);
        let first = run(text, start, |c| is_part(c) && c != '/');
        let port = text[start..first].split_once(':').map(|(_, port)| port);
        let is_login = port.is_some_and(|port| {
            !port.is_empty() && port.bytes().any(|byte| !byte.is_ascii_digit())
        });
        let end = if is_login && !text[start..first].contains(['@', '[']) {
            all
        } else {
            first
        };
        let signs = text[start..end].match_indices('@');
        let ends = signs.map(|(at, _)| start + at);
        // The digest of an image, as in docker-pullable://nginx@sha256:…
        let mut logins = ends.filter(|end| !text[*end..].starts_with("@sha256:"));
        Some(start..logins.next_back()?)
    })
}

/// Finds the value behind a flag with a secret name.
fn flag(text: &str, from: usize) -> Option<Range<usize>> {
    behind(text, from, "--").find_map(|start| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let end_of_name = run(text, start, is_part);
        let value = run(text, end_of_name, |c| BETWEEN.contains(c));
        let name = text[start..end_of_name].to_ascii_lowercase();
        if value == end_of_name || !is_secret_name(&name) {
            return None;
        }
        let quote = text[..value].chars().next_back();
        let end = match quote.filter(|c| "\"'".contains(*c)) {
            Some(quote) => run(text, value, |c| c != quote),
            None if text[value..].starts_with('-') => return None,
            None => run(text, value, |c| c != ' '),
        };
        (end > value).then_some(value..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_and_the_rest_of_the_line_stays() {
        for (line, expected) in [
            (
                "a http://u:PLANTED@PLANTED@h/x@y and https://PLANTED@i b",
                "a http://[redacted]@h/x@y and https://[redacted]@i b",
            ),
            (
                "run --password 'PLANTED PLANTED' --token PLANTED --token-ttl 1h --secret --x",
                "run --password '[redacted]' --token [redacted] --token-ttl 1h --secret --x",
            ),
            (
                "abcdef.planted890123456, abcdef.planted890123456. a.b.example.com",
                "[redacted: a token], [redacted: a token]. a.b.example.com",
            ),
            (
                "eyJhbGciOiJS.eyJpc3MiOiJP.c2ln eyJ.eyJ",
                "[redacted: a token] eyJ.eyJ",
            ),
            (
                "bearer PLANTED basic PLANTED",
                "bearer [redacted] basic [redacted]",
            ),
            (
                "LS0tLS1CRUdJTiBSU0E= AGE-SECRET-KEY-1PLANTED",
                "[redacted: PEM] [redacted: a key of age]",
            ),
        ] {
            assert_eq!(without(line.to_owned()), expected);
        }
    }
}
