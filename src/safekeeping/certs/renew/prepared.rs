//! What is known before a renewal: its plan, for hosts and for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use crate::certs::expiring::with_certificates;
use crate::certs::{clock, files};
use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_deploy::Certificates;
use kubexm_deploy::renewal::{Renewal, RenewalInputs, renewal};
use kubexm_engine::plan::Plan;
use kubexm_host::Facts;
use kubexm_pki::Certificate;
use kubexm_session::begun::RenewalRecord;
use kubexm_session::certificates::is_renewed;
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::{CommandError, certificate_names, kubeconfigs, preflight};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// What is known before the first change.
pub(super) struct Prepared {
    facts: BTreeMap<HostName, Facts>,
    pub(super) record: RenewalRecord,
    has_super_admin: bool,
}

/// Collects what a renewal of the selected hosts depends on.
///
/// # Errors
/// A host that the renewal needs cannot be examined, one is not of this cluster, a selected one is not a node, or the clock of
/// this machine is wrong.
pub(super) async fn prepare(
    cluster: &Cluster,
    state: &Path,
    selected: &BTreeSet<HostName>,
    hosts: &Hosts,
    events: &Events,
) -> Result<Prepared, CommandError> {
    let (facts, failed) = session::gather_each(cluster, hosts).await;
    let receivers = with_certificates(cluster);
    let needed = receivers.union(selected).cloned().collect();
    session::none_needed(failed, &needed, events)?;
    let receivers = receivers.intersection(selected).cloned().collect();
    clock::check(cluster, &receivers, &facts)?;
    let known = KnownCluster::read(cluster, state)?;
    known.origins(cluster, &facts, events)?;
    let is_missing = |name: &&HostName| {
        let facts = facts.get(*name);
        cluster.is_node(name) && facts.is_some_and(|facts| !facts.is_node())
    };
    let missing: Vec<String> = selected
        .iter()
        .filter(is_missing)
        .map(ToString::to_string)
        .collect();
    if !missing.is_empty() {
        return Err(CommandError::refused(format!(
            "cannot renew certificates of hosts that are not nodes of the cluster: {}",
            missing.join(", ")
        ))
        .hint("run kubexm install, which adds them"));
    }
    let mut prepared = Prepared {
        facts,
        record: RenewalRecord::load_or_new(state)?,
        has_super_admin: kubeconfigs::super_admin(state).is_some(),
    };
    // Hosts do not repeat what they did for the same record, and the cluster file may have changed since.
    let named = prepared.named(cluster, selected);
    if prepared.record.continues && named.values().any(|files| !files.is_empty()) {
        prepared.record = prepared.record.restarted();
    }
    Ok(prepared)
}

impl Prepared {
    /// Returns the plan with the certificates that kubexm issues itself.
    ///
    /// # Errors
    /// A file of the controller that belongs on the hosts cannot be read.
    pub(super) fn plan(
        &self,
        cluster: &Cluster,
        selected: &BTreeSet<HostName>,
        certificates: Certificates,
    ) -> Result<Renewal, CommandError> {
        let hosts = self.facts.iter().filter_map(|(name, facts)| {
            let facts = preflight::host_facts(facts.arch()?, facts);
            Some((name.clone(), facts))
        });
        Ok(renewal(&RenewalInputs {
            cluster,
            hosts: hosts.collect(),
            certificates,
            selected,
            id: &self.record.id,
            has_expired: self.has_expired(cluster) || self.has_lost_etcd(cluster),
            expired_kubelets: self.expired_kubelets(cluster, selected),
            named: self.named(cluster, selected),
            has_super_admin: self.has_super_admin,
        })?)
    }

    /// Returns whether a certificate with which programs of the control planes identify themselves has expired.
    fn has_expired(&self, cluster: &Cluster) -> bool {
        self.facts.iter().any(|(host, facts)| {
            let mut files = facts.certificates.iter();
            files.any(|(path, text)| {
                files::is_renewed_on(cluster, host, path)
                    && leaf(path, text).is_some_and(|leaf| leaf.days_left() < 0)
            })
        })
    }

    /// Returns whether several members of etcd have lost files, so that none of them becomes healthy before the others have theirs.
    fn has_lost_etcd(&self, cluster: &Cluster) -> bool {
        let of_etcd = |path: &&str| {
            path.contains("/pki/etcd/") || path.starts_with("/etc/kubexm/etcd-member/")
        };
        let lost = self.facts.iter().filter(|(host, facts)| {
            let lost = files::lost(cluster, host, facts);
            lost.keys().any(of_etcd)
        });
        lost.count() > 1
    }

