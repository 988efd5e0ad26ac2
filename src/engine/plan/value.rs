//! Typed values that one task provides and others require.

use std::sync::{Arc, OnceLock};

use super::step::StepError;

/// A named value that is known only while the plan runs, such as a join token.
///
/// Clones share the value. It may be secret, so `Debug` does not print it.
pub struct TaskValue<T> {
    name: &'static str,
    cell: Arc<OnceLock<T>>,
}

impl<T> TaskValue<T> {
    /// Creates an unset value. Its name is as in `control_plane.join_secrets`.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            cell: Arc::new(OnceLock::new()),
        }
    }

    /// Returns the name, which tasks list in [`requires`](super::Task::requires) and
    /// [`provides`](super::Task::provides).
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the value. If it is already set, the first value stays.
    pub fn set(&self, value: T) {
        let _ = self.cell.set(value);
    }

    /// Returns the value; `None` until a task has set it.
    pub fn get(&self) -> Option<&T> {
        self.cell.get()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// No task has set it.
    pub fn require(&self) -> Result<&T, StepError> {
        self.get().ok_or(StepError::Missing(self.name))
    }
}

impl<T> Clone for TaskValue<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            cell: Arc::clone(&self.cell),
        }
    }
}

impl<T> std::fmt::Debug for TaskValue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.get().is_some() { "set" } else { "unset" };
        write!(f, "TaskValue({}, {state})", self.name)
    }
}
