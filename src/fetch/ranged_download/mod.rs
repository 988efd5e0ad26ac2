//! The transfer of one file, over several connections if the server supports ranges.
//!
//! Servers that limit the throughput of each connection deliver a file faster in ranges. The first request
//! asks only for a range at the front. If the response is a range, several connections fetch ranges until
//! none is missing. If the response is the whole file, it is used. After a broken connection or a killed
//! process, only missing bytes are requested.

mod streams;
mod transfer;

use std::ops::Range;

use reqwest::{Response, StatusCode};

pub(super) use transfer::{AttemptError, DownloadMode, RangedDownload};

use super::FetchError;
use super::client::GetResponse;
use super::range_answer::{ContentRange, strong_tag};
use super::range_scheduler::{FIRST, RANGED};
use super::record::Version;
use super::response::shown;
use super::retry::Failure;

/// Maximum size of a file, in bytes.
const LARGEST_FILE: u64 = 64 * 1024 * 1024 * 1024;

impl RangedDownload<'_> {
    /// Requests the missing bytes once. Returns `true` if a single response had all of them.
    pub async fn attempt(&self, way: DownloadMode) -> Result<bool, AttemptError> {
        self.discard_unsafe_partial()?;
        let known = self.partial.version().total.or(self.job.size);
        let gaps = known.map_or_else(Vec::new, |total| self.partial.gaps(total));
        if known.is_some_and(|total| total > 0) && gaps.is_empty() {
            return Ok(false);
        }
        self.ranges.begin(gaps);
        let first = self.first_range(way, known);
        let answer = match self.request(first.clone()).await {
            Ok(answer) => answer,
            Err(Failure::Final(error)) if first.is_some() && is_beyond_the_end(&error) => {
                // Without this, the same response would return forever.
                self.partial.restart()?;
                return Err(AttemptError::OtherMode(DownloadMode::Whole));
            }
            Err(failure) => return Err(failure.into()),
        };
        match (answer.response.status(), first) {
            (StatusCode::PARTIAL_CONTENT, Some(range)) => {
                let range = self.begin_ranges(&answer.response, range)?;
                let whole = Some(range.end - range.start) == self.partial.version().total;
                self.streams(answer, range).await.map(|()| whole)
            }
            _ => self.whole(answer).await.map(|()| true),
        }
    }

    /// Discards a partial download that cannot be continued safely: without an `ETag` and without an
    /// expected digest, the server may have another version. Also discards one that is longer than the
    /// expected size.
    fn discard_unsafe_partial(&self) -> Result<(), FetchError> {
        if self.partial.length() == 0 {
            return Ok(());
        }
        let version = self.partial.version();
        let same_site = version.site == Some(shown(&self.job.address).to_string());
        let sizes = version.total.zip(self.job.size);
        let too_long = (self.job.size).is_some_and(|size| self.partial.length() >= size);
        if too_long || sizes.is_some_and(|(total, size)| total != size) {
            return self.partial.restart();
        }
        match (self.job.expected, version.tag.is_some() && same_site) {
            (_, true) => Ok(()),
            // Another mirror may have another `ETag` for the same bytes; the digest is checked at the end.
            (Some(_), false) => self.partial.set_version(Version {
                tag: None,
                ..version
            }),
            (None, false) => self.partial.restart(),
        }
    }

    /// Returns the range of the first request; `None` for the whole file.
    fn first_range(&self, way: DownloadMode, known: Option<u64>) -> Option<Range<u64>> {
        let fresh = self.partial.length() == 0;
        match known {
            _ if fresh && way == DownloadMode::Whole => None,
            _ if way == DownloadMode::Whole => {
                Some(self.partial.front()..known.unwrap_or(u64::MAX))
            }
            Some(total) if fresh && total < RANGED => None,
            Some(_) => self.ranges.take(),
            None if fresh => Some(0..FIRST),
            // The size is unknown, so the range is open.
            None => Some(self.partial.front()..u64::MAX),
        }
    }

    /// Checks the first partial response and returns its actual range.
    fn begin_ranges(
        &self,
        response: &Response,
        asked: Range<u64>,
    ) -> Result<Range<u64>, AttemptError> {
        let content = ContentRange::parse(response.headers());
        let fits = |content: &ContentRange| {
            content.range.start == asked.start && content.range.end <= asked.end
        };
        let Some(content) = content.filter(fits) else {
            // The response contradicts the request. A request for the whole file is more robust.
            self.partial.restart()?;
            return Err(AttemptError::OtherMode(DownloadMode::Whole));
        };
        if let Some(size) = self.job.size.filter(|size| *size != content.total) {
            let reason = format!("has {} bytes instead of {size}", content.total);
            return Err(self.job.content(reason).into());
        }
        let tag = strong_tag(response.headers());
        let total = content.total;
        let whole = content.range.start == 0 && content.range.end == total;
        if self.job.expected.is_none() && tag.is_none() && !whole {
            self.partial.restart()?;
            return Err(AttemptError::OtherMode(DownloadMode::Whole));
        }
        self.partial.set_version(Version {
            site: Some(shown(&self.job.address).to_string()),
            tag,
            total: Some(total),
        })?;
        let mut gaps = self.partial.gaps(total);
        if let Some(first) = gaps.first_mut() {
            first.start = content.range.end.max(first.start);
        }
        gaps.retain(|gap| !gap.is_empty());
        self.ranges.begin(gaps);
        *self.address() = response.url().clone();
        self.start_transfer(Some(total));
        Ok(content.range)
    }

    /// Receives the whole file from one response.
    async fn whole(&self, answer: GetResponse) -> Result<(), AttemptError> {
        self.partial.restart()?;
        let total = answer.response.content_length().or(self.job.size);
        if let (Some(total), Some(size)) = (total, self.job.size)
            && total > size
        {
            let reason = format!("has {total} bytes instead of {size}");
            return Err(self.job.content(reason).into());
        }
        self.partial.set_version(Version {
            site: Some(shown(&self.job.address).to_string()),
            tag: strong_tag(answer.response.headers()),
            total: self.job.size.or(total),
        })?;
        self.start_transfer(total);
        let end = self.job.size.or(total).unwrap_or(LARGEST_FILE);
        let mut at = 0;
        let received = self.receive(answer, &(0..end), &mut at).await;
        match &received {
            // The bytes are right, but too slow: the next run continues after them.
            Err(Failure::Final(error)) if matches!(**error, FetchError::Unreachable { .. }) => {}
            Err(Failure::Final(_)) => self.partial.restart()?,
            _ => {}
        }
        Ok(received?)
    }
}

fn is_beyond_the_end(error: &FetchError) -> bool {
    matches!(error, FetchError::Refused { status, .. } if *status == StatusCode::RANGE_NOT_SATISFIABLE)
}
