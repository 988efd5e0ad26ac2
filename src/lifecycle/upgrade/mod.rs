//! `upgrade`: brings a cluster to another version of Kubernetes, on one node after another.

mod applications;
mod ask;
mod checks;
mod context;
mod etcd;
mod etcd_changes;
mod former;
mod live;
mod live_configs;
mod prepare;
mod programs;
mod removed_apis;
mod rollback;
mod runtime;
mod saved;
mod space;
pub mod survey;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use self::context::Context;
pub use self::context::UpgradeOptions;
use self::prepare::Prepared;
use self::rollback::way;
pub use self::rollback::{RollbackReport, rollback};
use kubexm_config::Cluster;
pub use kubexm_deploy::upgrade::Drain;
use kubexm_deploy::upgrade::{self as deploy, HopInputs};
use kubexm_deploy::upgrade_path::{Hop, Running};
use kubexm_deploy::{Certificates, Deployment};
use kubexm_engine::plan::Plan;
use kubexm_host::Facts;
use kubexm_operate::applications::note_left;
use kubexm_safekeeping::archive::{Archive, Occasion};
use kubexm_session::begun::{Operation, StateRecord, UpgradeRecord};
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_session::change::{Change, Session};
use kubexm_session::kubeconfigs;
use kubexm_session::outcome::{Ended, carry_out};
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Stop, clear_text, plan_inputs, rollback as older_bundle};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message, Version, WarningKind};

/// What an upgrade did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeReport {
    /// The version of the cluster file.
    pub version: Version,
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
}

/// Upgrades a cluster. Emits the plan as a note before it changes anything. An upgrade that was interrupted continues where
/// it stopped.
///
/// # Errors
/// The bundle or the cluster file is wrong, the version skew policy does not allow the upgrade, hosts or the cluster are not
/// ready, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn upgrade(
    options: &UpgradeOptions,
    events: &Events,
    stop: &Stop,
) -> Result<UpgradeReport, CommandError> {
    options.connection.check()?;
    let opened = options.source.open_to_install(options.unsigned, events)?;
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older(&state, options.allow_older, events)?;
    let context = Context {
        options,
        bundle: &bundle,
        cluster: &cluster,
        state: &state,
    };
    let report = |changed| UpgradeReport {
        version: cluster.kubernetes.version.clone(),
        changed,
    };
    if options.dry_run {
        certificates::warn_unless_opens(&state, options.ca_encryption.as_ref(), events);
        let looking = async {
            let hosts = options.connection.connect(&cluster, &state, events).await?;
            let hosts = session::watched(&hosts, events);
            let prepared = context.prepare(&hosts, events).await?;
            events.note(context.text(&prepared)?);
            Ok(())
        };
        unless_stopped(stop, looking).await?;
        events.note("dry run: nothing was touched");
        return Ok(report(None));
    }
    certificates::check_opens(&state, options.ca_encryption.as_ref())?;
    let change = Change {
        operation: Operation::Upgrade,
        cluster: &cluster,
        state: &state,
        lock: bundle.bundle().lock_digest().to_string(),
    };
    let connect = async |events: &Events| {
        let connection = &options.connection;
        change.connect(&bundle, connection, events).await
    };
    let work = async |session: Session<'_>, ()| {
        let changed = context.upgrade(&session).await?;
        clear_text::encrypt(&state, options.ca_encryption.as_ref(), session.events).await;
        Ok(changed)
    };
    let upgraded = change.run(events, stop, connect, work).await?;
    Ok(report(Some(upgraded)))
}

/// The cluster before a hop.
struct Before<'a> {
    /// The version of its oldest API server.
    version: &'a Version,
    hosts: &'a Hosts,
}

