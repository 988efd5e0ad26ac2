//! `plan`: what a first install would do, computed without hosts, and what an install would change on
//! the hosts as they are now.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::install::InstallOptions;
use kubexm_bundle::BundleSet;
use kubexm_deploy::Inputs;
use kubexm_engine::plan::diff;
use kubexm_engine::plan::{Plan, show};
use kubexm_host::Facts;
use kubexm_session::application_changes::{self, ApplicationChange};
use kubexm_session::program_settings::Programs;
use kubexm_session::session::Hosts;
use kubexm_session::stop::{Stop, unless_stopped};
use kubexm_session::{
    ClusterSource, CommandError, certificates, older_etcd, plan_inputs, preflight,
    program_settings, session, text_file,
};
use kubexm_types::event::Events;
use kubexm_types::{Message, WarningKind};

pub use kubexm_engine::plan::TaskId;
pub use kubexm_engine::plan::diff::{Difference, HostDiff, Lost, PlanDiff, Reason};
pub use kubexm_engine::plan::document::PlanDocument;

/// A plan that no host has carried out.
pub struct Planned {
    pub plan: Plan,
}

impl Planned {
    /// Returns the plan as text: each task with its predecessors and steps.
    ///
    /// # Errors
    /// The tasks form a cycle.
    pub fn text(&self) -> Result<String, CommandError> {
        show::as_text(&self.plan).map_err(CommandError::from)
    }

    /// Returns the plan as a document, for `plan -o`.
    ///
    /// # Errors
    /// The tasks form a cycle.
    pub fn document(&self) -> Result<PlanDocument, CommandError> {
        PlanDocument::new(&self.plan).map_err(CommandError::from)
    }

    /// Emits one `planned` event for each task, in an order in which the tasks can run.
    ///
    /// # Errors
    /// The tasks form a cycle.
    pub fn emit(&self, events: &Events) -> Result<(), CommandError> {
        show::emit(&self.plan, events).map_err(CommandError::from)
    }
}

/// What an install would change.
#[derive(Debug, Serialize)]
pub struct InstallDiff {
    #[serde(flatten)]
    pub plan: PlanDiff,
    /// The applications whose releases it would create or change; none for a cluster that is not installed yet.
    pub applications: Vec<ApplicationChange>,
}

impl fmt::Display for InstallDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)?;
        if self.applications.is_empty() {
            return Ok(());
        }
        writeln!(f, "objects of applications:")?;
        let text: String = self.applications.iter().map(ToString::to_string).collect();
        let mut lines = text.lines();
        lines.try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Connects to the hosts and runs the check of every step that ensures a state. It changes no host, and writes
/// nothing to the state directory.
///
/// Certificates come from the state directory. For those that an install would issue or renew, the result
/// lists their files as different.
///
/// # Errors
/// The bundle or the cluster file is wrong, or hosts cannot be reached.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn diff(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<InstallDiff, CommandError> {
    options.connection.check()?;
    let (bundle, cluster) = options.source.open(events)?;
    let state = options.connection.state_directory(&cluster, events)?;
    let comparing = async {
        let hosts = options.connection.connect(&cluster, &state, events).await?;
        let hosts = session::watched(&hosts, events);
        let facts = session::gather(&cluster, &hosts).await?;
        let mut findings = preflight::of_existing(&cluster, &facts);
        findings.extend(older_etcd::findings(&cluster, &facts, bundle.lock()));
        findings.extend(program_settings::findings::findings(&bundle, &cluster, events).await?);
        preflight::report(&findings, events)?;
        let encryption = options.ca_encryption.as_ref();
        let certificates = certificates::preview(&cluster, &state, encryption)?;
        let inputs = plan_inputs::with_certificates(&cluster, &bundle, &facts, certificates);
        let plan = compare(&inputs, &hosts).await?;
        let is_installed = facts.values().any(Facts::is_node);
        let applications = if is_installed {
            compare_applications(&bundle, &inputs, &hosts, events).await
        } else {
            Vec::new()
        };
        Ok(InstallDiff { plan, applications })
    };
    unless_stopped(stop, comparing).await
}

/// Returns the applications that an install would change. If they cannot be
/// compared, it only warns: their steps are in the difference of the plan.
pub(crate) async fn compare_applications(
    bundle: &Arc<BundleSet>,
    inputs: &Inputs<'_>,
    hosts: &Hosts,
    events: &Events,
) -> Vec<ApplicationChange> {
    let Some((_, host)) = session::first_control_plane(inputs.cluster, hosts) else {
        return Vec::new();
    };
    let programs = Programs::of(bundle);
    let all = &inputs.cluster.applications;
    let comparing = application_changes::changes(&programs, inputs, host.as_ref(), all);
    match comparing.await {
        Ok(mut changes) => {
            changes.retain(|change| change.reason.is_some());
            changes
        }
        Err(error) => {
            let text = "the objects of applications are not compared";
            let message = Message::from(&error).within(text);
            events.warn(WarningKind::NotChecked, message);
            Vec::new()
        }
    }
}

/// Compares the plan of an install with the hosts.
pub async fn compare(inputs: &Inputs<'_>, hosts: &Hosts) -> Result<PlanDiff, CommandError> {
    compare_plan(&kubexm_deploy::plan(inputs)?.plan, hosts).await
}

/// Compares a plan with the hosts.
pub async fn compare_plan(plan: &Plan, hosts: &Hosts) -> Result<PlanDiff, CommandError> {
    Ok(diff::diff(plan, hosts).await?)
}

/// Fails if a host was lost before all of its state was compared.
///
/// # Errors
/// Lists the causes.
pub fn check_reachable(diff: &PlanDiff) -> Result<(), CommandError> {
    let lost: Vec<Lost> = diff.unreachable().cloned().collect();
    if lost.is_empty() {
        Ok(())
    } else {
        Err(CommandError::NotCompared(lost))
    }
}

/// Plans a first install. Values that only a host knows are assumed, and secrets are placeholders.
///
/// # Errors
/// The bundle or the cluster file cannot be read, or the bundle does not contain what the cluster needs.
pub fn plan(source: &ClusterSource, events: &Events) -> Result<Planned, CommandError> {
    let (bundle, cluster) = source.open(events)?;
    let inputs = Inputs::assumed(&cluster, bundle.lock(), Arc::clone(&bundle) as _);
    let deployment = kubexm_deploy::plan(&inputs)?;
    Ok(Planned {
        plan: deployment.plan,
    })
}

/// Writes a plan as JSON.
///
/// # Errors
/// The file cannot be written.
pub fn save(path: &Path, document: &PlanDocument) -> Result<(), CommandError> {
    let text = document.to_json().map_err(CommandError::defect)?;
    text_file::write(path, &text)
}
