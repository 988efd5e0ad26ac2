//! A field of the cluster file that a program refuses.

use std::fmt;

/// A field that a program refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The path below `spec`, as in `kubernetes.kubelet.extraConfig`.
    pub field: String,
    /// As in `kubelet 1.36.3 refuses it: unknown field "a"`.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}
