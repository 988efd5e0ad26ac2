//! Which timer of which cluster.

use std::path::{Path, PathBuf};

use super::job::Job;
use kubexm_session::{CommandError, Connection};
use kubexm_types::event::Events;

/// Which timer of which cluster.
#[derive(Debug, Clone)]
pub struct TimerOptions {
    pub job: Job,
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts, and the state directory.
    pub connection: Connection,
}

impl TimerOptions {
    /// Reads the name of the cluster, and returns it with its state directory.
    pub(super) fn cluster(
        &self,
        events: &Events,
    ) -> Result<(kubexm_config::Cluster, PathBuf), CommandError> {
        let cluster = kubexm_config::load_cluster(&self.cluster)?;
        let state = self.connection.state_directory(&cluster, events)?;
        Ok((cluster, state))
    }
}

/// Returns a path that does not depend on the working directory.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