impl Context<'_> {
    /// Returns how nodes are drained; `None` if there is only one, whose pods have no other place.
    fn drain(&self) -> Option<Drain> {
        (self.cluster.nodes().len() > 1).then_some(self.options.drain)
    }

    /// Carries out all hops. Returns the number of steps that changed a host.
    async fn upgrade(&self, session: &Session<'_>) -> Result<usize, CommandError> {
        let Session {
            hosts,
            observed,
            journal,
            events,
            stop,
        } = session;
        let resuming = runtime::resume(self.cluster, observed, events);
        unless_stopped(stop, resuming).await?;
        let preparing = self.prepare(observed, events);
        let mut prepared = unless_stopped(stop, preparing).await?;
        events.note(self.text(&prepared)?);
        if prepared.hops.is_empty() {
            // An earlier run may have ended at an application.
            return Ok(self.apply_applications(session).await?.changed);
        }
        let mut ended = rollback::give_up(&mut prepared.record, self.cluster, session).await?;
        older_bundle::record(journal, self.bundle.bundle())?;
        let mut kubeconfig = None;
        let mut from = prepared.running.oldest().cloned();
        for hop in std::mem::take(&mut prepared.hops) {
            let cluster = self.at(&hop);
            let before = Before {
                version: from.as_ref().unwrap_or(&hop.version),
                hosts: observed,
            };
            let is_again = prepared
                .saved
                .as_ref()
                .is_some_and(|saved| saved.is_untouched && saved.hop.is_to_minor_of(&hop.version));
            let record = (&mut prepared.record, is_again);
            let saving = self.save(record, &hop, &before, events);
            unless_stopped(stop, saving).await?;
            from = Some(hop.version.clone());
            events.phase("apply");
            for held in self.parts(&hop, &prepared.running) {
                // Earlier parts changed the hosts.
                let gathering = session::gather(&cluster, observed);
                let facts = unless_stopped(stop, gathering).await?;
                let issued = self.certificates(&cluster)?;
                let mut deployment = self.plan(&cluster, &facts, issued, held)?;
                let plan = std::mem::take(&mut deployment.plan);
                ended += carry_out(plan, hosts, events, stop).await?;
                kubeconfig = deployment.kubeconfig.get().cloned().or(kubeconfig);
            }
        }
        let kubeconfig = kubeconfig
            .map(|text| kubeconfigs::save_kubeconfig(journal, &text))
            .transpose()?;
        UpgradeRecord::remove(self.state)?;
        ended += self.apply_applications(session).await?;
        events.emit(ended.summary(kubeconfig.as_deref()));
        Ok(ended.changed)
    }

    /// Applies the applications of the cluster file when all nodes have its version.
    async fn apply_applications(&self, session: &Session<'_>) -> Result<Ended, CommandError> {
        if self.cluster.applications.is_empty() {
            return Ok(Ended::default());
        }
        let Session {
            hosts,
            observed,
            events,
            stop,
            ..
        } = session;
        let gathering = session::gather(self.cluster, observed);
        let facts = unless_stopped(stop, gathering).await?;
        let issued = self.certificates(self.cluster)?;
        let inputs = plan_inputs::with_certificates(self.cluster, self.bundle, &facts, issued);
        let (plan, missing) = kubexm_deploy::applications(&inputs)?;
        note_left(&missing, events);
        carry_out(plan, hosts, events, stop).await
    }

    /// Returns the cluster file with the version of a hop.
    fn at(&self, hop: &Hop) -> Cluster {
        let mut cluster = self.cluster.clone();
        cluster.kubernetes.version = hop.version.clone();
        cluster
    }

    /// Returns the nodes that keep their version, for each plan of a hop: first the control planes change, then workers.
    fn parts(&self, hop: &Hop, running: &Running) -> Vec<BTreeSet<HostName>> {
        let workers = || {
            let nodes = self
                .cluster
                .nodes()
                .into_iter()
                .map(|host| host.name.clone());
            nodes.filter(|name| !running.api_servers.contains_key(name))
        };
        let all: BTreeSet<HostName> = workers().collect();
        let others = workers()
            .filter(|name| !hop.workers.contains(name))
            .collect();
        if hop.workers.is_empty() {
            vec![all]
        } else {
            vec![all, others]
        }
    }

    fn certificates(&self, cluster: &Cluster) -> Result<Certificates, CommandError> {
        let encryption = self.options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        certificates::load_or_issue(cluster, self.state, identity)
    }

    fn plan(
        &self,
        cluster: &Cluster,
        facts: &BTreeMap<HostName, Facts>,
        certificates: Certificates,
        held: BTreeSet<HostName>,
    ) -> Result<Deployment, CommandError> {
        Ok(deploy::hop(&self.inputs(
            cluster,
            facts,
            certificates,
            held,
        ))?)
    }

    fn inputs<'b>(
        &'b self,
        cluster: &'b Cluster,
        facts: &BTreeMap<HostName, Facts>,
        certificates: Certificates,
        held: BTreeSet<HostName>,
    ) -> HopInputs<'b> {
        HopInputs {
            inputs: plan_inputs::with_certificates(cluster, self.bundle, facts, certificates),
            held,
            drain: self.drain(),
            max_unavailable: self.options.max_unavailable,
        }
    }

    /// Saves etcd and the keys before a hop, unless an interrupted run did. `is_again` replaces the archive of that run.
    async fn save(
        &self,
        (record, is_again): (&mut UpgradeRecord, bool),
        hop: &Hop,
        before: &Before<'_>,
        events: &Events,
    ) -> Result<(), CommandError> {
        let version = &hop.version;
        let begun = way::begun(record);
        let begun = begun
            .into_iter()
            .find(|begun| begun.is_to_minor_of(version));
        if let Some(begun) = begun.filter(|_| !is_again) {
            events.note(format!(
                "the snapshot of etcd before Kubernetes {version} is in {}",
                begun.archive.display()
            ));
            if begun.version == *version {
                return Ok(());
            }
            record.add(version, begun.archive);
            return record.save(self.state);
        }
        events.phase("archive");
        let encryption = self.options.ca_encryption.as_ref();
        let archive = Archive::create(self.state, Occasion::Upgrade, encryption, events)?;
        let (cluster, hosts) = (self.cluster, before.hosts);
        let saving = former::save(&archive, (cluster, hosts), before.version, events);
        let saved = saving.await?;
        archive.save_authorities(cluster, hosts).await?;
        archive.save_state(self.state)?;
        match saved {
            Some(file) => events.note(format!("a snapshot of etcd is in {}", file.display())),
            None => {
                let text = "kubexm saves no snapshot of an external etcd";
                events.warn(
                    WarningKind::EtcdSnapshot,
                    Message::new(text).hint("take one before the upgrade goes on"),
                );
            }
        }
        record.forget_minor(version);
        record.add(version, archive.folder().to_owned());
        record.save(self.state)?;
        archive.keep_newest(self.state, events);
        Ok(())
    }

    /// Returns the plan for people.
    fn text(&self, prepared: &Prepared) -> Result<String, CommandError> {
        let version = &self.cluster.kubernetes.version;
        let applications = text::applications(self.cluster);
        if prepared.hops.is_empty() {
            let text = format!(
                "every program of Kubernetes in the cluster '{}' has the version {version} already",
                self.cluster.name
            );
            return Ok([text]
                .into_iter()
                .chain(applications)
                .collect::<Vec<_>>()
                .join("\n"));
        }
        let from = prepared.running.oldest().unwrap_or(version);
        let mut parts = vec![text::head(
            self.cluster,
            from,
            &prepared.hops,
            prepared.continues,
        )];
        parts.extend(prepared.record.rollback.as_ref().map(text::given_up));
        let mut runtimes = prepared.runtimes.clone();
        let mut network = prepared.network.clone();
        for hop in &prepared.hops {
            let cluster = self.at(hop);
            let plans: Result<Vec<Plan>, CommandError> = self
                .parts(hop, &prepared.running)
                .into_iter()
                .map(|held| {
                    let certificates = Certificates::placeholder(&cluster);
                    let deployment = self.plan(&cluster, &prepared.facts, certificates, held)?;
                    Ok(deployment.plan)
                })
                .collect();
            let saved = prepared.saved.as_ref();
            let saved = saved.filter(|saved| saved.hop.is_to_minor_of(&hop.version));
            parts.push(text::hop(
                hop,
                &text::archive(self.state, &cluster, saved),
                &prepared.members,
                &plans?,
                (&mut runtimes, &mut network),
            ));
        }
        parts.extend(applications);
        parts.push(text::end(
            (self.cluster, &prepared.members),
            from,
            &prepared.hops,
            prepared.saved.as_ref(),
        ));
        Ok(parts.join("\n").trim_end().to_owned())
    }
}
