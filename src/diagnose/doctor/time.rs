//! Clocks: certificates, leases and etcd depend on them.

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "clock",
    area: Area::Time,
    source: Source::Hosts,
    read: "the clock of each host, compared with this machine and with each other; its time service",
    run: clock,
}];

/// The difference in seconds that etcd warns about
/// (<https://github.com/etcd-io/etcd/blob/main/server/etcdserver/api/rafthttp/probing_status.go>).
const BETWEEN_HOSTS: f64 = 1.0;

fn clock(seen: &Seen) -> Outcome {
    if seen.facts.is_empty() {
        return Outcome::Unknown("no host answers".to_owned());
    }
    let cause = "certificates look expired or not yet valid, and etcd and leases measure wrong times, if clocks differ";
    let mut all = Vec::new();
    for problem in seen.problems("clock") {
        let mut found = Found::of(problem)
            .cause(cause)
            .fix("let a time server set the clock; without one, set it by hand");
        if let Some(host) = &problem.host {
            let service = seen.hosts.get(host).and_then(|host| host.one("ntp_unit"));
            found.add_evidence([match service {
                Some(unit) => format!("the time service {unit} runs"),
                None => "no time service runs".to_owned(),
            }]);
            // The shell of the user inserts the time of this machine.
            let command = match service {
                Some("chrony" | "chronyd") => seen.line.on(host, "chronyc makestep"),
                _ => seen.line.on(host, "date -u -s \"@$(date +%s)\""),
            };
            found = found.run(command);
        }
        all.push(found);
    }
    // The largest difference between two hosts whose clocks agree with this machine. An uncertainty is never counted.
    let clocks = seen
        .facts
        .iter()
        .map(|(host, facts)| (facts.clock_ahead, host));
    let mut clocks: Vec<_> = clocks.collect();
    clocks.sort_by(|one, other| one.0.total_cmp(&other.0));
    if let (Some((low, behind)), Some((high, ahead))) = (clocks.first(), clocks.last())
        && high - low > BETWEEN_HOSTS
        && all.is_empty()
    {
        let what = format!(
            "the clock of {ahead} is {:.1} s ahead of that of {behind}",
            high - low
        );
        // Certificates and leases bear a difference that this machine does not complain about.
        let found = Found::new(what).on(ahead).cause(cause).warning(true);
        all.push(found.fix("let both hosts use the same time server: spec.system.time.servers"));
    }
    Outcome::Known(all)
}
