//! What an upgrade looks at before its first change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::checks::{all_nodes, first_control_plane, running};
use super::context::Context;
use super::live::Live;
use super::programs::{self, Target};
use super::rollback::versions::Programs;
use super::runtime::Runtimes;
use super::saved::{Present, Saved};
use super::survey::Survey;
use super::{etcd, etcd_changes, space};
use kubexm_config::cluster::Etcd;
use kubexm_deploy::Certificates;
use kubexm_deploy::upgrade::network_images;
use kubexm_deploy::upgrade_path::{self as path, Hop, Running};
use kubexm_host::Facts;
use kubexm_session::begun::UpgradeRecord;
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::{CommandError, absent_applications, application_images, notices, preflight};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message};

/// How long the API server of the first control plane may take after an interrupted run: a stopped kubelet starts after two
/// minutes.
const PROGRAMS_START: Duration = Duration::from_secs(300);

/// What is known before the first change.
pub(super) struct Prepared {
    pub(super) facts: BTreeMap<HostName, Facts>,
    pub(super) running: Running,
    pub(super) hops: Vec<Hop>,
    pub(super) record: UpgradeRecord,
    pub(super) runtimes: Runtimes,
    /// How versions of members of etcd change.
    pub(super) members: Vec<etcd_changes::Change>,
    /// How images of the pod network change, for people.
    pub(super) network: Vec<String>,
    /// Whether an earlier run began the upgrade.
    pub(super) continues: bool,
    /// What the earlier run has saved before its last hop.
    pub(super) saved: Option<Saved>,
}

impl Context<'_> {
    /// Looks at the hosts and at the cluster.
    ///
    /// # Errors
    /// Something prevents the upgrade.
    pub(super) async fn prepare(
        &self,
        hosts: &Hosts,
        events: &Events,
    ) -> Result<Prepared, CommandError> {
        let (cluster, to) = (self.cluster, &self.cluster.kubernetes.version);
        events.phase("preflight");
        let facts = session::gather(cluster, hosts).await?;
        notices::emit_experimental_hosts(&facts, events);
        let known = KnownCluster::read(cluster, self.state)?;
        known.origins(cluster, &facts, events)?;
        all_nodes(cluster, &facts)?;
        let begun = UpgradeRecord::load(self.state)?;
        if let Some(record) = &begun {
            record.check(to)?;
        }
        let (first, host) = first_control_plane(cluster, hosts)?;
        let patience = match begun {
            Some(_) => PROGRAMS_START,
            None => Duration::ZERO,
        };
        let survey = Survey::read(self.cluster, host.as_ref(), patience).await?;
        let running = running(cluster, &facts, &survey)?;
        let is_done = begun.is_none() && running.is_at(to);
        let hops = if is_done {
            Vec::new()
        } else {
            path::hops(&running, to, &self.bundle.lock().kubernetes)
                .map_err(|error| CommandError::configuration(Message::from(&*error)))?
        };
        let mut findings = preflight::check_upgrade(cluster, hosts, &facts, self.bundle).await;
        findings.extend(known.findings(cluster, &facts));
        let images = application_images::findings(self.bundle, cluster, hosts, events);
        findings.extend(images.await?);
        absent_applications::check(cluster, self.bundle.lock(), host.as_ref()).await?;
        let mut members = Vec::new();
        let mut saved = None;
        if !is_done {
            findings.extend(self.findings(&survey, first, begun.is_some()));
            let from = running.oldest().unwrap_or(to);
            let removed = self.removed_objects((first, host.as_ref()), from, events);
            findings.extend(removed.await?);
            findings.extend(space::findings(cluster, hosts).await?);
            findings.extend(self.unready(hosts, begun.is_some()).await?);
            let etcd = etcd::read(cluster, hosts).await?;
            if let Some(etcd) = &etcd {
                findings.extend(etcd::findings(etcd, cluster, first, begun.is_some()));
                members = etcd_changes::changes(etcd, cluster, (self.bundle.lock(), &facts), &hops);
                findings.extend(etcd_changes::refused(&members));
            }
            if let Some(record) = &begun {
                let programs = Programs::read(cluster, hosts).await?;
                let is_unit = matches!(cluster.etcd, Etcd::Systemd { .. });
                let present = Present {
                    running: &running,
                    programs: &programs,
                    etcd: etcd.as_ref(),
                    changes_units_of_etcd: is_unit && !members.is_empty(),
                };
                saved = Saved::read(record, cluster, &present)?;
            }
            let live = Live::read(cluster, hosts, (first, host.as_ref())).await?;
            let targets = hops.iter().map(|hop| Target {
                cluster: self.at(hop),
                hop,
            });
            let targets: Vec<Target<'_>> = targets.collect();
            let refused =
                programs::findings(self.bundle, &targets, Some(&live), first, events).await?;
            findings.extend(refused);
        }
        let runtimes = Runtimes::read(cluster, hosts, self.bundle.lock(), &facts).await?;
        let placeholder = Certificates::placeholder(cluster);
        let given = self.inputs(cluster, &facts, placeholder, BTreeSet::new());
        let network = survey.changed_images(&network_images(&given.inputs));
        preflight::report(&findings, events)?;
        let from = running.oldest().unwrap_or(to);
        Ok(Prepared {
            record: begun
                .clone()
                .unwrap_or_else(|| UpgradeRecord::new(from, to)),
            continues: begun.is_some(),
            saved,
            runtimes,
            members,
            network,
            facts,
            running,
            hops,
        })
    }
}
