//! `certs rotate-ca` and `certs rotate-sa-key`: replace authorities of a cluster in three phases.

mod authorities;
mod begin;
mod carry_out;
mod pods;
mod proof;
mod survey;
mod text;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::authorities::Store;
use self::survey::Survey;
use self::workloads::Workloads;
use super::renew::check_state;
use kubexm_config::Cluster;
use kubexm_deploy::Certificates;
use kubexm_deploy::rotation::{
    RotatedAuthority, Rotation, RotationInputs, RotationPhase, rotation,
};
pub use kubexm_session::begun::Phase;
use kubexm_session::begun::{RotationRecord, StateRecord};
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_session::change::{Change, Session};
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, Stop, clear_text, kubeconfigs, notices};
use kubexm_types::event::Events;
use kubexm_types::{Authority, Message, WarningKind};

/// What a rotation replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotated {
    /// These CAs; those of Kubernetes and of an etcd of the cluster if there is none.
    Cas(BTreeSet<Authority>),
    /// The key that signs tokens of service accounts.
    ServiceAccountKey,
}

/// What to do with pods that may know only the former CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldPods {
    /// End with a list of them.
    Refuse,
    /// Restart their Deployments, DaemonSets and StatefulSets.
    Restart,
    /// Go on. They may not reach the API server any more.
    Leave,
}

/// Which phase of which rotation to run.
#[derive(Debug, Clone)]
pub struct RotateOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    pub rotated: Rotated,
    /// The phase; `None` for the next one.
    pub phase: Option<Phase>,
    /// Whether to undo the first phase.
    pub cancel: bool,
    pub old_pods: OldPods,
    /// Whether to remove the former key of service accounts while tokens that it signed may be in use.
    pub invalidates_tokens: bool,
    /// Whether to end after the plan.
    pub dry_run: bool,
    /// What encrypts the keys of CAs in the state directory.
    pub ca_encryption: Option<CaEncryption>,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotateReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
    /// What is complete, and what comes next, in lines.
    pub text: String,
}

/// Runs a phase of a rotation. Emits the plan as a note before it changes anything. A phase that was interrupted continues.
///
/// # Errors
/// The cluster file is wrong, the phase is not the next one, a host cannot be reached, something still uses the former
/// authority, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn rotate(
    options: &RotateOptions,
    events: &Events,
    stop: &Stop,
) -> Result<RotateReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    check_state(&state, "replace authorities with the state directory")?;
    let run = Run {
        options,
        cluster: &cluster,
        state: &state,
    };
    let record = run.begin(RotationRecord::read(&state)?)?;
    if options.dry_run {
        certificates::warn_unless_opens(&state, options.ca_encryption.as_ref(), events);
        let connecting = options.connection.connect(&cluster, &state, events);
        let hosts = unless_stopped(stop, connecting).await?;
        let observed = session::watched(&hosts, events);
        let looking = async {
            let survey = run.survey(&record, &observed, events).await?;
            let record = run.verified(record, &survey, events)?;
            if run.options.old_pods == OldPods::Refuse {
                run.check_pods(&record, &survey, &observed).await?;
            }
            run.check(&record, &survey, &observed).await?;
            run.text(&record, &survey)
        };
        events.note(unless_stopped(stop, looking).await?);
        events.note("dry run: nothing was touched");
        return Ok(RotateReport {
            changed: None,
            text: String::new(),
        });
    }
    certificates::check_opens(&state, options.ca_encryption.as_ref())?;
    let change = Change {
        operation: record.operation(),
        cluster: &cluster,
        state: &state,
        lock: String::new(),
    };
    let connect = async |events: &Events| {
        // Another run may have ended meanwhile.
        let record = run.begin(RotationRecord::read(&state)?)?;
        events.phase("connect");
        let hosts = options.connection.connect(&cluster, &state, events).await?;
        Ok((hosts, record))
    };
    let work = async |session: Session<'_>, record| {
        let report = run.carry_out(record, &session).await?;
        clear_text::encrypt(&state, options.ca_encryption.as_ref(), session.events).await;
        Ok(report)
    };
    change.run(events, stop, connect, work).await
}

/// A run of the command.
struct Run<'a> {
    options: &'a RotateOptions,
    cluster: &'a Cluster,
    state: &'a Path,
}

