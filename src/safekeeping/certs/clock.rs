//! The clock of this machine, with which kubexm issues certificates.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::Cluster;
use kubexm_host::Facts;
use kubexm_session::CommandError;
use kubexm_types::HostName;

/// The greatest difference to the clock of a host, in seconds, unless the cluster file allows a greater one. A certificate begins
/// an hour before it is issued, which is the greatest value of the cluster file, so that hosts accept it at once.
const MOST: u64 = 1800;

/// Fails if the clocks of hosts that get certificates differ from the clock of this machine so much that the hosts could refuse
/// new certificates, or that valid ones look expired.
///
/// # Errors
/// A clock differs.
pub(super) fn check(
    cluster: &Cluster,
    receivers: &BTreeSet<HostName>,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<(), CommandError> {
    let differing: Vec<String> = differing(cluster, receivers, facts)
        .map(|(name, ahead)| difference(name, ahead, "this machine"))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "cannot issue certificates: {}, and at most {} s are allowed",
        differing.join("; "),
        limit(cluster)
    ))
    .hint(
        "compare the clock of this machine with that of the hosts (`date -u`), set the wrong one, \
         then run the command again",
    ))
}

/// Returns by how many seconds the clock of a host is ahead of the clock of another machine, for people.
pub(super) fn difference(name: &HostName, ahead: f64, other: &str) -> String {
    let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
    format!(
        "the clock of {name} is {:.0} s {direction} the clock of {other}",
        ahead.abs()
    )
}

/// Returns whether the clock of this machine is the wrong one: it differs from those of all these hosts.
pub(super) fn is_own_wrong(
    cluster: &Cluster,
    hosts: &BTreeSet<HostName>,
    facts: &BTreeMap<HostName, Facts>,
) -> bool {
    let known = facts.keys().filter(|name| hosts.contains(*name)).count();
    known > 0 && differing(cluster, hosts, facts).count() == known
}

/// Returns the hosts whose clocks differ, and by how many seconds they are ahead.
fn differing<'a>(
    cluster: &Cluster,
    hosts: &'a BTreeSet<HostName>,
    facts: &'a BTreeMap<HostName, Facts>,
) -> impl Iterator<Item = (&'a HostName, f64)> {
    let limit = limit(cluster) as f64;
    let facts = facts.iter().filter(|(name, _)| hosts.contains(*name));
    let clocks = facts.map(|(name, facts)| (name, facts.clock_ahead));
    clocks.filter(move |(_, ahead)| ahead.abs() > limit)
}

/// Returns the greatest difference in seconds, of at most four digits.
fn limit(cluster: &Cluster) -> u64 {
    cluster.system.max_clock_skew_seconds.max(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster;

    fn with_clock(clock_ahead: f64) -> Facts {
        Facts {
            clock_ahead,
            ..Facts::default()
        }
    }

    #[test]
    fn wrong_clock_of_this_machine_stops_before_certificates_are_issued() {
        let mut cluster = cluster();
        let judge = |cluster: &Cluster, receivers: &[&str], clocks: [f64; 2]| {
            let receivers = receivers.iter().map(|name| name.parse().unwrap());
            let names = ["node1", "node2"].map(|name| name.parse::<HostName>().unwrap());
            let facts = names.into_iter().zip(clocks.map(with_clock));
            let judged = check(cluster, &receivers.collect(), &facts.collect());
            judged.map_err(|error| error.to_string())
        };
        // node2 gets no certificates.
        judge(&cluster, &["node1"], [60.0, -28_800.0]).unwrap();
        let refused = judge(&cluster, &["node1", "node2"], [-28_800.4, 0.0]).unwrap_err();
        insta::assert_snapshot!(refused, @"
        cannot issue certificates: the clock of node1 is 28800 s behind the clock of this machine, and at most 1800 s are allowed
        hint: compare the clock of this machine with that of the hosts (`date -u`), set the wrong one, then run the command again
        ");
        judge(&cluster, &["node1"], [2400.0, 0.0]).unwrap_err();
        let is_own_wrong = |clocks: [f64; 2]| {
            let names = ["node1", "node2"].map(|name| name.parse::<HostName>().unwrap());
            let facts = names.clone().into_iter().zip(clocks.map(with_clock));
            super::is_own_wrong(&cluster, &names.into(), &facts.collect())
        };
        assert!(is_own_wrong([7200.0, 7201.0]) && !is_own_wrong([7200.0, 0.0]));
        cluster.system.max_clock_skew_seconds = 3600;
        judge(&cluster, &["node1"], [2400.0, 0.0]).unwrap();
    }
}
