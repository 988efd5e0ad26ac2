//! The end of a rollback that an upgrade gives up, because it has replaced nothing.

use std::collections::BTreeSet;

use crate::install::outcome::{self, Ended};
use crate::session::Hosts;
use crate::upgrade::record::UpgradeRecord;
use crate::{CommandError, Stop};
use kubexm_config::Cluster;
use kubexm_deploy::backup::{self, Phase, RestoreInputs};
use kubexm_engine::plan::Journal;
use kubexm_types::event::Events;

/// Removes what the rollback has prepared on hosts, and then its record.
///
/// # Errors
/// A host was lost, or the record cannot be written.
pub(in crate::upgrade) async fn give_up(
    record: &mut UpgradeRecord,
    (cluster, hosts, journal): (&Cluster, &Hosts, &Journal),
    events: &Events,
    stop: &Stop,
) -> Result<Ended, CommandError> {
    let Some(begun) = &record.rollback else {
        return Ok(Ended::default());
    };
    let absent = BTreeSet::new();
    let given = RestoreInputs {
        cluster,
        id: &begun.id,
        absent: &absent,
        is_new: false,
        bump: 0,
        cas: None,
    };
    events.phase("apply");
    let plan = backup::restore(&given, Phase::Tidy)?;
    let ended = outcome::carry_out(plan, hosts, events, stop).await?;
    record.rollback = None;
    record.save(journal)?;
    Ok(ended)
}
