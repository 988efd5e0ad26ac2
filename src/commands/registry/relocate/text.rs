//! The plan of a move for people, and the change of the cluster file after it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::super::catalog::Catalog;
use super::super::change::{bytes, count};
use super::{Move, joined};
use kubexm_engine::seed::{Missing, RegistryContent, Storage};
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
            joined(&self.record.from),
            joined(&self.record.to)
        );
        for name in &self.record.to {
            let missing = missing(catalog, content, name);
            let _ = writeln!(
                text,
                "  {name}\n    - Copy {}, {}, from the other registries\n    - Run a registry with a certificate and the login",
                count(missing.blobs(), "blob"),
                bytes(missing.bytes())
            );
        }
        let _ = writeln!(
            text,
            "  {}\n    - Use the registries of {}, one host after another\n    - Use the registries of {} alone, one host after another",
            self.all(),
            joined(&self.during.roles.registry),
            joined(&self.after.roles.registry)
        );
        for name in &self.record.kept() {
            let _ = writeln!(
                text,
                "  {name}\n    - Get the certificate of the new registries, and restart the registry"
            );
        }
        write_reverts(&mut text, reverts);
        let _ = write!(
            text,
            "point of no return: the end of the registry of {}; until then, kubexm registry move --cancel undoes the move",
            joined(&self.record.from)
        );
        text
    }

    /// Returns the number of bytes that each new host gets.
    pub(super) fn sizes(
        &self,
        catalog: &Catalog,
        content: &RegistryContent,
    ) -> BTreeMap<HostName, u64> {
        let new = self.record.to.iter();
        let sizes = new.map(|name| (name.clone(), missing(catalog, content, name).bytes()));
        sizes.collect()
    }

    /// Returns the plan of a cancellation for people.
    pub(super) fn cancel_text(&self, reverts: &[(HostName, usize)]) -> String {
        let mut text = format!("cancellation of the {}\n", self.record.title());
        if self.record.is_copied {
            let _ = writeln!(
                text,
                "  {}\n    - Use the registries of {}, one host after another",
                self.all(),
                joined(&self.during.roles.registry)
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
            "  {}\n    - Use the registries of {} alone, one host after another",
            self.all(),
            joined(&self.record.before)
        );
        write_reverts(&mut text, reverts);
        let _ = write!(
            text,
            "a cancellation that has begun must be completed before the registries can move"
        );
        text
    }

    /// Returns the plan of the end of a move for people.
    pub(super) fn end_text(&self, reverts: &[(HostName, usize)]) -> String {
        let mut text = format!("end of the {}\n", self.record.title());
        write_reverts(&mut text, reverts);
        let _ = write!(
            text,
            "every host uses the registries of {} alone; the point of no return has passed",
            joined(&self.after.roles.registry)
        );
        text
    }

    fn all(&self) -> String {
        let hosts = self.cluster.hosts.iter().map(|host| host.name.as_str());
        hosts.collect::<Vec<_>>().join(", ")
    }
}

/// Returns what a host with a registry, or without one, does not have.
fn missing(catalog: &Catalog, content: &RegistryContent, name: &HostName) -> Missing {
    let mut registries = catalog.registries.iter();
    match registries.find(|registry| registry.name == *name) {
        Some(registry) => content.missing_in(&registry.storage),
        None => content.missing_in(&Storage::default()),
    }
}

fn write_reverts(text: &mut String, reverts: &[(HostName, usize)]) {
    for (name, changes) in reverts {
        let _ = writeln!(
            text,
            "  {name}\n    - Revert the {changes} changes of kubexm for the registry, with its images"
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
