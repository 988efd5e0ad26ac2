//! Certificates of kubeadm that do not have all names of the cluster file.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_host::Facts;
use kubexm_pki::Certificate;
use kubexm_preflight::Finding;
use kubexm_types::{CertificateName, FindingKind, HostName};

/// A field of the cluster file with names of a certificate.
struct Field {
    field: &'static str,
    /// The path below the directory of kubeadm's certificates, without the suffix.
    file: &'static str,
    names: Vec<String>,
}

/// A certificate that does not have names of the cluster file.
pub struct Lacking {
    field: &'static str,
    /// The path below `/etc/kubernetes/pki`, without `.crt`.
    pub file: &'static str,
    /// The names that it does not have.
    pub names: Vec<String>,
}

impl Lacking {
    /// Returns the path of the certificate.
    pub fn path(&self) -> String {
        path(self.file)
    }
}

fn path(file: &str) -> String {
    format!("/etc/kubernetes/pki/{file}.crt")
}

/// Returns the fields with names that kubeadm writes into certificates once.
fn fields(cluster: &Cluster) -> Vec<Field> {
    let texts = |names: &[CertificateName]| names.iter().map(ToString::to_string).collect();
    let endpoint = &cluster.control_plane_endpoint;
    let held = endpoint
        .address
        .filter(|_| cluster.high_availability.kind.holds_address());
    let of = |field, file, names| Field { field, file, names };
    let mut all = vec![
        of(
            "kubernetes.apiServer.certSANs",
            "apiserver",
            texts(&cluster.kubernetes.api_server.cert_sans),
        ),
        of(
            "controlPlaneEndpoint.address",
            "apiserver",
            held.iter().map(ToString::to_string).collect(),
        ),
    ];
    if let Etcd::Kubeadm { cert_sans, .. } = &cluster.etcd {
        let files = ["etcd/server", "etcd/peer"];
        all.extend(files.map(|file| of("etcd.certSANs", file, texts(cert_sans))));
    }
    all
}

/// Returns the certificates of a host that do not have all names of the cluster file; none without kubeadm, because an install
/// issues the others again. A certificate that is missing or unreadable is not among them.
pub fn lacking(cluster: &Cluster, facts: &Facts) -> Vec<Lacking> {
    if cluster.kubernetes.kind != KubernetesKind::Kubeadm || !facts.is_node() {
        return Vec::new();
    }
    let fields = fields(cluster).into_iter();
    let found = fields.filter_map(|expected| {
        let path = path(expected.file);
        let present = Certificate::first(&path, facts.certificates.get(&path)?).ok()?;
        let mut names = expected.names;
        names.retain(|name| !present.names.iter().any(|other| is_same(name, other)));
        let (field, file) = (expected.field, expected.file);
        (!names.is_empty()).then_some(Lacking { field, file, names })
    });
    found.collect()
}

/// Returns whether two names are equal. An IPv6 address has several spellings.
fn is_same(one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse::<IpAddr>().ok();
    one == other || address(one).is_some_and(|one| Some(one) == address(other))
}

/// Returns a warning for each certificate of kubeadm that does not have all names of the cluster file.
pub fn findings(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (host, facts) in facts {
        for one in lacking(cluster, facts) {
            let (field, path, names) = (one.field, one.path(), one.names.join(", "));
            let what = format!("{field} is not applied: {path} does not have {names}");
            let hint = "after this install, run `kubexm certs renew`: it issues the certificate with the names of the cluster file";
            findings.push(Finding::new(
                FindingKind::Certificates,
                host,
                false,
                what,
                hint,
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that is never the same would be a reason for a renewal for ever.
    #[test]
    fn addresses_are_equal_in_each_spelling() {
        assert!(is_same("2001:DB8::10", "2001:db8:0::10"));
        assert!(is_same("api.example", "api.example"));
        assert!(!is_same("192.0.2.1", "192.0.2.11"));
        assert!(!is_same("x", "y"));
    }
}
