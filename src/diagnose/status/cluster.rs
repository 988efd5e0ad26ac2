//! Judges a cluster: what its hosts report together, and what the API has about nodes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::answers::Answers;
use super::applications::{self, ApplicationState};
use super::hosts::{self, Judged};
use super::reply::Reply;
use super::report::{
    About, EndpointState, NodeStanding, NodeState, Problem, ProblemKind, RegistryState,
    StatusReport,
};
use super::skew::{self, Versions};
use super::{Seen, drift, members};
use kubexm_config::cluster::Cluster;
use kubexm_deploy::expected;
use kubexm_deploy::objects::Node;
use kubexm_engine::cluster::Removal;
use kubexm_host::facts::Membership;
use kubexm_safekeeping::certs::CheckedCertificate;
use kubexm_safekeeping::timer::TimerState;
use kubexm_types::HostName;
use kubexm_types::untrusted::Untrusted;

/// Conditions of a node that report a problem if they are `True`
/// (<https://kubernetes.io/docs/reference/node/node-status/#condition>).
const PRESSURES: [&str; 4] = [
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

/// Judges the hosts and the cluster.
pub(super) fn judge(seen: &Seen<'_>) -> StatusReport {
    let cluster = seen.cluster;
    let mut judged: Vec<Judged> = cluster
        .hosts
        .iter()
        .map(|host| hosts::judge(seen, host))
        .collect();
    let mut problems = Vec::new();
    let etcd = members::judge(seen, &mut problems);
    let endpoint = endpoint(seen, &mut problems);
    let registries = registries(seen, &judged, &mut problems);
    nodes(seen, &mut judged, &mut problems);
    problems.extend(skew::judge(cluster, &versions(seen, &judged)));
    problems.extend(seen.findings.iter().cloned());
    problems.extend(drift::problems(seen));
    problems.extend(timers(&seen.timers));
    let applications = applications(seen, &mut problems);
    let all = seen.certificates.certificates.iter();
    let own: Vec<&CheckedCertificate> = all.filter(|one| one.host.is_none()).collect();
    problems.extend(hosts::certificate_problems(&own));
    if let Some(damaged) = seen.certificates.damaged.clone() {
        let hint = damaged.hint.unwrap_or_default();
        problems.push(Problem::new(About::Certificate, damaged.text, hint));
    }
    let mut all = Vec::new();
    let mut states = Vec::new();
    for host in judged {
        all.extend(host.problems);
        states.push(host.state);
    }
    all.extend(problems);
    // Hosts that cannot be reached may cause the others.
    all.sort_by_key(|problem| problem.about != About::Unreachable);
    StatusReport {
        rotation: seen.certificates.rotation.clone(),
        cluster: cluster.name.clone(),
        id: id(seen),
        bundle: seen.bundle.clone(),
        kubernetes: cluster.kubernetes.version.clone(),
        endpoint,
        etcd,
        registries,
        hosts: states,
        drift: seen.drift.clone(),
        timers: seen.timers.clone(),
        applications,
        problems: all,
    }
}

/// Returns the applications; `None` if no API server answers.
fn applications(seen: &Seen<'_>, problems: &mut Vec<Problem>) -> Option<Vec<ApplicationState>> {
    match seen.applications.as_ref()? {
        Ok(installed) => Some(applications::judge(seen.cluster, installed, problems)),
        Err(error) => {
            let hint = "read the log of the API server with `kubexm logs kube-apiserver`";
            let what = format!("cannot read the applications: {error}");
            problems.push(Problem::new(About::Application, what, hint));
            None
        }
    }
}

/// Returns a problem for each timer whose last run failed, or that is late.
fn timers(timers: &[TimerState]) -> impl Iterator<Item = Problem> {
    timers.iter().filter_map(|timer| {
        let job = timer.job;
        let hint = format!(
            "`kubexm {job} timer status` shows the last run, and `journalctl -u 'kubexm-{job}-*'` its log; `kubexm {job} timer \
             run` tries it at once"
        );
        Some(Problem::new(About::Timer, timer.problem()?, hint))
    })
}

/// Returns the ID of the cluster by the state directory; without a record, by the first host that has one.
fn id(seen: &Seen<'_>) -> Option<String> {
    let of_hosts = seen.facts.values().find_map(|facts| match &facts.cluster {
        Membership::Cluster(identity) => Some(identity),
        Membership::Unrecorded | Membership::Damaged => None,
    });
    let identity = seen.identity.as_ref().or(of_hosts);
    identity.map(|identity| identity.id.to_string())
}

/// Sorts hosts by how something answers them. Returns also the first answer that is not good, with what it says.
fn sorted<'a>(
    replies: impl Iterator<Item = (&'a HostName, &'a Reply)>,
) -> (Vec<HostName>, Vec<HostName>, Option<(&'a Reply, String)>) {
    let (mut answers, mut silent, mut cause) = (Vec::new(), Vec::new(), None);
    for (host, reply) in replies {
        match reply.complaint() {
            None => answers.push(host.clone()),
            Some(text) => {
                silent.push(host.clone());
                cause.get_or_insert((reply, text));
            }
        }
    }
    (answers, silent, cause)
}

fn names(hosts: &[HostName]) -> String {
    let names: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
    match names.as_slice() {
        [first, second, third, _, rest @ ..] => {
            format!("{first}, {second}, {third} and {} others", rest.len() + 1)
        }
        _ => names.join(", "),
    }
}

fn endpoint(seen: &Seen<'_>, problems: &mut Vec<Problem>) -> EndpointState {
    let address = seen.cluster.control_plane_endpoint.to_string();
    let replies = seen.answers.iter();
    let replies = replies.filter_map(|(host, answers)| Some((host, answers.endpoint.as_ref()?)));
    let (answers, silent, cause) = sorted(replies);
    let is_without_servers = !any_server(seen, true) && any_server(seen, false);
    if let (Some((_, cause)), false) = (cause, is_without_servers) {
        let what = format!(
            "the endpoint {address} does not answer {}: {cause}",
            names(&silent)
        );
        let hint =
            "check the load balancer and the way to it: the nodes reach the API servers there";
        problems.push(Problem::new(About::Endpoint, what, hint));
    }
    EndpointState {
        address,
        answers,
        silent,
    }
}

/// Returns whether an API server is ready, or is not.
fn any_server(seen: &Seen<'_>, ready: bool) -> bool {
    let mut all = seen.answers.values();
    all.any(|answers| is_ready(answers) == Some(ready))
}

/// Returns whether the API server of a host is ready; `None` if the host has none.
pub fn is_ready(answers: &Answers) -> Option<bool> {
    let reply = answers.health.get(expected::CONTROL_PLANE[0])?;
    Some(*reply == Reply::Ok)
}

fn registries(
    seen: &Seen<'_>,
    judged: &[Judged],
    problems: &mut Vec<Problem>,
) -> Vec<RegistryState> {
    let is_down = |address: &str| {
        let holder = holder(seen.cluster, address);
        let mut all = judged.iter();
        all.any(|host| Some(&host.state.host) == holder && host.is_unhealthy("kubexm-registry"))
    };
    let state = |address: String| {
        let replies = seen.answers.iter();
        let replies = replies.filter_map(|(host, all)| Some((host, all.registries.get(&address)?)));
        let (answers, silent, cause) = sorted(replies);
        // The unit is the cause.
        if let (Some((reply, cause)), false) = (cause, is_down(&address)) {
            let what = format!(
                "the registry {address} does not answer {}: {cause}",
                names(&silent)
            );
            let hint =
                "check the way to the registry and its certificate: nodes pull images from there";
            let problem = Problem::new(About::Registry, what, hint);
            problems.push(match reply {
                Reply::Untrusted(_) => problem.of_kind(ProblemKind::CertificateRefused),
                _ => problem,
            });
        }
        RegistryState {
            address,
            answers,
            silent,
        }
    };
    expected::registries(seen.cluster)
        .into_iter()
        .map(state)
        .collect()
}

/// Returns the host that runs the registry at an address. A single registry is addressed by its name, several by the addresses of their hosts.
fn holder<'a>(cluster: &'a Cluster, address: &str) -> Option<&'a HostName> {
    if let [only] = cluster.roles.registry.as_slice() {
        return Some(only);
    }
    let ip = address.parse::<SocketAddr>().ok()?.ip();
    let mut hosts = cluster.roles.registry.iter();
    hosts.find(|name| {
        let host = cluster.host(name);
        host.is_some_and(|host| host.internal_address() == ip)
    })
}

