//! The transfer of one file over several connections.

use std::ops::Range;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use reqwest::StatusCode;

use super::transfer::{AttemptError, DownloadMode, RangedDownload};
use crate::client::GetResponse;
use crate::range_answer::{ContentRange, strong_tag};
use crate::range_scheduler::STREAMS;
use crate::record::Version;
use crate::retry::{Failure, Tries};

/// Number of restarts of one connection before the other connections take over its ranges.
const TRIES_OF_A_STREAM: u32 = 3;

impl RangedDownload<'_> {
    /// Fetches ranges over several connections until none is missing.
    pub(super) async fn streams(
        &self,
        first: GetResponse,
        range: Range<u64>,
    ) -> Result<(), AttemptError> {
        let others = self.ranges.useful_connections().min(STREAMS - 1);
        let mut running = FuturesUnordered::new();
        running.push(self.stream(Some((first, range))));
        running.extend((0..others).map(|_| self.stream(None)));
        let mut last = None;
        loop {
            tokio::select! {
                // The other connections may complete the file while this one waits for its next attempt.
                () = self.complete.notified() => if self.is_complete() {
                    return Ok(());
                },
                ended = running.next() => match ended {
                    Some(Ok(())) => {}
                    Some(Err(AttemptError::Failed(failure))) if failure.is_of_a_server() => last = Some(failure),
                    Some(Err(other)) => return Err(other),
                    None => break,
                },
            }
        }
        match last {
            Some(failure) if !self.is_complete() => Err(failure.into()),
            _ if self.is_complete() => Ok(()),
            _ => Err(self.job.cut_off().into()),
        }
    }

    /// Runs one connection.
    async fn stream(&self, first: Option<(GetResponse, Range<u64>)>) -> Result<(), AttemptError> {
        let mut tries = Tries::new(TRIES_OF_A_STREAM);
        let mut next = first;
        loop {
            let (answer, range) = match next.take() {
                Some(first) => (Ok(first.0), first.1),
                None => match self.ranges.take() {
                    Some(range) => (self.request_range(&range).await, range),
                    None => return Ok(()),
                },
            };
            let mut at = range.start;
            let received = match answer {
                Ok(answer) => self
                    .receive(answer, &range, &mut at)
                    .await
                    .map_err(AttemptError::from),
                Err(failed) => Err(failed),
            };
            self.ranges.give_back(at..range.end);
            if at > range.start {
                tries.start_over();
            }
            match received {
                Ok(()) => {}
                Err(AttemptError::Failed(failure)) if failure.is_of_a_server() => {
                    self.partial.record()?;
                    tries.wait(failure).await?;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Requests another range of a file that already delivered one.
    async fn request_range(&self, range: &Range<u64>) -> Result<GetResponse, AttemptError> {
        let answer = match self.request(Some(range.clone())).await {
            // The redirected address may have expired.
            Err(Failure::Final(_)) if self.forget_redirect() => {
                self.request(Some(range.clone())).await?
            }
            answer => answer?,
        };
        let version = self.partial.version();
        let headers = answer.response.headers();
        let same = answer.response.status() == StatusCode::PARTIAL_CONTENT
            && ContentRange::parse(headers).is_some_and(|content| {
                content.range.start == range.start
                    && content.range.end <= range.end
                    && Some(content.total) == version.total
            })
            && (self.job.expected.is_some() || strong_tag(headers) == version.tag);
        if same {
            *self.address() = answer.response.url().clone();
            return Ok(answer);
        }
        if self.job.expected.is_some() && version.tag.is_some() {
            // Servers behind one name may have different `ETag`s for the same bytes; the digest is
            // checked at the end.
            self.partial.set_version(Version {
                tag: None,
                ..version
            })?;
            return Err(self.job.cut_off().into());
        }
        self.partial.restart()?;
        Err(AttemptError::OtherMode(DownloadMode::Whole))
    }
}