    /// Returns the certificates of kubeadm that do not have all names of the cluster file.
    fn named(
        &self,
        cluster: &Cluster,
        selected: &BTreeSet<HostName>,
    ) -> BTreeMap<HostName, Vec<&'static str>> {
        let facts = self.facts.iter();
        let named = facts.filter(|(name, _)| selected.contains(*name));
        let named = named.map(|(name, facts)| {
            let files: BTreeSet<&str> = certificate_names::lacking(cluster, facts)
                .iter()
                .map(|one| one.file)
                .collect();
            (name.clone(), files.into_iter().collect())
        });
        named.collect()
    }

    /// Returns the nodes of kubeadm whose kubelet cannot request a certificate any more, because its own one has expired, is
    /// missing or cannot be read; and those where an earlier run was interrupted: their kubeconfig still has the certificate for
    /// the request.
    fn expired_kubelets(
        &self,
        cluster: &Cluster,
        selected: &BTreeSet<HostName>,
    ) -> BTreeSet<HostName> {
        let path = files::KUBELET_CLIENT;
        let has_none = |host: &HostName, facts: &Facts| {
            let found = facts.rotated.get(path);
            match found.and_then(|text| leaf(path, text)) {
                Some(leaf) => leaf.days_left() < 0,
                None => files::expected(cluster, host, facts).contains(&path),
            }
        };
        let hosts = self.facts.iter().filter(|(name, facts)| {
            cluster.kubernetes.kind == KubernetesKind::Kubeadm
                && selected.contains(*name)
                && (has_none(name, facts)
                    || facts.certificates.contains_key(files::KUBELET_KUBECONFIG))
        });
        hosts.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the plan for people: the certificates of each host, and what happens then.
    ///
    /// # Errors
    /// A file of the controller that belongs on the hosts cannot be read.
    pub(super) fn text(
        &self,
        cluster: &Cluster,
        selected: &BTreeSet<HostName>,
        state: &Path,
    ) -> Result<String, CommandError> {
        let plan = self
            .plan(cluster, selected, Certificates::placeholder(cluster))?
            .plan;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "certificates of the cluster '{}' that are renewed, on one host after another:",
            cluster.name
        );
        if self.record.continues {
            let _ = writeln!(text, "  (continues the renewal of {})", self.record.id);
        }
        for name in order_of(cluster, &plan).filter(|name| selected.contains(*name)) {
            let _ = writeln!(text, "  {name}");
            for line in self.lines_of(cluster, selected, name, &plan) {
                let _ = writeln!(text, "    {line}");
            }
        }
        if plan
            .tasks
            .iter()
            .any(|task| task.provides.contains(&"certificates.kubeconfig"))
        {
            let _ = writeln!(
                text,
                "  this machine\n    {}",
                state.join("admin.conf").display()
            );
            if plan
                .tasks
                .iter()
                .any(|task| task.provides.contains(&"certificates.super_admin"))
            {
                let file = kubeconfigs::super_admin(state);
                let file = file.unwrap_or_else(|| state.join(kubeconfigs::SUPER_ADMIN));
                let _ = writeln!(text, "    {}", file.display());
            }
        }
        text.push_str(
            "no point of no return: the former certificates stay valid until their dates",
        );
        Ok(text)
    }

    fn lines_of(
        &self,
        cluster: &Cluster,
        selected: &BTreeSet<HostName>,
        host: &HostName,
        plan: &Plan,
    ) -> Vec<String> {
        let facts = self.facts.get(host);
        let files = facts.map(|facts| files_on(cluster, selected, host, facts));
        let mut lines = files.unwrap_or_default();
        let tasks = plan.tasks.iter().filter(|task| task.host == *host);
        let steps = tasks.flat_map(|task| &task.steps);
        let mut seen = BTreeSet::new();
        for step in steps.filter(|step| step.files().is_empty()) {
            if seen.insert(step.id()) {
                lines.push(format!("- {}", step.describe()));
            }
        }
        if lines.is_empty() {
            lines.push(if cluster.is_node(host) {
                "nothing: the kubelet renews its certificates itself".to_owned()
            } else {
                "nothing: it has no certificate that kubexm issues".to_owned()
            });
        }
        lines
    }
}

