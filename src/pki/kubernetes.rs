//! The certificates of a cluster without kubeadm, in kubeadm's layout
//! (<https://kubernetes.io/docs/setup/best-practices/certificates/>). kubexm keeps them on the controller. An
//! install renews certificates that are valid for less than 30 days.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use crate::ca::Ca;
use crate::error::PkiError;
use crate::leaf::Leaf;
use crate::pair::Pair;
use crate::signing_key::SigningKey;
use crate::site_ca;
use crate::store::CertificateStore;
use kubexm_config::cluster::{Cluster, ControlPlanePod, HostSpec, KubernetesKind, LoadBalancer};
use kubexm_types::{HostName, Message};

/// The group of administrators. RBAC binds it to `cluster-admin`, so that its rights can be revoked.
pub const ADMIN_GROUP: &str = "kubexm:cluster-admins";
/// The user of the API server in requests to kubelets.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";
/// The user of the API server in requests to aggregated API servers.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";
/// The user of kube-vip. RBAC gives it the rights that kube-vip needs.
pub const KUBE_VIP: &str = "kubexm:kube-vip";

/// All certificates and keys of a cluster.
#[derive(Clone)]
pub struct ClusterPki {
    /// The certificate of the cluster's CA.
    pub ca: String,
    /// Its key. Control planes sign certificates with it, so only they get it.
    pub ca_key: CaKey,
    /// The certificates of the CAs that programs trust: `ca`, and in a rotation also the next or the former one.
    pub trusted: String,
    /// The certificates of CAs for [`FRONT_PROXY_CLIENT`] that programs trust, usually one. The key stays on the controller.
    pub front_proxy_ca: String,
    /// The key that signs tokens of service accounts.
    pub service_account: SigningKey,
    /// A client in the group `system:masters`. Its rights cannot be revoked, so it is not on any host.
    pub super_admin: Pair,
    /// The certificates of each control plane.
    pub control_planes: BTreeMap<HostName, ControlPlanePki>,
    /// The certificates of each node, including control planes.
    pub nodes: BTreeMap<HostName, NodePki>,
}

/// The key of a CA for hosts. Secret, so there is no `Debug`.
#[derive(Clone)]
pub enum CaKey {
    /// The key, PEM.
    Known(String),
    /// A read-only store does not have the key, or cannot decrypt it.
    Unknown(Message),
}

impl CaKey {
    /// Returns the key of a CA. Only a read-only store may be without it.
    fn of(ca: &Ca, store: &CertificateStore) -> Result<Self, PkiError> {
        if !store.is_read_only() {
            return Ok(Self::Known(ca.pair()?.key));
        }
        Ok(match ca.key("read the key of the CA") {
            Ok(key) => Self::Known(key.to_owned()),
            Err(cause) => Self::Unknown(Message::from(&cause)),
        })
    }
}

/// The certificates of a control plane.
#[derive(Clone)]
pub struct ControlPlanePki {
    /// The server certificate of the API server.
    pub api_server: Pair,
    /// The API server as a client of kubelets.
    pub kubelet_client: Pair,
    /// The API server as a client of aggregated API servers.
    pub front_proxy_client: Pair,
    pub controller_manager: Pair,
    pub scheduler: Pair,
    pub admin: Pair,
    /// [`KUBE_VIP`]; `None` with another load balancer.
    pub kube_vip: Option<Pair>,
}

/// The certificates of a node.
#[derive(Clone)]
pub struct NodePki {
    /// The first client certificate of the kubelet. The kubelet then requests one with its own key.
    pub kubelet: Pair,
    pub proxy: Pair,
}

/// The authorities of a cluster, as in [`ClusterPki`].
struct Authorities {
    ca: String,
    ca_key: CaKey,
    trusted: String,
    front_proxy_ca: String,
    service_account: SigningKey,
}

/// The CA that signs a certificate.
#[derive(Clone, Copy)]
enum Signer {
    Cluster,
    FrontProxy,
}

impl ClusterPki {
    /// Returns whether programs trust two CAs, which is so in a rotation.
    pub fn trusts_two(&self) -> bool {
        self.trusted.trim_end() != self.ca.trim_end()
    }

