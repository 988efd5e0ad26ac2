//! A run of a phase.

use std::collections::BTreeSet;

use super::authorities::Store;
use super::workloads::{self, Workloads};
use super::{OldPods, RotateReport, Run, text};
use crate::certs::renew::save_kubeconfigs;
use kubexm_deploy::rotation::Rotation;
use kubexm_session::CommandError;
use kubexm_session::begun::{Phase, RotationRecord, StateRecord};
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_session::change::Session;
use kubexm_session::outcome;
use kubexm_session::stop::unless_stopped;
use kubexm_types::Authority;
use kubexm_types::event::Events;

impl Run<'_> {
    /// Runs the phase on the hosts, and records how far the rotation is.
    pub(super) async fn carry_out(
        &self,
        mut record: RotationRecord,
        session: &Session<'_>,
    ) -> Result<RotateReport, CommandError> {
        let Session {
            hosts,
            observed,
            journal,
            events,
            stop,
        } = session;
        let survey = unless_stopped(stop, self.survey(&record, observed, events)).await?;
        record = self.verified(record, &survey, events)?;
        let first = survey.first_host(observed)?;
        let checking = async {
            self.check(&record, &survey, observed).await?;
            if self.options.old_pods == OldPods::Refuse {
                self.check_pods(&record, &survey, observed).await?;
            }
            Ok(())
        };
        unless_stopped(stop, checking).await?;
        events.note(self.text(&record, &survey)?);
        if self.options.old_pods == OldPods::Restart && record.phase > Phase::Trust {
            let restarting = async {
                self.restart_old_pods(&record, first, events).await?;
                self.check_pods(&record, &survey, observed).await
            };
            unless_stopped(stop, restarting).await?;
        }
        let encryption = self.options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        let store = Store::open(self.cluster, self.state, identity.clone());
        if RotationRecord::read(self.state)?.is_none() {
            // What an earlier rotation has left that ended after it removed its record.
            store.forget()?;
        }
        store.accept(&record, &survey.present)?;
        if record.phase == Phase::Trust {
            // Fails before the rotation begins if a key of a CA is needed, and is encrypted or elsewhere.
            certificates::load_or_issue(self.cluster, self.state, identity.clone())?;
        }
        record.save(self.state)?;
        if record.is_cancelled {
            store.cancel(&record, &survey.present)?;
        } else {
            store.enter(&record, &survey.present)?;
        }
        if record.phase == Phase::Switch {
            store.learn(self.state, &record)?;
        }
        let certificates = certificates::load_or_issue(self.cluster, self.state, identity)?;
        let rotated = store.rotated(&record.authorities)?;
        let Rotation {
            plan,
            kubeconfig,
            super_admin,
        } = self.plan(&record, &survey, certificates, &rotated)?;
        events.phase("apply");
        let run = outcome::run(plan, hosts, events, stop).await?;
        let saved = save_kubeconfigs(&kubeconfig, &super_admin, journal)?;
        run.judged?;
        if record.is_cancelled {
            RotationRecord::remove(self.state)?;
            store.forget()?;
        } else {
            unless_stopped(stop, self.complete(&mut record, first, events)).await?;
            match record.phase {
                Phase::Remove => {
                    // With the record and without the files, no run could continue.
                    RotationRecord::remove(self.state)?;
                    store.forget()?;
                }
                _ => record.save(self.state)?,
            }
        }
        events.emit(run.ended.summary(saved.as_deref()));
        Ok(RotateReport {
            changed: Some(run.ended.changed),
            text: text::end(&record),
        })
    }

    /// Restarts the workloads whose pods may know only the former CA.
    async fn restart_old_pods(
        &self,
        record: &RotationRecord,
        first: &dyn kubexm_host::Host,
        events: &Events,
    ) -> Result<(), CommandError> {
        let Some(since) = &record.trusted_since else {
            return Ok(());
        };
        let old = Workloads::read(first).await?.before(since);
        let old: BTreeSet<_> = old.into_iter().filter(|one| one.can_restart()).collect();
        workloads::restart(first, since, &old, events).await
    }

    /// Does what follows the plan of a phase.
    async fn complete(
        &self,
        record: &mut RotationRecord,
        first: &dyn kubexm_host::Host,
        events: &Events,
    ) -> Result<(), CommandError> {
        self.restart_own(record, first, events).await?;
        record.is_complete = true;
        Ok(())
    }

    /// Restarts the workloads of kubexm after a phase that changes the CAs in every namespace, because they read them at their start,
    /// and after the phase in which the new key begins to sign tokens: a kubelet renews the token of a pod within an hour, and the
    /// last phase can make former tokens invalid before.
    async fn restart_own(
        &self,
        record: &mut RotationRecord,
        first: &dyn kubexm_host::Host,
        events: &Events,
    ) -> Result<(), CommandError> {
        let has = |authority| record.authorities.contains(&authority);
        let (has_ca, has_key) = (has(Authority::Kubernetes), has(Authority::ServiceAccounts));
        let changed = match record.phase {
            Phase::Trust if has_ca => &mut record.trusted_since,
            Phase::Switch if has_key => &mut record.switched_at,
            Phase::Remove if has_ca => &mut record.removed_since,
            Phase::Trust | Phase::Switch | Phase::Remove => return Ok(()),
        };
        let pods = Workloads::read(first).await?;
        let since = changed.get_or_insert(pods.now.clone()).clone();
        // A run that is interrupted during the restarts does not repeat them.
        record.save(self.state)?;
        let own = pods.before(&since).into_iter();
        let own = own.filter(workloads::Workload::is_own).collect();
        workloads::restart(first, &since, &own, events).await
    }
}
