//! The removal of hosts: what is known before it, and its parts in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::members::Quorum;
use super::text::{self, Purpose};
use super::{refusals, understated};
use crate::addition::strangers;
use crate::reset;
use crate::upgrade::survey::Survey;
use kubexm_bundle::BundleSet;
use kubexm_config::{Cluster, HostMention};
use kubexm_deploy::removal::{Leaving, RemovalInputs};
use kubexm_deploy::upgrade::Drain;
use kubexm_deploy::{Certificates, DeployError, Deployment};
use kubexm_engine::cluster::RemovalState;
use kubexm_engine::plan::{Journal, Plan};
use kubexm_engine::reset::HostReset;
use kubexm_host::Facts;
use kubexm_operate::registry;
use kubexm_preflight::Finding;
use kubexm_safekeeping::archive::{Archive, Occasion};
use kubexm_session::begun::joined;
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_session::identity::KnownCluster;
use kubexm_session::kubeconfigs;
use kubexm_session::outcome::{Ended, carry_out};
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{
    ClusterSource, CommandError, Connection, Stop, listeners, notices, plan_inputs, preflight,
};
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, HostName};

/// Which hosts leave a cluster, and how.
#[derive(Debug, Clone)]
pub struct RemoveOptions {
    /// The cluster file, which still has the hosts, and the bundle of the cluster.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs; `None` for keys in clear text.
    pub ca_encryption: Option<CaEncryption>,
    /// The hosts.
    pub names: Vec<HostName>,
    /// Whether to remove hosts that cannot be reached. Nothing is reset there.
    pub unreachable: bool,
    /// How pods leave a node.
    pub drain: Drain,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// What a removal works with.
pub(super) struct Context<'a> {
    pub(super) options: &'a RemoveOptions,
    pub(super) bundle: &'a Arc<BundleSet>,
    /// The cluster file.
    pub(super) cluster: &'a Cluster,
    /// The cluster without the hosts that leave.
    pub(super) remaining: &'a Cluster,
    pub(super) state: &'a Path,
    pub(super) purpose: Purpose,
}

/// A cluster file without hosts.
pub(super) struct Remaining {
    pub(super) cluster: Cluster,
    pub(super) mentions: Vec<HostMention>,
}

impl Remaining {
    /// Reads the cluster file as the user leaves it. For a replacement, the file stays as it is.
    ///
    /// # Errors
    /// The cluster does not work without the hosts, or the file would not be valid.
    pub(super) fn read(
        options: &RemoveOptions,
        bundle: &BundleSet,
        cluster: &Cluster,
        purpose: Purpose,
    ) -> Result<Self, CommandError> {
        let leaving: BTreeSet<HostName> = options.names.iter().cloned().collect();
        refusals::check(cluster, &leaving)?;
        if purpose == Purpose::Replace {
            return Ok(Self {
                cluster: refusals::without(cluster, &leaving),
                mentions: Vec::new(),
            });
        }
        let file = &options.source.cluster;
        let offered = &bundle.lock().kubernetes;
        let read = kubexm_config::load_cluster_without(file, offered, &leaving);
        let read = read.map_err(|problems| {
            CommandError::configuration(format!(
                "cannot remove {}: the cluster file would not be valid without it\n{problems}",
                joined(&leaving)
            ))
        })?;
        Ok(Self {
            cluster: read.cluster,
            mentions: read.mentions,
        })
    }
}

/// How long an API server may take until it answers: one that has just started, or a host under load, is slow.
const ANSWER: Duration = Duration::from_secs(60);

/// What is known before the first change.
pub(super) struct Prepared {
    pub(super) leaving: Vec<Leaving>,
    /// The facts of all hosts that answer.
    facts: BTreeMap<HostName, Facts>,
    /// Workers that stay in the cluster and do not answer.
    absent: BTreeSet<HostName>,
    /// How many changes of kubexm each host has that leaves and answers.
    pub(super) changes: BTreeMap<HostName, usize>,
    pub(super) quorum: Quorum,
    /// Whether an earlier run began the removal.
    pub(super) continues: bool,
}

/// What a removal does, apart from resets and what follows them.
struct Plans {
    beginning: Plan,
    deployment: Deployment,
    /// What happens before the reset of each host that works.
    departures: BTreeMap<HostName, Plan>,
}

impl Plans {
    /// # Errors
    /// The cluster file does not have what a plan needs.
    fn of(inputs: &RemovalInputs<'_>) -> Result<Self, DeployError> {
        let working = inputs.leaving.iter().filter(|host| !host.is_lost);
        let departures = working.map(|host| Ok((host.spec.name.clone(), inputs.departure(host)?)));
        Ok(Self {
            beginning: inputs.beginning(),
            deployment: inputs.install()?,
            departures: departures.collect::<Result<_, DeployError>>()?,
        })
    }
}

