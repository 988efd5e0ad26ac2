//! `registry move`: lets other hosts run the registries of a cluster, while it runs.

mod text;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use self::text::edit;
use super::catalog::Catalog;
use super::change::ChangeReport;
use super::site::{Site, check_own};
use super::sync::{distinct, equal_content, source};
use crate::certificates::{self, CaEncryption};
use crate::install::outcome::{Ended, carry_out};
use crate::install::prepare::verify;
use crate::session::Hosts;
use crate::stop::unless_stopped;
use crate::{
    ClusterSource, CommandError, Connection, Stop, listeners, plan_inputs, preflight, rollback,
    session,
};
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::{Certificates, Inputs, relocation};
use kubexm_engine::reset::HostReset;
use kubexm_engine::seed::{RegistryBlobs, RegistryContent, StoreImages};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Where the registries move.
#[derive(Debug, Clone)]
pub struct MoveOptions {
    /// The cluster file, which still has the former hosts, and the bundle of the cluster.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs; `None` for keys in clear text.
    pub ca_encryption: Option<CaEncryption>,
    /// The hosts that get a registry.
    pub to: Vec<HostName>,
    /// The hosts that lose it; empty for all that have one.
    pub from: Vec<HostName>,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// A move, and the clusters that it passes.
struct Move<'a> {
    options: &'a MoveOptions,
    bundle: &'a Arc<BundleSet>,
    cluster: &'a Cluster,
    /// With the registries of former and of new hosts.
    during: Cluster,
    /// With the registries that remain.
    after: Cluster,
    from: Vec<HostName>,
    /// Hosts with a registry before and afterwards.
    kept: Vec<HostName>,
    state: &'a Path,
}

/// What is known before the first change.
struct Prepared<'a> {
    site: Site<'a>,
    content: RegistryContent,
    source: Arc<RegistryBlobs>,
    /// The number of changes of kubexm for the registry, by former host.
    reverts: Vec<(HostName, usize)>,
    text: String,
}

/// Moves registries. Nodes pull from former and new registries until all of them use the new ones. A move that was interrupted
/// continues when it runs again.
///
/// # Errors
/// The bundle or the cluster file is wrong, registries differ, hosts cannot be reached, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn relocate(
    options: &MoveOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    options.connection.check()?;
    let (bundle, cluster) = options.source.open_to_install(options.unsigned, events)?;
    check_own(&cluster, &options.source.cluster)?;
    let state = options.connection.state_directory(&cluster, events)?;
    rollback::check(&state, bundle.bundle(), options.allow_older, events)?;
    let moving = Move::new(options, &bundle, &cluster, &state)?;
    if options.dry_run {
        let looking = async {
            let hosts = moving.connect(events).await?;
            let hosts = session::watched(&hosts, events);
            events.note(moving.prepare(hosts, events).await?.text);
            Ok(())
        };
        unless_stopped(stop, looking).await?;
        events.note("dry run: nothing was touched");
        return Ok(ChangeReport { changed: None });
    }
    // Held until the end: only one command may change the cluster.
    let journal = Arc::new(session::journal(&state)?);
    journal.begin("registry move", &bundle.bundle().lock_digest().to_string());
    let events = &listeners::with_journal(events.clone(), Arc::clone(&journal));
    events.phase("verify");
    unless_stopped(stop, verify(&bundle, events)).await?;
    events.phase("connect");
    let hosts = unless_stopped(stop, moving.connect(events)).await?;
    let hosts = session::logged(hosts, &state);
    let observed = session::watched(&hosts, events);
    let locks = session::lock(&observed, &journal, "registry move", events, stop).await?;
    let changing = async {
        let prepared = unless_stopped(stop, moving.prepare(observed.clone(), events)).await?;
        events.note(prepared.text.clone());
        moving.carry_out(&prepared, &hosts, events, stop).await
    };
    let changed = changing.await;
    locks.release().await;
    let ended = changed?;
    events.note(format!(
        "the registries have moved; change the cluster file before the next install:\n  {}",
        edit(&options.source.cluster, &moving.after.roles.registry)
    ));
    events.emit(ended.summary(None));
    Ok(ChangeReport {
        changed: Some(ended.changed),
    })
}

