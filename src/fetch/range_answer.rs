//! Headers of range requests (RFC 9110, section 14).

use std::ops::Range;

use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, HeaderValue};

/// The `Content-Range` of a `206` response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub range: Range<u64>,
    /// Size of the whole file in bytes.
    pub total: u64,
}

impl ContentRange {
    /// Parses the header; returns `None` if it is missing, contradicts itself or has no total size.
    pub fn parse(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let total: u64 = total.parse().ok()?;
        (first <= last && last < total).then(|| Self {
            range: first..last + 1,
            total,
        })
    }
}

/// Formats the `Range` header. A range up to the end of the file is requested without an end.
pub(super) fn range_header(range: &Range<u64>, total: Option<u64>) -> HeaderValue {
    let Range { start, end } = range;
    let text = if *end == u64::MAX || Some(*end) == total {
        format!("bytes={start}-")
    } else {
        format!("bytes={start}-{}", end - 1)
    };
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("bytes=0-"))
}

/// Returns the strong `ETag`. A weak one does not guarantee identical bytes (RFC 9110, 13.1.5).
pub(super) fn strong_tag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    (tag.starts_with('"') && tag.len() > 2).then(|| tag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_that_can_be_is_taken() {
        let read = |text: &str| {
            let headers = [(CONTENT_RANGE, text.parse().unwrap())];
            ContentRange::parse(&headers.into_iter().collect())
        };
        let wanted = ContentRange {
            range: 5..10,
            total: 20,
        };
        assert_eq!(read("bytes 5-9/20"), Some(wanted));
        for wrong in [
            "bytes 5-20/20",
            "bytes 9-5/20",
            "bytes 5-9/*",
            "bytes */20",
            "5-9/20",
            "bytes -9/20",
            "bytes 0-18446744073709551615/18446744073709551615",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
