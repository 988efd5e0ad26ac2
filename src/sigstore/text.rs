//! Untrusted text and times in messages.

/// Returns untrusted text shortened and escaped for a terminal.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .take(200)
        .flat_map(char::escape_default)
        .collect()
}

/// Formats a time, in seconds since 1970, as RFC 3339 in UTC.
pub(crate) fn at(seconds: i64) -> String {
    let format = time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|time| time.format(&format).ok())
        .unwrap_or_else(|| shown(&seconds.to_string()))
}
