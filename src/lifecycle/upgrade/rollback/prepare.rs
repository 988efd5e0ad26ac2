//! What a rollback looks at before its first change.

use std::collections::{BTreeMap, BTreeSet};

use super::archive;
use super::context::Rollback;
use super::versions::Programs;
use super::way::{self, Way};
use crate::etcdutl;
use crate::upgrade::checks::{all_nodes, first_control_plane};
use crate::upgrade::former::Former;
use crate::upgrade::programs::{self, Target};
use crate::upgrade::runtime::Runtimes;
use kubexm_deploy::rollback as deploy;
use kubexm_deploy::upgrade_path::{Hop, Running};
use kubexm_etcd::members;
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_session::begun::{RollbackStage, UpgradeRecord};
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::{CommandError, notices, plan_inputs, preflight};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// What is known before the first change.
pub(super) struct Prepared {
    pub(super) facts: BTreeMap<HostName, Facts>,
    pub(super) way: Way,
    /// The nodes that the upgrade has changed.
    pub(super) touched: BTreeSet<HostName>,
    pub(super) record: UpgradeRecord,
    pub(super) runtimes: Runtimes,
}

impl Prepared {
    pub(super) fn stage(&self) -> Option<RollbackStage> {
        self.record.rollback.as_ref().map(|rollback| rollback.stage)
    }
}

impl Rollback<'_> {
    /// Looks at the hosts, without the API servers.
    ///
    /// # Errors
    /// Something prevents the rollback.
    pub(super) async fn prepare(
        &self,
        hosts: &Hosts,
        events: &Events,
    ) -> Result<Prepared, CommandError> {
        let (context, cluster) = (&self.context, self.cluster());
        events.phase("preflight");
        let record = UpgradeRecord::load(context.state)?;
        let record = record.ok_or_else(|| {
            CommandError::refused("the record of the upgrade is gone: another command removed it")
        })?;
        let facts = session::gather(cluster, hosts).await?;
        notices::emit_experimental_hosts(&facts, events);
        let known = KnownCluster::read(cluster, context.state)?;
        known.origins(cluster, &facts, events)?;
        all_nodes(cluster, &facts)?;
        let found = Programs::read(cluster, hosts).await?;
        let nodes = found.versions.iter();
        let mut touched = way::touched(
            nodes.map(|(name, versions)| (name, versions.as_slice())),
            &found.cordoned,
            self.to(),
        );
        // containerd changes before the programs of Kubernetes.
        let runtimes = Runtimes::read(cluster, hosts, context.bundle.lock(), &facts).await?;
        touched.extend(runtimes.others().iter().cloned());
        let prepared = Prepared {
            way: match record.rollback.as_ref().map(|begun| begun.stage) {
                None => self.way(&facts)?,
                Some(RollbackStage::InPlace) => Way::InPlace,
                Some(_) => Way::Snapshot,
            },
            runtimes,
            facts,
            touched,
            record,
        };
        if prepared.way == Way::Snapshot {
            self.check_archive(&prepared)?;
        }
        // Later, hosts are as the rollback has left them.
        if prepared.stage().is_none() {
            let bundle = context.bundle;
            let mut findings =
                preflight::check_upgrade(cluster, hosts, &prepared.facts, bundle).await;
            let (first, _) = first_control_plane(cluster, hosts)?;
            let targets = [Target {
                cluster: cluster.clone(),
                hop: &self.reconciliation(&prepared.touched),
            }];
            findings.extend(programs::findings(bundle, &targets, None, first, events).await?);
            preflight::report(&findings, events)?;
        }
        Ok(prepared)
    }

    fn way(&self, facts: &BTreeMap<HostName, Facts>) -> Result<Way, CommandError> {
        Ok(way::way(&self.api_servers(facts)?, self.to()))
    }

    /// Returns the versions of the API servers.
    ///
    /// # Errors
    /// A control plane has none.
    pub(super) fn api_servers(
        &self,
        facts: &BTreeMap<HostName, Facts>,
    ) -> Result<Running, CommandError> {
        let mut running = Running::default();
        for name in &self.cluster().roles.control_plane {
            let found = facts.get(name);
            let found = found.and_then(|facts| facts.applied(Setting::Version).next());
            let version = found.and_then(|text| text.parse().ok()).ok_or_else(|| {
                CommandError::step(format!("{name}: cannot see the version of its API server"))
                    .hint("repair the host first; kubexm logs kube-apiserver shows its log")
            })?;
            running.api_servers.insert(name.clone(), version);
        }
        Ok(running)
    }

    /// Fails if the archive cannot bring the cluster back.
    fn check_archive(&self, prepared: &Prepared) -> Result<(), CommandError> {
        if let Some(former) = &self.former {
            return self.check_files(former, prepared);
        }
        let refused = |cause: &str, hint: &str| {
            Err(CommandError::refused(format!(
                "all API servers run Kubernetes {}, so that the way back is a snapshot of etcd, \
                 and {cause}",
                self.hop.version
            ))
            .hint(hint))
        };
        let archive = self.hop.archive.display();
        match self.cluster().etcd.data_directory() {
            None => refused(
                "kubexm saves none of an external etcd",
                "complete the upgrade; or restore the external etcd from your own snapshot and install the former version \
                 on new hosts",
            ),
            Some(_) => refused(
                &format!(
                    "{archive} has none that kubexm can restore: an earlier version of kubexm saved it"
                ),
                "complete the upgrade with the same command without --rollback",
            ),
        }
    }

    /// Fails if the archive is damaged, as long as hosts need something of it, or if etcd of the bundle cannot read its snapshot.
    fn check_files(&self, former: &Former, prepared: &Prepared) -> Result<(), CommandError> {
        let (context, cluster) = (&self.context, self.cluster());
        let inputs = plan_inputs::without_certificates(cluster, context.bundle, &prepared.facts);
        let members = members(cluster);
        let targets: Vec<archive::Target<'_>> = deploy::hosts(&inputs)
            .into_iter()
            .map(|host| archive::Target {
                name: &host.name,
                arch: prepared.facts.get(&host.name).and_then(Facts::arch),
                is_member: members.iter().any(|member| member.name == host.name),
            })
            .collect();
        archive::check_version((cluster, context.bundle.lock()), former, &targets)?;
        match prepared.stage() {
            Some(stage) if stage > RollbackStage::Prepare => Ok(()),
            _ => {
                let lock = context.bundle.lock();
                let has_program = |arch| etcdutl::is_in(lock, self.to(), arch);
                let opener = &self.opener()?;
                archive::check(&self.hop.archive, opener, former, &targets, has_program)
            }
        }
    }

    /// Returns the hop that gives the former version to all control planes and to the changed workers.
    pub(super) fn reconciliation(&self, touched: &BTreeSet<HostName>) -> Hop {
        let is_worker = |name: &&HostName| !self.cluster().is_control_plane(name);
        Hop {
            version: self.to().clone(),
            workers: touched.iter().filter(is_worker).cloned().collect(),
        }
    }
}
