//! The plan of a move for people, and the change of the cluster file after it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::super::change::{bytes, count};
use super::{Move, joined};
use kubexm_config::Cluster;
use kubexm_config::cluster::RuntimeKind;
use kubexm_deploy::relocation;
use kubexm_engine::seed::Missing;
use kubexm_types::{HostName, HostPath, Message};

/// The end of the registry of a host.
pub(super) struct Revert {
    pub(super) host: HostName,
    /// The number of changes of kubexm for the registry.
    pub(super) changes: usize,
    /// Whether the images stay.
    pub(super) keeps_images: bool,
}

impl Revert {
    /// Returns what the user does about images that stay.
    pub(super) fn kept(&self, data_dir: &HostPath) -> Message {
        let text = format!(
            "{}: images of the registry stay in {data_dir}, because this directory existed before",
            self.host
        );
        Message::new(text).hint(format!("remove {data_dir}/docker if nothing needs it"))
    }
}

impl Move<'_> {
    /// Returns the plan for people.
    pub(super) fn text(&self, missing: &BTreeMap<HostName, Missing>, reverts: &[Revert]) -> String {
        let mut text = format!(
            "move of the registries of the cluster '{}' from {} to {}\n",
            self.cluster.name,
            joined(&self.record.from),
            joined(&self.record.to)
        );
        for (name, missing) in missing {
            let _ = writeln!(
                text,
                "  {name}\n    - Copy {}, {}, from the other registries\n    - Run a registry with a certificate and the login",
                count(missing.blobs(), "blob"),
                bytes(missing.bytes())
            );
        }
        let _ = writeln!(
            text,
            "  {}\n    - Ask the registries of {} over HTTPS, from each node\n    - {}\n    - {}",
            self.all(),
            joined(&self.record.to),
            self.uses(&self.during, ""),
            self.uses(&self.after, " alone")
        );
        for name in &self.record.kept() {
            let _ = writeln!(
                text,
                "  {name}\n    - Get the certificate of the new registries, and restart the registry"
            );
        }
        write_reverts(&mut text, reverts, &self.cluster.registry.data_dir);
        text.push_str(&name_to_change(&self.after));
        let _ = write!(
            text,
            "point of no return: the end of the registry of {}; until then, kubexm registry move --cancel undoes the move",
            joined(&self.record.from)
        );
        text
    }

    /// Returns the plan of a cancellation for people.
    pub(super) fn cancel_text(&self, reverts: &[Revert]) -> String {
        let mut text = format!("cancellation of the {}\n", self.record.title());
        if self.record.is_copied {
            let _ = writeln!(
                text,
                "  {}\n    - {}",
                self.all(),
                self.uses(&self.during, "")
            );
        }
        for name in &self.record.before {
            let _ = writeln!(
                text,
                "  {name}\n    - Get the certificate of the former registries, and restart the registry"
            );
        }
        let _ = writeln!(
            text,
            "  {}\n    - {}",
            self.all(),
            self.uses(&self.cluster, " alone")
        );
        write_reverts(&mut text, reverts, &self.cluster.registry.data_dir);
        text.push_str(&name_to_change(&self.cluster));
        let _ = write!(
            text,
            "a cancellation that has begun must be completed before the registries can move"
        );
        text
    }

    /// Returns the plan of the end of a move for people.
    pub(super) fn end_text(&self, reverts: &[Revert]) -> String {
        let mut text = format!("end of the {}\n", self.record.title());
        write_reverts(&mut text, reverts, &self.cluster.registry.data_dir);
        let _ = write!(
            text,
            "every host uses the registries of {} alone; the point of no return has passed",
            joined(&self.after.roles.registry)
        );
        text
    }

    /// Returns how hosts come to use the registries of a cluster.
    fn uses(&self, of: &Cluster, alone: &str) -> String {
        let restart = match of.runtime.kind {
            RuntimeKind::CriO => "; CRI-O restarts",
            RuntimeKind::Containerd | RuntimeKind::Docker | RuntimeKind::Isulad => "",
        };
        format!(
            "Use the registries of {}{alone}, one host after another{restart}",
            joined(&of.roles.registry)
        )
    }

    fn all(&self) -> String {
        let hosts = self.cluster.hosts.iter().map(|host| host.name.as_str());
        hosts.collect::<Vec<_>>().join(", ")
    }
}

