//! The plan of a move for people, and the change of the cluster file after it.

use std::fmt::Write;
use std::path::Path;

use super::super::catalog::Catalog;
use super::super::change::{bytes, count};
use super::{Move, joined};
use kubexm_engine::seed::RegistryContent;
use kubexm_types::HostName;

impl Move<'_> {
    /// Returns the plan for people.
    pub(super) fn text(
        &self,
        catalog: &Catalog,
        content: &RegistryContent,
        reverts: &[(HostName, usize)],
    ) -> String {
        let mut text = format!(
            "move of the registries of the cluster '{}' from {} to {}\n",
            self.cluster.name,
            joined(&self.from),
            joined(&self.options.to)
        );
        for name in &self.options.to {
            let storage = catalog
                .registries
                .iter()
                .find(|registry| registry.name == *name);
            let storage = storage
                .map(|registry| registry.storage.clone())
                .unwrap_or_default();
            let missing = content.missing_in(&storage);
            let _ = writeln!(
                text,
                "  {name}\n    - Copy {}, {}, from the other registries\n    - Run a registry with a certificate and the login",
                count(missing.blobs(), "blob"),
                bytes(missing.bytes())
            );
        }
        let all: Vec<HostName> = self
            .cluster
            .hosts
            .iter()
            .map(|host| host.name.clone())
            .collect();
        let _ = writeln!(
            text,
            "  {}\n    - Use the registries of {}, one host after another\n    - Use the registries of {} alone, one host after another",
            joined(&all),
            joined(&self.during.roles.registry),
            joined(&self.after.roles.registry)
        );
        for name in &self.kept {
            let _ = writeln!(
                text,
                "  {name}\n    - Get the certificate of the new registries, and restart the registry"
            );
        }
        for (name, changes) in reverts {
            let _ = writeln!(
                text,
                "  {name}\n    - Revert the {changes} changes of kubexm for the registry, with its images"
            );
        }
        let _ = write!(
            text,
            "point of no return: the end of the registry of {}; until then, kubexm install with the cluster file as it is undoes \
             the move",
            joined(&self.from)
        );
        text
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
