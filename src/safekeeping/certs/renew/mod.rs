//! `certs renew`: issues the certificates and kubeconfigs of a cluster again, on one host after another.

mod prepared;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::expiring::with_certificates;
use kubexm_config::Cluster;
use kubexm_deploy::renewal::Renewal;
use kubexm_engine::plan::{Journal, TaskValue};
use kubexm_session::begun::Operation;
use kubexm_session::certificates::{self, CaEncryption};
use kubexm_session::change::Change;
use kubexm_session::change::Session;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{
    CommandError, Connection, FileError, HostSelection, Stop, clear_text, notices,
};
use kubexm_session::{kubeconfigs, outcome};
use kubexm_types::HostName;
use kubexm_types::event::Events;
use prepared::prepare;

/// Which certificates to renew.
#[derive(Debug, Clone)]
pub struct RenewOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The hosts of the renewal.
    pub selection: HostSelection,
    /// Whether to end after the plan.
    pub dry_run: bool,
    /// What encrypts the keys of CAs in the state directory.
    pub ca_encryption: Option<CaEncryption>,
}

/// What a renewal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
    /// The administrator's kubeconfig on this machine, if it is a new one.
    pub kubeconfig: Option<PathBuf>,
}

/// Renews the certificates and kubeconfigs of hosts, one host after another. Emits the plan as a note before it changes
/// anything. A renewal that was interrupted continues where it stopped.
///
/// # Errors
/// The cluster file is wrong, a host is not one of the cluster or cannot be reached, the key of a CA is missing, or a step
/// failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn renew(
    options: &RenewOptions,
    events: &Events,
    stop: &Stop,
) -> Result<RenewReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let selected = options.selection.hosts(&cluster)?;
    let state = options.connection.state_directory(&cluster, events)?;
    check_state(&state, "renew certificates with the state directory")?;
    if options.dry_run {
        certificates::warn_unless_opens(&state, options.ca_encryption.as_ref(), events);
        let hosts =
            unless_stopped(stop, connect(options, &cluster, &state, &selected, events)).await?;
        let observed = session::watched(&hosts, events);
        let planning = prepare(&cluster, &state, &selected, &observed, events);
        let prepared = unless_stopped(stop, planning).await?;
        events.note(prepared.text(&cluster, &selected, &state)?);
        events.note("dry run: nothing was touched");
        return Ok(RenewReport {
            changed: None,
            kubeconfig: None,
        });
    }
    certificates::check_opens(&state, options.ca_encryption.as_ref())?;
    let change = Change {
        operation: Operation::CertsRenew,
        cluster: &cluster,
        state: &state,
        lock: String::new(),
    };
    let connect = async |events: &Events| {
        events.phase("connect");
        let hosts = connect(options, &cluster, &state, &selected, events).await?;
        Ok((hosts, ()))
    };
    let work = async |session: Session<'_>, ()| {
        let Session { events, stop, .. } = session;
        let planning = prepare(&cluster, &state, &selected, &session.observed, events);
        let prepared = unless_stopped(stop, planning).await?;
        events.note(prepared.text(&cluster, &selected, &state)?);
        prepared.record.begin(&state, &selected)?;
        let encryption = options.ca_encryption.as_ref();
        let identity = encryption.map(CaEncryption::identity).transpose()?;
        let since = prepared.record.since.time();
        let issued = certificates::renew(&cluster, &state, identity, &selected, since)?;
        let renewal = prepared.plan(&cluster, &selected, issued)?;
        let report = carry_out(renewal, &session.hosts, session.journal, events, stop).await?;
        prepared
            .record
            .end(&state, &selected, &with_certificates(&cluster))?;
        clear_text::encrypt(&state, encryption, events).await;
        Ok(report)
    };
    change.run(events, stop, connect, work).await
}

/// Runs the plan, and stores the kubeconfigs.
async fn carry_out(
    renewal: Renewal,
    hosts: &Hosts,
    journal: &Journal,
    events: &Events,
    stop: &Stop,
) -> Result<RenewReport, CommandError> {
    let Renewal {
        plan,
        kubeconfig,
        super_admin,
    } = renewal;
    events.phase("apply");
    let run = outcome::run(plan, hosts, events, stop).await?;
    // Its certificate is new as soon as a host has it, even if another host failed.
    let saved = save_kubeconfigs(&kubeconfig, &super_admin, journal)?;
    run.judged?;
    events.emit(run.ended.summary(saved.as_deref()));
    Ok(RenewReport {
        changed: Some(run.ended.changed),
        kubeconfig: saved,
    })
}

/// Writes the kubeconfigs that a plan has provided to the state directory. Returns the path of the administrator's.
///
/// # Errors
/// A file cannot be written.
pub(super) fn save_kubeconfigs(
    kubeconfig: &TaskValue<String>,
    super_admin: &TaskValue<String>,
    journal: &Journal,
) -> Result<Option<PathBuf>, CommandError> {
    let saved = kubeconfig
        .get()
        .map(|text| kubeconfigs::save_kubeconfig(journal, text))
        .transpose()?;
    if let Some(text) = super_admin.get() {
        kubeconfigs::save_super_admin(journal.folder(), text)?;
    }
    Ok(saved)
}

/// Fails without the state directory of an install. An action there would create CAs that the cluster does not have.
pub(super) fn check_state(state: &Path, action: &'static str) -> Result<(), CommandError> {
    if state.join("pki").is_dir() {
        return Ok(());
    }
    let error = FileError::new(
        action,
        state,
        "it has no directory pki, so it is not the one of an install",
    );
    Err(error
        .hint("pass the state directory of the install with --state, or restore it from a backup")
        .into())
}

/// Connects to all hosts. One that is not in the renewal need not answer.
async fn connect(
    options: &RenewOptions,
    cluster: &Cluster,
    state: &Path,
    selected: &BTreeSet<HostName>,
    events: &Events,
) -> Result<Hosts, CommandError> {
    let connection = &options.connection;
    let (hosts, errors) = connection.connect_each(cluster, state, events).await?;
    session::none_needed(errors, selected, events)?;
    Ok(hosts)
}