impl Run<'_> {
    async fn survey(
        &self,
        record: &RotationRecord,
        hosts: &Hosts,
        events: &Events,
    ) -> Result<Survey, CommandError> {
        let facts = session::gather(self.cluster, hosts).await?;
        let known = KnownCluster::read(self.cluster, self.state)?;
        known.origins(self.cluster, &facts, events)?;
        // They would go on with the former authorities.
        if let Some(name) = known.absent(self.cluster).first() {
            return Err(CommandError::refused(format!(
                "{name} belongs to this cluster and is not in the cluster file"
            ))
            .hint(format!(
                "put it back into the cluster file, or remove it from the cluster first with \
                 kubexm node remove {name}"
            )));
        }
        Survey::read(self.cluster, record, hosts, facts).await
    }

    /// Returns the record of phase 1 instead of that of phase 2, if a host does not trust both authorities any more: signed by the new
    /// one, programs would not trust each other.
    fn verified(
        &self,
        record: RotationRecord,
        survey: &Survey,
        events: &Events,
    ) -> Result<RotationRecord, CommandError> {
        let saved = RotationRecord::read(self.state)?;
        let is_first = saved.is_some_and(|saved| saved.phase == Phase::Trust && saved.is_complete);
        if record.phase != Phase::Switch || !is_first {
            return Ok(record);
        }
        let store = Store::open(self.cluster, self.state, None);
        let lost = survey.without_trust(self.cluster, &store.rotated(&record.authorities)?);
        if lost.is_empty() {
            return Ok(record);
        }
        let text = format!(
            "phase 1 runs again: someone has changed what programs trust since: {}",
            lost.join(", ")
        );
        events.warn(WarningKind::Host, Message::new(text));
        Ok(RotationRecord {
            phase: Phase::Trust,
            trusted_since: None,
            switched_at: None,
            ..record
        })
    }

    /// Fails if pods run that may know only the former CA.
    async fn check_pods(
        &self,
        record: &RotationRecord,
        survey: &Survey,
        hosts: &Hosts,
    ) -> Result<(), CommandError> {
        let has_ca = record.authorities.contains(&Authority::Kubernetes);
        if record.phase == Phase::Trust || !has_ca || self.options.old_pods == OldPods::Leave {
            return Ok(());
        }
        let first = survey.first_host(hosts)?;
        proof::no_old_pods(record, &Workloads::read(first).await?)
    }

    /// Fails if something still needs what the phase changes.
    async fn check(
        &self,
        record: &RotationRecord,
        survey: &Survey,
        hosts: &Hosts,
    ) -> Result<(), CommandError> {
        if record.phase != Phase::Remove {
            return Ok(());
        }
        let first = survey.first_host(hosts)?;
        let store = Store::open(self.cluster, self.state, None);
        proof::nothing_uses_former(self.cluster, record, &store, survey, first).await?;
        let invalidates = self.options.invalidates_tokens;
        proof::tokens_have_expired(record, first, invalidates).await
    }

    fn plan(
        &self,
        record: &RotationRecord,
        survey: &Survey,
        certificates: Certificates,
        authorities: &BTreeMap<Authority, RotatedAuthority>,
    ) -> Result<Rotation, CommandError> {
        Ok(rotation(&RotationInputs {
            cluster: self.cluster,
            hosts: survey.host_facts(),
            certificates,
            phase: if record.is_cancelled {
                RotationPhase::Cancel
            } else {
                record.phase.planned()
            },
            id: &record.id,
            authorities,
            has_super_admin: kubeconfigs::super_admin(self.state).is_some(),
        })?)
    }

    /// Returns the plan for people.
    fn text(&self, record: &RotationRecord, survey: &Survey) -> Result<String, CommandError> {
        let placeholder = |authority: &Authority| {
            let own = RotatedAuthority {
                trusted: format!("<{authority}>"),
                present: format!("<{authority}>"),
                key: (record.phase != Phase::Trust).then(|| format!("<key of the {authority}>")),
            };
            (*authority, own)
        };
        let authorities = record.authorities.iter().map(placeholder).collect();
        let certificates = Certificates::placeholder(self.cluster);
        let plan = self.plan(record, survey, certificates, &authorities)?.plan;
        Ok(text::plan(self.cluster, record, self.options, &plan))
    }
}

#[cfg(test)]
mod tests;
