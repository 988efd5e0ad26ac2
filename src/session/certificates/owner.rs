//! To which host a certificate of the state directory belongs.

use std::collections::BTreeSet;
use std::path::Path;

use super::{REGISTRY, names_in};
use crate::{CommandError, FileError};
use kubexm_config::Cluster;
use kubexm_pki::Certificate;
use kubexm_types::{HostName, remove_if_exists};

/// Returns whether a renewal of these hosts issues a certificate of the state directory again: one that belongs to one of
/// them, or one that several hosts share if all of these are in the renewal.
pub fn is_renewed(cluster: &Cluster, selected: &BTreeSet<HostName>, name: &str) -> bool {
    let roles = &cluster.roles;
    let all = |hosts: &[HostName]| hosts.iter().all(|host| selected.contains(host));
    match name {
        REGISTRY => all(&roles.registry),
        "etcd-client" => all(&roles.control_plane),
        "super-admin" => roles
            .control_plane
            .first()
            .is_some_and(|first| selected.contains(first)),
        name => owner(cluster, name).is_none_or(|owner| selected.contains(owner)),
    }
}

/// Returns the host of a certificate. The name of the certificate ends with that of its host, which may end with the name of
/// another host.
fn owner<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a HostName> {
    let hosts = cluster.hosts.iter().map(|host| &host.name);
    let owners = hosts.filter(|host| {
        let rest = name.strip_suffix(host.as_str());
        rest.is_some_and(|rest| rest.ends_with('-'))
    });
    owners.max_by_key(|host| host.as_str().len())
}

/// Removes the certificates and keys of a host from the state directory. Authorities stay, whatever their names are.
///
/// # Errors
/// A file cannot be removed.
pub fn forget(cluster: &Cluster, state: &Path, host: &HostName) -> Result<(), CommandError> {
    let pki = state.join("pki");
    for folder in [pki.join("kubernetes"), pki] {
        for name in names_in(&folder) {
            let certificate = folder.join(format!("{name}.crt"));
            let is_leaf = std::fs::read_to_string(&certificate)
                .is_ok_and(|text| Certificate::first(&name, &text).is_ok_and(|found| !found.is_ca));
            if !is_leaf || owner(cluster, &name) != Some(host) {
                continue;
            }
            let keys = ["key", "key.sealed"].map(|end| folder.join(format!("{name}.{end}")));
            for path in keys.into_iter().chain([certificate]) {
                remove_if_exists(&path).map_err(|error| FileError::io("remove", &path, &error))?;
            }
        }
    }
    Ok(())
}
