//! What an install would do, without a change on a host.

use super::options::InstallOptions;
use super::prepare::{checked, of_membership};
use crate::addition;
use crate::plan::{InstallDiff, Planned};
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_session::identity::KnownCluster;
use kubexm_session::stop::{Stop, unless_stopped};
use kubexm_session::{CommandError, certificates, notices, plan_inputs, preflight, session};
use kubexm_types::event::Events;

/// What an install would do on the hosts as they are now.
pub struct DryRun {
    /// The plan.
    pub planned: Planned,
    /// What an install would change; `None` for a cluster that is not installed yet.
    pub diff: Option<InstallDiff>,
    findings: Vec<Finding>,
}

impl DryRun {
    /// Emits the findings of preflight as events.
    ///
    /// # Errors
    /// At least one finding prevents an install.
    pub fn report_findings(&self, events: &Events) -> Result<(), CommandError> {
        preflight::report(&self.findings, events)
    }
}

/// Connects to the hosts, checks them, and plans for them. Changes no host and no state.
///
/// # Errors
/// The bundle or the cluster file is wrong, or hosts cannot be reached that the install needs.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn dry_run(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<DryRun, CommandError> {
    let opened = options.source.open_to_install(options.unsigned, events)?;
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older(&state, options.allow_older, events)?;
    let looking = async {
        let mut failed = options.failed_workers(&cluster);
        let connecting = options.connection.connect_each(&cluster, &state, events);
        let (hosts, errors) = connecting.await?;
        failed.leave_out_hosts(errors, events)?;
        let mut hosts = session::watched(&hosts, events);
        let (mut facts, errors) = session::gather_each(&cluster, &hosts).await;
        failed.leave_out_hosts(errors, events)?;
        failed.remove_from(&mut hosts, &mut facts);
        notices::emit_experimental_hosts(&facts, events);
        let mut known = KnownCluster::read(&cluster, &state)?;
        known.origins(&cluster, &facts, events)?;
        let checking = checked(&bundle, &cluster, (&hosts, &facts), &mut failed, events);
        let mut findings = checking.await?;
        findings.extend(of_membership(options, &cluster, &mut known, &facts));
        failed.remove_from(&mut hosts, &mut facts);
        let mut inputs = plan_inputs::without_certificates(&cluster, &bundle, &facts);
        inputs.absent = failed.names();
        let planned = kubexm_deploy::plan(&inputs);
        if planned.is_err() {
            // A host of an unexpected kind explains more than what the bundle does not have for it.
            preflight::report(&findings, events)?;
        }
        let planned = Planned {
            plan: planned?.plan,
        };
        let is_refused = findings.iter().any(|finding| finding.fatal);
        if let Some(joining) = options.admitted.as_ref().filter(|_| !is_refused) {
            addition::describe(&cluster, &facts, joining, &planned.plan, events);
        }
        let is_installed = facts.values().any(Facts::is_node);
        let diff = if is_installed && !is_refused {
            let encryption = options.ca_encryption.as_ref();
            let certificates = certificates::preview(&cluster, &state, encryption);
            if certificates.is_err() {
                preflight::report(&findings, events)?;
            }
            let certificates = certificates?;
            let mut known = plan_inputs::with_certificates(&cluster, &bundle, &facts, certificates);
            known.absent = failed.names();
            let plan = crate::plan::compare(&known, &hosts).await?;
            let applications = crate::plan::compare_applications(&bundle, &known, &hosts, events);
            let applications = applications.await;
            Some(InstallDiff { plan, applications })
        } else {
            certificates::warn_unless_opens(&state, options.ca_encryption.as_ref(), events);
            None
        };
        Ok(DryRun {
            planned,
            diff,
            findings,
        })
    };
    unless_stopped(stop, Box::pin(looking)).await
}
