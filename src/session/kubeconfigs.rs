//! The kubeconfigs of administrators, which an install stores in the state directory.

use std::path::PathBuf;

use crate::session::Hosts;
use crate::{CommandError, FileError, LeftOver, StepFailures};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Journal, StepError, TaskId, TaskValue};
use kubexm_host::{Command, Host};
use kubexm_types::HostName;

/// Writes the administrator's kubeconfig to the state directory, and returns its path.
pub fn save_kubeconfig(journal: &Journal, text: &str) -> Result<PathBuf, CommandError> {
    let saved = journal.save("admin.conf", text.as_bytes());
    saved.map_err(|error| FileError::io("write admin.conf in", journal.folder(), &error).into())
}

/// Stores super-admin.conf in the state directory and then removes it from control planes. An install that
/// is interrupted in between fetches the file again.
pub async fn keep_super_admin(
    super_admin: &TaskValue<String>,
    cluster: &Cluster,
    hosts: &Hosts,
    journal: &Journal,
) -> Result<(), CommandError> {
    let Some(text) = super_admin.get().filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let folder = journal.folder();
    journal
        .save("super-admin.conf", text.as_bytes())
        .map_err(|error| FileError::io("write super-admin.conf in", folder, &error))?;
    for name in &cluster.roles.control_plane {
        if let Some(host) = hosts.get(name) {
            remove_super_admin(name, host.as_ref()).await?;
        }
    }
    Ok(())
}

async fn remove_super_admin(name: &HostName, host: &dyn Host) -> Result<(), CommandError> {
    let action = "remove super-admin.conf from the host";
    let remove = Command::script(REMOVE_SUPER_ADMIN, [""; 0]).describe(action);
    let output = host.run(remove).await?;
    let failed = |error| StepFailures {
        failed: vec![(
            TaskId(format!("cluster/ready@{name}")),
            action.to_owned(),
            error,
        )],
        unreachable: Vec::new(),
        left: LeftOver {
            running: 0,
            waiting: 0,
        },
    };
    StepError::unless_done(action, output)
        .map_err(|error| CommandError::Steps(failed(error)))
        .map(|_| ())
}

const REMOVE_SUPER_ADMIN: &str =
    "rm -f /etc/kubernetes/super-admin.conf; sync /etc/kubernetes 2>/dev/null || sync";
