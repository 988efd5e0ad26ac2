//! The certificates of an etcd that kubexm runs. kubexm creates the keys on the controller, and the CA's key
//! stays there.

use std::collections::BTreeMap;

use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_pki::{Leaf, Pair, Usage};
use kubexm_types::{CertificateName, HostName};

/// The certificates of an etcd that kubexm runs. A separate CA signs them.
#[derive(Clone)]
pub struct EtcdCertificates {
    /// The certificates of the CAs that programs trust, PEM: one, and in a rotation also the next or the former one.
    pub ca: String,
    /// The client certificate of the API servers.
    pub client: Pair,
    /// The certificates of the members, by host.
    pub members: BTreeMap<HostName, MemberCertificates>,
}

/// The certificates of one member.
#[derive(Clone)]
pub struct MemberCertificates {
    /// The certificate for clients and for the other members.
    pub member: Pair,
    /// The client certificate of etcdctl on the host.
    pub admin: Pair,
}

impl EtcdCertificates {
    /// Returns the certificates of the cluster's etcd; `None` if kubexm does not run etcd. `issue` creates each
    /// certificate from its name and its subject.
    ///
    /// # Errors
    /// `issue` fails.
    pub fn issue<E>(
        cluster: &Cluster,
        ca: &str,
        mut issue: impl FnMut(&str, &Leaf) -> Result<Pair, E>,
    ) -> Result<Option<Self>, E> {
        let Etcd::Systemd { cert_sans, .. } = &cluster.etcd else {
            return Ok(None);
        };
        let client = issue("etcd-client", &user("kube-apiserver-etcd-client"))?;
        let mut members = BTreeMap::new();
        for host in cluster.etcd_hosts() {
            let name = &host.name;
            let certificates = MemberCertificates {
                member: issue(&format!("etcd-member-{name}"), &member(host, cert_sans))?,
                // etcd's access control, if the user enables it, permits everything to the user root.
                admin: issue(&format!("etcd-admin-{name}"), &user("root"))?,
            };
            members.insert(name.clone(), certificates);
        }
        Ok(Some(Self {
            ca: in_fixed_order(ca),
            client,
            members,
        }))
    }
}

/// Returns certificates in an order that does not depend on which one signs. Members read them only when they start, and then do not
/// restart after another CA has begun to sign.
fn in_fixed_order(certificates: &str) -> String {
    let all = certificates.split_inclusive("-----END CERTIFICATE-----\n");
    let mut all: Vec<&str> = all.collect();
    all.sort_unstable();
    all.concat()
}

fn user(common_name: &str) -> Leaf {
    Leaf {
        common_name: common_name.to_owned(),
        organization: None,
        names: Vec::new(),
        usage: Usage::Client,
    }
}

/// Returns the subject of a member. `sans` are names of the user.
fn member(host: &HostSpec, sans: &[CertificateName]) -> Leaf {
    let own = [
        host.name.to_string(),
        "localhost".to_owned(),
        host.internal_address().to_string(),
        "127.0.0.1".to_owned(),
    ];
    let more = sans.iter().map(ToString::to_string);
    let more: Vec<String> = more.filter(|name| !own.contains(name)).collect();
    Leaf {
        common_name: format!("etcd-{}", host.name),
        organization: None,
        names: own.into_iter().chain(more).collect(),
        usage: Usage::Peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_the_same_file_whichever_ca_signs() {
        let [one, two] = ["AA", "BB"]
            .map(|own| format!("-----BEGIN CERTIFICATE-----\n{own}\n-----END CERTIFICATE-----\n"));
        let expected = format!("{one}{two}");
        assert_eq!(in_fixed_order(&format!("{one}{two}")), expected);
        assert_eq!(in_fixed_order(&format!("{two}{one}")), expected);
        assert_eq!(in_fixed_order(&one), one);
    }

    #[test]
    fn members_have_their_own_names_and_those_of_the_user() {
        let section = "etcd: {type: systemd, certSANs: [etcd.example, localhost]}";
        let cluster = crate::example::cluster("", section);
        let Etcd::Systemd { cert_sans, .. } = &cluster.etcd else {
            panic!("{:?}", cluster.etcd);
        };
        let leaf = member(&cluster.hosts[0], cert_sans);
        assert_eq!(leaf.common_name, "etcd-node1");
        let expected = [
            "node1",
            "localhost",
            "192.0.2.11",
            "127.0.0.1",
            "etcd.example",
        ];
        assert_eq!(leaf.names, expected);
        assert_eq!(leaf.usage, Usage::Peer);
    }

    /// etcd's access control permits everything to `root`, and the API servers have a user of their own.
    #[test]
    fn clients_of_etcd_are_the_api_servers_and_root() {
        let cluster = crate::example::cluster("", "etcd: {type: systemd}");
        let mut users = BTreeMap::new();
        let issued = EtcdCertificates::issue(&cluster, "", |name, leaf| {
            if leaf.usage == Usage::Client {
                users.insert(name.to_owned(), leaf.common_name.clone());
            }
            Ok::<_, String>(Pair {
                certificate: String::new(),
                key: String::new(),
            })
        });
        assert!(issued.unwrap().is_some());
        let expected = [
            ("etcd-admin-node1", "root"),
            ("etcd-client", "kube-apiserver-etcd-client"),
        ];
        let expected = expected.map(|(name, user)| (name.to_owned(), user.to_owned()));
        assert_eq!(users, BTreeMap::from(expected));
    }
}
