//! Whether downloaded programs are isolated.

use std::path::PathBuf;

/// How downloaded programs run.
#[derive(Debug, Clone)]
pub enum Sandbox {
    /// Isolated; `launcher` is a program whose `main` calls [`enter`](crate::enter) first.
    On { launcher: PathBuf },
    /// With all rights of this process. The user has asked for it.
    Off,
}

impl Default for Sandbox {
    /// Isolated; this program is the launcher.
    fn default() -> Self {
        Self::On {
            launcher: PathBuf::from("/proc/self/exe"),
        }
    }
}