fn joined(names: &[HostName]) -> String {
    let names: Vec<&str> = names.iter().map(HostName::as_str).collect();
    names.join(", ")
}

impl<'a> Move<'a> {
    fn new(
        options: &'a MoveOptions,
        bundle: &'a Arc<BundleSet>,
        cluster: &'a Cluster,
        state: &'a Path,
    ) -> Result<Self, CommandError> {
        let present = &cluster.roles.registry;
        let refused = |what: String, hint: String| {
            CommandError::Configuration(format!("cannot move registries: {what}\nhint: {hint}"))
        };
        for name in options.to.iter().chain(&options.from) {
            if cluster.host(name).is_none() {
                let hint = "add the host to the cluster first: kubexm node add";
                let what = format!("the cluster file does not have the host '{name}'");
                return Err(refused(what, hint.to_owned()));
            }
        }
        let from = match options.from.is_empty() {
            true => present.clone(),
            false => options.from.clone(),
        };
        let wrong = from.iter().find(|name| !present.contains(name));
        if let Some(name) = wrong {
            let what = format!("{name} has no registry in the cluster file");
            let hint = format!("these hosts have one: {}", joined(present));
            return Err(refused(what, hint));
        }
        if let Some(name) = options.to.iter().find(|name| present.contains(name)) {
            let what = format!("{name} has a registry already");
            let hint = "name other hosts with --to; --from HOST keeps the registries of the others";
            return Err(refused(what, hint.to_owned()));
        }
        let kept = present.iter().filter(|name| !from.contains(name));
        let kept: Vec<HostName> = kept.cloned().collect();
        let with = |hosts: Vec<HostName>| {
            let mut cluster = cluster.clone();
            cluster.roles.registry = hosts;
            cluster
        };
        Ok(Self {
            options,
            bundle,
            cluster,
            during: with([present.as_slice(), &options.to].concat()),
            after: with([kept.as_slice(), &options.to].concat()),
            from,
            kept,
            state,
        })
    }

    /// Connects to all hosts: each of them uses the registries.
    async fn connect(&self, events: &Events) -> Result<Hosts, CommandError> {
        let connection = &self.options.connection;
        let (hosts, errors) = connection
            .connect_each(self.cluster, self.state, events)
            .await?;
        match errors.is_empty() {
            true => Ok(hosts),
            false => Err(CommandError::HostsNeeded {
                hosts: errors.into_iter().map(|(_, error)| error).collect(),
                hint: "every host must use the new registries: start this one, or remove it first: kubexm node remove"
                    .to_owned(),
            }),
        }
    }

