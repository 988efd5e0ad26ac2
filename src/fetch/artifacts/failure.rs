//! The error for an artifact that cannot be used.

use crate::FetchError;
use kubexm_types::Message;

/// Returns the error: what cannot be used, and why.
pub(super) fn wrong(what: &dyn std::fmt::Display, reason: impl Into<Message>) -> FetchError {
    FetchError::Content {
        what: what.to_string(),
        reason: reason.into(),
    }
}
