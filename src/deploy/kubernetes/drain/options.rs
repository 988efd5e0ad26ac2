//! What the user decides about evictions.

use std::time::Duration;

/// How pods leave a node before its programs change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long the evictions may take.
    pub timeout: Duration,
    /// Whether to delete pods that no controller creates again.
    pub deletes_unmanaged: bool,
    /// Whether to delete pods although a PodDisruptionBudget forbids their eviction.
    pub ignores_budgets: bool,
}

impl Drain {
    /// Returns the options for kubectl.
    pub(super) fn options(self) -> Vec<String> {
        let options = [
            (self.deletes_unmanaged, "--force"),
            (self.ignores_budgets, "--disable-eviction"),
        ];
        let options = options.into_iter().filter(|(is_set, _)| *is_set);
        options.map(|(_, option)| option.to_owned()).collect()
    }
}
