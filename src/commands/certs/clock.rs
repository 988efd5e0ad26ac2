//! The clock of this machine, with which kubexm issues certificates.

use std::collections::{BTreeMap, BTreeSet};

use crate::CommandError;
use kubexm_host::Facts;
use kubexm_types::HostName;

/// The greatest difference to the clock of a host, in seconds. A certificate begins an hour before it is issued, so that hosts
/// accept it at once.
const MOST: f64 = 1800.0;

/// Fails if the clocks of hosts that get certificates differ from the clock of this machine so much that the hosts could refuse
/// new certificates, or that valid ones look expired.
///
/// # Errors
/// A clock differs.
pub(super) fn check(
    receivers: &BTreeSet<HostName>,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<(), CommandError> {
    let differing: Vec<String> = facts
        .iter()
        .filter(|(name, facts)| receivers.contains(*name) && facts.clock_ahead.abs() > MOST)
        .map(|(name, facts)| {
            let ahead = facts.clock_ahead;
            let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
            format!(
                "the clock of {name} is {:.0} s {direction} the clock of this machine",
                ahead.abs()
            )
        })
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(CommandError::Configuration(format!(
        "cannot issue certificates: {}, and at most {MOST} s are allowed\nhint: compare the clock of this machine with that of \
         the hosts (`date -u`), set the wrong one, then run the command again",
        differing.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_clock_of_this_machine_stops_before_certificates_are_issued() {
        let check = |clocks: [f64; 2]| {
            let names = ["node1", "node2"].map(|name| name.parse::<HostName>().unwrap());
            let receivers = BTreeSet::from([names[0].clone()]);
            let facts = names.into_iter().zip(clocks).map(|(name, clock_ahead)| {
                let facts = Facts {
                    clock_ahead,
                    ..Facts::default()
                };
                (name, facts)
            });
            check(&receivers, &facts.collect()).map_err(|error| error.to_string())
        };
        // node2 gets no certificates.
        check([60.0, -28_800.0]).unwrap();
        insta::assert_snapshot!(check([-28_800.4, 0.0]).unwrap_err(), @"
        cannot issue certificates: the clock of node1 is 28800 s behind the clock of this machine, and at most 1800 s are allowed
        hint: compare the clock of this machine with that of the hosts (`date -u`), set the wrong one, then run the command again
        ");
    }
}
