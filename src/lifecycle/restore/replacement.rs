//! The phases of a restore that replace the data of etcd.

use futures_util::future::join_all;
use kubexm_types::{Message, WarningKind};

use super::{Context, proof, upload};
use crate::etcdutl::BundledEtcdutl;
use kubexm_config::cluster::HostSpec;
use kubexm_deploy::backup::{self as deploy, Phase, RestoreInputs};
use kubexm_engine::plan::StepError;
use kubexm_host::Command;
use kubexm_safekeeping::backup::manifest::SNAPSHOT;
use kubexm_session::CommandError;
use kubexm_session::begun::{RestoreRecord, RestoreStage as Stage, StateRecord};
use kubexm_session::change::Session;
use kubexm_session::outcome;
use kubexm_session::stop::unless_stopped;
use kubexm_types::event::Event;

/// The stages of an existing cluster, with their plans.
const PLANNED: [(Stage, Phase); 5] = [
    (Stage::Prepare, Phase::Prepare),
    (Stage::Replace, Phase::Replace),
    (Stage::Etcd, Phase::Etcd),
    (Stage::ControlPlanes, Phase::ControlPlanes),
    (Stage::Nodes, Phase::Nodes),
];

/// A restore that replaces the data of etcd.
pub(super) struct Replacement<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) record: &'a RestoreRecord,
    pub(super) session: &'a Session<'a>,
    pub(super) given: RestoreInputs<'a>,
}

impl Replacement<'_> {
    /// Carries out all phases that have not ended.
    ///
    /// # Errors
    /// A step failed, or the restored data is not that of the backup.
    pub(super) async fn run(
        &self,
        programs: &[(&HostSpec, BundledEtcdutl)],
    ) -> Result<(), CommandError> {
        let Self {
            context,
            record,
            session,
            ..
        } = self;
        let (events, observed) = (session.events, &session.observed);
        let folder = context.state;
        tracing::debug!(state = %folder.display(), id = %record.id, "restore");
        let stages = PLANNED;
        let mut changed = 0;
        for (at, (stage, phase)) in stages.iter().enumerate() {
            if *stage < record.stage {
                continue;
            }
            match phase {
                Phase::Prepare => {
                    unless_stopped(context.stop, self.check_space()).await?;
                    events.phase("upload");
                    let sending =
                        upload::to_members(context.content, programs, observed, &record.id);
                    unless_stopped(context.stop, sending).await?;
                    events.phase("apply");
                }
                Phase::Replace => events.warn(
                    WarningKind::Interruption,
                    "point of no return: the API servers stop now; if this command is interrupted, run it again",
                ),
                _ => {}
            }
            changed += self.carry_out(*phase).await?;
            let manifest = &context.content.manifest;
            match phase {
                Phase::Etcd => {
                    proof::of_members(&self.given, &manifest.etcd, observed, events).await?;
                }
                Phase::Nodes => {
                    // New hosts get their network from the install that follows.
                    if !record.is_new {
                        changed += self.carry_out(Phase::PodNetwork).await?;
                    }
                    proof::of_api_servers(context.cluster, &record.id, observed, events).await?;
                }
                _ => {}
            }
            let next = stages.get(at + 1).map(|(stage, _)| *stage);
            context.reached(record, next.unwrap_or(Stage::Reconcile))?;
        }
        changed += self.carry_out(Phase::Tidy).await?;
        if !record.is_new {
            RestoreRecord::remove(context.state)?;
            events.emit(Event::Summary {
                changed,
                unchanged: 0,
                ran: 0,
                kubeconfig: None,
                offers: None,
            });
        }
        Ok(())
    }

    /// Asks all members whether the snapshot and the new data have space beside the data of an etcd that runs.
    ///
    /// # Errors
    /// A member has too little, or does not answer.
    async fn check_space(&self) -> Result<(), CommandError> {
        let file = self.context.content.manifest.file(SNAPSHOT);
        let bytes = file.map_or(0, |file| file.size);
        let members = kubexm_etcd::members(self.context.cluster).into_iter();
        let asked = members.map(async |spec| {
            let Some(host) = self.session.observed.get(&spec.name) else {
                return Ok(());
            };
            let what = "compare the space for the restore";
            let call = deploy::space_of_member(&self.given, spec, bytes);
            let command = Command::from_script(call.script, call.arguments).describe(what);
            let output = host.run(command).await?;
            StepError::unless_done(what, output)
                .map(|_| ())
                .map_err(|error| CommandError::step(Message::from(&error).within(&spec.name)))
        });
        let results = join_all(asked).await.into_iter();
        results.collect()
    }

    /// Lets the pod network follow the pod subnets of the nodes, after the install of new hosts.
    pub(super) async fn settle(&self) -> Result<(), CommandError> {
        for phase in [Phase::PodNetwork, Phase::Tidy] {
            self.carry_out(phase).await?;
        }
        Ok(())
    }

    async fn carry_out(&self, phase: Phase) -> Result<usize, CommandError> {
        let session = self.session;
        let plan = deploy::restore(&self.given, phase)?;
        // Not each plugin has a bridge.
        if plan.tasks.is_empty() {
            return Ok(0);
        }
        let run = outcome::run(plan, &session.hosts, session.events, session.stop).await?;
        run.judged.map(|()| run.ended.changed)
    }
}
