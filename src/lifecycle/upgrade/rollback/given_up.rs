//! The end of a rollback that an upgrade gives up, because it has replaced nothing.

use std::collections::BTreeSet;

use kubexm_config::Cluster;
use kubexm_deploy::backup::{self, Phase, RestoreInputs};
use kubexm_session::CommandError;
use kubexm_session::begun::{StateRecord, UpgradeRecord};
use kubexm_session::change::Session;
use kubexm_session::outcome::{self, Ended};

/// Removes what the rollback has prepared on hosts, and then its record.
///
/// # Errors
/// A host was lost, or the record cannot be written.
pub(in crate::upgrade) async fn give_up(
    record: &mut UpgradeRecord,
    cluster: &Cluster,
    session: &Session<'_>,
) -> Result<Ended, CommandError> {
    let Some(begun) = &record.rollback else {
        return Ok(Ended::default());
    };
    let absent = BTreeSet::new();
    let given = RestoreInputs {
        cluster,
        id: &begun.id,
        absent: &absent,
        new_hosts: None,
        bump: 0,
        cas: None,
    };
    session.events.phase("apply");
    let plan = backup::restore(&given, Phase::Tidy)?;
    let ended = outcome::carry_out(plan, &session.hosts, session.events, session.stop).await?;
    record.rollback = None;
    record.save(session.journal.folder())?;
    Ok(ended)
}
