//! `node remove`.

use std::collections::BTreeSet;

use super::names::check_names;
use super::removal::{Connected, Context, Remaining, RemoveOptions};
use super::text::{self, Purpose};
use kubexm_session::begun::joined;
use kubexm_session::begun::{Operation, end_replacement};
use kubexm_session::bundle_access::verify_once;
use kubexm_session::change::{Change, Session};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Stop, certificates, clear_text};
use kubexm_types::event::Events;
use kubexm_types::{HostName, WarningKind};

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveReport {
    /// The number of changes; `None` for a dry run.
    pub changed: Option<usize>,
    /// What the user changes in the cluster file, one line each.
    pub edits: Vec<String>,
}

/// Removes hosts from a running cluster. Emits the plan as a note, and then calls `confirm`; it stops if that returns
/// false. A removal that was interrupted continues where it stopped.
///
/// # Errors
/// The bundle or the cluster file is wrong, the cluster does not work without the hosts, hosts cannot be reached, or a step
/// failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn remove(
    options: &RemoveOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<RemoveReport, CommandError> {
    run(options, Purpose::Remove, confirm, events, stop).await
}

/// Removes hosts for a purpose.
pub(super) async fn run(
    options: &RemoveOptions,
    purpose: Purpose,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<RemoveReport, CommandError> {
    options.connection.check()?;
    let opened = options.source.open_to_install(options.unsigned, events)?;
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older(&state, options.allow_older, events)?;
    let unknown = "name hosts of the cluster file; if you have removed the host from the file, put it back with all its \
                   roles until it is out of the cluster";
    check_names(&cluster, &options.names, unknown)?;
    let remaining = Remaining::read(options, &bundle, &cluster, purpose)?;
    let context = Context {
        options,
        bundle: &bundle,
        cluster: &cluster,
        remaining: &remaining.cluster,
        state: &state,
        purpose,
    };
    let edits = text::edits(&options.source.cluster, &remaining.mentions);
    if options.dry_run {
        certificates::warn_unless_opens(&state, options.ca_encryption.as_ref(), events);
        let looking = async {
            let connected = context.connect(events).await?;
            let prepared = context.prepare(&connected, events).await?;
            events.note(context.text(&prepared)?);
            Ok(())
        };
        unless_stopped(stop, looking).await?;
        events.note("dry run: nothing was touched");
        return Ok(RemoveReport {
            changed: None,
            edits,
        });
    }
    certificates::check_opens(&state, options.ca_encryption.as_ref())?;
    let change = Change {
        operation: match purpose {
            Purpose::Remove => Operation::NodeRemove,
            Purpose::Replace => Operation::NodeReplace,
        },
        cluster: &cluster,
        state: &state,
        lock: bundle.bundle().lock_digest().to_string(),
    };
    let connect = async |events: &Events| {
        verify_once(&bundle, &state, events).await?;
        events.phase("connect");
        let connected = context.connect(events).await?;
        Ok((connected.hosts.clone(), connected))
    };
    let work = async |session: Session<'_>, mut connected: Connected| {
        let (events, stop) = (session.events, session.stop);
        connected.hosts = session.hosts;
        let prepared = unless_stopped(stop, context.prepare(&connected, events)).await?;
        events.note(context.text(&prepared)?);
        if !confirm().await {
            return Err(CommandError::configuration(
                "the removal was not confirmed; nothing was touched",
            )
            .hint("type the names of the hosts, or pass --yes"));
        }
        let Connected { hosts, .. } = &connected;
        let ended = context.carry_out(&prepared, hosts, session.journal, events, stop);
        let ended = ended.await?;
        if purpose == Purpose::Remove {
            end_replacement(&state, &options.names)?;
        }
        let left: BTreeSet<&HostName> = options.names.iter().collect();
        let silent = left.into_iter().filter(|name| !hosts.contains_key(*name));
        let silent: Vec<HostName> = silent.cloned().collect();
        if !silent.is_empty() {
            events.warn(
                WarningKind::WithoutContact,
                text::without_contact(&silent, &cluster),
            );
        }
        if purpose == Purpose::Remove {
            events.note(format!(
                "{} left the cluster; change the cluster file before the next install:\n  {}",
                joined(&options.names),
                edits.join("\n  ")
            ));
        }
        clear_text::encrypt(&state, options.ca_encryption.as_ref(), events).await;
        events.emit(ended.summary(None));
        Ok(ended.changed)
    };
    let changed = change.run(events, stop, connect, work).await?;
    Ok(RemoveReport {
        changed: Some(changed),
        edits,
    })
}
