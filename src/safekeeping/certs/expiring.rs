//! `certs renew --expiring`: renews the certificates of the hosts that have one which expires soon, is missing or cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use time::{Duration, OffsetDateTime};

use super::renew::{RenewOptions, RenewReport, renew};
use super::{clock, files};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_host::Facts;
use kubexm_pki::Certificate;
use kubexm_session::begun::RenewalRecord;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, HostSelection, Stop, notices, session};
use kubexm_types::event::Events;
use kubexm_types::{HostName, WarningKind};

/// With how many days left a certificate is renewed by default. A timer that runs each week renews it before `certs check` and
/// `status` report it.
pub const RENEWAL_DAYS: u16 = 75;

/// A certificate that expires soon, is missing or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiring {
    pub host: HostName,
    /// The file.
    pub path: String,
    /// The end of its validity; `None` if the certificate is missing or cannot be read.
    pub expires: Option<String>,
}

/// Looks for certificates that expire within a number of days, are missing or cannot be read, and that a renewal replaces. Of
/// a certificate that is valid for less than three times as long, the last third of its validity counts. Changes nothing.
///
/// # Errors
/// The cluster file is wrong, or a host cannot be reached.
pub async fn expiring(
    options: &RenewOptions,
    days: u16,
    events: &Events,
    stop: &Stop,
) -> Result<Vec<Expiring>, CommandError> {
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let looking = async {
        let connection = &options.connection;
        let (hosts, mut errors) = connection.connect_each(&cluster, &state, events).await?;
        let hosts = session::watched(&hosts, events);
        let (facts, failed) = session::gather_each(&cluster, &hosts).await;
        errors.extend(failed);
        let needed = with_certificates(&cluster);
        session::none_needed(errors, &needed, events)?;
        let within = Duration::days(days.into());
        let found = found(&cluster, &facts, within, OffsetDateTime::now_utc());
        // A wrong clock of one host does not stop the others: their certificates would expire.
        match clock::check(&cluster, &needed, &facts) {
            Err(error) if clock::is_own_wrong(&cluster, &needed, &facts) => return Err(error),
            Err(error) => events.warn(WarningKind::Clock, &error),
            Ok(()) => {}
        }
        Ok(found)
    };
    unless_stopped(stop, looking).await
}

/// Returns the line for people if [`expiring`] finds nothing.
pub fn nothing_to_renew(days: u16) -> String {
    format!(
        "nothing to renew: no certificate expires within {days} days, and none is missing or unreadable"
    )
}

/// Renews the certificates of the hosts with one of these, or of all hosts that have any if a renewal was interrupted.
///
/// # Errors
/// As [`renew`].
pub async fn renew_expiring(
    options: &RenewOptions,
    expiring: &[Expiring],
    events: &Events,
    stop: &Stop,
) -> Result<RenewReport, CommandError> {
    // Hosts with new files may have programs that have not read them yet.
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    let names: BTreeSet<HostName> = if is_interrupted(options, events)? {
        with_certificates(&cluster)
    } else {
        expiring.iter().map(|one| one.host.clone()).collect()
    };
    let selection = HostSelection {
        names: names.into_iter().collect(),
        roles: Vec::new(),
    };
    let options = RenewOptions {
        selection,
        ..options.clone()
    };
    renew(&options, events, stop).await
}

/// Returns whether a renewal was interrupted.
///
/// # Errors
/// The cluster file is wrong, or the record cannot be read.
pub fn is_interrupted(options: &RenewOptions, events: &Events) -> Result<bool, CommandError> {
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    let state = options.connection.state_directory(&cluster, events)?;
    RenewalRecord::has_begun(&state, &with_certificates(&cluster))
}

/// Returns the hosts that can have certificates that a renewal replaces. With kubeadm, workers have none.
pub(super) fn with_certificates(cluster: &Cluster) -> BTreeSet<HostName> {
    let roles = &cluster.roles;
    let mut hosts: BTreeSet<HostName> = roles.control_plane.iter().cloned().collect();
    if matches!(cluster.etcd, Etcd::Systemd { .. }) {
        hosts.extend(roles.etcd.iter().cloned());
    }
    if cluster.registry.external.is_none() {
        hosts.extend(roles.registry.iter().cloned());
    }
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        let nodes = cluster.nodes().into_iter();
        hosts.extend(nodes.map(|node| node.name.clone()));
    }
    hosts
}

