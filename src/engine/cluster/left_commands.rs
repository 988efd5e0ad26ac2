//! Commands that a killed run left on hosts, as `kubeadm join`: see [`crate::steps::RunToCompletion`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use kubexm_host::{Command, Host, HostError, Limit};
use kubexm_scripts::steps::RUN_TO_COMPLETION_WAIT;
use kubexm_types::{HostName, Message};

/// How long a run waits for them. kubeadm gives up earlier if its pods do not start.
const LIMIT: Limit = Limit::new(Duration::from_secs(600), "commands of an earlier run");

/// Waits until these commands end. What a host has is not known before: a host that has just become a node must not lose its
/// member of etcd.
///
/// # Errors
/// A host was lost, or its command still runs after ten minutes.
pub async fn end(hosts: &BTreeMap<HostName, Arc<dyn Host>>) -> Result<(), Vec<HostError>> {
    let ended = join_all(hosts.values().map(|host| end_on(host.as_ref()))).await;
    let errors: Vec<HostError> = ended.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

async fn end_on(host: &dyn Host) -> Result<(), HostError> {
    let command = Command::from_script(RUN_TO_COMPLETION_WAIT, [LIMIT.seconds().to_string()])
        .describe("end of a command that an earlier run left")
        .limit(LIMIT.after(Limit::DEFAULT.time()));
    let what = command.description();
    let output = host.run(command).await?;
    if output.success() {
        return Ok(());
    }
    let hint = "read /run/kubexm/once.log on this host; kubexm reset ends the command";
    Err(HostError::Command {
        host: host.name().clone(),
        command: what,
        reason: Message::quoting(output.complaint().to_string()).hint(hint),
    })
}
