//! Judges single hosts: what each reports about itself.

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use super::answers::{Answers, Unit};
use super::reply::Reply;
use super::report::{About, CertificateState, HostState, Problem, ProblemKind, Subject};
use super::{Seen, disks};
use kubexm_config::cluster::{Cluster, Etcd, HostSpec, LoadBalancer};
use kubexm_deploy::expected;
use kubexm_host::facts::Membership;
use kubexm_host::{Facts, HostError};
use kubexm_preflight::host_checks::{self, Asked, When};
use kubexm_safekeeping::certs::{CheckedCertificate, Standing};
use kubexm_types::{ClusterIdentity, HostName};

/// The program on which the others of a control plane depend.
const SERVER: &str = expected::CONTROL_PLANE[0];
/// The hint of a host that does not answer a question.
const AGAIN: &str = "run the command again; if it fails again, log in to the host and look for what is slow or broken";

/// A host with its problems.
pub(super) struct Judged {
    pub(super) state: HostState,
    pub(super) problems: Vec<Problem>,
}

impl Judged {
    fn new(host: &HostSpec, cluster: &Cluster) -> Self {
        Self {
            state: HostState::new(&host.name, roles(cluster, &host.name)),
            problems: Vec::new(),
        }
    }

    fn add(&mut self, about: About, what: String, hint: String) {
        self.push(Problem::new(about, what, hint));
    }

    fn push(&mut self, problem: Problem) {
        self.problems.push(problem.on(&self.state.host));
    }

    /// Returns whether a program with this name is not healthy.
    pub(super) fn is_unhealthy(&self, program: &str) -> bool {
        let mut all = self.state.unhealthy.iter();
        all.any(|name| name == program)
    }
}

/// Judges a host.
pub(super) fn judge(seen: &Seen<'_>, host: &HostSpec) -> Judged {
    let (cluster, name) = (seen.cluster, &host.name);
    let mut judged = Judged::new(host, cluster);
    // Facts that were read before an error count.
    if let Some((_, error)) = seen.errors.iter().find(|(failed, _)| failed == name) {
        failed(&mut judged, error);
    }
    let Some(facts) = seen.facts.get(name) else {
        return judged;
    };
    judged.state.clock_ahead = milliseconds(facts.clock_ahead);
    identity(&mut judged, seen.identity.as_ref(), facts);
    self::clock(&mut judged, cluster, facts);
    if !is_installed(facts) {
        judged.add(
            About::Host,
            "kubexm has not installed a cluster on this host".to_owned(),
            "run `kubexm install`, or correct the address of the host in the cluster file"
                .to_owned(),
        );
        return judged;
    }
    if let Some(answers) = seen.answers.get(name) {
        judged.state.kubelet = answers.versions.get("kubelet").cloned().flatten();
        judged.state.api_server = answers.running.values().next().cloned().flatten();
        programs(&mut judged, answers);
        faults(&mut judged, answers);
    }
    checks(&mut judged, seen, facts);
    let (disks, problems) = disks::judge(cluster, host, facts);
    judged.state.disks = disks;
    judged.problems.extend(problems);
    certificates(&mut judged, seen);
    judged
}

/// Adds what prevents the cluster from working on the host, now or after the next boot. Preflight looks for the same.
fn checks(judged: &mut Judged, seen: &Seen<'_>, facts: &Facts) {
    let host = judged.state.host.clone();
    match seen.checked.get(&host) {
        None => {}
        Some(Err(message)) => {
            let message = host_checks::unanswered(message.clone());
            let hint = message.hint.unwrap_or_else(|| AGAIN.to_owned());
            judged.add(About::HostCheck, message.text, hint);
        }
        Some(Ok(answers)) => {
            let asked = Asked {
                cluster: seen.cluster,
                host: &host,
                facts,
                answers,
            };
            for (_, problem) in host_checks::found(&asked, |check| check.when == When::Always) {
                if problem.breaks {
                    let (what, hint) = (problem.text(), problem.hint());
                    judged.add(About::HostCheck, what, hint);
                }
            }
        }
    }
}

/// Returns whether an install has changed the host.
pub(super) fn is_installed(facts: &Facts) -> bool {
    facts.receipt || facts.is_node()
}

/// Returns the roles of a host in whose programs kubexm is involved.
fn roles(cluster: &Cluster, host: &HostName) -> Vec<&'static str> {
    let all = &cluster.roles;
    let has_etcd = matches!(cluster.etcd, Etcd::Systemd { .. });
    let has_registry = cluster.registry.external.is_none();
    let has_balancer = matches!(cluster.high_availability.kind, LoadBalancer::Holder { .. });
    [
        ("control-plane", &all.control_plane, true),
        ("worker", &all.worker, true),
        ("etcd", &all.etcd, has_etcd),
        ("registry", &all.registry, has_registry),
        ("loadbalancer", &all.load_balancer, has_balancer),
    ]
    .into_iter()
    .filter(|(_, hosts, counts)| *counts && hosts.contains(host))
    .map(|(name, ..)| name)
    .collect()
}

