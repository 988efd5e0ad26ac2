//! Assigns what `status` found to checks.

use super::report::{COMMANDS, RECEIPTS, TIMERS, UNREACHABLE};
use crate::status::{About, Problem};

/// Returns the check that reports a problem of `status`.
pub(super) fn check_of(problem: &Problem) -> &'static str {
    let what = problem.what.as_str();
    match problem.about {
        About::Unreachable => UNREACHABLE,
        About::Host | About::Identity => "host",
        About::Clock => "clock",
        About::Disk => disk(what),
        About::Certificate => "certificates",
        About::Unit | About::Program => program(what),
        About::Etcd => etcd(what),
        About::ApiServer => "api-server",
        About::Endpoint => "endpoint",
        About::Registry => "registry",
        About::Node => "node",
        About::Version => "version",
        // Only receipts: doctor compares no host with a plan.
        About::Drift => RECEIPTS,
        About::Timer => TIMERS,
        About::Command => COMMANDS,
    }
}

/// What the names of units and static pods of load balancers contain.
const BALANCERS: [&str; 4] = ["haproxy", "nginx", "keepalived", "kube-vip"];

/// Returns the check of a unit or a program, which is the first word.
fn program(what: &str) -> &'static str {
    let name = what.split(' ').next().unwrap_or_default();
    let name = name.strip_suffix(".service").unwrap_or(name);
    // A program that refuses the credentials of kubexm runs, and they have expired.
    if what.contains("refuses the credentials") {
        return "certificates";
    }
    match name {
        "kubelet" => "kubelet",
        "kube-apiserver" => "api-server",
        "kube-controller-manager" | "kube-scheduler" => "control-plane",
        "etcd" => "etcd-member",
        "kubexm-registry" => "registry",
        "kube-proxy" => "network-program",
        _ if BALANCERS.iter().any(|part| name.contains(part)) => "load-balancer",
        _ if name.contains("routes") || name.contains("dns") => "network-program",
        _ => "runtime",
    }
}

fn disk(what: &str) -> &'static str {
    match what {
        _ if what.contains("inodes") => "inodes",
        _ if what.contains("mounted read-only") => "mount-options",
        _ => "disk-space",
    }
}

fn etcd(what: &str) -> &'static str {
    match what {
        _ if what.contains("has the alarm") || what.contains("at most") => "etcd-alarm",
        _ if what.contains("no leader") => "etcd-quorum",
        _ if what.contains("member of etcd is") || what.contains("members") => "etcd-members",
        _ => "etcd-member",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks;

    #[test]
    fn every_text_of_status_has_its_check() {
        for (about, what, check) in [
            (About::Unit, "kubelet.service is inactive (dead)", "kubelet"),
            (
                About::Unit,
                "containerd.service is failed (failed)",
                "runtime",
            ),
            (
                About::Unit,
                "kubexm-haproxy.service is masked",
                "load-balancer",
            ),
            (
                About::Unit,
                "kubexm-registry.service is inactive (dead)",
                "registry",
            ),
            (
                About::Program,
                "kube-scheduler does not run: /etc/kubernetes/manifests/kube-scheduler.yaml does not exist",
                "control-plane",
            ),
            (
                About::Program,
                "kube-vip does not run: /etc/kubernetes/manifests/kube-vip.yaml does not exist",
                "load-balancer",
            ),
            (
                About::Program,
                "kube-apiserver refuses the credentials of this host, which have expired or belong to another cluster",
                "certificates",
            ),
            (
                About::Disk,
                "/ has 2 % free, 9 GiB, for /var/lib/etcd",
                "disk-space",
            ),
            (
                About::Disk,
                "/ has 2 % of its inodes free, 20 of 1000, for /var/lib/etcd",
                "inodes",
            ),
            (
                About::Disk,
                "cannot write /etc: the file system is mounted read-only",
                "mount-options",
            ),
            (About::Etcd, "etcd has the alarm NOSPACE", "etcd-alarm"),
            (
                About::Etcd,
                "the database of etcd has 90 of at most 100 MiB",
                "etcd-alarm",
            ),
            (About::Etcd, "etcd has no leader", "etcd-quorum"),
            (
                About::Etcd,
                "the member of etcd is a learner, and does not vote",
                "etcd-members",
            ),
            (
                About::Etcd,
                "etcd has members that the cluster file does not have: node9",
                "etcd-members",
            ),
            (About::Etcd, "etcd does not answer: refused", "etcd-member"),
            (About::Drift, "has no receipt", "receipts"),
            (
                About::Timer,
                "the last run of the timer for backups failed",
                "timers",
            ),
            (About::Unreachable, "", "unreachable"),
            (About::Host, "", "host"),
            (About::Identity, "", "host"),
            (About::Clock, "", "clock"),
            (About::Disk, "", "disk-space"),
            (About::Certificate, "", "certificates"),
            (About::ApiServer, "", "api-server"),
            (About::Endpoint, "", "endpoint"),
            (About::Registry, "", "registry"),
            (About::Node, "", "node"),
            (About::Version, "", "version"),
            (About::Command, "", "commands"),
        ] {
            let problem = Problem {
                about,
                host: None,
                what: what.to_owned(),
                hint: String::new(),
            };
            assert_eq!(check_of(&problem), check, "{what}");
            // A problem without a check would be in no report.
            assert!(checks().any(|known| known.id == check), "{check}");
        }
    }
}