/// Returns the certificates that expire within a time, are missing or cannot be read, and that a renewal replaces.
fn found(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    within: Duration,
    now: OffsetDateTime,
) -> Vec<Expiring> {
    let mut expiring = Vec::new();
    for (host, facts) in facts {
        for (path, text) in &facts.certificates {
            if !files::is_renewed_on(cluster, host, path) {
                continue;
            }
            let Ok(found) = Certificate::first(path, text) else {
                continue;
            };
            let limit = within.min((found.ends - found.begins) / 3);
            if !found.is_ca && found.ends - now < limit {
                expiring.push(Expiring {
                    host: host.clone(),
                    path: path.clone(),
                    expires: Some(found.expires()),
                });
            }
        }
        let lost = files::lost(cluster, host, facts).into_keys();
        expiring.extend(lost.map(|path| Expiring {
            host: host.clone(),
            path: path.to_owned(),
            expires: None,
        }));
    }
    expiring
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::check::tests::{installed, self_signed};
    use kubexm_host::facts::Setting;
    use kubexm_session::example::cluster;

    #[test]
    fn timer_of_each_week_renews_before_a_warning() {
        assert!(i64::from(RENEWAL_DAYS) > kubexm_pki::expiry::soon(365) + 7);
    }

    /// A timer would renew the worker each week, and would never replace the file.
    #[test]
    fn copy_of_a_kubeconfig_on_a_worker_is_no_reason_for_a_renewal() {
        let text = self_signed("x", 5, false);
        let path = "/etc/kubernetes/admin.conf".to_owned();
        let facts = ["node1", "node2"].map(|name| {
            let facts = Facts {
                certificates: [(path.clone(), text.clone())].into(),
                ..Facts::default()
            };
            (name.parse::<HostName>().unwrap(), facts)
        });
        let within = Duration::days(30);
        let found = found(&cluster(), &facts.into(), within, OffsetDateTime::now_utc());
        let hosts: Vec<&str> = found.iter().map(|found| found.host.as_str()).collect();
        assert_eq!(hosts, ["node1"]);
    }

    /// A renewal does not replace it. A timer would renew the host each week until the site replaces the file.
    #[test]
    fn certificate_of_the_site_is_no_reason_for_a_renewal() {
        let text = self_signed("x", 5, false);
        let files = ["apiserver.crt", "site.crt"];
        let files = files.map(|name| (format!("{}/{name}", files::PKI), text.clone()));
        let facts = Facts {
            certificates: files.into(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let within = Duration::days(30);
        let found = found(&cluster(), &facts, within, OffsetDateTime::now_utc());
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["/etc/kubernetes/pki/apiserver.crt"]);
    }

    /// A file that no renewal writes would be a reason for one each week.
    #[test]
    fn file_that_a_renewal_writes_is_a_reason_for_one_if_it_is_lost() {
        let mut facts = installed(&[(Setting::ControlPlane, "yes"), (Setting::Etcd, "kubeadm")]);
        let valid = self_signed("x", 300, false);
        let names = files::expected(&cluster(), &"node1".parse().unwrap(), &facts);
        let files = names.iter().map(|path| ((*path).to_owned(), valid.clone()));
        facts.certificates = files.collect();
        let of = |facts: &Facts| -> Vec<String> {
            let facts = BTreeMap::from([("node1".parse().unwrap(), facts.clone())]);
            let within = Duration::days(30);
            let found = found(&cluster(), &facts, within, OffsetDateTime::now_utc());
            assert!(found.iter().all(|one| one.expires.is_none()), "{found:?}");
            found.into_iter().map(|one| one.path).collect()
        };
        assert_eq!(of(&facts), [""; 0]);
        // Neither kubeadm nor kubexm writes a CA or the certificate of the kubelet.
        for path in ["pki/ca.crt", "pki/etcd/ca.crt", "pki/front-proxy-ca.crt"] {
            facts
                .certificates
                .remove(&format!("/etc/kubernetes/{path}"));
        }
        facts
            .certificates
            .remove(&format!("{}/kubelet-client-current.pem", files::KUBELET));
        facts
            .certificates
            .insert("/etc/kubernetes/site.conf".to_owned(), "x".to_owned());
        assert_eq!(of(&facts), [""; 0]);
        let lost = "/etc/kubernetes/pki/etcd/peer.crt";
        facts.certificates.remove(lost);
        let damaged = "/etc/kubernetes/super-admin.conf";
        facts
            .certificates
            .insert(damaged.to_owned(), "x".to_owned());
        assert_eq!(of(&facts), [lost, damaged]);
    }

    #[test]
    fn renewal_does_not_need_hosts_without_certificates() {
        let names = |cluster: &Cluster| -> Vec<String> {
            let hosts = with_certificates(cluster);
            hosts.iter().map(ToString::to_string).collect()
        };
        let mut cluster = cluster();
        assert_eq!(names(&cluster), ["node1"]);
        cluster.roles.registry = vec!["node2".parse().unwrap()];
        assert_eq!(names(&cluster), ["node1", "node2"]);
        cluster.roles.registry.clear();
        cluster.kubernetes.kind = KubernetesKind::Systemd;
        assert_eq!(names(&cluster), ["node1", "node2"]);
    }
}
