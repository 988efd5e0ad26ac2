//! `certs renew`: issues the certificates and kubeconfigs of a cluster again, on one host after another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::expiring::with_certificates;
use super::files;
use super::record::RenewalRecord;
use crate::certificates::{self, CaEncryption, is_renewed};
use crate::identity::KnownCluster;
use crate::install::{kubeconfigs, outcome};
use crate::session::{self, HostErrors, Hosts};
use crate::stop::unless_stopped;
use crate::{
    CommandError, Connection, FileError, HostSelection, Stop, certificate_names, listeners,
    notices, preflight,
};
use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_deploy::Certificates;
use kubexm_deploy::renewal::{Renewal, RenewalInputs, renewal};
use kubexm_engine::plan::{Journal, Plan, TaskValue};
use kubexm_host::Facts;
use kubexm_pki::Certificate;
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Which certificates to renew.
#[derive(Debug, Clone)]
pub struct RenewOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The hosts of the renewal.
    pub selection: HostSelection,
    /// Whether to end after the plan.
    pub dry_run: bool,
    /// What encrypts the keys of CAs in the state directory.
    pub ca_encryption: Option<CaEncryption>,
}

/// What a renewal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
    /// The administrator's kubeconfig on this machine, if it is a new one.
    pub kubeconfig: Option<PathBuf>,
}

/// Renews the certificates and kubeconfigs of hosts, one host after another. Emits the plan as a note before it changes
/// anything. A renewal that was interrupted continues where it stopped.
///
/// # Errors
/// The cluster file is wrong, a host is not one of the cluster or cannot be reached, the key of a CA is missing, or a step
/// failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn renew(
    options: &RenewOptions,
    events: &Events,
    stop: &Stop,
) -> Result<RenewReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let selected = options.selection.hosts(&cluster)?;
    let state = options.connection.state_directory(&cluster, events)?;
    check_state(&state)?;
    if options.dry_run {
        let (hosts, _) =
            unless_stopped(stop, connect(options, &cluster, &state, &selected, events)).await?;
        let observed = session::watched(&hosts, events);
        let planning = prepare(&cluster, &state, &selected, &observed, events);
        let prepared = unless_stopped(stop, planning).await?;
        events.note(prepared.text(&cluster, &selected, &state)?);
        events.note("dry run: nothing was touched");
        return Ok(RenewReport {
            changed: None,
            kubeconfig: None,
        });
    }
    // Held until the end: only one command may change the cluster.
    let journal = Arc::new(session::journal(&state)?);
    journal.begin("certs renew", "");
    let events = &listeners::with_journal(events.clone(), Arc::clone(&journal));
    events.phase("connect");
    let connecting = connect(options, &cluster, &state, &selected, events);
    let (hosts, _) = unless_stopped(stop, connecting).await?;
    let hosts = session::logged(hosts, &state);
    let observed = session::watched(&hosts, events);
    let locks = session::lock(&cluster, &observed, &journal, "certs renew", events, stop).await?;
    let renewing = async {
        let planning = prepare(&cluster, &state, &selected, &observed, events);
        let prepared = unless_stopped(stop, planning).await?;
        events.note(prepared.text(&cluster, &selected, &state)?);
        prepared.record.begin(&journal, &selected)?;
        let encryption = options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        let since = prepared.record.since;
        let issued = certificates::renew(&cluster, &state, identity, &selected, since)?;
        let renewal = prepared.plan(&cluster, &selected, issued)?;
        let report = carry_out(renewal, &hosts, &journal, events, stop).await?;
        prepared
            .record
            .end(&journal, &selected, &with_certificates(&cluster))?;
        Ok(report)
    };
    let renewed = renewing.await;
    locks.release().await;
    renewed
}

/// Runs the plan, and stores the kubeconfigs.
async fn carry_out(
    renewal: Renewal,
    hosts: &Hosts,
    journal: &Journal,
    events: &Events,
    stop: &Stop,
) -> Result<RenewReport, CommandError> {
    let Renewal {
        plan,
        kubeconfig,
        super_admin,
    } = renewal;
    events.phase("apply");
    let run = outcome::run(plan, hosts, events, stop).await?;
    // Its certificate is new as soon as a host has it, even if another host failed.
    let saved = save_kubeconfigs(&kubeconfig, &super_admin, journal)?;
    run.judged?;
    events.emit(run.ended.summary(saved.as_deref()));
    Ok(RenewReport {
        changed: Some(run.ended.changed),
        kubeconfig: saved,
    })
}

/// Writes the kubeconfigs that a plan has provided to the state directory. Returns the path of the administrator's.
///
/// # Errors
/// A file cannot be written.
pub(super) fn save_kubeconfigs(
    kubeconfig: &TaskValue<String>,
    super_admin: &TaskValue<String>,
    journal: &Journal,
) -> Result<Option<PathBuf>, CommandError> {
    let saved = kubeconfig
        .get()
        .map(|text| kubeconfigs::save_kubeconfig(journal, text))
        .transpose()?;
    if let Some(text) = super_admin.get() {
        let saved = journal.save("super-admin.conf", text.as_bytes());
        saved.map_err(|error| {
            FileError::io("write super-admin.conf in", journal.folder(), &error)
        })?;
    }
    Ok(saved)
}

