//! What a rollback works with.

use super::way::Begun;
use crate::upgrade::context::Context;
use crate::upgrade::former::Former;
use kubexm_config::Cluster;
use kubexm_session::CommandError;
use kubexm_session::sealed::Opener;
use kubexm_types::Version;

/// What a rollback works with. The cluster of the context has the former version.
pub(super) struct Rollback<'a> {
    pub(super) context: Context<'a>,
    pub(super) hop: Begun,
    /// What the archive of the hop has.
    pub(super) former: Option<Former>,
}

impl Rollback<'_> {
    pub(super) fn to(&self) -> &Version {
        &self.hop.former
    }

    /// Returns what opens the files of the archive.
    ///
    /// # Errors
    /// They are encrypted, and the options do not open their key.
    pub(super) fn opener(&self) -> Result<Opener, CommandError> {
        Opener::of(
            &self.hop.archive,
            self.context.options.ca_encryption.as_ref(),
        )
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.context.cluster
    }
}
