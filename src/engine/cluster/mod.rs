//! The identity of a cluster: its record in the state directory, its record on every host, and the locks that
//! admit one kubexm to a host at a time.

pub mod left_commands;
pub mod lock;
pub mod record;

pub use lock::{BegunRecord, Documents, Holder, HostLocks, Refusal};
pub use record::{ClusterRecord, Removal, RemovalState};

use crate::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_scripts::host as scripts;
use kubexm_types::ClusterIdentity;

/// Records on a host, durably, that it belongs to a cluster. Changes nothing if it belongs to it already.
///
/// # Errors
/// The host belongs to another cluster, cannot write the record, or was lost.
pub async fn claim(host: &dyn Host, identity: &ClusterIdentity) -> Result<(), StepError> {
    let action = "record the cluster on the host";
    let command = Command::from_script(scripts::CLAIM, [identity.to_json()]).describe(action);
    let output = host.run(command.limit(lock::ANSWER)).await?;
    StepError::unless_done(action, output).map(|_| ())
}
