//! Images of registries, for tests and for the reference.

use kubexm_operate::registry::{Copy, HostCopy, ListedImage, RegistryReport};
use kubexm_types::message::HostReason;
use kubexm_types::{Digest, HostName};

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

fn image(name: &str, size: u64, copies: [Copy; 2], used_by: &[&str]) -> ListedImage {
    let copies = [("node1", copies[0]), ("node2", copies[1])];
    ListedImage {
        name: name.to_owned(),
        digest: Digest::of(name.as_bytes()),
        platforms: vec!["amd64".to_owned()],
        size,
        is_equal: copies.iter().all(|(_, copy)| *copy == Copy::Complete),
        hosts: copies
            .into_iter()
            .map(|(name, copy)| HostCopy {
                host: host(name),
                copy,
            })
            .collect(),
        used_by: Some(used_by.iter().map(|by| (*by).to_owned()).collect()),
    }
}

/// Returns the images of two registries that differ, and of one that cannot be reached.
pub fn report() -> RegistryReport {
    const BOTH: [Copy; 2] = [Copy::Complete; 2];
    let flannel = "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1";
    RegistryReport {
        cluster: "example".to_owned(),
        hosts: vec![host("node1"), host("node2")],
        unread: vec![HostReason {
            host: host("node3"),
            reason: "cannot reach 192.0.2.13:22: no route to host".to_owned(),
            hint: None,
        }],
        uses_unknown: None,
        images: vec![
            image(
                flannel,
                11_010_048,
                BOTH,
                &["daemonset kube-flannel/kube-flannel-ds"],
            ),
            image("ghcr.io/team/app:v1", 52_428_800, BOTH, &[]),
            image(
                "ghcr.io/team/app:v2",
                52_428_800,
                [Copy::Complete, Copy::Missing],
                &[],
            ),
            image(
                "registry.k8s.io/kube-apiserver:v1.36.3",
                28_311_552,
                [Copy::Incomplete, Copy::Complete],
                &["node node1", "pod kube-system/kube-apiserver-node1"],
            ),
        ],
        size: 144_179_200,
    }
}
