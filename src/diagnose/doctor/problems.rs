//! Assigns what `status` found to checks.

use super::report::{COMMANDS, RECEIPTS, TIMERS, UNREACHABLE};
use crate::status::{About, Problem, ProblemKind};
use kubexm_config::cluster::PluginKind;
use kubexm_config::load_balancer;

/// Returns the check that reports a problem of `status`.
pub(super) fn check_of(problem: &Problem) -> &'static str {
    match problem.about {
        About::Unreachable => UNREACHABLE,
        About::Host | About::Identity => "host",
        About::HostCheck => HOST_CHECKS,
        About::Clock => "clock",
        About::Disk => disk(problem.kind),
        About::Certificate => "certificates",
        About::Unit | About::Program => program(problem),
        About::Etcd => etcd(problem.kind),
        About::ApiServer => "api-server",
        About::Endpoint => "endpoint",
        About::Registry => "registry",
        About::Node => "node",
        About::Version => "version",
        // Only receipts: doctor compares no host with a plan.
        About::Drift => RECEIPTS,
        About::Timer => TIMERS,
        About::Command => COMMANDS,
        About::Application => application(problem.kind),
    }
}

/// The name of problems that several checks of doctor report themselves, with their evidence.
const HOST_CHECKS: &str = "host-checks";

/// Returns whether a unit or a static pod runs a program of a load balancer: its name contains that of the program.
fn is_balancer(name: &str) -> bool {
    load_balancer::all_properties().any(|own| name.contains(own.program))
}

/// Returns whether a unit is that of a network plugin.
fn is_plugin(name: &str) -> bool {
    let mut units = PluginKind::all_properties().filter_map(|own| own.unit);
    units.any(|unit| unit.strip_suffix(".service") == Some(name))
}

/// Returns the check of a unit or a program.
fn program(problem: &Problem) -> &'static str {
    // A program that refuses the credentials of kubexm runs, and they have expired.
    if problem.kind == ProblemKind::CredentialsRefused {
        return "certificates";
    }
    let name = problem.program();
    match name.strip_suffix(".service").unwrap_or(name) {
        "kubelet" => "kubelet",
        "kube-apiserver" => "api-server",
        "kube-controller-manager" | "kube-scheduler" => "control-plane",
        "etcd" => "etcd-member",
        "kubexm-registry" => "registry",
        "kube-proxy" => "network-program",
        _ if is_balancer(name) => "load-balancer",
        name if is_plugin(name) || name.contains("dns") => "network-program",
        _ => "runtime",
    }
}

fn disk(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Inodes => "inodes",
        ProblemKind::ReadOnly => "mount-options",
        _ => "disk-space",
    }
}

fn application(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::ReleaseFailed | ProblemKind::ReleasePending => "releases",
        ProblemKind::PodNotReady => "pods",
        _ => "applications",
    }
}

fn etcd(kind: ProblemKind) -> &'static str {
    match kind {
        ProblemKind::Alarm | ProblemKind::DatabaseFull | ProblemKind::DatabaseNearQuota => {
            "etcd-alarm"
        }
        ProblemKind::NoLeader => "etcd-quorum",
        ProblemKind::Members | ProblemKind::MemberNeverStarted => "etcd-members",
        _ => "etcd-member",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks;
    use crate::status::Subject;

    #[test]
    fn every_problem_of_status_has_its_check() {
        use ProblemKind::*;
        let none = "";
        for (about, kind, program, check) in [
            (About::Unit, Stopped, "kubelet.service", "kubelet"),
            (About::Unit, Other, "containerd.service", "runtime"),
            (
                About::Unit,
                Masked,
                "kubexm-haproxy.service",
                "load-balancer",
            ),
            (About::Unit, Stopped, "kubexm-registry.service", "registry"),
            (About::Program, Stopped, "kube-scheduler", "control-plane"),
            (About::Program, Stopped, "kube-vip", "load-balancer"),
            (
                About::Program,
                CredentialsRefused,
                "kube-apiserver",
                "certificates",
            ),
            (About::Disk, Other, none, "disk-space"),
            (About::Disk, Inodes, none, "inodes"),
            (About::Disk, ReadOnly, none, "mount-options"),
            (About::Etcd, Alarm, none, "etcd-alarm"),
            (About::Etcd, DatabaseFull, none, "etcd-alarm"),
            (About::Etcd, DatabaseNearQuota, none, "etcd-alarm"),
            (About::Etcd, NoLeader, none, "etcd-quorum"),
            (About::Etcd, Members, none, "etcd-members"),
            (About::Etcd, MemberNeverStarted, none, "etcd-members"),
            (About::Etcd, Other, none, "etcd-member"),
            (About::Drift, Other, none, "receipts"),
            (About::Timer, Other, none, "timers"),
            (About::Unreachable, Other, none, "unreachable"),
            (About::Host, Other, none, "host"),
            (About::Identity, Other, none, "host"),
            (About::Clock, Other, none, "clock"),
            (About::Certificate, Other, none, "certificates"),
            (About::ApiServer, Other, none, "api-server"),
            (About::Endpoint, Other, none, "endpoint"),
            (About::Registry, Other, none, "registry"),
            (About::Node, Cordoned, none, "node"),
            (About::Node, DiskPressure, none, "node"),
            (About::Version, Other, none, "version"),
            (About::Command, Other, none, "commands"),
            (About::Application, Other, none, "applications"),
            (About::Application, ApplicationMissing, none, "applications"),
            (About::Application, ReleaseFormer, none, "applications"),
            (About::Application, ReleaseChanged, none, "applications"),
            (About::Application, ReleaseFailed, none, "releases"),
            (About::Application, ReleasePending, none, "releases"),
            (About::Application, PodNotReady, none, "pods"),
        ] {
            let problem = Problem::new(about, "", "").of_kind(kind);
            let problem = problem.of(Subject::Program(program.to_owned()));
            assert_eq!(check_of(&problem), check, "{about:?} {kind:?} {program}");
            // A problem without a check would be in no report.
            assert!(checks().any(|known| known.id == check), "{check}");
        }
    }
}
