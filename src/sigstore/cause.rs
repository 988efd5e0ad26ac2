//! Why a signature is not valid.

/// Why a signature is not valid, as the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) text: String,
    /// Whether a log that the trusted root does not contain recorded it.
    pub(crate) is_of_unknown_log: bool,
}

impl Cause {
    /// Returns the cause of a signature that a log recorded which the trusted root does not contain.
    pub(crate) fn of_unknown_log(text: String) -> Self {
        Self {
            text,
            is_of_unknown_log: true,
        }
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self {
            text,
            is_of_unknown_log: false,
        }
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