/// Adds what the API has about nodes to their hosts.
fn nodes(seen: &Seen<'_>, judged: &mut [Judged], problems: &mut Vec<Problem>) {
    let nodes = match &seen.nodes {
        Some(Ok(nodes)) => nodes,
        Some(Err(error)) => {
            let hint = "read the log of the API server with `kubexm logs kube-apiserver`";
            let what = format!("cannot list the nodes: {error}");
            problems.push(Problem::new(About::ApiServer, what, hint));
            return;
        }
        // The problems of the control planes are the cause.
        None => return,
    };
    for host in judged {
        let name = &host.state.host;
        if !seen.cluster.is_node(name) {
            continue;
        }
        let node = node(nodes.get(name.as_str()));
        let follows = node.state.standing != NodeStanding::Missing && host.is_unhealthy("kubelet");
        let not_ready = node.not_ready.filter(|_| !follows);
        let found = not_ready.into_iter().chain(node.others);
        problems.extend(found.map(|problem| problem.on(name)));
        host.state.node = Some(node.state);
    }
    let known: BTreeSet<&str> = seen
        .cluster
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .collect();
    for name in nodes.keys().filter(|name| !known.contains(name.as_str())) {
        let removal = seen
            .removed
            .iter()
            .find(|(host, _)| host.as_str() == name.as_str());
        let (what, hint) = match removal {
            Some((_, Removal { since, .. })) => (
                format!(
                    "{name} was removed from the cluster ({since}), and its kubelet has registered the node again"
                ),
                format!(
                    "put the host into the cluster file with all its roles, and reset it with `kubexm node remove {name}`"
                ),
            ),
            None => (
                format!("the node {name} is not in the cluster file"),
                format!(
                    "add the host to the cluster file; or remove it, with a cluster file that has it: `kubexm node remove \
                     {name}`"
                ),
            ),
        };
        problems.push(Problem::new(About::Node, what, hint));
    }
}

