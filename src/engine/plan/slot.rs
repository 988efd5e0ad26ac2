//! Typed values that one task gives and others need.

use std::sync::{Arc, OnceLock};

/// A named place for a value that is known only while the plan runs, such as a join token.
///
/// Clones share the place. Values may be secret: there is no `Debug` of the content.
pub struct Slot<T> {
    name: &'static str,
    cell: Arc<OnceLock<T>>,
}

impl<T> Slot<T> {
    /// An empty slot, named as in `control_plane.join_secrets`.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            cell: Arc::new(OnceLock::new()),
        }
    }

    /// Its name, by which tasks say what they need and give.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Gives the value; a second value for the same slot is dropped.
    pub fn give(&self, value: T) {
        let _ = self.cell.set(value);
    }

    /// The value, once a task has given it.
    pub fn get(&self) -> Option<&T> {
        self.cell.get()
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            cell: Arc::clone(&self.cell),
        }
    }
}

impl<T> std::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Slot({}, {})",
            self.name,
            if self.get().is_some() {
                "given"
            } else {
                "empty"
            }
        )
    }
}