    /// Loads the certificates from the store, and issues those that are missing or about to expire.
    ///
    /// # Errors
    /// Files cannot be read or written, or a CA has expired.
    pub fn load_or_create(store: &CertificateStore, cluster: &Cluster) -> Result<Self, PkiError> {
        let ca = match Ca::take(store, "kubernetes", || site_ca::load(cluster))? {
            Some(of_site) => of_site,
            None => Ca::load_or_create(store, "kubernetes")?,
        };
        let front_proxy = Ca::load_or_create(store, "front-proxy-ca")?;
        let issue = |signer, name: &str, leaf: &Leaf| match signer {
            Signer::Cluster => ca.issue(store, name, leaf),
            Signer::FrontProxy => front_proxy.issue(store, name, leaf),
        };
        let service_account = SigningKey::load_or_create(store, "sa")?;
        let authorities = Authorities {
            ca: ca.certificate().to_owned(),
            ca_key: CaKey::of(&ca, store)?,
            trusted: ca.trusted().to_owned(),
            front_proxy_ca: front_proxy.trusted().to_owned(),
            service_account,
        };
        Self::issue(cluster, authorities, issue)
    }

    /// Returns placeholders for certificates and keys; `None` if kubeadm issues them.
    pub fn placeholder(cluster: &Cluster) -> Option<Arc<Self>> {
        if cluster.kubernetes.kind != KubernetesKind::Systemd {
            return None;
        }
        let pair = |name: &str| Pair {
            certificate: format!("<certificate of {name}>\n"),
            key: format!("<key of {name}>\n"),
        };
        let service_account = SigningKey {
            public: "<public key of service accounts>\n".to_owned(),
            private: "<private key of service accounts>\n".to_owned(),
        };
        let front_proxy_ca = "<certificate of front-proxy-ca>\n".to_owned();
        let issue = |_, name: &str, _: &Leaf| Ok::<_, Infallible>(pair(name));
        let ca = pair("kubernetes");
        let authorities = Authorities {
            trusted: ca.certificate.clone(),
            ca: ca.certificate,
            ca_key: CaKey::Known(ca.key),
            front_proxy_ca,
            service_account,
        };
        let Ok(pki) = Self::issue(cluster, authorities, issue);
        Some(Arc::new(pki))
    }