/// A node with its problems.
struct JudgedNode {
    state: NodeState,
    /// Why it cannot run pods. A kubelet that does not run is a reason that its host reports.
    not_ready: Option<Problem>,
    others: Vec<Problem>,
}

fn shown(text: &str) -> String {
    Untrusted::one_line(text, 300).to_string()
}

/// Judges a node; `None` if the API does not have it.
fn node(node: Option<&Node>) -> JudgedNode {
    let problem = |what: String, hint: &str| Problem::new(About::Node, what, hint);
    let Some(node) = node else {
        let hint = "run `kubexm install`, which makes the host a node";
        return JudgedNode {
            state: NodeState::missing(),
            not_ready: Some(problem("has not registered as a node".to_owned(), hint)),
            others: Vec::new(),
        };
    };
    let ready = node.condition("Ready");
    let standing = match ready.map(|ready| ready.status.as_str()) {
        Some("True") => NodeStanding::Ready,
        Some("False") => NodeStanding::NotReady,
        _ => NodeStanding::Unknown,
    };
    let not_ready = (standing != NodeStanding::Ready).then(|| {
        let message = ready.map(|ready| shown(&ready.message));
        let message = message.filter(|message| !message.is_empty());
        let message = message.map_or_else(String::new, |message| format!(": {message}"));
        let hint = "read the log of the kubelet with `kubexm logs kubelet`";
        problem(format!("the node is not Ready{message}"), hint)
    });
    let mut others = Vec::new();
    if node.spec.unschedulable {
        let hint = "run `kubectl uncordon` for the node when its maintenance has ended";
        others.push(
            problem(
                "the node is cordoned: no new pods run on it".to_owned(),
                hint,
            )
            .of_kind(ProblemKind::Cordoned),
        );
    }
    let mut pressure = Vec::new();
    for kind in PRESSURES {
        let condition = node
            .condition(kind)
            .filter(|condition| condition.status == "True");
        if let Some(condition) = condition {
            let what = format!("the node reports {kind}: {}", shown(&condition.message));
            let hint =
                "https://kubernetes.io/docs/reference/node/node-status/ explains the condition";
            let found = problem(what, hint);
            others.push(if kind == "DiskPressure" {
                found.of_kind(ProblemKind::DiskPressure)
            } else {
                found
            });
            pressure.push(kind.to_owned());
        }
    }
    let info = &node.status.node_info;
    let known = |text: &str| (!text.is_empty()).then(|| shown(text));
    let state = NodeState {
        standing,
        is_cordoned: node.spec.unschedulable,
        pressure,
        kubelet: node.kubelet(),
        runtime: known(&info.container_runtime_version),
        kernel: known(&info.kernel_version),
        os: known(&info.os_image),
    };
    JudgedNode {
        state,
        not_ready,
        others,
    }
}

/// Returns all versions that are known.
fn versions(seen: &Seen<'_>, judged: &[Judged]) -> Versions {
    let mut versions = Versions::default();
    for (host, answers) in &seen.answers {
        let server = answers.running.values().flatten().next();
        versions
            .servers
            .extend(server.map(|version| (host.clone(), version.clone())));
        for (name, version) in &answers.versions {
            let Some(version) = version.clone() else {
                continue;
            };
            match name.as_str() {
                "kubelet" => drop(versions.installed.insert(host.clone(), version)),
                // The one that runs is what counts.
                name if name == expected::CONTROL_PLANE[0] => {}
                name => drop(
                    versions
                        .controllers
                        .insert((host.clone(), name.to_owned()), version),
                ),
            }
        }
        if let Some(Ok(member)) = &answers.etcd {
            let version = member.version();
            versions
                .members
                .extend(version.map(|version| (host.clone(), version)));
        }
    }
    let kubelets = judged.iter().filter_map(|host| {
        let version = host.state.node.as_ref()?.kubelet.clone()?;
        Some((host.state.host.clone(), version))
    });
    versions.kubelets = kubelets.collect::<BTreeMap<_, _>>();
    versions
}