/// Returns what the user does about the name of the only registry of a cluster, if kubexm does not manage `/etc/hosts`. A name
/// that changes before would lead nodes to a registry that does not serve yet.
fn name_to_change(cluster: &Cluster) -> String {
    let named = relocation::name_of_only(cluster);
    let Some((name, addresses)) = named.filter(|_| !cluster.system.manage_hosts_file) else {
        return String::new();
    };
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!(
        "kubexm stops before the last change if a node does not find {} for {name}: system.manageHostsFile is false\nthen \
         change the DNS record or /etc/hosts, and run the same command again\n",
        addresses.join(" or ")
    )
}

fn write_reverts(text: &mut String, reverts: &[Revert], data_dir: &HostPath) {
    for revert in reverts {
        let images = if revert.keeps_images {
            format!("; images stay in {data_dir}, because this directory existed before")
        } else {
            ", with its images".to_owned()
        };
        let _ = writeln!(
            text,
            "  {}\n    - Revert the {} changes of kubexm for the registry{images}",
            revert.host, revert.changes
        );
    }
}

/// Returns what the user changes in the cluster file.
pub(super) fn edit(file: &Path, hosts: &[HostName]) -> String {
    let wanted = format!("registry: [{}]", joined(hosts));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut groups: Option<usize> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        if let Some(depth) = groups {
            if !trimmed.is_empty() && indent(line) <= depth {
                break;
            }
            if trimmed.starts_with("registry:") {
                return format!("{}:{number}: write {wanted}: {trimmed}", file.display());
            }
        }
        if trimmed.starts_with("roleGroups:") {
            groups = Some(indent(line));
        }
    }
    format!("{}: write {wanted} into spec.roleGroups", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster_with;

    #[test]
    fn plan_states_where_images_stay() {
        let revert = |keeps_images| {
            let host = "node1".parse().unwrap();
            let changes = 9;
            let mut text = String::new();
            let reverts = [Revert {
                host,
                changes,
                keeps_images,
            }];
            write_reverts(&mut text, &reverts, &"/srv/registry".parse().unwrap());
            text
        };
        let start = "  node1\n    - Revert the 9 changes of kubexm for the registry";
        assert_eq!(revert(false), format!("{start}, with its images\n"));
        let stay = "; images stay in /srv/registry, because this directory existed before\n";
        assert_eq!(revert(true), format!("{start}{stay}"));
    }

    #[test]
    fn plan_states_the_name_that_the_user_changes() {
        let named = |section: &str, registries: &[&str]| {
            let mut cluster = cluster_with(section);
            let registries = registries.iter().map(|name| name.parse().unwrap());
            cluster.roles.registry = registries.collect();
            name_to_change(&cluster)
        };
        let unmanaged = "system: {manageHostsFile: false}";
        let stated = named(unmanaged, &["node2"]);
        assert!(
            stated.contains("does not find 192.0.2.12 for registry.kubexm.internal"),
            "{stated}"
        );
        assert_eq!(named(unmanaged, &["node1", "node2"]), "");
        assert_eq!(named("system: {manageHostsFile: true}", &["node2"]), "");
    }

    #[test]
    fn change_of_the_cluster_file_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        let hosts: Vec<HostName> = ["node3", "node4"].map(|name| name.parse().unwrap()).into();
        let edit = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let edit = edit(&file, &hosts);
            edit.replace(&file.display().to_string(), "FILE")
        };
        let groups = "spec:\n  roleGroups:\n    worker: [node2]\n    registry: [node1]\n  registry: {login: true}\n";
        assert_eq!(
            edit(groups),
            "FILE:4: write registry: [node3, node4]: registry: [node1]"
        );
        let without = "spec:\n  roleGroups:\n    worker: [node2]\n  registry: {login: true}\n";
        assert_eq!(
            edit(without),
            "FILE: write registry: [node3, node4] into spec.roleGroups"
        );
    }
}