/// Returns the files that a renewal of these hosts replaces on one of them, or writes there, in the order of their paths.
fn files_on(
    cluster: &Cluster,
    selected: &BTreeSet<HostName>,
    host: &HostName,
    facts: &Facts,
) -> Vec<String> {
    let found = facts.certificates.iter().filter_map(|(path, text)| {
        Some(match leaf(path, text)?.days_left() {
            ..0 => (path.as_str(), "has expired".to_owned()),
            days => (path.as_str(), format!("{days} days left")),
        })
    });
    let lost = files::lost(cluster, host, facts).into_iter();
    let lost = lost.map(|(path, state)| (path, state.to_owned()));
    let all: BTreeMap<&str, String> = found.chain(lost).collect();
    let planned = all
        .into_iter()
        .filter(|(path, _)| is_in_plan(cluster, selected, host, path));
    let lacking = certificate_names::lacking(cluster, facts);
    let named = |path: &str| -> String {
        let names = lacking.iter().filter(|one| one.path() == path);
        let names: Vec<&str> = names
            .flat_map(|one| one.names.iter().map(String::as_str))
            .collect();
        if names.is_empty() {
            String::new()
        } else {
            format!(
                ", gets the names of the cluster file, also {}",
                names.join(", ")
            )
        }
    };
    planned
        .map(|(path, state)| format!("{path} ({state}{})", named(path)))
        .collect()
}

/// Returns whether a renewal of these hosts replaces a file on one of them.
fn is_in_plan(
    cluster: &Cluster,
    selected: &BTreeSet<HostName>,
    host: &HostName,
    path: &str,
) -> bool {
    let shared = match path {
        files::REGISTRY => "registry",
        files::ETCD_CLIENT => "etcd-client",
        _ => return files::is_renewed_on(cluster, host, path),
    };
    files::is_renewed_on(cluster, host, path) && is_renewed(cluster, selected, shared)
}

/// Returns the hosts of a plan in the order of their tasks, and then those without tasks.
fn order_of<'a>(cluster: &'a Cluster, plan: &'a Plan) -> impl Iterator<Item = &'a HostName> {
    let mut seen = BTreeSet::new();
    let tasks = plan.tasks.iter().map(|task| &task.host);
    let all = tasks.chain(cluster.hosts.iter().map(|host| &host.name));
    all.filter(move |name| seen.insert((*name).clone()))
}

