//! The direction of a filter, and its progress.

/// The direction of a [`Filter`](crate::Filter).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the original stream to the form that compresses better.
    Encode,
    /// From that form to the original stream.
    Decode,
}

/// The result of filtering the bytes that are known.
pub(super) enum Progress {
    /// This number of bytes is complete.
    Ready(usize),
    /// This number of bytes must be known first.
    Wait(usize),
    /// The program or table has ended.
    Over,
}
