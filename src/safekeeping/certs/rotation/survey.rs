//! What is on the hosts before a phase.

use std::collections::{BTreeMap, BTreeSet};

use super::authorities;
use crate::certs::clock;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::HostFacts;
use kubexm_deploy::rotation::RotatedAuthority;
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Facts, Host};
use kubexm_preflight::identity;
use kubexm_session::begun::RotationRecord;
use kubexm_session::session::Hosts;
use kubexm_session::{CommandError, preflight};
use kubexm_types::{Authority, HostName, authority};

/// What the hosts have.
pub(super) struct Survey {
    pub(super) facts: BTreeMap<HostName, Facts>,
    /// What programs trust of each authority, on the first control plane.
    pub(super) present: BTreeMap<Authority, String>,
    first: HostName,
}

/// Prints the keys of authorities on a control plane.
const KEYS: &str =
    "cd /etc/kubernetes/pki && ls ca.key front-proxy-ca.key etcd/ca.key sa.key 2>/dev/null || :";
const PUBLIC_KEY: &str = "cat /etc/kubernetes/pki/sa.pub";

impl Survey {
    /// Looks at the hosts.
    ///
    /// # Errors
    /// A host is not a node of the cluster, or a control plane does not have the key of an authority.
    pub(super) async fn read(
        cluster: &Cluster,
        record: &RotationRecord,
        hosts: &Hosts,
        facts: BTreeMap<HostName, Facts>,
    ) -> Result<Self, CommandError> {
        let missing: Vec<&str> = facts
            .iter()
            .filter(|(name, facts)| cluster.is_node(name) && !facts.is_node())
            .map(|(name, _)| name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(CommandError::refused(format!(
                "cannot replace authorities while these hosts are not nodes of the cluster: {}",
                missing.join(", ")
            ))
            .hint("add them with kubexm install, or remove them from the cluster file"));
        }
        let control_planes = &cluster.roles.control_plane;
        let no_control_plane = || CommandError::defect("the cluster file has no control plane");
        let first = control_planes.first().ok_or_else(no_control_plane)?;
        for name in control_planes {
            let host = hosts.get(name).ok_or_else(no_control_plane)?;
            has_keys(cluster, record, name, host.as_ref()).await?;
        }
        let mut authorities = record.authorities.iter();
        // Tokens of service accounts are the only ones without certificates.
        if !record.is_cancelled && authorities.any(|one| *one != Authority::ServiceAccounts) {
            let hosts = cluster.hosts.iter().map(|host| host.name.clone());
            clock::check(cluster, &hosts.collect(), &facts)?;
        }
        if record.authorities.contains(&Authority::Kubernetes) && !record.is_cancelled {
            same_time(cluster, first, &facts)?;
        }
        let own = facts.get(first);
        let mut present = BTreeMap::new();
        for authority in &record.authorities {
            let path = authorities::path(cluster, *authority).unwrap_or_default();
            let text = match authority {
                Authority::ServiceAccounts => {
                    let host = hosts.get(first).ok_or_else(no_control_plane)?;
                    Some(read(host.as_ref(), PUBLIC_KEY).await?)
                }
                _ => own.and_then(|facts| facts.certificates.get(path)).cloned(),
            };
            if let Some(text) = text {
                present.insert(*authority, text);
            }
        }
        Ok(Self {
            facts,
            present,
            first: first.clone(),
        })
    }

    /// Returns the files of hosts that do not have all of what programs have to trust, as in `node2: /etc/kubernetes/pki/ca.crt`.
    pub(super) fn without_trust(
        &self,
        cluster: &Cluster,
        rotated: &BTreeMap<Authority, RotatedAuthority>,
    ) -> Vec<String> {
        let mut lost = Vec::new();
        for (authority, own) in rotated {
            let trusted = authority::fingerprints(&own.trusted);
            for (name, facts) in &self.facts {
                let mut files = facts.authorities.iter();
                let lacks = files.find(|(path, found)| {
                    authorities::is_path_of(cluster, *authority, path)
                        && !trusted.iter().all(|one| found.contains(one))
                });
                lost.extend(lacks.map(|(path, _)| format!("{name}: {path}")));
            }
        }
        lost
    }

    /// Returns the control plane that runs kubectl.
    pub(super) fn first_host<'a>(&self, hosts: &'a Hosts) -> Result<&'a dyn Host, CommandError> {
        let found = hosts.get(&self.first).map(AsRef::as_ref);
        found.ok_or_else(|| CommandError::host("the first control plane is not connected"))
    }

    pub(super) fn host_facts(&self) -> BTreeMap<HostName, HostFacts> {
        let hosts = self.facts.iter().filter_map(|(name, facts)| {
            let facts = preflight::host_facts(facts.arch()?, facts);
            Some((name.clone(), facts))
        });
        hosts.collect()
    }
}

/// Fails if clocks of nodes differ: each node stamps the starts of its pods, which a rotation compares with the clock of the first
/// control plane.
fn same_time(
    cluster: &Cluster,
    first: &HostName,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<(), CommandError> {
    let limit = cluster.system.max_clock_skew_seconds;
    let reference = facts.get(first).map_or(0.0, |facts| facts.clock_ahead);
    let differing: Vec<String> = facts
        .iter()
        .filter(|(name, _)| cluster.is_node(name))
        .map(|(name, facts)| (name, facts.clock_ahead - reference))
        // The limit has at most four digits.
        .filter(|(_, ahead)| ahead.abs() > limit as f64)
        .map(|(name, ahead)| clock::difference(name, ahead, first.as_str()))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "cannot find the pods that know only one CA: {}, and at most {limit} s are allowed",
        differing.join("; ")
    ))
    .hint("set the clocks, or run a time server in this network, then run the command again"))
}

