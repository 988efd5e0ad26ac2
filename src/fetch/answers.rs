//! The failures of several servers that may have optional content, such as signatures.

use crate::FetchError;

/// What the servers answered so far. Servers that do not answer do not matter if another one answered.
#[derive(Default)]
pub(crate) struct Answers {
    is_answered: bool,
    /// The first answer that a server does not have the content.
    missing: Option<FetchError>,
    /// The failure of the last server, unless that answered.
    last: Option<FetchError>,
}

impl Answers {
    /// Records a server that answered.
    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
        self.last = None;
    }

    /// Records the failure of a server. To answer that it does not have the content is an answer.
    pub(crate) fn failed(&mut self, error: FetchError) {
        if error.is_missing() {
            self.answered();
            self.missing.get_or_insert(error);
        } else {
            self.last = Some(error);
        }
    }

    /// Returns the error of the last server; but if that did not answer, and an earlier one did, the answer of the
    /// earlier one that it does not have the content. `None` if there is neither.
    pub(crate) fn error(self) -> Option<FetchError> {
        let matters = |error: &FetchError| !(self.is_answered && error.is_without_answer());
        self.last.filter(matters).or(self.missing)
    }

    /// Returns the error of content that no server has.
    pub(crate) fn into_error(self, label: &str) -> FetchError {
        let without_addresses =
            || FetchError::resolve(format!("{label}: no address is configured"));
        self.error().unwrap_or_else(without_addresses)
    }
}
