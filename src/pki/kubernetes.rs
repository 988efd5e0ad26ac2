//! The certificates of a cluster without kubeadm, by kubeadm's layout
//! (<https://kubernetes.io/docs/setup/best-practices/certificates/>). They are made and kept on this
//! machine, and made anew by an install when they have less than 30 days left.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;

use super::{Ca, Leaf, Pair, PkiError, SigningKey, signing_key};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_types::HostName;

/// Who administers the cluster: bound to `cluster-admin` by RBAC, so that it can be taken away.
pub const ADMIN_GROUP: &str = "kubexm:cluster-admins";
/// As whom the API server calls kubelets.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";
/// As whom the API server calls aggregated ones.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// All certificates and keys of a cluster.
#[derive(Clone)]
pub struct ClusterPki {
    /// The cluster's CA. Its key is put only where certificates are signed: on control planes.
    pub ca: Pair,
    /// Certificate of the CA that signs [`FRONT_PROXY_CLIENT`]; its key never leaves this machine.
    pub front_proxy_ca: String,
    /// Signs service accounts' tokens.
    pub service_account: SigningKey,
    /// Passes every authorizer (`system:masters`), and cannot be revoked: it never lies on a host.
    pub super_admin: Pair,
    /// Each control plane's own.
    pub control_planes: BTreeMap<HostName, ControlPlanePki>,
    /// Each node's own, control planes included.
    pub nodes: BTreeMap<HostName, NodePki>,
}

/// What one control plane has.
#[derive(Clone)]
pub struct ControlPlanePki {
    /// The API server's own.
    pub api_server: Pair,
    /// The API server to kubelets.
    pub kubelet_client: Pair,
    /// The API server to aggregated ones.
    pub front_proxy_client: Pair,
    /// kube-controller-manager.
    pub controller_manager: Pair,
    /// kube-scheduler.
    pub scheduler: Pair,
    /// The administrator.
    pub admin: Pair,
}

/// What one node has.
#[derive(Clone)]
pub struct NodePki {
    /// The kubelet's first client certificate: it asks for one with a key of its own at once.
    pub kubelet: Pair,
    /// kube-proxy.
    pub proxy: Pair,
}

/// Which CA signs.
#[derive(Clone, Copy)]
enum Signer {
    Cluster,
    FrontProxy,
}

impl ClusterPki {
    /// Loads what lies in a folder of this machine, and makes what is missing or about to expire.
    ///
    /// # Errors
    /// Files that cannot be read or written, and CAs that have expired.
    pub fn load_or_create(folder: &Path, cluster: &Cluster) -> Result<Self, PkiError> {
        let ca = Ca::load_or_create(folder, "kubernetes")?;
        let front_proxy = Ca::load_or_create(folder, "front-proxy-ca")?;
        let issue = |signer, name: &str, leaf: &Leaf| match signer {
            Signer::Cluster => ca.issue(folder, name, leaf),
            Signer::FrontProxy => front_proxy.issue(folder, name, leaf),
        };
        let service_account = signing_key(folder, "sa")?;
        let front_proxy_ca = front_proxy.certificate().to_owned();
        let pair = ca.pair().clone();
        Self::of(cluster, pair, front_proxy_ca, service_account, issue)
    }

    /// Words in place of certificates and keys, for looks that make nothing at clusters that kubeadm
    /// does not make.
    pub fn words(cluster: &Cluster) -> Option<Arc<Self>> {
        if cluster.kubernetes.kind != KubernetesKind::Systemd {
            return None;
        }
        let word = |name: &str| Pair {
            certificate: format!("<certificate of {name}>\n"),
            key: format!("<key of {name}>\n"),
        };
        let service_account = SigningKey {
            public: "<public key of service accounts>\n".to_owned(),
            private: "<private key of service accounts>\n".to_owned(),
        };
        let front_proxy_ca = "<certificate of front-proxy-ca>\n".to_owned();
        let issue = |_, name: &str, _: &Leaf| Ok::<_, Infallible>(word(name));
        let ca = word("kubernetes");
        let Ok(pki) = Self::of(cluster, ca, front_proxy_ca, service_account, issue);
        Some(Arc::new(pki))
    }

    fn of<E>(
        cluster: &Cluster,
        ca: Pair,
        front_proxy_ca: String,
        service_account: SigningKey,
        issue: impl Fn(Signer, &str, &Leaf) -> Result<Pair, E>,
    ) -> Result<Self, E> {
        let mut control_planes = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for host in cluster.nodes() {
            let name = host.name.clone();
            if cluster.is_control_plane(&name) {
                control_planes.insert(name.clone(), control_plane(cluster, host, &issue)?);
            }
            nodes.insert(name, node(host, &issue)?);
        }
        let super_admin = Leaf::client("kubernetes-super-admin", Some("system:masters"));
        Ok(Self {
            ca,
            front_proxy_ca,
            service_account,
            super_admin: issue(Signer::Cluster, "super-admin", &super_admin)?,
            control_planes,
            nodes,
        })
    }
}

