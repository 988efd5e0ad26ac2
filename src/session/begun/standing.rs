//! The refusal of a command that must wait.

use super::operation::Operation;
use crate::CommandError;

/// What has begun, and how the user goes on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// A clause, as in `an upgrade from Kubernetes 1.35.4 to 1.36.3 has begun`.
    pub what: String,
    /// What the user can do.
    pub hint: String,
}

impl Standing {
    /// Returns the error of a command that must wait.
    pub fn refuses(&self, operation: Operation) -> CommandError {
        CommandError::refused(format!("cannot run {operation} now: {}", self.what)).hint(&self.hint)
    }
}