/// Fails without the state directory of an install. A renewal there would create CAs that the cluster does not have.
pub(super) fn check_state(state: &Path) -> Result<(), CommandError> {
    if state.join("pki").is_dir() {
        return Ok(());
    }
    let error = FileError::new(
        "renew certificates with the state directory",
        state,
        "it has no directory pki, so it is not the one of an install",
    );
    Err(error
        .hint("pass the state directory of the install with --state, or restore it from a backup")
        .into())
}

/// Connects to all hosts. One that is not in the renewal need not answer.
async fn connect(
    options: &RenewOptions,
    cluster: &Cluster,
    state: &Path,
    selected: &BTreeSet<HostName>,
    events: &Events,
) -> Result<(Hosts, HostErrors), CommandError> {
    let connection = &options.connection;
    let (hosts, errors) = connection.connect_each(cluster, state, events).await?;
    let (needed, others): (HostErrors, HostErrors) = errors
        .into_iter()
        .partition(|(name, _)| selected.contains(name));
    if !needed.is_empty() {
        let errors = needed.into_iter().map(|(_, error)| error);
        return Err(CommandError::Hosts(errors.collect()));
    }
    for (_, error) in &others {
        events.warn(format!("the renewal does not need this host: {error}"));
    }
    Ok((hosts, others))
}

/// What is known before the first change.
struct Prepared {
    facts: BTreeMap<HostName, Facts>,
    record: RenewalRecord,
    has_super_admin: bool,
}

async fn prepare(
    cluster: &Cluster,
    state: &Path,
    selected: &BTreeSet<HostName>,
    hosts: &Hosts,
    events: &Events,
) -> Result<Prepared, CommandError> {
    let facts = session::gather(cluster, hosts).await?;
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
        return Err(CommandError::Configuration(format!(
            "cannot renew certificates of hosts that are not nodes of the cluster: {}\nhint: run kubexm install, which \
             adds them",
            missing.join(", ")
        )));
    }
    Ok(Prepared {
        facts,
        record: RenewalRecord::load_or_new(state)?,
        has_super_admin: state.join("super-admin.conf").exists(),
    })
}

impl Prepared {
    fn plan(
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
            has_expired: self.has_expired(cluster),
            expired_kubelets: self.expired_kubelets(cluster, selected),
            named: self.named(cluster, selected),
            has_super_admin: self.has_super_admin,
        })?)
    }

    /// Returns whether a certificate with which programs of the control planes identify themselves has expired.
    fn has_expired(&self, cluster: &Cluster) -> bool {
        let mut files = self.facts.values().flat_map(|facts| &facts.certificates);
        files.any(|(path, text)| {
            files::is_issued(cluster, path)
                && leaf(path, text).is_some_and(|leaf| leaf.days_left() < 0)
        })
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

    /// Returns the nodes of kubeadm whose kubelet cannot request a certificate any more, and those where an earlier run was
    /// interrupted: their kubeconfig still has the certificate for the request.
    fn expired_kubelets(
        &self,
        cluster: &Cluster,
        selected: &BTreeSet<HostName>,
    ) -> BTreeSet<HostName> {
        let path = format!("{}/kubelet-client-current.pem", files::KUBELET);
        let has_expired = |facts: &Facts| {
            let found = facts.rotated.get(&path);
            let found = found.and_then(|text| leaf(&path, text));
            found.is_some_and(|leaf| leaf.days_left() < 0)
                || facts.certificates.contains_key(files::KUBELET_KUBECONFIG)
        };
        let hosts = self.facts.iter().filter(|(name, facts)| {
            cluster.kubernetes.kind == KubernetesKind::Kubeadm
                && selected.contains(*name)
                && has_expired(facts)
        });
        hosts.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the plan for people: the certificates of each host, and what happens then.
    fn text(
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
                let _ = writeln!(text, "    {}", state.join("super-admin.conf").display());
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
            lines.push(match cluster.is_node(host) {
                true => "nothing: the kubelet renews its certificates itself".to_owned(),
                false => "nothing: it has no certificate that kubexm issues".to_owned(),
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
        .filter(|(path, _)| is_in_plan(cluster, selected, path));
    let lacking = certificate_names::lacking(cluster, facts);
    let named = |path: &str| -> String {
        let names = lacking.iter().filter(|one| one.path() == path);
        let names: Vec<&str> = names
            .flat_map(|one| one.names.iter().map(String::as_str))
            .collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(
                ", gets the names of the cluster file, also {}",
                names.join(", ")
            ),
        }
    };
    planned
        .map(|(path, state)| format!("{path} ({state}{})", named(path)))
        .collect()
}

/// Returns whether a renewal of these hosts replaces a file.
fn is_in_plan(cluster: &Cluster, selected: &BTreeSet<HostName>, path: &str) -> bool {
    let shared = match path {
        "/etc/kubexm/registry/tls.crt" => "registry",
        "/etc/kubexm/etcd/client.crt" => "etcd-client",
        _ => return files::is_issued(cluster, path),
    };
    files::is_issued(cluster, path) && is_renewed(cluster, selected, shared)
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
    use crate::identity::tests::{cluster, cluster_with};
    use kubexm_host::facts::Setting;

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
}