/// Fails if a control plane does not have the key of an authority of kubeadm: who keeps it elsewhere replaces it there.
async fn has_keys(
    cluster: &Cluster,
    record: &RotationRecord,
    name: &HostName,
    host: &dyn Host,
) -> Result<(), CommandError> {
    let kept = identity::kept(cluster);
    let found = read(host, KEYS).await?;
    let of_kubeadm = |authority: &&Authority| !kept.contains(*authority);
    let rotated = record.authorities.iter().filter(of_kubeadm);
    // kubeadm issues the certificates of all its CAs, or none.
    let cas = [
        Authority::Kubernetes,
        Authority::FrontProxy,
        Authority::Etcd,
    ];
    let issues = record
        .authorities
        .iter()
        .filter(of_kubeadm)
        .any(|one| cas.contains(one));
    let others = cas.iter().filter(|authority| {
        let has_key =
            **authority != Authority::Etcd || matches!(cluster.etcd, Etcd::Kubeadm { .. });
        issues && has_key && of_kubeadm(authority)
    });
    let needed: BTreeSet<&Authority> = rotated.chain(others).collect();
    for authority in needed {
        let key = match authority {
            Authority::Kubernetes => "ca.key",
            Authority::FrontProxy => "front-proxy-ca.key",
            Authority::Etcd => "etcd/ca.key",
            Authority::ServiceAccounts => "sa.key",
            Authority::Registry => continue,
        };
        if !found.lines().any(|line| line == key) {
            return Err(CommandError::refused(format!(
                "{name}: cannot replace the {authority}: its key /etc/kubernetes/pki/{key} is not \
                 on this host"
            ))
            .hint(
                "put the key back for the rotation: kubeadm issues certificates only with the \
                 keys of all its CAs",
            ));
        }
    }
    Ok(())
}

async fn read(host: &dyn Host, script: &'static str) -> Result<String, CommandError> {
    let action = "read the authorities of the control plane";
    let output = host
        .run(Command::script(script, [""; 0]).describe(action))
        .await?;
    let output = StepError::unless_done(action, output);
    Ok(output?.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::example::cluster_of;

    /// An install with an older copy of the state directory wrote the former CA alone, and phase 2 could not go on.
    #[test]
    fn files_that_lost_the_next_authority_are_named() {
        let roles = "control-plane: [node1], worker: [node2], etcd: [node1, node2]";
        let cluster = cluster_of(roles, "", "etcd: {type: systemd}");
        let pem = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let parameters = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
            parameters.self_signed(&key).unwrap().pem()
        };
        let (former, next) = (pem("former"), pem("next"));
        let trusted = format!("{former}{next}");
        let on = |files: &[(&str, &str)]| {
            let files = files.iter();
            let files = files.map(|(path, pem)| ((*path).to_owned(), authority::fingerprints(pem)));
            Facts {
                authorities: files.collect(),
                ..Facts::default()
            }
        };
        let (member, client) = ("/etc/kubexm/etcd-member/ca.crt", "/etc/kubexm/etcd/ca.crt");
        let lost = |node2: &[(&str, &str)]| {
            let node1 = on(&[(member, &trusted), (client, &trusted)]);
            let survey = Survey {
                facts: [("node1", node1), ("node2", on(node2))]
                    .map(|(name, facts)| (name.parse().unwrap(), facts))
                    .into(),
                present: BTreeMap::new(),
                first: "node1".parse().unwrap(),
            };
            let own = RotatedAuthority {
                trusted: trusted.clone(),
                present: former.clone(),
                key: None,
            };
            survey.without_trust(&cluster, &[(Authority::Etcd, own)].into())
        };
        assert_eq!(lost(&[(member, &trusted)]), [""; 0]);
        // The CA of Kubernetes is another one.
        let other = ("/etc/kubernetes/pki/ca.crt", former.as_str());
        assert_eq!(lost(&[(member, &trusted), other]), [""; 0]);
        assert_eq!(lost(&[(member, &former)]), [format!("node2: {member}")]);
    }

    #[test]
    fn nodes_with_other_clocks_are_refused() {
        let roles = "control-plane: [node1], worker: [node2], registry: [lb1]";
        let cluster = cluster_of(roles, "", "");
        let first = &cluster.roles.control_plane[0];
        let judge = |clocks: [f64; 3]| {
            let hosts = cluster.hosts.iter().zip(clocks);
            let facts = hosts.map(|(host, clock_ahead)| {
                let facts = Facts {
                    clock_ahead,
                    ..Facts::default()
                };
                (host.name.clone(), facts)
            });
            same_time(&cluster, first, &facts.collect()).map_err(|error| error.to_string())
        };
        // This machine may be wrong, and a host that is not a node runs no pods.
        judge([3600.0, 3604.0, 0.0]).unwrap();
        let refused = judge([3600.0, 3590.0, 3600.0]).unwrap_err();
        assert!(
            refused.contains("the clock of node2 is 10 s behind the clock of node1")
                && refused.contains("\nhint: "),
            "{refused}"
        );
    }
}