/// Adds the problem of a host that did not answer.
fn failed(judged: &mut Judged, error: &HostError) {
    let (about, hint) = match error {
        HostError::Command { .. } | HostError::TimedOut { .. } => (About::Host, AGAIN),
        _ => (
            About::Unreachable,
            "start the host and its SSH server, or correct its address and its login in the cluster file",
        ),
    };
    let message = error.message();
    judged.add(
        about,
        message.text,
        message.hint.unwrap_or_else(|| hint.to_owned()),
    );
    judged.state.unknown = Some(error.message().text);
}

/// Adds a problem for each answer that kubexm does not know.
fn faults(judged: &mut Judged, answers: &Answers) {
    for fault in &answers.faults {
        judged.add(About::Host, fault.to_string(), AGAIN.to_owned());
    }
}

fn identity(judged: &mut Judged, ours: Option<&ClusterIdentity>, facts: &Facts) {
    match (&facts.cluster, ours) {
        (Membership::Cluster(theirs), Some(ours)) if theirs.id != ours.id => judged.add(
            About::Identity,
            format!("belongs to {theirs}, and the state directory is of {ours}"),
            "correct the address of the host in the cluster file, or pass the state directory of its cluster with --state"
                .to_owned(),
        ),
        (Membership::Damaged, _) => judged.add(
            About::Identity,
            "its record /var/lib/kubexm/cluster is damaged".to_owned(),
            "remove the file if the host belongs to this cluster: the next install compares the certificates and writes it"
                .to_owned(),
        ),
        _ => {}
    }
}

/// Returns seconds as whole milliseconds; `None` for a number of seconds that no clock has.
fn milliseconds(seconds: f64) -> Option<i64> {
    let positive = Duration::try_from_secs_f64(seconds.abs()).ok()?;
    let count = i64::try_from(positive.as_millis()).ok()?;
    Some(if seconds < 0.0 { -count } else { count })
}

fn clock(judged: &mut Judged, cluster: &Cluster, facts: &Facts) {
    let limit = f64::from(u32::try_from(cluster.system.max_clock_skew_seconds).unwrap_or(u32::MAX));
    let ahead = facts.clock_ahead;
    if ahead.abs() > limit {
        let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
        judged.add(
            About::Clock,
            format!("its clock is {:.0} s {direction} the clock of this machine", ahead.abs()),
            "set the clock, or run a time server in this network: certificates and etcd depend on the time".to_owned(),
        );
    }
}

/// Judges units and programs. A problem that follows from another one of the same host is not in the list.
fn programs(judged: &mut Judged, answers: &Answers) {
    let mut unhealthy = BTreeSet::new();
    let host = judged.state.host.clone();
    for (name, unit) in &answers.units {
        let Some((kind, what)) = unit_fault(name, unit) else {
            continue;
        };
        let program = name.strip_suffix(".service").unwrap_or(name);
        let hint = format!(
            "read its log with `kubexm logs {program} --host {host}`; `kubexm install` starts it again"
        );
        let problem = Problem::new(About::Unit, what, hint).of_kind(kind);
        judged.push(problem.of(Subject::Program(name.clone())));
        unhealthy.insert(program.to_owned());
    }
    for (name, has_manifest) in &answers.static_pods {
        if *has_manifest {
            continue;
        }
        let phase = match name.as_str() {
            "etcd" => Some("etcd local".to_owned()),
            name if expected::CONTROL_PLANE.contains(&name) => {
                let program = name.strip_prefix("kube-").unwrap_or(name);
                Some(format!("control-plane {program}"))
            }
            _ => None,
        };
        let what =
            format!("{name} does not run: /etc/kubernetes/manifests/{name}.yaml does not exist");
        let hint = match phase {
            Some(phase) => format!(
                "move the file back, or write it again with `kubeadm init phase {phase} --config FILE`: the first control \
                 plane has such a file, /etc/kubexm/kubeadm-init.yaml"
            ),
            None => "move the file back, or write it again with `kubexm install`".to_owned(),
        };
        let problem = Problem::new(About::Program, what, hint).of_kind(ProblemKind::Stopped);
        judged.push(problem.of(Subject::Program(name.clone())));
        unhealthy.insert(name.clone());
    }
    let is_without_server = has_silent_server(answers);
    let mut refusal = None;
    for (name, reply) in &answers.health {
        let Some(complaint) = reply.complaint() else {
            continue;
        };
        let what = match reply {
            Reply::Silent(cause) | Reply::Untrusted(cause) => {
                format!("{name} does not answer its health check: {cause}")
            }
            _ => format!("{name} {complaint}"),
        };
        if *reply == Reply::Refused {
            refusal.get_or_insert((name, what));
            continue;
        }
        let is_new = unhealthy.insert(name.clone());
        // The programs of a control plane end without an API server.
        let follows =
            is_without_server && name != SERVER && expected::CONTROL_PLANE.contains(&name.as_str());
        if is_new && !follows {
            let hint = format!("read its log with `kubexm logs {name} --host {host}`");
            let problem = Problem::new(About::Program, what, hint);
            judged.push(problem.of(Subject::Program(name.clone())));
        }
    }
    if let Some((name, what)) = refusal {
        let hint =
            "run `kubexm certs check`: kubexm asks with /etc/kubernetes/admin.conf".to_owned();
        let problem = Problem::new(About::Program, what, hint);
        let problem = problem.of_kind(ProblemKind::CredentialsRefused);
        judged.push(problem.of(Subject::Program(name.clone())));
    }
    if let Some(Err(cause)) = &answers.etcd
        && unhealthy.insert("etcd".to_owned())
    {
        let hint = format!("read its log with `kubexm logs etcd --host {host}`");
        judged.add(About::Etcd, format!("etcd does not answer: {cause}"), hint);
    }
    judged.state.unhealthy = unhealthy.into_iter().collect();
}

