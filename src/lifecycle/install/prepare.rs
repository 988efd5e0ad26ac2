//! What an install does before the first change on a host.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::clock::Clock;
use super::options::InstallOptions;
use crate::addition;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::Deployment;
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_session::begun::Operation;
use kubexm_session::bundle_access::verify_once;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::change::{Change, Session};
use kubexm_session::failed_workers::FailedWorkers;
use kubexm_session::identity::{KnownCluster, Origins};
use kubexm_session::session::{self, Hosts};
use kubexm_session::{
    CommandError, absent_applications, application_images, certificates, notices, older_etcd,
    plan_inputs, preflight, program_settings, site_ca,
};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// What an install works with.
pub struct Context<'a> {
    pub options: &'a InstallOptions,
    pub bundle: &'a Arc<BundleSet>,
    pub cluster: &'a Cluster,
    /// The state directory.
    pub state: &'a Path,
}

/// What an install knows when it has connected.
pub struct Connected {
    /// The workers that did not answer, if the user permits it.
    pub failed: FailedWorkers,
    pub clock: Clock,
}

impl<'a> Context<'a> {
    /// Returns the bracket of a command that installs.
    pub fn change(&self, operation: Operation) -> Change<'a> {
        Change {
            operation,
            cluster: self.cluster,
            state: self.state,
            lock: self.bundle.bundle().lock_digest().to_string(),
        }
    }

    /// Verifies the bundle, and connects to the hosts.
    ///
    /// # Errors
    /// The bundle is damaged, or a host without which the install cannot go on does not answer.
    pub async fn connect(&self, events: &Events) -> Result<(Hosts, Connected), CommandError> {
        let mut clock = Clock::start();
        verify_once(self.bundle, self.state, events).await?;
        clock.lap("verify");
        events.phase("connect");
        let mut failed = self.options.failed_workers(self.cluster);
        let connection = &self.options.connection;
        let (hosts, errors) = connection
            .connect_each(self.cluster, self.state, events)
            .await?;
        failed.leave_out_hosts(errors, events)?;
        Ok((hosts, Connected { failed, clock }))
    }
}

/// What is known before the first change on a host.
pub struct Prepared {
    pub hosts: Hosts,
    pub facts: BTreeMap<HostName, Facts>,
    pub known: KnownCluster,
    pub origins: Origins,
    pub failed: FailedWorkers,
    pub deployment: Deployment,
}

/// Everything between the locks of the hosts and the first change on one.
pub async fn prepare(
    context: &Context<'_>,
    session: &Session<'_>,
    mut failed: FailedWorkers,
    clock: &mut Clock,
) -> Result<Prepared, CommandError> {
    let Context {
        bundle,
        cluster,
        state,
        ..
    } = *context;
    let events = session.events;
    let (mut hosts, mut observed) = (session.hosts.clone(), session.observed.clone());
    let (mut facts, errors) = session::gather_each(cluster, &observed).await;
    failed.leave_out_hosts(errors, events)?;
    failed.remove_from(&mut hosts, &mut facts);
    failed.remove_from(&mut observed, &mut facts);
    clock.lap("connect");
    events.phase("preflight");
    notices::emit_experimental_hosts(&facts, events);
    let mut known = KnownCluster::read(cluster, state)?;
    let origins = known.origins(cluster, &facts, events)?;
    let checking = checked(bundle, cluster, (&observed, &facts), &mut failed, events);
    let mut findings = checking.await?;
    findings.extend(of_membership(context.options, cluster, &mut known, &facts));
    preflight::report(&findings, events)?;
    failed.remove_from(&mut hosts, &mut facts);
    let deployment = planned(context, &facts, &failed)?;
    clock.lap("preflight and plan");
    Ok(Prepared {
        hosts,
        facts,
        known,
        origins,
        failed,
        deployment,
    })
}

/// Checks hosts, and asks the programs of the bundle what they refuse of the cluster file. Leaves out workers with errors, if the
/// user permits it.
///
/// # Errors
/// A host is not ready and the bundle does not have what it needs, or a program of the bundle cannot run.
pub(super) async fn checked(
    bundle: &Arc<BundleSet>,
    cluster: &Cluster,
    (hosts, facts): (&Hosts, &BTreeMap<HostName, Facts>),
    failed: &mut FailedWorkers,
    events: &Events,
) -> Result<Vec<Finding>, CommandError> {
    let (mut findings, refused, images) = tokio::join!(
        preflight::check(cluster, hosts, facts, bundle),
        program_settings::findings::findings(bundle, cluster, events),
        application_images::findings(bundle, cluster, hosts, events),
    );
    failed.leave_out_findings(&mut findings, events);
    // What is wrong with the bundle or with the cluster file is not a failure of a worker.
    let of_content = refused.and_then(|refused| Ok([refused, images?].concat()));
    match of_content {
        Ok(found) => findings.extend(found),
        Err(error) => {
            // A host of an unexpected kind explains more than what the bundle does not have for it.
            preflight::report(&findings, events)?;
            return Err(error);
        }
    }
    findings.extend(older_etcd::findings(cluster, facts, bundle.lock()));
    let reached = (hosts, facts);
    absent_applications::check_before_install(cluster, bundle.lock(), reached).await?;
    Ok(findings)
}

/// Returns the findings about hosts that belong to another cluster than the cluster file. Afterwards, the hosts that the options
/// admit may be hosts of it again.
pub(super) fn of_membership(
    options: &InstallOptions,
    cluster: &Cluster,
    known: &mut KnownCluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(admitted) = &options.admitted {
        findings.extend(addition::findings(cluster, known, facts, admitted));
        known.readmit(admitted);
    }
    findings.extend(addition::other_registry(
        cluster,
        facts,
        options.admitted.is_some(),
    ));
    findings.extend(known.findings(cluster, facts));
    findings
}

/// Plans for the hosts without the workers that the install leaves out.
pub fn planned(
    context: &Context<'_>,
    facts: &BTreeMap<HostName, Facts>,
    failed: &FailedWorkers,
) -> Result<Deployment, CommandError> {
    let (cluster, bundle) = (context.cluster, context.bundle);
    let encryption = context.options.ca_encryption.as_ref();
    let identity = encryption.map(CaEncryption::identity).transpose()?;
    let state = context.state;
    let certificates = certificates::load_or_issue(cluster, state, identity)?;
    site_ca::accept(cluster, &certificates)?;
    let mut inputs = plan_inputs::with_certificates(cluster, bundle, facts, certificates);
    inputs.absent = failed.names();
    Ok(kubexm_deploy::plan(&inputs)?)
}
