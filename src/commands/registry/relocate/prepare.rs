//! What a move needs to know before its first change, and the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::course::Course;
use super::record::{self, MoveRecord, Stage, is_same};
use super::{Move, joined};
use crate::certificates::{self, CaEncryption};
use crate::install::outcome::{Ended, carry_out};
use crate::registry::catalog::Catalog;
use crate::registry::space;
use crate::registry::sync::{distinct, equal_content, source};
use crate::session::{self, Hosts};
use crate::{CommandError, Stop, identity, plan_inputs, preflight};
use kubexm_config::Cluster;
use kubexm_deploy::{Certificates, Inputs, relocation};
use kubexm_engine::reset::HostReset;
use kubexm_engine::seed::{RegistryBlobs, RegistryContent, StoreImages};
use kubexm_host::{Facts, HostError};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// What is known before the first change.
pub(super) struct Prepared {
    facts: BTreeMap<HostName, Facts>,
    /// Unreachable hosts without which the move goes on.
    lost: Vec<HostError>,
    /// What new registries get; `None` if this run brings no images.
    images: Option<(RegistryContent, Arc<RegistryBlobs>)>,
    /// The number of changes of kubexm for the registry, by host whose registry ends.
    reverts: Vec<(HostName, usize)>,
    /// The plan for people.
    pub(super) text: String,
}

