//! Removes what looks like a secret from texts that kubexm did not write: files and answers of hosts, texts in the cluster
//! file, output of commands in logs.

mod key_body;
mod names;
mod shapes;
#[cfg(test)]
mod tests;
mod tokens;

use serde_json::Value;

use self::key_body::KeyBody;
use self::names::is_secret_name;
pub use self::names::{is_secret_field, is_secret_variable};

/// The largest length of a line, in bytes, that is searched at once.
const LONGEST: usize = 8 * 1024;
/// What stands around names and values, also in JSON that is a string of JSON.
const QUOTES: [char; 4] = ['"', '\'', '\\', ' '];
/// What stands in the place of a secret value.
pub const REPLACEMENT: &str = "[redacted]";

/// Returns the text without private keys and without values of fields, flags and variables with such names. Each line has a
/// line end.
#[must_use]
pub fn without(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut filter = Filter::default();
    let mut body = KeyBody::default();
    // Where the line before has a value whose name can follow.
    let mut unnamed = None;
    for line in text.lines() {
        if let Some((start, is_part)) = body.ended(line, out.len()) {
            out.truncate(start);
            out.push_str("[redacted: a private key]\n");
            unnamed = None;
            if is_part {
                continue;
            }
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = unnamed.take().filter(|_| has_name_of_variable(&lower)) {
            out.truncate(value);
            out.push_str(" [redacted]\n");
        }
        let Some(shown) = filter.long_line(line) else {
            continue;
        };
        if begins_with_value(&lower) {
            unnamed = shown.find(':').map(|at| out.len() + at + 1);
        }
        out.push_str(&shown);
        out.push('\n');
    }
    if let Some(start) = body.is_open() {
        out.truncate(start);
        out.push_str("[redacted: a private key]\n");
    }
    out
}

/// Does the same with a text that needs no line end.
#[must_use]
pub fn without_in(text: &str) -> String {
    let mut redacted = without(text);
    if !text.ends_with('\n') {
        redacted.pop();
    }
    redacted
}

/// Removes secrets from all texts of a document, whose form stays.
pub fn remove_from(document: &mut Value) {
    match document {
        Value::String(text) => *text = without_in(text),
        Value::Array(values) => values.iter_mut().for_each(remove_from),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if is_secret_name(&name.to_ascii_lowercase()) => {
                        *text = REPLACEMENT.to_owned();
                    }
                    value => remove_from(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What the lines before say about a line.
#[derive(Default)]
struct Filter {
    /// The line is in a private key.
    is_key: bool,
    /// The line before is the name of a variable whose value is secret.
    is_named: bool,
    /// The indentation of a secret field without a value in its line.
    open: Option<usize>,
    /// The indentation of a secret field whose value goes on.
    hidden: Option<usize>,
}

impl Filter {
    /// Does the same as [`Self::line`] with a line of any length.
    fn long_line(&mut self, line: &str) -> Option<String> {
        let (first, mut rest) = split(line);
        let mut shown = self.line(first)?;
        // What follows a secret value belongs to it.
        while !rest.is_empty() && !shown.ends_with(REPLACEMENT) {
            let (next, after) = split(rest);
            shown.push_str(&self.line(next).unwrap_or_default());
            rest = after;
        }
        Some(shown)
    }

    /// Returns the line without secrets, or `None` if all of it is secret.
    fn line(&mut self, line: &str) -> Option<String> {
        if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
            self.is_key = !line.contains("-----END ");
            return Some("[redacted: a private key]".to_owned());
        }
        if self.is_key {
            self.is_key = !line.contains("-----END ");
            return None;
        }
        let blank = line.trim().is_empty();
        let indent = line.len() - line.trim_start_matches(' ').len();
        self.hidden = self.hidden.filter(|above| blank || indent > *above);
        if self.hidden.is_some() {
            return None;
        }
        if let Some(above) = self.open.take_if(|_| !blank)
            && indent > above
            && !is_field(line)
        {
            self.hidden = Some(above);
            return Some(REPLACEMENT.to_owned());
        }
        Some(self.fields(line, indent))
    }

    fn fields(&mut self, line: &str, indent: usize) -> String {
        // Positions in it are those in the line.
        let lower = line.to_ascii_lowercase().replace('\t', " ");
        let variable = self.variable(&lower);
        let field = secret_field(&lower);
        let is_block = |at: usize| lower[at..].starts_with(['|', '>']);
        if field.is_some_and(is_block) || (variable.is_some() && !is_closed(&lower)) {
            self.hidden = Some(indent);
        }
        if is_open(&lower) {
            self.open = Some(indent);
        }
        let found = [
            variable,
            field,
            login_of_registry(&lower),
            directive(&lower),
        ];
        shapes::without(match found.into_iter().flatten().min() {
            Some(start) => format!("{}{REPLACEMENT}", &line[..start]),
            None => line.to_owned(),
        })
    }

    /// Returns where the value of a secret variable begins. Its name can be in the same line, or in the one before.
    fn variable(&mut self, lower: &str) -> Option<usize> {
        let start = lower.trim_start();
        let is_named = has_name_of_variable(lower);
        let is_value = start.trim_start_matches(QUOTES).starts_with("value");
        let value = values_of(lower, "value").next();
        let value = value.filter(|_| is_named || (self.is_named && is_value));
        if !start.is_empty() && !start.starts_with('#') {
            self.is_named = is_named && value.is_none();
        }
        value
    }
}

/// Splits a line that is too long at the end of a word, so that a search in a hostile line takes no minutes.
fn split(line: &str) -> (&str, &str) {
    if line.len() <= LONGEST {
        return (line, "");
    }
    let end = (0..=LONGEST).rev().find(|at| line.is_char_boundary(*at));
    let end = end.unwrap_or(LONGEST);
    let word = line[..end].rfind([' ', '"', ',']).map(|at| at + 1);
    line.split_at(word.unwrap_or(end))
}

/// Returns whether a line has a field `name` with the name of a secret variable.
fn has_name_of_variable(lower: &str) -> bool {
    values_of(lower, "name").any(|at| names_variable(&lower[at..]))
}

/// Returns whether a line begins an item of a list with a field `value`.
fn begins_with_value(lower: &str) -> bool {
    let item = lower.trim_start().strip_prefix('-');
    let field = item.and_then(|item| item.trim_start_matches(QUOTES).strip_prefix("value"));
    field.is_some_and(|rest| rest.trim_start_matches(QUOTES).starts_with(':'))
}

/// Returns whether the value of a field is the name of a secret variable.
fn names_variable(value: &str) -> bool {
    let name = value.trim_start_matches(QUOTES);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c));
    is_secret_variable(&name[..end.unwrap_or(name.len())])
}

/// Returns whether a line is a field of YAML, so that it is not the value of the field above.
fn is_field(line: &str) -> bool {
    let mut words = line.trim_start_matches([' ', '-']).split(' ');
    words.next().is_some_and(|word| word.ends_with(':'))
}

/// Returns whether a mapping in braces ends in the line, and with it its values.
fn is_closed(lower: &str) -> bool {
    lower.contains('{') && lower.trim_end_matches([']', ',', ' ']).ends_with('}')
}

/// Returns whether the line is the name of a secret field without a value.
fn is_open(lower: &str) -> bool {
    let name = lower.trim_end().strip_suffix(':');
    name.is_some_and(|name| is_secret_name(name.trim_end_matches(QUOTES)))
}

/// Returns where the first value of a secret field begins.
fn secret_field(lower: &str) -> Option<usize> {
    let mut ends = lower.match_indices([':', '=']);
    ends.find_map(|(at, _)| {
        let value = lower[at + 1..].trim_start();
        let is_secret = is_secret_name(lower[..at].trim_end_matches(QUOTES)) && is_value(value);
        is_secret.then(|| lower.len() - value.len())
    })
}

/// Returns where a login in the configuration of a runtime begins. Other values of `auth` are lists and mappings.
fn login_of_registry(lower: &str) -> Option<usize> {
    let mut values = values_of(lower, "auth");
    values.find(|at| is_value(&lower[*at..]) && !lower[*at..].starts_with(['{', '[']))
}

/// Returns where the value of a directive of haproxy and keepalived begins, or that of a line that begins with a secret name.
fn directive(lower: &str) -> Option<usize> {
    let mut next = 0;
    let words = lower.split(' ').map(|word| {
        let at = next;
        next += word.len() + 1;
        (at, word)
    });
    let words: Vec<(usize, &str)> = words.filter(|(_, word)| !word.is_empty()).collect();
    let word = |at: Option<usize>| at.map_or("", |at| words[at].1);
    let is_directive = |at: usize| match words[at].1 {
        "auth" => word(at.checked_sub(1)).ends_with("stats"),
        "password" => at == 0 || word(at.checked_sub(2)).ends_with("user"),
        "passwd" | "secret" | "token" => at == 0,
        other => other.ends_with("insecure-password") || other.ends_with("auth_pass"),
    };
    let found = (0..words.len()).find(|at| is_directive(*at))?;
    words.get(found + 1).map(|(at, _)| *at)
}

/// Returns where the values of fields with this name begin, which follow `:` or `=`. The line is in lower case, which keeps
/// the positions of ASCII.
fn values_of<'a>(lower: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    lower.match_indices(name).filter_map(move |(at, _)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let rest = lower[at + name.len()..].trim_start_matches(QUOTES);
        let value = rest.strip_prefix([':', '=']);
        let value = value.filter(|_| !lower[..at].ends_with(is_part))?;
        Some(lower.len() - value.trim_start().len())
    })
}

/// Returns whether a value is not empty, also as a list or mapping, and not removed already.
fn is_value(value: &str) -> bool {
    if value.trim_start_matches(QUOTES).starts_with(REPLACEMENT) {
        return false;
    }
    match value.strip_prefix(['{', '[']) {
        Some(values) => {
            !values.trim_start().is_empty() && !values.trim_start().starts_with(['}', ']'])
        }
        None => !value.is_empty() && !value.starts_with([',', '}']),
    }
}
