//! Hosts without a connection, hosts that answer only a part, and what kubexm keeps for later commands.

use super::check::{Check, Found, Outcome, Source};
use super::report::{Area, COMMANDS, RECEIPTS, TIMERS, UNREACHABLE};
use super::seen::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: UNREACHABLE,
        area: Area::Hosts,
        source: Source::ThisMachine,
        read: "a login by SSH to each host of the cluster file",
        run: unreachable,
    },
    Check {
        id: "host",
        area: Area::Hosts,
        source: Source::Hosts,
        read: "the facts of each host, /var/lib/kubexm/cluster, and the answers to all questions",
        run: host,
    },
    Check {
        id: RECEIPTS,
        area: Area::Hosts,
        source: Source::Hosts,
        read: "/var/lib/kubexm/receipt.jsonl on each host that is installed",
        run: receipts,
    },
    Check {
        id: TIMERS,
        area: Area::Hosts,
        source: Source::ThisMachine,
        read: "the last runs of the timers of this machine, for certificates and backups",
        run: timers,
    },
    Check {
        id: COMMANDS,
        area: Area::Hosts,
        source: Source::ThisMachine,
        read: "the records of upgrades, restores, moves of registries and replacements in the state directory",
        run: commands,
    },
];

fn unreachable(seen: &Seen) -> Outcome {
    of_status(
        seen,
        UNREACHABLE,
        "kubexm cannot log in, so that it knows nothing from the host itself: it may be down, cut off, or refuse the login",
    )
}

fn host(seen: &Seen) -> Outcome {
    let mut all: Vec<Found> = seen
        .problems("host")
        .map(|problem| {
            Found::of(problem).cause("kubexm can log in, and the host is not as an install leaves it, or does not answer")
        })
        .collect();
    for (host, cause) in &seen.unanswered {
        let is_known = all.iter().any(|found| found.hosts.contains(host));
        if !is_known {
            let found = Found::new("the host does not answer all questions")
                .on(host)
                .evidence([cause])
                .cause("a program or a file system of the host is slow or hangs")
                .fix("look at its load and for processes in the state D");
            let command = seen.line.shell(
                host,
                "uptime; ps -eo stat,pid,etime,args | grep \"^D\" | head",
            );
            all.push(found.likely().run(command));
        }
    }
    Outcome::Known(all)
}

fn receipts(seen: &Seen) -> Outcome {
    of_status(
        seen,
        RECEIPTS,
        "the cluster works, but a reset cannot revert what the receipt does not name",
    )
}

fn timers(seen: &Seen) -> Outcome {
    of_status(
        seen,
        TIMERS,
        "the cluster works, but its certificates are not renewed in time, or its newest backup is old",
    )
}

fn commands(seen: &Seen) -> Outcome {
    of_status(
        seen,
        COMMANDS,
        "a command was interrupted, and others are refused until it is complete",
    )
}

/// Returns the problems that `status` found, which have one cause.
fn of_status(seen: &Seen, check: &str, cause: &str) -> Outcome {
    let problems = seen.problems(check);
    Outcome::Known(
        problems
            .map(|problem| Found::of(problem).cause(cause))
            .collect(),
    )
}