impl Move<'_> {
    /// Looks at the hosts and their registries.
    pub(super) async fn prepare(
        &self,
        hosts: Hosts,
        lost: Vec<HostError>,
        events: &Events,
    ) -> Result<Prepared, CommandError> {
        events.phase("preflight");
        // A run that was interrupted may have ended a former registry, and begun a new one.
        let (mut facts, errors) = session::gather_each(&self.cluster, &hosts).await;
        if !errors.is_empty() {
            let errors = errors.into_iter().map(|(_, error)| error).collect();
            return Err(CommandError::Hosts(errors));
        }
        let known = identity::KnownCluster::read(&self.cluster, self.state)?;
        known.origins(&self.cluster, &facts, events)?;
        self.check_former(&facts)?;
        let ending = match self.course {
            Course::Move | Course::End => &self.record.from,
            Course::Cancel => &self.record.to,
        };
        let mut reverts = Vec::new();
        for name in ending.iter().filter(|name| hosts.contains_key(*name)) {
            reverts.push((name.clone(), self.reset(&hosts, name).await?.changes()));
        }
        let (images, text) = match self.course {
            Course::Move => {
                let catalog = self.catalog(&hosts, &mut facts, events).await?;
                let content = equal_content(&catalog)?;
                let sizes = self.sizes(&catalog, &content);
                space::check(&self.cluster.registry.data_dir, &facts, &sizes)?;
                let text = self.text(&catalog, &content, &reverts);
                let blobs = Arc::new(source(&self.cluster, &catalog, &content));
                (Some((content, blobs)), text)
            }
            Course::Cancel => (None, self.cancel_text(&reverts)),
            Course::End => (None, self.end_text(&reverts)),
        };
        Ok(Prepared {
            facts,
            lost,
            images,
            reverts,
            text,
        })
    }

    /// Checks that the former registries are where they should be: the move copies from them, and its cancellation returns to them.
    fn check_former(&self, facts: &BTreeMap<HostName, Facts>) -> Result<(), CommandError> {
        let before = &self.record.before;
        let is_there = |name: &&HostName| facts.get(*name).is_some_and(Facts::has_registry);
        let refused = |what: String, hint: String| {
            Err(CommandError::Configuration(format!("{what}\nhint: {hint}")))
        };
        match self.course {
            Course::Move => {
                let mut reached = before.iter().filter(|name| facts.contains_key(*name));
                let Some(name) = reached.find(|name| !is_there(name)) else {
                    return Ok(());
                };
                let hint = match self.is_begun {
                    true => format!(
                        "undo the move, or remove the host first: kubexm node remove {name}"
                    ),
                    false => "run kubexm install, which installs it there".to_owned(),
                };
                refused(format!("no registry of kubexm is on {name}"), hint)
            }
            // Incomplete copies have nothing that a bundle does not have.
            Course::Cancel
                if self.record.is_copied && !before.iter().any(|name| is_there(&name)) =>
            {
                let what =
                    "cannot cancel the move of registries: the new ones alone have the images";
                refused(
                    what.to_owned(),
                    format!("complete it with {}", self.record.command()),
                )
            }
            Course::Cancel | Course::End => Ok(()),
        }
    }

    /// Checks that hosts can have a registry, and reads those that serve. New ones will have the sources of the former ones.
    async fn catalog(
        &self,
        hosts: &Hosts,
        facts: &mut BTreeMap<HostName, Facts>,
        events: &Events,
    ) -> Result<Catalog, CommandError> {
        for name in &self.record.to {
            if facts.get(name).is_some_and(|facts| !facts.receipt) {
                return Err(CommandError::Configuration(format!(
                    "cannot move registries to {name}: it is not in the cluster yet\nhint: add it first: kubexm node add {name}"
                )));
            }
        }
        let findings = preflight::check(&self.after, hosts, facts, self.bundle).await;
        preflight::report(&findings, events)?;
        let mut running = self.during.clone();
        let has_registry = |name: &HostName| facts.get(name).is_some_and(Facts::has_registry);
        running.roles.registry.retain(has_registry);
        let sources = facts.values();
        let sources = distinct(sources.flat_map(|facts| facts.registry_sources.iter().cloned()));
        for name in &self.record.to {
            if let Some(facts) = facts.get_mut(name) {
                facts.registry_sources.extend(sources.iter().cloned());
            }
        }
        let catalog = Catalog::read(&running, hosts).await?;
        catalog.check_tags(&self.cluster)?;
        Ok(catalog)
    }

    /// Carries the plan out, and records how far it is.
    pub(super) async fn carry_out(
        &self,
        prepared: Prepared,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
        let mut ended = Ended::default();
        match self.course {
            Course::Move => {
                self.save(Stage::Begun, self.record.is_copied)?;
                ended += self.switch(&prepared, hosts, events, stop).await?;
                self.save(Stage::Ending, true)?;
                ended.changed += self.end(&prepared, hosts, events, stop).await?;
            }
            Course::End => ended.changed += self.end(&prepared, hosts, events, stop).await?,
            Course::Cancel => {
                self.save(Stage::Cancelled, self.record.is_copied)?;
                ended += self.switch_back(&prepared, hosts, events, stop).await?;
                ended.changed += self.end(&prepared, hosts, events, stop).await?;
                match is_same(&self.named, &self.record.before) {
                    true => record::forget(self.state)?,
                    false => self.save(Stage::Undone, false)?,
                }
                return Ok(ended);
            }
        }
        if !prepared.lost.is_empty() {
            return Err(CommandError::HostsNeeded {
                hosts: prepared.lost,
                hint: format!(
                    "no host uses this registry any more: run the same command again when the host answers, or write registry: \
                     [{}] into spec.roleGroups of the cluster file, and remove the host: kubexm node remove",
                    joined(&self.record.after())
                ),
            });
        }
        self.save(Stage::Moved, true)?;
        Ok(ended)
    }

    fn save(&self, stage: Stage, is_copied: bool) -> Result<(), CommandError> {
        let record = MoveRecord {
            stage,
            is_copied,
            ..self.record.clone()
        };
        record.save(self.state)
    }

    /// Runs the new registries, and lets every host use them alone.
    async fn switch(
        &self,
        prepared: &Prepared,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
        let certificates = self.certificates(&self.after)?;
        let before = self.inputs(&self.during, prepared, certificates.clone());
        let after = self.inputs(&self.after, prepared, certificates);
        events.phase("apply");
        let copied = || {
            let (content, blobs) = prepared.images.as_ref()?;
            Some(StoreImages {
                id: "registry copies".to_owned(),
                title: "Copy the images of the other registries".to_owned(),
                content: content.clone(),
                data_dir: self.cluster.registry.data_dir.clone(),
                blobs: Arc::clone(blobs) as _,
            })
        };
        let plan = relocation::serve(&after, &self.record.to, copied)?;
        let mut ended = carry_out(plan, hosts, events, stop).await?;
        self.save(Stage::Begun, true)?;
        ended += carry_out(relocation::follow(&before)?, hosts, events, stop).await?;
        // A registry that stays restarts with another certificate while the new ones serve.
        let plan = relocation::serve(&after, &self.record.kept(), || None)?;
        ended += carry_out(plan, hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&after)?, hosts, events, stop).await?;
        Ok(ended)
    }

    /// Lets every host use the former registries alone, which still have all images.
    async fn switch_back(
        &self,
        prepared: &Prepared,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
        let certificates = self.certificates(&self.cluster)?;
        let during = self.inputs(&self.during, prepared, certificates.clone());
        let before = self.inputs(&self.cluster, prepared, certificates);
        events.phase("apply");
        let mut ended = Ended::default();
        if self.record.is_copied {
            // The former registries restart one after another, and each host has another one meanwhile.
            ended += carry_out(relocation::follow(&during)?, hosts, events, stop).await?;
        }
        // They get a certificate of their own again: the one of the move names other hosts.
        let mut former = self.record.before.clone();
        former.retain(|name| !before.absent.contains(name));
        let plan = relocation::serve(&before, &former, || None)?;
        ended += carry_out(plan, hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&before)?, hosts, events, stop).await?;
        Ok(ended)
    }

    /// Reverts the changes of kubexm for registries that no host uses any more. Returns their number.
    async fn end(
        &self,
        prepared: &Prepared,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<usize, CommandError> {
        events.phase("reset");
        let observed = session::watched(hosts, events);
        let mut changed = 0;
        for (name, _) in &prepared.reverts {
            let reset = self.reset(&observed, name).await?;
            let reverted = reset.run(events, stop).await;
            let reverted = reverted.map_err(|error| CommandError::Reset(vec![error]))?;
            changed += reverted.changes;
            if !reverted.complete {
                let hint = crate::stop::AGAIN;
                return Err(CommandError::Interrupted(format!("stopped\nhint: {hint}")));
            }
        }
        Ok(changed)
    }

    fn certificates(&self, cluster: &Cluster) -> Result<Certificates, CommandError> {
        let encryption = self.options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        certificates::load_or_issue(cluster, self.state, identity)
    }

    fn inputs<'b>(
        &'b self,
        cluster: &'b Cluster,
        prepared: &Prepared,
        certificates: Certificates,
    ) -> Inputs<'b> {
        let lost = prepared.lost.iter().map(|error| error.host().clone());
        Inputs {
            absent: lost.collect(),
            ..plan_inputs::with_certificates(cluster, self.bundle, &prepared.facts, certificates)
        }
    }

    /// Reads the records of the registry of a host.
    async fn reset(&self, hosts: &Hosts, name: &HostName) -> Result<HostReset, CommandError> {
        let placeholder = Certificates::placeholder(&self.cluster);
        let none = BTreeMap::new();
        let mut inputs =
            plan_inputs::with_certificates(&self.cluster, self.bundle, &none, placeholder);
        let assumed = Inputs::assumed(
            &self.cluster,
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