    fn issue<E>(
        cluster: &Cluster,
        authorities: Authorities,
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
        let Authorities {
            ca,
            ca_key,
            trusted,
            front_proxy_ca,
            service_account,
        } = authorities;
        Ok(Self {
            ca,
            ca_key,
            trusted,
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
    let kube_vip = match cluster.high_availability.kind {
        LoadBalancer::Pods {
            kind: ControlPlanePod::KubeVip,
        } => Some(client("kube-vip", KUBE_VIP, None)?),
        _ => None,
    };
    Ok(ControlPlanePki {
        api_server: own(Signer::Cluster, "apiserver", &api_server)?,
        kubelet_client: client("apiserver-kubelet-client", KUBELET_CLIENT, None)?,
        front_proxy_client: own(Signer::FrontProxy, "front-proxy-client", &front_proxy)?,
        controller_manager: client("controller-manager", "system:kube-controller-manager", None)?,
        scheduler: client("scheduler", "system:kube-scheduler", None)?,
        admin: client("admin", "kubernetes-admin", Some(ADMIN_GROUP))?,
        kube_vip,
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

/// Returns the user of a node (<https://kubernetes.io/docs/reference/access-authn-authz/node/>).
pub fn node_user(name: &HostName) -> String {
    format!("system:node:{name}")
}

/// Returns all names and addresses of a control plane's API server.
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
        host.internal_address().to_string(),
        endpoint.host.clone(),
    ];
    names.extend(endpoint.address.map(|address| address.to_string()));
    let services = cluster.network.first_service_addresses();
    names.extend(services.map(|address| address.to_string()));
    let sans = cluster.kubernetes.api_server.cert_sans.iter();
    names.extend(sans.map(ToString::to_string));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::KeyIdentity;

    fn cluster() -> Cluster {
        kubexm_config::parse_cluster("example", kubexm_config::schema::TEMPLATE).unwrap()
    }

    #[test]
    fn every_node_has_certificates_that_are_kept() {
        let (dir, cluster) = (tempfile::tempdir().unwrap(), cluster());
        let store = CertificateStore::new(dir.path());
        let first = ClusterPki::load_or_create(&store, &cluster).unwrap();
        let second = ClusterPki::load_or_create(&store, &cluster).unwrap();
        assert_eq!(
            first.service_account.private,
            second.service_account.private
        );
        for (name, node) in &first.nodes {
            assert_eq!(
                node.kubelet.certificate,
                second.nodes[name].kubelet.certificate
            );
            let der =
                crate::fingerprint::pem_content("kubelet", &node.kubelet.certificate).unwrap();
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

    /// A preview never has a key that is not that of the CA: a comparison with hosts would find a difference.
    #[test]
    fn read_only_store_has_the_key_of_the_ca_or_the_reason_why_not() {
        let (dir, cluster) = (tempfile::tempdir().unwrap(), cluster());
        let identity = || Some(KeyIdentity::of_passphrase("correct horse"));
        let seen = |identity| {
            let store = CertificateStore::read_only(dir.path()).encrypted(identity);
            let pki = ClusterPki::load_or_create(&store, &cluster).unwrap();
            match pki.ca_key {
                CaKey::Known(key) => Ok(key),
                CaKey::Unknown(cause) => Err(cause
                    .to_string()
                    .replace(&dir.path().display().to_string(), "[dir]")),
            }
        };
        let store = CertificateStore::new(dir.path());
        ClusterPki::load_or_create(&store, &cluster).unwrap();
        let key = std::fs::read_to_string(dir.path().join("kubernetes.key")).unwrap();
        assert!(seen(None).as_ref() == Ok(&key), "the key in clear text");
        let encrypted = store.clone().encrypted(identity());
        Ca::load_or_create(&encrypted, "kubernetes").unwrap();
        assert!(seen(identity()).as_ref() == Ok(&key), "the decrypted key");
        insta::assert_snapshot!(seen(None).unwrap_err(), @"
        cannot read the key of the CA: [dir]/kubernetes.key.age is encrypted
        hint: pass what encrypted it: the identity file with --ca-identity, or the passphrase with --ca-passphrase-file
        ");
        // Certificates that are missing are still there to compare.
        std::fs::remove_file(dir.path().join("super-admin.crt")).unwrap();
        assert!(seen(None).is_err());
        std::fs::remove_file(dir.path().join("kubernetes.key.age")).unwrap();
        insta::assert_snapshot!(seen(None).unwrap_err(), @"
        cannot read the key of the CA: [dir]/kubernetes.key does not exist, but the certificate of this CA does
        hint: put the key back for this command: kubexm never creates a CA where one exists
        ");
        assert!(ClusterPki::load_or_create(&store, &cluster).is_err());
    }

    #[test]
    fn only_a_cluster_with_kube_vip_has_a_certificate_for_it() {
        let (dir, text) = (
            tempfile::tempdir().unwrap(),
            kubexm_config::schema::TEMPLATE,
        );
        let store = CertificateStore::new(dir.path());
        let pki = ClusterPki::load_or_create(&store, &cluster()).unwrap();
        assert!(
            pki.control_planes
                .values()
                .all(|own| own.kube_vip.is_none())
        );
        let vip = "type: kube-vip\n  controlPlaneEndpoint: 192.0.2.10";
        let text = text.replace("type: none", vip);
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        let pki = ClusterPki::load_or_create(&store, &cluster).unwrap();
        for own in pki.control_planes.values() {
            let pem = &own.kube_vip.as_ref().unwrap().certificate;
            let der = crate::fingerprint::pem_content("kube-vip", pem).unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
            // Without a group: its rights are those of RBAC for this user.
            assert_eq!(parsed.subject().to_string(), "CN=kubexm:kube-vip");
        }
    }

    #[test]
    fn api_server_certificate_has_every_name() {
        let cluster = cluster();
        let names = api_server_names(&cluster, cluster.nodes()[0]);
        for name in [
            "10.96.0.1",
            "192.0.2.11",
            "kubernetes.default.svc.cluster.local",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} of {names:?}");
        }
        let text = kubexm_config::schema::TEMPLATE.replace(
            "    version: v1.36.3\n",
            "    version: v1.36.3\n    apiServer: {certSANs: [api.example, 192.0.2.9]}\n",
        );
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        let more = api_server_names(&cluster, cluster.nodes()[0]);
        assert_eq!(
            more,
            [&names[..], &["api.example".into(), "192.0.2.9".into()]].concat()
        );
    }
}
