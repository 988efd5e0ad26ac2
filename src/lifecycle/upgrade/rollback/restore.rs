//! The rollback with a snapshot: all programs of the control planes stop, etcd gets the data of the time before the upgrade,
//! and the former programs start with it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::try_join_all;

use super::archive::{self, no_program};
use super::context::Rollback;
use super::prepare::Prepared;
use super::versions::Programs;
use super::way;
use crate::etcdutl;
use crate::restore::{proof, upload};
use crate::upgrade::former::{self, Former};
use kubexm_deploy::backup::{self, Phase, RestoreInputs};
use kubexm_deploy::rollback as deploy;
use kubexm_engine::plan::Plan;
use kubexm_etcd::members;
use kubexm_host::{Facts, Host};
use kubexm_session::begun::{RollbackStage, StateRecord};
use kubexm_session::change::Session;
use kubexm_session::outcome::{self, Ended};
use kubexm_session::sealed::Opener;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, FileError, plan_inputs, session};
use kubexm_types::{Digest, WarningKind};

/// A rollback with a snapshot.
pub(super) struct SnapshotRollback<'a> {
    pub(super) rollback: &'a Rollback<'a>,
    /// What the archive has.
    pub(super) former: &'a Former,
    pub(super) work: &'a Session<'a>,
}

