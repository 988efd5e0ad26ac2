//! What a publisher states about mirrored content: checksums, and the first download of content without one.
//! kubexm asks the publisher itself, so that a mirror cannot serve other content.

use std::sync::PoisonError;

use url::Url;

use super::requests::{Http, Small, Wanted, text};
use super::stated_by::{StatedBy, stated_by};
use crate::FetchError;
use crate::response::shown;
use kubexm_config::mirrors::Checksums;
use kubexm_types::Digest;

/// Number of attempts to ask a publisher whose content is mirrored.
const TRIES_OF_PUBLISHER: u32 = 3;

impl Http {
    /// Reads a text that a publisher states about its files, such as a checksum. If a mirror serves the files,
    /// kubexm asks the publisher itself, unless the mirror file trusts mirrors for checksums.
    ///
    /// # Errors
    /// The publisher cannot be asked, the request fails, or the text is not UTF-8.
    pub async fn published(
        &self,
        label: &str,
        url: &Url,
        limit: usize,
    ) -> Result<(String, StatedBy), FetchError> {
        let small = Small::open(label, limit);
        if self.must_ask_publisher(url) {
            let bytes = self.ask_publisher(&small, url).await?;
            return Ok((text(label, url, bytes)?, StatedBy::Publisher));
        }
        let read = |address: Url, tries| {
            let small = &small;
            async move { Ok((self.small(small, &address, tries).await?, address)) }
        };
        let (bytes, address) = self.first_good(label, self.mirrored(url)?, read).await?;
        Ok((text(label, url, bytes)?, stated_by(url, &address)))
    }

    /// Asks the publisher of mirrored content, and no mirror.
    ///
    /// # Errors
    /// The publisher does not have the document ([`FetchError::Refused`]), or cannot be asked
    /// ([`FetchError::Publisher`]).
    pub(crate) async fn ask_publisher(
        &self,
        small: &Small<'_>,
        url: &Url,
    ) -> Result<Vec<u8>, FetchError> {
        self.check_reach(small.label, url)?;
        let asked = self.small(small, url, TRIES_OF_PUBLISHER).await;
        asked.map_err(|error| self.of_publisher(small.label, url, error))
    }

    /// Fails at once if the publisher could not be reached earlier in this run.
    pub(crate) fn check_reach(&self, label: &str, url: &Url) -> Result<(), FetchError> {
        let out = self.out_of_reach.lock();
        let out = out.unwrap_or_else(PoisonError::into_inner);
        match out.get(&host(url)) {
            Some(cause) => Err(no_answer(label, url, cause.clone())),
            None => Ok(()),
        }
    }

    /// Records a server that could not be reached.
    pub(crate) fn record_reach(&self, url: &Url, error: &FetchError) {
        if let FetchError::Unreachable { reason, .. } = error {
            let out = self.out_of_reach.lock();
            let mut out = out.unwrap_or_else(PoisonError::into_inner);
            out.insert(host(url), reason.text.clone());
        }
    }

    /// Converts the failure of a request to a publisher whose content is mirrored.
    fn of_publisher(&self, label: &str, url: &Url, error: FetchError) -> FetchError {
        let cause = match &error {
            // The publisher answered that the file does not exist: a mirror that has it is wrong.
            FetchError::Refused {
                status: 404 | 410, ..
            } => return error,
            FetchError::Refused { status, hint, .. } => format!("it answered {status}: {hint}"),
            FetchError::Unreachable { reason, .. } => {
                self.record_reach(url, &error);
                reason.text.clone()
            }
            _ => return error,
        };
        no_answer(label, url, cause)
    }

    /// Whether kubexm asks only the publisher what it states about this mirrored content.
    pub(super) fn must_ask_publisher(&self, url: &Url) -> bool {
        let mirrors = self.mirrors().for_download(url.as_str());
        let is_mirrored = mirrors.is_some_and(|all| all.iter().any(|one| one != url.as_str()));
        self.mirrors().checksums == Checksums::Origin && is_mirrored
    }

    /// Whether kubexm asks publishers although their content is mirrored, and has not failed to reach this one
    /// in this run.
    pub(crate) fn asks_origin(&self, url: &Url) -> bool {
        self.mirrors().checksums == Checksums::Origin && self.check_reach("", url).is_ok()
    }

    /// Downloads a file without a stated digest, so that the content itself determines it. Only the publisher
    /// is asked, unless the mirror file trusts mirrors for checksums.
    ///
    /// # Errors
    /// As for [`Http::download`]; or the publisher cannot be asked.
    pub async fn download_first_seen(
        &self,
        wanted: &Wanted,
    ) -> Result<(Digest, u64, StatedBy), FetchError> {
        let (label, url) = (&wanted.label, &wanted.url);
        if !self.must_ask_publisher(url) {
            let key = Digest::of(url.as_str().as_bytes()).hex();
            let addresses = self.mirrored(url)?;
            let ((digest, size), by) = self.download_from(wanted, addresses, &key).await?;
            return Ok((digest, size, by));
        }
        self.check_reach(label, url)?;
        // A partial download of a mirror has another key, so that its bytes are not continued.
        let key = Digest::of(format!("publisher {url}").as_bytes()).hex();
        let downloaded = self.download_from(wanted, vec![url.clone()], &key).await;
        let ((digest, size), by) =
            downloaded.map_err(|error| self.of_publisher(label, url, error))?;
        Ok((digest, size, by))
    }
}

/// Returns the error of a publisher that cannot be asked.
fn no_answer(label: &str, url: &Url, cause: String) -> FetchError {
    FetchError::Publisher {
        what: label.to_owned(),
        publisher: host(url),
        url: shown(url),
        cause,
    }
}

/// Returns the name of the server for messages.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
