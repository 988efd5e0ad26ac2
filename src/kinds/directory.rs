//! Directories and files that programs of the cluster create on hosts.

/// What a reset removes from a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Patterns of paths below the directory, as in a shell. `.` means everything. A pattern that ends with `/`
    /// removes a directory only if it is empty.
    pub patterns: &'static [&'static str],
    /// The mode with which kubexm creates the directory and its marker before any program does; `None` if a
    /// program must create it, because the program refuses or empties a directory with a file, or because the
    /// directory does not survive a restart of the host.
    pub mode: Option<&'static str>,
}

impl Content {
    /// The content of a directory that kubexm creates with a mode.
    pub const fn marked(mode: &'static str, patterns: &'static [&'static str]) -> Self {
        Self {
            patterns,
            mode: Some(mode),
        }
    }

    /// The content of a directory that a program creates.
    pub const fn unmarked(patterns: &'static [&'static str]) -> Self {
        Self {
            patterns,
            mode: None,
        }
    }
}

/// A directory or a file of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directory {
    pub path: &'static str,
    pub content: Content,
}

impl Directory {
    /// A directory with a content that a reset removes.
    pub const fn new(path: &'static str, content: Content) -> Self {
        Self { path, content }
    }

    /// A path below `/run`. It exists until the next start of the host, so all of its content belongs to the program.
    pub const fn volatile(path: &'static str) -> Self {
        Self::new(path, Content::unmarked(&["."]))
    }

    /// A file, or a directory of which only what the receipt records is removed.
    pub const fn file(path: &'static str) -> Self {
        Self::new(path, Content::unmarked(&[]))
    }
}