/// Connections, and what does not answer.
pub(super) struct Connected {
    pub(super) hosts: Hosts,
    absent: BTreeSet<HostName>,
}

impl Context<'_> {
    pub(super) fn is_leaving(&self, name: &HostName) -> bool {
        self.options.names.contains(name)
    }

    /// Connects to all hosts. Workers that stay need not answer, and hosts that leave only if the user says so.
    pub(super) async fn connect(&self, events: &Events) -> Result<Connected, CommandError> {
        let connection = &self.options.connection;
        let connecting = connection.connect_each(self.cluster, self.state, events);
        let (hosts, errors) = connecting.await?;
        let absent = self.judge_errors(errors, events)?;
        Ok(Connected { hosts, absent })
    }

    /// Looks at the hosts and at the cluster.
    ///
    /// # Errors
    /// Something prevents the removal.
    pub(super) async fn prepare(
        &self,
        connected: &Connected,
        events: &Events,
    ) -> Result<Prepared, CommandError> {
        events.phase("preflight");
        let hosts = session::watched(&connected.hosts, events);
        let (facts, errors) = session::gather_each(self.cluster, &hosts).await;
        let mut absent = connected.absent.clone();
        absent.extend(self.judge_errors(errors, events)?);
        notices::emit_experimental_hosts(&facts, events);
        let mut known = KnownCluster::read(self.cluster, self.state)?;
        known.origins(self.cluster, &facts, events)?;
        let names = &self.options.names;
        let continues = names.iter().any(|name| {
            let removed = known.removed();
            let removal = removed.get(name);
            removal.is_some_and(|removal| removal.state == RemovalState::Begun)
        });
        let leaving = self.leaving(&facts);
        let first = self.first(&hosts, &facts)?;
        let survey = match Survey::read(self.cluster, first.as_ref(), ANSWER).await {
            Ok(survey) => survey,
            Err(error) => {
                // Without a quorum of etcd no API server answers, and its numbers say more than that.
                self.quorum(&leaving, &hosts).await?;
                return Err(error);
            }
        };
        self.await_silence(&leaving, &facts, &survey, first.as_ref(), events)
            .await?;
        let quorum = self.quorum(&leaving, &hosts).await?;
        let mut findings = self.findings(&survey, &leaving);
        findings.extend(understated::findings(self.cluster, &leaving, &facts));
        let leaves = names.iter().cloned().collect();
        for name in strangers(self.cluster, &known, &facts, &leaves) {
            let what =
                "is not in the cluster yet, and the other hosts get the cluster file as it is";
            let hint = format!(
                "remove it from the cluster file for now, or add it first: kubexm node add {name}"
            );
            findings.push(Finding::new(
                FindingKind::Membership,
                name,
                true,
                what.to_owned(),
                &hint,
            ));
        }
        findings.extend(self.lost_images(&hosts, &facts, &leaves).await?);
        known.readmit(names);
        findings.extend(known.findings(self.cluster, &facts));
        findings.extend(self.preflight(&hosts, &facts).await);
        preflight::report(&findings, events)?;
        let reached = names.iter().filter_map(|name| hosts.get(name));
        let resets = join_all(reached.map(HostReset::read)).await;
        let resets: Result<Vec<_>, _> = resets.into_iter().collect();
        let resets = resets.map_err(|error| CommandError::Reset(vec![error]))?;
        let changes = resets
            .iter()
            .map(|reset| (reset.host().name().clone(), reset.changes()));
        Ok(Prepared {
            leaving,
            absent,
            changes: changes.collect(),
            quorum,
            continues,
            facts,
        })
    }

    /// Returns the images of which a host that leaves has the only copy. Images of `kubexm registry add` are in no bundle of
    /// the cluster.
    async fn lost_images(
        &self,
        hosts: &Hosts,
        facts: &BTreeMap<HostName, Facts>,
        leaving: &BTreeSet<HostName>,
    ) -> Result<Option<Finding>, CommandError> {
        let has_registry = |name: &HostName| facts.get(name).is_some_and(Facts::has_registry);
        let registries: Hosts = hosts
            .iter()
            .filter(|(name, _)| has_registry(name))
            .map(|(name, host)| (name.clone(), Arc::clone(host)))
            .collect();
        let mut names = registries.keys();
        let Some(name) = names.find(|name| leaving.contains(*name)) else {
            return Ok(None);
        };
        let images = registry::only_on(self.cluster, &registries, leaving).await?;
        let Some(first) = images.first() else {
            return Ok(None);
        };
        let what = format!(
            "has the only copy of {} images, such as {first}",
            images.len()
        );
        let hint = "copy them to the other registries first: kubexm registry sync";
        Ok(Some(Finding::new(
            FindingKind::Registry,
            name,
            true,
            what,
            hint,
        )))
    }

    /// Returns what the plans depend on.
    pub(super) fn inputs<'a>(
        &'a self,
        prepared: &'a Prepared,
        certificates: Certificates,
    ) -> RemovalInputs<'a> {
        let facts = prepared.facts.iter();
        let facts = facts.filter(|(name, _)| self.remaining.host(name).is_some());
        let facts = facts
            .map(|(name, facts)| (name.clone(), facts.clone()))
            .collect();
        let mut inputs =
            plan_inputs::with_certificates(self.remaining, self.bundle, &facts, certificates);
        inputs.absent = prepared.absent.clone();
        inputs.leaving = self.options.names.iter().cloned().collect();
        RemovalInputs {
            inputs,
            leaving: &prepared.leaving,
            drain: self.options.drain,
            asked: prepared.quorum.asked.as_ref(),
        }
    }

    fn issued(&self) -> Result<Certificates, CommandError> {
        let encryption = self.options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        certificates::load_or_issue(self.remaining, self.state, identity)
    }

    /// Returns the plan for people.
    ///
    /// # Errors
    /// The cluster file does not have what the plan needs.
    pub(super) fn text(&self, prepared: &Prepared) -> Result<String, CommandError> {
        let inputs = self.inputs(prepared, Certificates::placeholder(self.remaining));
        Ok(text::plan(self.cluster, prepared, &inputs, self.purpose)?)
    }

    /// Removes the hosts. The plan is known and confirmed.
    pub(super) async fn carry_out(
        &self,
        prepared: &Prepared,
        hosts: &Hosts,
        journal: &Journal,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
        let observed = session::watched(hosts, events);
        // Before the record: a removal without a plan has not begun.
        let inputs = self.inputs(prepared, self.issued()?);
        let Plans {
            beginning,
            mut deployment,
            mut departures,
        } = Plans::of(&inputs)?;
        if prepared.quorum.change.is_some() {
            unless_stopped(stop, self.save(&observed, events)).await?;
        }
        let mut known = KnownCluster::read(self.cluster, self.state)?;
        known.begin_removal(&self.options.names)?;
        events.phase("apply");
        let mut ended = carry_out(beginning, hosts, events, stop).await?;
        let plan = std::mem::take(&mut deployment.plan);
        ended += carry_out(plan, hosts, events, stop).await?;
        if let Some(text) = deployment.kubeconfig.get() {
            kubeconfigs::save_kubeconfig(journal, text)?;
        }
        for host in &prepared.leaving {
            let name = &host.spec.name;
            if let Some(departure) = departures.remove(name) {
                ended += carry_out(departure, hosts, events, stop).await?;
            }
            let state = match observed.get(name) {
                Some(found) => {
                    events.phase("reset");
                    let only = Hosts::from([(name.clone(), Arc::clone(found))]);
                    let nothing = async |_: &[HostReset]| Ok(());
                    let (cluster, state) = (self.cluster, self.state);
                    let changes = prepared.changes.get(name).copied().unwrap_or_default();
                    let counted = &listeners::with_count(events, changes);
                    let reverting =
                        reset::revert(cluster, state, &only, None, nothing, counted, stop);
                    ended.changed += reverting.await?.0;
                    RemovalState::Complete
                }
                None => RemovalState::WithoutContact,
            };
            if !host.is_lost {
                ended += carry_out(inputs.deletion(host), hosts, events, stop).await?;
            }
            if self.purpose == Purpose::Remove {
                certificates::forget(self.cluster, self.state, name)?;
            }
            // The reset wrote the record.
            KnownCluster::read(self.cluster, self.state)?.end_removal(name, state)?;
        }
        Ok(ended)
    }

    /// Saves etcd before its members change.
    async fn save(&self, hosts: &Hosts, events: &Events) -> Result<(), CommandError> {
        events.phase("archive");
        let encryption = self.options.ca_encryption.as_ref();
        let archive = Archive::create(self.state, Occasion::Removal, encryption, events)?;
        let stays = |name: &HostName| !self.is_leaving(name);
        let others = hosts.iter().filter(|(name, _)| stays(name));
        let others: Hosts = others
            .map(|(name, host)| (name.clone(), Arc::clone(host)))
            .collect();
        let saved = archive
            .save_etcd(self.remaining, &others, |_| false, events)
            .await?;
        if let Some(file) = saved {
            events.note(format!("a snapshot of etcd is in {}", file.display()));
        }
        archive.keep_newest(self.state, events);
        Ok(())
    }
}
