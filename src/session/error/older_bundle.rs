//! Why an install does not accept a bundle that is older than the newest one.

use std::path::PathBuf;

use kubexm_types::Message;

/// Why a bundle is refused.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub struct OlderBundle {
    pub(crate) bundle: PathBuf,
    pub(crate) reason: Reason,
    /// `None` if no trusted signature states a revision.
    pub(crate) given: Option<String>,
    pub(crate) newest: String,
    pub(crate) record: PathBuf,
}

impl From<&OlderBundle> for Message {
    fn from(error: &OlderBundle) -> Self {
        let given = error.given.as_deref();
        let given = given.unwrap_or("this one has no sequence number that a trusted key signed");
        Self::new(format!(
            "{}: {}: {given}; {} records {}",
            error.bundle.display(),
            error.reason.problem(),
            error.record.display(),
            error.newest
        ))
        .hint(error.reason.hint())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The sequence number is smaller or unknown.
    Older,
    /// The sequence number is equal, and the lock is another one: neither bundle is newer.
    SameNumber,
}

impl Reason {
    fn problem(self) -> &'static str {
        match self {
            Self::Older => "the cluster was installed from a newer bundle",
            Self::SameNumber => {
                "the cluster was installed from another bundle with the same sequence number"
            }
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Older => "install the newest bundle, or accept this one with --allow-older",
            Self::SameNumber => {
                "sign the bundle that is newer with a larger number (`kubexm bundle sign --sequence`), or accept \
                 this one with --allow-older"
            }
        }
    }
}
