//! `node replace`.

use super::names::check_names;
use super::removal::RemoveOptions;
use super::remove;
use super::text::Purpose;
use crate::addition::words;
use crate::install::{self, InstallOptions};
use kubexm_session::begun::joined;
use kubexm_session::begun::{ReplacementRecord, StateRecord};
use kubexm_session::{CommandError, Stop};
use kubexm_types::event::Events;

/// What a replacement did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
}

/// Replaces hosts by new ones with the same names and addresses: removes the former ones from the cluster, and adds the new
/// ones. A host that still works is reset, and joins again.
///
/// # Errors
/// As a removal and an install.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn replace(
    options: &RemoveOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<ReplaceReport, CommandError> {
    let cluster = kubexm_config::load_cluster(&options.source.cluster)?;
    check_names(&cluster, &options.names, "name hosts of the cluster file")?;
    let state = options.connection.state_directory(&cluster, events)?;
    let begun = ReplacementRecord::read(&state)?;
    if let Some(begun) = &begun
        && !begun.is_of(&options.names)
    {
        let (names, again) = (joined(&begun.names), words(&begun.names));
        return Err(CommandError::refused(format!(
            "the replacement of {names} has begun and is not complete"
        ))
        .hint(format!("complete it first: kubexm node replace {again}")));
    }
    let mut changed = 0;
    if begun.is_none_or(|begun| !begun.removed) {
        let report = remove::run(options, Purpose::Replace, confirm, events, stop).await?;
        let Some(removed) = report.changed else {
            return Ok(ReplaceReport { changed: None });
        };
        changed += removed;
        let record = ReplacementRecord {
            names: options.names.clone(),
            removed: true,
        };
        record.save(&state)?;
    } else {
        events.note(format!(
            "continues the replacement of {}: the former host is out of the cluster",
            joined(&options.names)
        ));
        if options.dry_run {
            events.note("dry run: nothing was touched");
            return Ok(ReplaceReport { changed: None });
        }
    }
    let install = InstallOptions {
        source: options.source.clone(),
        connection: options.connection.clone(),
        unsigned: options.unsigned,
        allow_failed: true,
        allow_older: options.allow_older,
        ca_encryption: options.ca_encryption.clone(),
        admitted: Some(options.names.iter().cloned().collect()),
    };
    // Workers that do not answer stay out of it, as in the removal.
    let (report, left_out) = install::install_others(&install, events, stop).await?;
    ReplacementRecord::remove(&state)?;
    left_out.remind(events);
    Ok(ReplaceReport {
        changed: Some(changed + report.changed),
    })
}