/// Returns whether the API server of a host does not answer.
fn has_silent_server(answers: &Answers) -> bool {
    let reply = answers.health.get(SERVER);
    !matches!(reply, None | Some(Reply::Ok | Reply::Refused))
}

/// Returns what is wrong with a unit; `None` if it runs.
fn unit_fault(name: &str, unit: &Unit) -> Option<(ProblemKind, String)> {
    let Unit {
        load, active, sub, ..
    } = unit;
    let kind = match (active.as_str(), sub.as_str()) {
        ("inactive", _) => ProblemKind::Stopped,
        (_, "auto-restart") => ProblemKind::Restarting,
        _ => ProblemKind::Other,
    };
    let restarts = match unit.restarts {
        0 => String::new(),
        count => format!(", restarts: {count}"),
    };
    match (load.as_str(), active.as_str()) {
        ("loaded", "active") => None,
        ("not-found", _) => Some((ProblemKind::Stopped, format!("{name} does not exist"))),
        ("masked", _) => Some((ProblemKind::Masked, format!("{name} is masked"))),
        ("loaded", _) => Some((kind, format!("{name} is {active} ({sub}){restarts}"))),
        (load, _) => Some((
            ProblemKind::Other,
            format!("{name} cannot be loaded ({load})"),
        )),
    }
}

/// Judges the certificates of a host. Each standing is one problem.
fn certificates(judged: &mut Judged, seen: &Seen<'_>) {
    let all = seen.certificates.certificates.iter();
    let own: Vec<&CheckedCertificate> = all
        .filter(|one| one.host.as_ref() == Some(&judged.state.host))
        .collect();
    let dated = own.iter().filter_map(|one| {
        Some(CertificateState {
            path: one.path.clone(),
            expires: one.content.expires.clone()?,
            days_left: one.content.days_left?,
        })
    });
    judged.state.certificate = dated.min_by_key(|one| one.days_left);
    let host = judged.state.host.clone();
    let problems = certificate_problems(&own).into_iter();
    judged
        .problems
        .extend(problems.map(|problem| problem.on(&host)));
}

/// The most certificates that a problem names.
const SHOWN: usize = 3;

fn certificate_hint(standing: Standing, has_ca: bool) -> &'static str {
    match standing {
        Standing::Missing | Standing::Unreadable => {
            "list them with `kubexm certs check`; `kubexm certs renew` writes them again, but no CA"
        }
        Standing::NotYetValid => {
            "compare the clocks of the host and of this machine, and run `kubexm certs renew` if they are right"
        }
        _ if has_ca => {
            "list them with `kubexm certs check`, and replace CAs with `kubexm certs rotate-ca`"
        }
        _ => "list them with `kubexm certs check`, and run `kubexm certs renew`",
    }
}

/// Returns a problem for each standing of certificates that need an action.
pub(super) fn certificate_problems(certificates: &[&CheckedCertificate]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for standing in Standing::ALL {
        if standing == Standing::Ok {
            continue;
        }
        let found: Vec<&CheckedCertificate> = certificates
            .iter()
            .filter(|one| one.standing == standing)
            .copied()
            .collect();
        if found.is_empty() {
            continue;
        }
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        let what = match paths.as_slice() {
            [path] => format!("a certificate needs an action ({standing}): {path}"),
            paths => {
                let (count, some) = (paths.len(), paths.iter().take(SHOWN).copied());
                let some = some.collect::<Vec<_>>().join(", ");
                let more = if count > SHOWN { ", …" } else { "" };
                format!("{count} certificates need an action ({standing}): {some}{more}")
            }
        };
        let has_ca = found.iter().any(|one| one.content.is_ca);
        let hint = certificate_hint(standing, has_ca);
        let subject = Subject::Certificates {
            standing,
            paths: found.iter().map(|one| one.path.clone()).collect(),
            has_ca,
        };
        problems.push(Problem::new(About::Certificate, what, hint).of(subject));
    }
    problems
}
