//! What a move needs to know before its first change, and the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::course::Course;
use super::text::Revert;
use super::{Move, checks, issuing, joined};
use crate::registry::catalog::Catalog;
use crate::registry::space;
use crate::registry::sync::{equal_content, source};
use kubexm_config::Cluster;
use kubexm_deploy::{Certificates, Inputs, relocation};
use kubexm_engine::plan::Plan;
use kubexm_engine::reset::HostReset;
use kubexm_engine::seed::{RegistryBlobs, RegistryContent, StoreImages};
use kubexm_host::{Facts, HostError};
use kubexm_pki::PkiError;
use kubexm_session::begun::{MoveRecord, MoveStage as Stage, StateRecord, is_same};
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_session::outcome::{Ended, carry_out};
use kubexm_session::session::{self, Hosts};
use kubexm_session::{CommandError, Stop, identity, plan_inputs, preflight};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message, WarningKind};

/// What is known before the first change.
pub(super) struct Prepared {
    facts: BTreeMap<HostName, Facts>,
    /// Unreachable hosts without which the move goes on.
    lost: Vec<HostError>,
    /// What new registries get; `None` if this run brings no images.
    images: Option<(RegistryContent, Arc<RegistryBlobs>)>,
    /// What is reverted on each host whose registry ends.
    reverts: Vec<Revert>,
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
        self.check_issuing(events)?;
        let ending = match self.course {
            Course::Move | Course::End => &self.record.from,
            Course::Cancel => &self.record.to,
        };
        let mut reverts = Vec::new();
        for name in ending.iter().filter(|name| hosts.contains_key(*name)) {
            let reset = self.reset(&hosts, name).await?;
            reverts.push(Revert {
                host: name.clone(),
                changes: reset.changes(),
                keeps_images: checks::keeps_images(&reset, &self.cluster),
            });
        }
        let (images, text) = match self.course {
            Course::Move => {
                let catalog = self.catalog(&hosts, &mut facts, events).await?;
                let content = equal_content(&catalog)?;
                let missing =
                    checks::missing(&self.cluster, &self.record, &hosts, &content).await?;
                let sizes = missing.iter();
                let sizes = sizes.map(|(name, missing)| (name.clone(), missing.bytes()));
                space::check(&self.cluster.registry.data_dir, &facts, &sizes.collect())?;
                let text = self.text(&missing, &reverts);
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
        let refused = |what: String, hint: String| Err(CommandError::refused(what).hint(hint));
        match self.course {
            Course::Move => {
                let mut reached = before.iter().filter(|name| facts.contains_key(*name));
                let Some(name) = reached.find(|name| !is_there(name)) else {
                    return Ok(());
                };
                let hint = if self.is_begun {
                    format!("undo the move, or remove the host first: kubexm node remove {name}")
                } else {
                    "run kubexm install, which installs it there".to_owned()
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

    /// Checks that the certificates can be issued that this run needs: a move that is recorded blocks other commands. A dry run
    /// without an identity warns, because it does not read a passphrase.
    fn check_issuing(&self, events: &Events) -> Result<(), CommandError> {
        let cluster = match self.course {
            Course::Move => &self.after,
            Course::Cancel => &self.cluster,
            Course::End => return Ok(()),
        };
        let encryption = self.options.ca_encryption.as_ref();
        match issuing::obstacle(cluster, self.state, encryption)? {
            None => Ok(()),
            Some(cause @ PkiError::EncryptedKey { .. })
                if self.options.dry_run && encryption.is_none() =>
            {
                let warning =
                    Message::from(&cause).within("this dry run does not open the keys of CAs");
                events.warn(WarningKind::NotChecked, warning);
                Ok(())
            }
            Some(cause) => Err(CommandError::from(cause)),
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
                return Err(CommandError::refused(format!(
                    "cannot move registries to {name}: it is not in the cluster yet"
                ))
                .hint(format!("add it first: kubexm node add {name}")));
            }
        }
        let checked = checks::without_names(&self.cluster, &self.record, facts);
        let mut findings = preflight::check(&self.after, hosts, &checked, self.bundle).await;
        findings.extend(checks::ports_in_use(&self.cluster, &self.record, facts));
        preflight::report(&findings, events)?;
        let mut running = self.during.clone();
        running.roles.registry = checks::sources(&self.record, facts);
        let from = running.roles.registry.iter();
        let from = from.filter_map(|name| facts.get(name));
        let sources: BTreeSet<String> = from
            .flat_map(|facts| facts.registry_sources.iter().cloned())
            .collect();
        for name in &self.record.to {
            if let Some(facts) = facts.get_mut(name) {
                facts.registry_sources.clone_from(&sources);
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
                let certificates = self.certificates(&self.after)?;
                self.save(Stage::Begun, self.record.is_copied)?;
                let switching = self.switch(&prepared, certificates, hosts, events, stop);
                ended += switching.await?;
                self.save(Stage::Ending, true)?;
                ended.changed += self.end(&prepared, hosts, events, stop).await?;
            }
            Course::End => ended.changed += self.end(&prepared, hosts, events, stop).await?,
            Course::Cancel => {
                let certificates = self.certificates(&self.cluster)?;
                self.save(Stage::Cancelled, self.record.is_copied)?;
                let switching = self.switch_back(&prepared, certificates, hosts, events, stop);
                ended += switching.await?;
                ended.changed += self.end(&prepared, hosts, events, stop).await?;
                if is_same(&self.named, &self.record.before) {
                    MoveRecord::remove(self.state)?
                } else {
                    self.save(Stage::Undone, false)?
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

    /// Runs the new registries, and lets every host use them alone. A node that cannot pull from them keeps the former ones.
    async fn switch(
        &self,
        prepared: &Prepared,
        certificates: Certificates,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
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
        let plan = relocation::reach(&after, &self.record.to);
        ended += carry_out(plan, hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&before)?, hosts, events, stop).await?;
        // A registry that stays restarts with another certificate while the new ones serve.
        let plan = relocation::serve(&after, &self.record.kept(), || None)?;
        ended += carry_out(plan, hosts, events, stop).await?;
        ended += carry_out(self.named(&after), hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&after)?, hosts, events, stop).await?;
        ended += carry_out(relocation::prove(&after), hosts, events, stop).await?;
        Ok(ended)
    }

    /// Lets every host use the former registries alone, which still have all images.
    async fn switch_back(
        &self,
        prepared: &Prepared,
        certificates: Certificates,
        hosts: &Hosts,
        events: &Events,
        stop: &Stop,
    ) -> Result<Ended, CommandError> {
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
        ended += carry_out(self.named(&before), hosts, events, stop).await?;
        ended += carry_out(relocation::follow(&before)?, hosts, events, stop).await?;
        if self.record.is_copied {
            ended += carry_out(relocation::prove(&before), hosts, events, stop).await?;
        }
        Ok(ended)
    }

    /// Plans the proof that nodes find the only registry by its name. A node with another address would use the registry that
    /// ends. Where kubexm manages `/etc/hosts`, the next plan writes the address.
    fn named(&self, inputs: &Inputs<'_>) -> Plan {
        if self.cluster.system.manage_hosts_file {
            Plan::default()
        } else {
            relocation::resolve(inputs)
        }
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
        for revert in &prepared.reverts {
            let reset = self.reset(&observed, &revert.host).await?;
            let reverted = reset.run(events, stop).await;
            let reverted = reverted.map_err(|error| CommandError::Reset(vec![error]))?;
            changed += reverted.changes;
            if !reverted.complete {
                let hint = kubexm_session::stop::AGAIN;
                return Err(CommandError::interrupted("stopped").hint(hint));
            }
            if revert.keeps_images {
                let data_dir = &self.cluster.registry.data_dir;
                events.warn(WarningKind::Kept, revert.kept(data_dir));
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
            return Err(CommandError::host(format!("no connection to {name}")));
        };
        let reset = HostReset::read_steps(host, &is_own).await;
        reset.map_err(|error| CommandError::Reset(vec![error]))
    }
}
