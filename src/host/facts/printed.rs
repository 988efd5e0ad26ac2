//! What the script printed, before it becomes facts.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_types::{ClusterIdentity, authority};

use super::applied::{self, field};
use super::place::Place;
use super::{Cgroup, Facts, Membership, system};

/// Files whose certificates or public keys are authorities.
const AUTHORITIES: [&str; 6] = [
    "/etc/kubernetes/pki/ca.crt",
    "/etc/kubernetes/pki/front-proxy-ca.crt",
    "/etc/kubernetes/pki/etcd/ca.crt",
    "/etc/kubernetes/pki/sa.pub",
    "/etc/kubexm/etcd/ca.crt",
    "/etc/kubexm/registry-ca.crt",
];
/// The certificate of a kubelet for its server, and the one that no CA signed, for a kubelet without the first.
const SERVER: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";
const SELF_SIGNED: &str = "/var/lib/kubelet/pki/kubelet.crt";

/// Lines of the script, and the facts that are complete.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) facts: Facts,
    pub(super) hostname: String,
    pub(super) open_ports: Vec<String>,
    /// The mount points of fstab.
    pub(super) fstab: Vec<String>,
    /// Directories that every install writes.
    pub(super) folders: Vec<Place>,
    /// The paths that the caller named.
    pub(super) paths: Vec<Place>,
    /// The beginnings of files, by path.
    pub(super) files: BTreeMap<String, String>,
    /// The servers and the certificates of kubeconfigs, by path.
    pub(super) kubeconfigs: BTreeMap<String, String>,
    /// Certificates of files that no program renews by itself, and the key of service accounts, by path.
    pub(super) certificates: BTreeMap<String, String>,
    /// Certificates of the kubelet, by path.
    pub(super) rotated: BTreeMap<String, String>,
    /// Files that exist.
    pub(super) present: BTreeSet<String>,
    /// What programs say about their version.
    pub(super) versions: BTreeMap<String, String>,
}

impl Printed {
    /// Returns the beginning of a file; `None` if it does not exist.
    pub(super) fn file(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns the lines of a kubeconfig without its key.
    pub(super) fn kubeconfig(&self, path: &str) -> Option<&str> {
        self.kubeconfigs.get(path).map(String::as_str)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.present.contains(path) || self.files.contains_key(path)
    }

    /// Returns the version that a program prints after `title`.
    pub(super) fn version(&self, program: &str, title: &str) -> Option<String> {
        let version = self.versions.get(program)?.strip_prefix(title)?;
        Some(version.trim().to_owned())
    }

    /// Returns the facts.
    pub(super) fn into_facts(mut self) -> Facts {
        let mut facts = std::mem::take(&mut self.facts);
        facts.applied = applied::settings(&self);
        if let Some(ports) = &mut facts.firewalld {
            *ports = std::mem::take(&mut self.open_ports);
        }
        facts.cgroup = Some(if self.has("/sys/fs/cgroup/cgroup.controllers") {
            Cgroup::V2
        } else {
            Cgroup::V1
        });
        facts.systemd = self.has("/run/systemd/system");
        facts.receipt = self.has("/var/lib/kubexm/receipt.jsonl");
        facts.kubernetes = self.has(applied::KUBELET) || self.has(applied::ADMIN);
        facts.initialized = self.has(applied::KUBEADM_INIT);
        facts.joined = self.has(applied::KUBEADM_JOIN) || self.has(applied::KUBERNETES_NODE);
        facts.cluster_files =
            self.has("/etc/kubexm/kubeadm-init.yaml") || self.has("/etc/kubexm/access.yaml");
        facts.etcd_formed = self.has("/var/lib/kubexm/done/etcd-formed");
        facts.pods_ended = self.has("/var/lib/kubexm/pods-ended");
        let text = |path: &str| self.file(path).unwrap_or_default();
        facts.os = system::os(text("/etc/os-release"));
        facts.swap = system::swap(text("/proc/swaps"));
        facts.hosts_entries = system::hosts_entries(text("/etc/hosts"));
        facts.nameserver = system::nameserver(text("/etc/resolv.conf"));
        if let Some(record) = self.file("/var/lib/kubexm/cluster") {
            let identity = ClusterIdentity::from_json(record);
            facts.cluster = identity.map_or(Membership::Damaged, Membership::Cluster);
        }
        facts.begun = self.file("/var/lib/kubexm/begun.json").map(str::to_owned);
        self.add_certificates(&mut facts);
        self.add_places(&mut facts);
        facts
    }

    fn add_certificates(&self, facts: &mut Facts) {
        for (path, content) in &self.certificates {
            if AUTHORITIES.contains(&path.as_str()) {
                let fingerprints = authority::fingerprints(content);
                facts.authorities.insert(path.clone(), fingerprints);
            }
            // The key of service accounts is not a certificate.
            if path.ends_with(".crt") {
                facts.certificates.insert(path.clone(), content.clone());
            }
        }
        for (path, lines) in &self.kubeconfigs {
            if let Some(data) = field(lines, "client-certificate-data") {
                facts
                    .certificates
                    .insert(path.clone(), of_kubeconfig(&data));
            }
        }
        facts.rotated.clone_from(&self.rotated);
        if self.has(SERVER) {
            facts.rotated.remove(SELF_SIGNED);
        }
    }

    fn add_places(&self, facts: &mut Facts) {
        let folders = self.folders.iter().filter(|place| place.is_read_only());
        facts.read_only = folders.map(|place| place.path.clone()).collect();
        for place in &self.paths {
            let path = || place.path.clone();
            if place.exists {
                facts.existing.insert(path());
            }
            if place.is_read_only() {
                facts.read_only_disks.insert(path());
            }
            facts.disks.extend(place.disk().map(|disk| (path(), disk)));
            facts
                .inodes
                .extend(place.inodes().map(|inodes| (path(), inodes)));
            let unmounted = place.unmounted(&self.fstab);
            facts
                .unmounted
                .extend(unmounted.map(|point| (path(), point)));
        }
    }
}

/// Decodes the certificate of a kubeconfig. The result is empty if it is damaged: one such file must not hide all other
/// facts of the host, and no command would find it or replace it.
fn of_kubeconfig(data: &str) -> String {
    decoded(data.trim()).unwrap_or_default()
}

/// Decodes the content of a file. Bytes that are not UTF-8 are replaced.
pub(super) fn decoded(value: &str) -> Result<String, &'static str> {
    let bytes = STANDARD.decode(value).map_err(|_| "is not base64")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
