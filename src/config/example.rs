//! Small clusters for tests, also for those of other crates.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use crate::{Cluster, parse_cluster};

/// The role groups of a control plane and a worker.
pub const ROLES: &str = "control-plane: [node1], worker: [node2]";

/// Returns a cluster of a control plane and a worker; otherwise like [`text_of`].
pub fn cluster(kubernetes: &str, sections: &str) -> Cluster {
    cluster_of(ROLES, kubernetes, sections)
}

/// Returns the cluster of [`text_of`].
pub fn cluster_of(roles: &str, kubernetes: &str, sections: &str) -> Cluster {
    parse_cluster("example", &text_of(roles, kubernetes, sections)).unwrap()
}

/// Returns the text of a cluster file. Its hosts are those of `roles`, with the addresses 192.0.2.11, 192.0.2.12 and
/// so on. `kubernetes` has further fields of that section, `sections` further sections of the spec, one in each line.
pub fn text_of(roles: &str, kubernetes: &str, sections: &str) -> String {
    let mut text =
        "\napiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: example}\nspec:\n  hosts:\n"
            .to_owned();
    let mut names = Vec::new();
    let words = roles.split([' ', ',', '[', ']']);
    for name in words.filter(|word| !word.is_empty() && !word.ends_with(':')) {
        if !names.contains(&name) {
            names.push(name);
            let number = 10 + names.len();
            text += &format!("    - {{name: {name}, address: 192.0.2.{number}}}\n");
        }
    }
    let comma = if kubernetes.is_empty() { "" } else { ", " };
    let kubernetes = format!("{{version: 1.36.3{comma}{kubernetes}}}");
    text += &format!("  roleGroups: {{{roles}}}\n  kubernetes: {kubernetes}\n");
    for section in sections.lines() {
        text += &format!("  {section}\n");
    }
    text
}
