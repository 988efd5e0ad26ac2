//! `certs renew --expiring`: renews the certificates of the hosts that have one which expires soon.

use std::collections::{BTreeMap, BTreeSet};

use time::{Duration, OffsetDateTime};

use super::files;
use super::record::RenewalRecord;
use super::renew::{RenewOptions, RenewReport, renew};
use crate::stop::unless_stopped;
use crate::{CommandError, HostSelection, Stop, notices, session};
use kubexm_config::Cluster;
use kubexm_host::Facts;
use kubexm_pki::Certificate;
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// A certificate that expires soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiring {
    pub host: HostName,
    /// The file.
    pub path: String,
    /// The end of its validity.
    pub expires: String,
}

/// Looks for certificates that expire within a number of days, and that a renewal replaces. Of a certificate that is valid for
/// less than three times as long, the last third of its validity counts. Changes nothing.
///
/// # Errors
/// The cluster file is wrong, or a host cannot be reached.
pub async fn expiring(
    options: &RenewOptions,
    days: u16,
    events: &Events,
    stop: &Stop,
) -> Result<Vec<Expiring>, CommandError> {
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let looking = async {
        let hosts = options.connection.connect(&cluster, &state, events).await?;
        let facts = session::gather(&cluster, &session::watched(&hosts, events)).await?;
        let within = Duration::days(days.into());
        Ok(found(&cluster, &facts, within, OffsetDateTime::now_utc()))
    };
    unless_stopped(stop, looking).await
}

/// Renews the certificates of the hosts with one of these, or of all hosts if a renewal was interrupted.
///
/// # Errors
/// As [`renew`].
pub async fn renew_expiring(
    options: &RenewOptions,
    expiring: &[Expiring],
    events: &Events,
    stop: &Stop,
) -> Result<RenewReport, CommandError> {
    // Hosts with new files may have programs that have not read them yet.
    let names = match is_interrupted(options, events)? {
        true => BTreeSet::new(),
        false => expiring.iter().map(|one| one.host.clone()).collect(),
    };
    let selection = HostSelection {
        names: names.into_iter().collect(),
        roles: Vec::new(),
    };
    let options = RenewOptions {
        selection,
        ..options.clone()
    };
    renew(&options, events, stop).await
}

/// Returns whether a renewal was interrupted and can continue.
///
/// # Errors
/// The cluster file is wrong, or the record cannot be read.
pub fn is_interrupted(options: &RenewOptions, events: &Events) -> Result<bool, CommandError> {
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    let state = options.connection.state_directory(&cluster, events)?;
    Ok(RenewalRecord::load_or_new(&state)?.continues)
}

/// Returns the certificates that expire within a time, and that a renewal replaces.
fn found(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    within: Duration,
    now: OffsetDateTime,
) -> Vec<Expiring> {
    let mut expiring = Vec::new();
    for (host, facts) in facts {
        for (path, text) in &facts.certificates {
            if files::ca_of(cluster, path).is_none() {
                continue;
            }
            let Ok(found) = Certificate::first(path, text) else {
                continue;
            };
            let limit = within.min((found.ends - found.begins) / 3);
            if !found.is_ca && found.ends - now < limit {
                expiring.push(Expiring {
                    host: host.clone(),
                    path: path.clone(),
                    expires: found.expires(),
                });
            }
        }
    }
    expiring
}
