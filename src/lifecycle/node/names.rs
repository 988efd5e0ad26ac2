//! The hosts that a command names.

use kubexm_config::Cluster;
use kubexm_session::CommandError;
use kubexm_types::HostName;

/// Fails if the cluster file does not have one of these hosts.
pub(super) fn check_names(
    cluster: &Cluster,
    names: &[HostName],
    hint: &str,
) -> Result<(), CommandError> {
    let unknown = names.iter().filter(|name| cluster.host(name).is_none());
    let unknown: Vec<String> = unknown.map(|name| format!("'{name}'")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let hosts: Vec<&str> = cluster
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .collect();
    let text = format!(
        "the cluster file does not have the host {}; it has {}",
        unknown.join(", "),
        hosts.join(", ")
    );
    Err(CommandError::configuration(text).hint(hint))
}