fn control_plane<E>(
    cluster: &Cluster,
    host: &HostSpec,
    issue: &impl Fn(Signer, &str, &Leaf) -> Result<Pair, E>,
) -> Result<ControlPlanePki, E> {
    let own =
        |signer, what: &str, leaf: &Leaf| issue(signer, &format!("{what}-{}", host.name), leaf);
    let client =
        |what: &str, user: &str, group| own(Signer::Cluster, what, &Leaf::client(user, group));
    let api_server = Leaf::server("kube-apiserver", api_server_names(cluster, host));
    let front_proxy = Leaf::client(FRONT_PROXY_CLIENT, None);
    Ok(ControlPlanePki {
        api_server: own(Signer::Cluster, "apiserver", &api_server)?,
        kubelet_client: client("apiserver-kubelet-client", KUBELET_CLIENT, None)?,
        front_proxy_client: own(Signer::FrontProxy, "front-proxy-client", &front_proxy)?,
        controller_manager: client("controller-manager", "system:kube-controller-manager", None)?,
        scheduler: client("scheduler", "system:kube-scheduler", None)?,
        admin: client("admin", "kubernetes-admin", Some(ADMIN_GROUP))?,
    })
}

fn node<E>(
    host: &HostSpec,
    issue: &impl Fn(Signer, &str, &Leaf) -> Result<Pair, E>,
) -> Result<NodePki, E> {
    let user = node_user(&host.name);
    let own =
        |what: &str, leaf: &Leaf| issue(Signer::Cluster, &format!("{what}-{}", host.name), leaf);
    Ok(NodePki {
        kubelet: own("kubelet", &Leaf::client(&user, Some("system:nodes")))?,
        proxy: own("proxy", &Leaf::client("system:kube-proxy", None))?,
    })
}

/// A node's user (<https://kubernetes.io/docs/reference/access-authn-authz/node/>).
pub fn node_user(name: &HostName) -> String {
    format!("system:node:{name}")
}

/// All names and addresses by which a control plane's API server is called.
fn api_server_names(cluster: &Cluster, host: &HostSpec) -> Vec<String> {
    let domain = &cluster.kubernetes.dns_domain;
    let endpoint = &cluster.control_plane_endpoint;
    let mut names = vec![
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        format!("kubernetes.default.svc.{domain}"),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        host.name.to_string(),
        host.internal_address.to_string(),
        endpoint.host.clone(),
    ];
    names.extend(endpoint.address.map(|address| address.to_string()));
    names.extend(first_address(cluster.network.service_cidr).map(|address| address.to_string()));
    names.extend(cluster.kubernetes.cert_sans.iter().cloned());
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// The address of the service `kubernetes`: the first of the service network.
fn first_address(cidr: IpNet) -> Option<IpAddr> {
    match cidr {
        IpNet::V4(net) => Some(IpAddr::V4(u32::from(net.network()).checked_add(1)?.into())),
        IpNet::V6(net) => Some(IpAddr::V6(u128::from(net.network()).checked_add(1)?.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        kubexm_config::parse_cluster("example", kubexm_config::schema::TEMPLATE).unwrap()
    }

    #[test]
    fn every_node_has_its_own_and_a_second_look_the_same() {
        let (folder, cluster) = (tempfile::tempdir().unwrap(), cluster());
        let first = ClusterPki::load_or_create(folder.path(), &cluster).unwrap();
        let second = ClusterPki::load_or_create(folder.path(), &cluster).unwrap();
        assert_eq!(
            first.service_account.private,
            second.service_account.private
        );
        for (name, node) in &first.nodes {
            assert_eq!(
                node.kubelet.certificate,
                second.nodes[name].kubelet.certificate
            );
            let der = super::super::pem_content("kubelet", &node.kubelet.certificate).unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
            let subject = parsed.subject().to_string();
            assert!(
                subject.contains(&format!("CN=system:node:{name}")),
                "{subject}"
            );
            assert!(subject.contains("O=system:nodes"), "{subject}");
        }
        assert_eq!(first.nodes.len(), 3);
        assert_eq!(first.control_planes.len(), 1);
    }

    #[test]
    fn the_api_server_is_known_by_every_name_that_is_used() {
        let cluster = cluster();
        let names = api_server_names(&cluster, cluster.nodes()[0]);
        for name in [
            "10.96.0.1",
            "192.0.2.11",
            "kubernetes.default.svc.cluster.local",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} of {names:?}");
        }
        assert_eq!(
            first_address("fd00:1::/112".parse().unwrap()),
            "fd00:1::1".parse().ok()
        );
    }
}
