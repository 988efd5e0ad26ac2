//! Host ranges: `node[1:3]` is node1, node2, node3; `node[01:03]` keeps the zeros.

use kubexm_types::{HostName, InvalidValue};

/// Maximum number of hosts in a range. More are a typing error.
const LONGEST: u32 = 1000;

/// Returns the host names of a name or a range.
///
/// # Errors
/// The range has another form, descends, or has more than 1000 hosts.
pub fn expand(text: &str) -> Result<Vec<HostName>, InvalidValue> {
    let wrong = |reason: &str| InvalidValue::new("host range", text, reason);
    let Some((prefix, rest)) = text.split_once('[') else {
        return HostName::parse(text).map(|name| vec![name]);
    };
    let (range, suffix) = rest
        .split_once(']')
        .ok_or_else(|| wrong("the closing ']' is missing"))?;
    let (first, last) = range
        .split_once(':')
        .ok_or_else(|| wrong("expected two numbers with ':'"))?;
    let number = |digits: &str| {
        digits
            .parse::<u32>()
            .map_err(|_| wrong("expected two numbers with ':'"))
    };
    let (from, to) = (number(first)?, number(last)?);
    if from > to || to - from >= LONGEST {
        return Err(wrong("expected an ascending range of at most 1000 hosts"));
    }
    let width = if first.starts_with('0') {
        first.len()
    } else {
        0
    };
    (from..=to)
        .map(|n| HostName::parse(&format!("{prefix}{n:0width$}{suffix}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        expand(text)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn ranges_are_spelled_out() {
        assert_eq!(names("node[1:3]"), ["node1", "node2", "node3"]);
        assert_eq!(names("n[09:10].bank"), ["n09.bank", "n10.bank"]);
        assert_eq!(names("single"), ["single"]);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for wrong in [
            "n[3:1]",
            "n[1:9999999]",
            "n[1:2",
            "n[a:b]",
            "N[1:2]",
            "n[1]",
        ] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }
}