/// Returns the first certificate of a file, unless it is a CA.
fn leaf(path: &str, text: &str) -> Option<Certificate> {
    let first = Certificate::first(path, text).ok()?;
    Some(first).filter(|found| !found.is_ca)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::check::tests::{installed, self_signed};
    use kubexm_host::facts::Setting;
    use kubexm_session::example::cluster_of_four;
    use kubexm_session::example::{cluster, cluster_with};

    #[test]
    fn plan_names_files_that_are_missing_or_unreadable() {
        let mut facts = installed(&[(Setting::ControlPlane, "yes")]);
        let has = [
            ("/etc/kubernetes/admin.conf", self_signed("x", 5, false)),
            ("/etc/kubernetes/controller-manager.conf", "x".to_owned()),
            ("/etc/kubernetes/pki/apiserver.crt", String::new()),
            // Neither is written again.
            ("/etc/kubernetes/pki/ca.crt", "x".to_owned()),
            ("/etc/kubernetes/pki/site.crt", "x".to_owned()),
        ];
        let has = has.map(|(path, text)| (path.to_owned(), text));
        facts.certificates = has.into();
        let host: HostName = "node1".parse().unwrap();
        let selected = BTreeSet::from([host.clone()]);
        assert_eq!(
            files_on(&cluster(), &selected, &host, &facts),
            [
                "/etc/kubernetes/admin.conf (5 days left)",
                "/etc/kubernetes/controller-manager.conf (unreadable)",
                "/etc/kubernetes/pki/apiserver-kubelet-client.crt (missing)",
                "/etc/kubernetes/pki/apiserver.crt (unreadable)",
                "/etc/kubernetes/pki/front-proxy-client.crt (missing)",
                "/etc/kubernetes/scheduler.conf (missing)",
            ]
        );
    }

    #[test]
    fn plan_names_certificates_that_get_other_names() {
        let cluster = cluster_with("etcd: {type: kubeadm, certSANs: [etcd.example.com, x]}");
        let mut facts = installed(&[(Setting::ControlPlane, "yes"), (Setting::Etcd, "kubeadm")]);
        for path in [
            "/etc/kubernetes/pki/etcd/peer.crt",
            "/etc/kubernetes/pki/apiserver.crt",
        ] {
            let text = self_signed("x", 5, false);
            facts.certificates.insert(path.to_owned(), text);
        }
        let host: HostName = "node1".parse().unwrap();
        let selected = BTreeSet::from([host.clone()]);
        let files = files_on(&cluster, &selected, &host, &facts);
        let present = files.iter().filter(|line| line.contains("days left"));
        assert_eq!(
            present.collect::<Vec<_>>(),
            [
                "/etc/kubernetes/pki/apiserver.crt (5 days left)",
                "/etc/kubernetes/pki/etcd/peer.crt (5 days left, gets the names of the cluster file, also etcd.example.com)",
            ]
        );
        let found = certificate_names::lacking(&cluster, &facts);
        let found: Vec<&str> = found.iter().map(|one| one.file).collect();
        assert_eq!(found, ["etcd/peer"]);
        let warned = certificate_names::findings(&cluster, &BTreeMap::from([(host, facts)]));
        insta::assert_snapshot!(warned[0], @"
        node1: etcd.certSANs is not applied: /etc/kubernetes/pki/etcd/peer.crt does not have etcd.example.com
          hint: after this install, run `kubexm certs renew`: it issues the certificate with the names of the cluster file
        ");
    }

    #[test]
    fn kubelet_without_a_valid_certificate_begins_again() {
        let cluster = cluster();
        let begins_again = |text: Option<String>, settings: &[(Setting, &str)]| -> bool {
            let mut facts = installed(settings);
            let path = files::KUBELET_CLIENT.to_owned();
            facts.rotated = text.map(|text| (path, text)).into_iter().collect();
            let host: HostName = "node2".parse().unwrap();
            let prepared = Prepared {
                facts: BTreeMap::from([(host.clone(), facts)]),
                record: RenewalRecord::load_or_new(Path::new("/nonexistent")).unwrap(),
                has_super_admin: false,
            };
            let selected = BTreeSet::from([host]);
            !prepared.expired_kubelets(&cluster, &selected).is_empty()
        };
        assert!(!begins_again(Some(self_signed("x", 5, false)), &[]));
        assert!(begins_again(Some(self_signed("x", -5, false)), &[]));
        assert!(begins_again(None, &[]));
        // A link to a file that does not exist, and a damaged file.
        assert!(begins_again(Some(String::new()), &[]));
        assert!(begins_again(Some("x".to_owned()), &[]));
    }

    /// The order of a healthy cluster is safer: each host waits until the one before it is healthy.
    #[test]
    fn copy_of_a_kubeconfig_on_a_worker_does_not_change_the_order() {
        let cluster = cluster();
        let has_expired = |host: &str| {
            let text = self_signed("x", -5, false);
            let facts = Facts {
                certificates: [("/etc/kubernetes/admin.conf".to_owned(), text)].into(),
                ..Facts::default()
            };
            let prepared = Prepared {
                facts: BTreeMap::from([(host.parse().unwrap(), facts)]),
                record: RenewalRecord::load_or_new(Path::new("/nonexistent")).unwrap(),
                has_super_admin: false,
            };
            prepared.has_expired(&cluster)
        };
        assert!(has_expired("node1") && !has_expired("node2"));
    }

    /// One host after another would wait for an etcd that has no quorum until the others have their files.
    #[test]
    fn several_members_without_files_get_them_first() {
        let cluster = cluster_of_four();
        let first_task = |lost: &[&str], path: &str| -> String {
            let facts = cluster.hosts.iter().map(|host| {
                let of_etcd = [(Setting::ControlPlane, "yes"), (Setting::Etcd, "kubeadm")];
                let mut facts = installed(&of_etcd);
                facts.machine = "x86_64".to_owned();
                let names = files::expected(&cluster, &host.name, &facts);
                let valid = self_signed("x", 300, false);
                let files = names.iter().map(|path| ((*path).to_owned(), valid.clone()));
                facts.certificates = files.collect();
                facts
                    .rotated
                    .insert(files::KUBELET_CLIENT.to_owned(), valid.clone());
                if lost.contains(&host.name.as_str()) {
                    facts.certificates.remove(path);
                }
                (host.name.clone(), facts)
            });
            let prepared = Prepared {
                facts: facts.collect(),
                record: RenewalRecord::load_or_new(Path::new("/nonexistent")).unwrap(),
                has_super_admin: false,
            };
            let selected = cluster.hosts.iter().map(|host| host.name.clone()).collect();
            let plan = prepared.plan(&cluster, &selected, Certificates::placeholder(&cluster));
            plan.unwrap().plan.tasks[0].id().0
        };
        let peer = "/etc/kubernetes/pki/etcd/peer.crt";
        let (files, host) = ("certificates/files@node1", "certificates/renew@node1");
        assert_eq!(first_task(&["node2", "node3"], peer), files);
        assert_eq!(first_task(&["node2"], peer), host);
        let other = "/etc/kubernetes/scheduler.conf";
        assert_eq!(first_task(&["node2", "node3"], other), host);
    }
}