    /// Looks at the hosts and their registries.
    async fn prepare(&self, hosts: Hosts, events: &Events) -> Result<Prepared<'a>, CommandError> {
        events.phase("preflight");
        // A run that was interrupted may have ended a former registry, and begun a new one.
        let (facts, errors) = session::gather_each(self.cluster, &hosts).await;
        if !errors.is_empty() {
            let errors = errors.into_iter().map(|(_, error)| error).collect();
            return Err(CommandError::Hosts(errors));
        }
        let known = crate::identity::KnownCluster::read(self.cluster, self.state)?;
        known.origins(self.cluster, &facts, events)?;
        for name in &self.options.to {
            if facts.get(name).is_some_and(|facts| !facts.receipt) {
                return Err(CommandError::Configuration(format!(
                    "cannot move registries to {name}: it is not in the cluster yet\nhint: add it first: kubexm node add {name}"
                )));
            }
        }
        let findings = preflight::check(&self.after, &hosts, &facts, self.bundle).await;
        preflight::report(&findings, events)?;
        let mut running = self.during.clone();
        running.roles.registry.retain(|name| {
            let facts = facts.get(name);
            facts.is_some_and(|facts| facts.registry_login.is_some())
        });
        let catalog = Catalog::read(&running, &hosts).await?;
        let content = equal_content(&catalog)?;
        let source = Arc::new(source(self.cluster, &catalog, &content));
        let mut site = Site {
            cluster: self.cluster,
            state: self.state,
            hosts,
            facts,
            lost: Vec::new(),
        };
        // New registries have the images of the former ones.
        let sources = site.facts.values();
        let sources = distinct(sources.flat_map(|facts| facts.registry_sources.iter().cloned()));
        for name in &self.options.to {
            if let Some(facts) = site.facts.get_mut(name) {
                facts.registry_sources.extend(sources.iter().cloned());
            }
        }
        let mut reverts = Vec::new();
        for name in &self.from {
            reverts.push((name.clone(), self.reset(&site.hosts, name).await?.changes()));
        }
        let text = self.text(&catalog, &content, &reverts);
        Ok(Prepared {
            site,
            content,
            source,
            reverts,
            text,
        })
    }

    fn inputs<'b>(
        &'b self,
        cluster: &'b Cluster,
        prepared: &Prepared<'_>,
        certificates: Certificates,
    ) -> Inputs<'b> {
        let facts = &prepared.site.facts;
        plan_inputs::with_certificates(cluster, self.bundle, facts, certificates)
    }

    async fn carry_out(
        &self,
        prepared: &Prepared<'_>,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
        let encryption = self.options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        let certificates = certificates::load_or_issue(&self.after, self.state, identity)?;
        let before = self.inputs(&self.during, prepared, certificates.clone());
        let after = self.inputs(&self.after, prepared, certificates);
        events.phase("apply");
        let copied = || {
            Some(StoreImages {
                id: "registry copies".to_owned(),
                title: "Copy the images of the other registries".to_owned(),
                content: prepared.content.clone(),
                data_dir: self.cluster.registry.data_dir.clone(),
                blobs: Arc::clone(&prepared.source) as _,
            })
        };
        let plan = relocation::serve(&after, &self.options.to, copied)?;
        let mut ended = carry_out(plan, hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&before)?, hosts, events, stop).await?;
        // A registry that stays restarts with another certificate while the new ones serve.
        let plan = relocation::serve(&after, &self.kept, || None)?;
        ended += carry_out(plan, hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&after)?, hosts, events, stop).await?;
        events.phase("reset");
        let observed = session::watched(hosts, events);
        for (name, _) in &prepared.reverts {
            let reset = self.reset(&observed, name).await?;
            let reverted = reset.run(events, stop).await;
            let reverted = reverted.map_err(|error| CommandError::Reset(vec![error]))?;
            ended.changed += reverted.changes;
            if !reverted.complete {
                let hint = crate::stop::AGAIN;
                return Err(CommandError::Interrupted(format!("stopped\nhint: {hint}")));
            }
        }
        Ok(ended)
    }

    /// Reads the records of the registry of a host.
    async fn reset(&self, hosts: &Hosts, name: &HostName) -> Result<HostReset, CommandError> {
        let placeholder = Certificates::placeholder(self.cluster);
        let none = std::collections::BTreeMap::new();
        let mut inputs =
            plan_inputs::with_certificates(self.cluster, self.bundle, &none, placeholder);
        let assumed = Inputs::assumed(
            self.cluster,
            self.bundle.lock(),
            Arc::clone(self.bundle) as _,
        );
        inputs.hosts = assumed.hosts;
        let ids: BTreeSet<String> = relocation::steps(&inputs, name)?;
        let is_own = |step: &str| {
            // Other versions of the registry have other names.
            ids.contains(step) || step.starts_with("install registry ")
        };
        let Some(host) = hosts.get(name) else {
            return Err(CommandError::Configuration(format!(
                "no connection to {name}"
            )));
        };
        let reset = HostReset::read_steps(host, &is_own).await;
        reset.map_err(|error| CommandError::Reset(vec![error]))
    }
}
