//! Checks of hosts that preflight makes, too.

use kubexm_preflight::host_checks::{self, Asked, HostCheck, When};
use kubexm_types::FindingKind;

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "kernel-settings",
        area: Area::Kernel,
        source: Source::Hosts,
        read: "the files of sysctl.d in the order in which the next boot applies them, modprobe.d, and the units that read them",
        run: |seen| outcome(seen, FindingKind::KernelSettings),
    },
    Check {
        id: "host-names",
        area: Area::Hosts,
        source: Source::Hosts,
        read: "whether cloud-init writes /etc/hosts",
        run: |seen| outcome(seen, FindingKind::HostNames),
    },
    Check {
        id: "file-systems",
        area: Area::Disk,
        source: Source::Hosts,
        read: "attributes of files that kubexm changes, and mounts that the next boot does not repeat or makes read-only",
        run: |seen| outcome(seen, FindingKind::FileSystems),
    },
    Check {
        id: "proxies",
        area: Area::Network,
        source: Source::Nodes,
        read: "proxies in the environment of units",
        run: |seen| outcome(seen, FindingKind::Proxies),
    },
    Check {
        id: "routes",
        area: Area::Network,
        source: Source::Nodes,
        read: "the route to the first service addresses",
        run: |seen| outcome(seen, FindingKind::Routes),
    },
];

fn outcome(seen: &Seen, kind: FindingKind) -> Outcome {
    Outcome::Known(find(seen, kind))
}

/// Returns what the checks of a kind find on all hosts.
pub(super) fn find(seen: &Seen, kind: FindingKind) -> Vec<Found> {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts() {
        let Some(facts) = seen.facts.get(host) else {
            continue;
        };
        let asked = Asked {
            cluster: &seen.cluster,
            host,
            facts,
            answers,
        };
        let is_made = |check: &HostCheck| check.kind == kind && check.when == When::Always;
        for (_, problem) in host_checks::found(&asked, is_made) {
            let found = Found::new(&problem.what)
                .on(host)
                .evidence(&problem.evidence)
                .cause(problem.cause)
                .fix(problem.fix)
                .warning(!problem.breaks || problem.is_later);
            let commands = problem.commands.into_iter();
            all.push(commands.fold(found, |found, command| {
                found.run(seen.line.shell(host, &command))
            }));
        }
    }
    all
}