impl SnapshotRollback<'_> {
    /// Carries out all stages that have not ended.
    ///
    /// # Errors
    /// A step failed, or the restored data is not that of the snapshot.
    pub(super) async fn run(&self, prepared: &mut Prepared) -> Result<Ended, CommandError> {
        let mut ended = Ended::default();
        while let Some((id, stage)) = next(prepared) {
            ended += self.stage(prepared, &id, stage).await?;
            let Some(after) = stage.next() else {
                break;
            };
            if let Some(begun) = &mut prepared.record.rollback {
                begun.stage = after;
            }
            prepared.record.save(self.work.journal.folder())?;
        }
        Ok(ended)
    }

    async fn stage(
        &self,
        prepared: &Prepared,
        id: &str,
        stage: RollbackStage,
    ) -> Result<Ended, CommandError> {
        let (rollback, events) = (self.rollback, self.work.events);
        let cluster = rollback.cluster();
        let absent = BTreeSet::new();
        let begun = prepared.record.rollback.as_ref();
        let target = begun.map_or(0, |begun| begun.target);
        let given = RestoreInputs {
            cluster,
            id,
            absent: &absent,
            new_hosts: None,
            bump: backup::revision_bump(target, self.former.etcd.revision),
            cas: None,
        };
        let phase = async |phase| self.carry_out(backup::restore(&given, phase)?).await;
        match stage {
            // A rollback in place has no other stage.
            RollbackStage::InPlace => Ok(Ended::default()),
            RollbackStage::Seed => {
                events.phase("apply");
                let nodes = cluster.nodes().into_iter();
                let all = nodes.map(|host| host.name.clone()).collect();
                rollback.change(all, true, self.work).await
            }
            RollbackStage::Prepare => {
                events.phase("upload");
                let sending = self.send(prepared, id);
                unless_stopped(self.work.stop, sending).await?;
                events.phase("apply");
                phase(Phase::Prepare).await
            }
            RollbackStage::Replace => {
                events.warn(
                    WarningKind::Interruption,
                    "point of no return: the API servers stop now; if this command is interrupted, run it again",
                );
                phase(Phase::Replace).await
            }
            RollbackStage::Programs => self.carry_out(self.programs(prepared, id)?).await,
            RollbackStage::Etcd => {
                let ended = phase(Phase::Etcd).await?;
                proof::of_members(&given, &self.former.etcd, &self.work.observed, events).await?;
                Ok(ended)
            }
            RollbackStage::ControlPlanes => phase(Phase::ControlPlanes).await,
            RollbackStage::Nodes => {
                let ended = phase(Phase::Nodes).await?;
                proof::of_api_servers(cluster, id, &self.work.observed, events).await?;
                Ok(ended)
            }
            RollbackStage::Tidy => phase(Phase::Tidy).await,
            RollbackStage::Reconcile => self.reconcile().await,
        }
    }

    async fn carry_out(&self, plan: Plan) -> Result<Ended, CommandError> {
        let work = self.work;
        outcome::carry_out(plan, &work.hosts, work.events, work.stop).await
    }

    fn programs(&self, prepared: &Prepared, id: &str) -> Result<Plan, CommandError> {
        let (context, cluster) = (&self.rollback.context, self.rollback.cluster());
        let issued = context.certificates(cluster)?;
        let inputs =
            plan_inputs::with_certificates(cluster, context.bundle, &prepared.facts, issued);
        Ok(deploy::programs(&inputs, id)?)
    }

    /// Sends the snapshot and its program to the members, and the former files to their hosts.
    async fn send(&self, prepared: &Prepared, id: &str) -> Result<(), CommandError> {
        let (context, cluster) = (&self.rollback.context, self.rollback.cluster());
        let archive = &self.rollback.hop.archive;
        let folder = format!("/var/lib/kubexm/restore/{id}");
        let inputs = plan_inputs::without_certificates(cluster, context.bundle, &prepared.facts);
        let opener = &self.rollback.opener()?;
        let version = self.rollback.to().clone();
        let programs = &etcdutl::of_bundle(Arc::clone(context.bundle), version).await?;
        let sends = deploy::hosts(&inputs).into_iter().map(async |spec| {
            let name = &spec.name;
            let Some(host) = self.work.observed.get(name) else {
                return Ok(());
            };
            let host = host.as_ref();
            let files = former::files(archive, name);
            let former = format!("{folder}/former.tar");
            write(host, (opener, &files), &former, None).await?;
            if members(cluster).iter().all(|member| member.name != *name) {
                return Ok(());
            }
            let arch = prepared.facts.get(name).and_then(Facts::arch);
            let program = arch.and_then(|arch| programs.get(&arch));
            let program = program.ok_or_else(|| no_program(name))?;
            let stream = program.open().map_err(|error| {
                let place = std::env::temp_dir();
                FileError::io("read etcdutl in", &place, &error)
            })?;
            let (to, about) = (format!("{folder}/etcdutl"), (program.size, program.digest));
            upload::write(host, &to, "700", about, Box::new(stream)).await?;
            let snapshot = former::snapshot(archive);
            let sent = format!("{folder}/snapshot.db");
            let saved = Some(self.former.snapshot);
            write(host, (opener, &snapshot), &sent, saved).await
        });
        try_join_all(sends).await.map(|_| ())
    }

    /// Gives workers that the upgrade has changed the former version, and applies the cluster file.
    async fn reconcile(&self) -> Result<Ended, CommandError> {
        let (rollback, work) = (self.rollback, self.work);
        let cluster = rollback.cluster();
        let reading = Programs::read(cluster, &work.observed);
        let found = unless_stopped(work.stop, reading).await?;
        let nodes = found.versions.iter();
        let nodes = nodes.map(|(name, versions)| (name, versions.as_slice()));
        let touched = way::touched(nodes, &found.cordoned, rollback.to());
        let hop = rollback.reconciliation(&touched);
        let gathering = session::gather(cluster, &work.observed);
        let facts = unless_stopped(work.stop, gathering).await?;
        let mut ended = Ended::default();
        let running = rollback.api_servers(&facts)?;
        for held in rollback.context.parts(&hop, &running) {
            ended += rollback.change(held, false, work).await?;
        }
        Ok(ended)
    }
}

/// Returns the ID of a rollback, and the stage that it has reached.
fn next(prepared: &Prepared) -> Option<(String, RollbackStage)> {
    let begun = prepared.record.rollback.as_ref()?;
    Some((begun.id.clone(), begun.stage))
}

/// Writes a file of the archive on a host. Compares its digest, if one is known.
async fn write(
    host: &dyn Host,
    (opener, from): (&Opener, &Path),
    to: &str,
    wanted: Option<Digest>,
) -> Result<(), CommandError> {
    let about = archive::digest(from, opener, wanted)?;
    upload::write(host, to, "600", about, opener.open(from)?).await
}
