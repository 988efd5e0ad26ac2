//! What needs attention, by what hosts and the API report.

mod members;

use super::answers::Unit;
use super::reply::Reply;
use super::*;
use kubexm_config::example::{ROLES, text_of};
use kubexm_deploy::objects::{Condition, Node};
use kubexm_etcd::Status;
use kubexm_host::facts::Membership;
use kubexm_safekeeping::certs::{CheckedCertificate, Content, Standing};
use kubexm_session::example::{cluster_of_two as cluster, cluster_of_units};
use kubexm_types::{ClusterId, ClusterIdentity, UtcTime, Version};

fn host(name: &str) -> HostName {
    name.parse().unwrap()
}

fn no(cause: &str) -> Reply {
    Reply::Silent(cause.to_owned())
}

fn member() -> Status {
    Status {
        id: 1,
        cluster: 7,
        version: "3.6.8".to_owned(),
        leader: Some(1),
        is_learner: false,
        applied: 9,
        size: Some(20 << 20),
        size_in_use: Some(10 << 20),
        quota: Some(8 << 30),
        alarms: Default::default(),
        corrupt: Default::default(),
        errors: Vec::new(),
    }
}

fn running() -> Unit {
    Unit {
        load: "loaded".to_owned(),
        active: "active".to_owned(),
        sub: "running".to_owned(),
        restarts: 0,
    }
}

/// Returns answers without a problem to all questions for a host.
fn healthy_answers(cluster: &Cluster, host: &HostSpec) -> Answers {
    let version = || Some(cluster.kubernetes.version.clone());
    let mut answers = Answers::default();
    for question in questions::of(cluster, host) {
        let (kind, name) = question.subject();
        let name = name.to_owned();
        match kind {
            "unit" => drop(answers.units.insert(name, running())),
            "static-pod" => drop(answers.static_pods.insert(name, true)),
            "version" => drop(answers.versions.insert(name, version())),
            "running" => drop(answers.running.insert(name, version())),
            "health" => drop(answers.health.insert(name, Reply::Ok)),
            "registry" => drop(answers.registries.insert(name, Reply::Ok)),
            "endpoint" => answers.endpoint = Some(Reply::Ok),
            "etcd" => {
                answers.etcd = Some(Ok(member()));
                answers.etcd_members = Some(vec!["node1".to_owned()]);
            }
            other => panic!("{other}"),
        }
    }
    answers
}

fn healthy_node() -> Node {
    let ready = Condition {
        kind: "Ready".to_owned(),
        status: "True".to_owned(),
        ..Condition::default()
    };
    let mut node = Node::default();
    node.status.node_info.kubelet_version = "v1.36.3".to_owned();
    node.status.conditions.push(ready);
    node
}

/// A cluster of a control plane and a worker that needs no attention.
pub(super) fn healthy(cluster: &Cluster) -> Seen<'_> {
    let hosts = || cluster.hosts.iter();
    let nodes = hosts().map(|host| (host.name.to_string(), healthy_node()));
    Seen {
        answers: hosts()
            .map(|host| (host.name.clone(), healthy_answers(cluster, host)))
            .collect(),
        nodes: Some(Ok(nodes.collect())),
        applications: Some(Ok(super::applications::Installed::default())),
        ..super::hosts::tests::seen(cluster)
    }
}

/// Returns the problems after a change of what was seen.
fn problems(change: impl FnOnce(&mut Seen<'_>)) -> String {
    let cluster = cluster("");
    let mut seen = healthy(&cluster);
    change(&mut seen);
    let problems = super::cluster::judge(&seen).problems;
    problems
        .iter()
        .map(|problem| format!("{problem}\n"))
        .collect()
}

fn answers<'a>(seen: &'a mut Seen<'_>, name: &str) -> &'a mut Answers {
    seen.answers.get_mut(&host(name)).unwrap()
}

fn node<'a>(seen: &'a mut Seen<'_>, name: &str) -> &'a mut Node {
    let Some(Ok(nodes)) = &mut seen.nodes else {
        panic!("no nodes");
    };
    nodes.get_mut(name).unwrap()
}

fn lose(seen: &mut Seen<'_>, name: &str, error: HostError) {
    seen.facts.remove(&host(name));
    seen.answers.remove(&host(name));
    seen.errors.push((host(name), error));
}

fn unreachable(name: &str) -> HostError {
    HostError::Unreachable {
        host: host(name),
        address: "192.0.2.12:22".to_owned(),
        reason: "no route to host".into(),
    }
}

#[test]
fn healthy_cluster_needs_no_attention() {
    for cluster in [cluster(""), cluster_of_units()] {
        let report = super::cluster::judge(&healthy(&cluster));
        assert_eq!(report.problems, []);
        assert_eq!(report.hosts[0].roles[0], "control-plane");
        assert_eq!(report.hosts[1].kubelet, Some(Version::new(1, 36, 3)));
        assert_eq!(report.endpoint.answers.len(), 2);
        assert!(!report.has_problems() && !report.has_unreachable());
    }
}

#[test]
fn host_that_cannot_be_reached_is_the_first_problem() {
    let cluster = cluster("");
    let mut seen = healthy(&cluster);
    lose(&mut seen, "node2", unreachable("node2"));
    let report = super::cluster::judge(&seen);
    assert!(report.has_unreachable() && !report.has_problems());
    assert!(report.hosts[1].unknown.is_some() && report.hosts[1].node.is_some());
    node(&mut seen, "node2").status.conditions[0].status = "Unknown".to_owned();
    let report = super::cluster::judge(&seen);
    let abouts: Vec<About> = report
        .problems
        .iter()
        .map(|problem| problem.about)
        .collect();
    assert_eq!(abouts, [About::Unreachable, About::Node]);
    assert!(report.has_problems());
}

#[test]
fn host_whose_state_cannot_be_read_is_another_problem() {
    let found = problems(|seen| {
        let error = HostError::Command {
            host: host("node2"),
            command: "look at the programs".to_owned(),
            reason: "the state is incomplete: its end is missing".into(),
        };
        lose(seen, "node2", error);
    });
    insta::assert_snapshot!(found, @"
    node2: look at the programs: the state is incomplete: its end is missing
      hint: run the command again; if it fails again, log in to the host and look for what is slow or broken
    ");
}

#[test]
fn stopped_kubelet_is_one_problem() {
    let found = problems(|seen| {
        let unit = answers(seen, "node2")
            .units
            .get_mut("kubelet.service")
            .unwrap();
        (unit.active, unit.sub) = ("inactive".to_owned(), "dead".to_owned());
        answers(seen, "node2")
            .health
            .insert("kubelet".to_owned(), no("refused"));
        node(seen, "node2").status.conditions[0].status = "Unknown".to_owned();
    });
    insta::assert_snapshot!(found, @"
    node2: kubelet.service is inactive (dead)
      hint: read its log with `kubexm logs kubelet --host node2`; `kubexm install` starts it again
    ");
}

#[test]
fn units_are_named_with_their_state() {
    let found = |load: &str, active: &str, restarts| {
        let found = problems(|seen| {
            let unit = answers(seen, "node2")
                .units
                .get_mut("kubelet.service")
                .unwrap();
            *unit = Unit {
                load: load.to_owned(),
                active: active.to_owned(),
                sub: "auto-restart".to_owned(),
                restarts,
            };
        });
        found.lines().next().unwrap().to_owned()
    };
    let fine = "node2: kubelet.service is activating (auto-restart), restarts: 7";
    assert_eq!(found("loaded", "activating", 7), fine);
    assert_eq!(
        found("masked", "inactive", 0),
        "node2: kubelet.service is masked"
    );
    assert_eq!(
        found("not-found", "inactive", 0),
        "node2: kubelet.service does not exist"
    );
    assert_eq!(
        found("bad-setting", "inactive", 0),
        "node2: kubelet.service cannot be loaded (bad-setting)"
    );
}

#[test]
fn control_plane_without_an_api_server_is_one_problem() {
    let found = problems(|seen| {
        let first = answers(seen, "node1");
        first.static_pods.insert("kube-apiserver".to_owned(), false);
        for program in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
        ] {
            first.health.insert(program.to_owned(), no("refused"));
        }
        first.running.insert("kube-apiserver".to_owned(), None);
        first.endpoint = Some(no("refused"));
        answers(seen, "node2").endpoint = Some(no("refused"));
        seen.nodes = None;
    });
    insta::assert_snapshot!(found, @"
    node1: kube-apiserver does not run: /etc/kubernetes/manifests/kube-apiserver.yaml does not exist
      hint: move the file back, or write it again with `kubeadm init phase control-plane apiserver --config FILE`: the first control plane has such a file, /etc/kubexm/kubeadm-init.yaml
    ");
}

#[test]
fn refused_certificate_is_not_a_failure_of_programs() {
    let cluster = cluster("");
    let mut seen = healthy(&cluster);
    let first = answers(&mut seen, "node1");
    for program in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ] {
        first.health.insert(program.to_owned(), Reply::Refused);
    }
    first.endpoint = Some(Reply::Refused);
    seen.nodes = None;
    let report = super::cluster::judge(&seen);
    assert!(report.hosts[0].unhealthy.is_empty());
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(found.join("\n"), @"
    node1: kube-apiserver refuses the credentials of this host, which have expired or belong to another cluster
      hint: run `kubexm certs check`: kubexm asks with /etc/kubernetes/admin.conf
    ");
}

#[test]
fn endpoint_and_registry_are_judged_by_the_nodes_that_need_them() {
    let found = problems(|seen| {
        let worker = answers(seen, "node2");
        worker.endpoint = Some(no("x509: certificate signed by unknown authority"));
        for reply in worker.registries.values_mut() {
            *reply = no("connection refused");
        }
    });
    insta::assert_snapshot!(found, @"
    the endpoint 192.0.2.11:6443 does not answer node2: x509: certificate signed by unknown authority
      hint: check the load balancer and the way to it: the nodes reach the API servers there
    the registry registry.kubexm.internal:5000 does not answer node2: connection refused
      hint: check the way to the registry and its certificate: nodes pull images from there
    ");
}

#[test]
fn nodes_need_attention() {
    let found = problems(|seen| {
        let worker = node(seen, "node2");
        worker.spec.unschedulable = true;
        worker.status.conditions[0].status = "False".to_owned();
        worker.status.conditions[0].message =
            "cni plugin not initialized\nevil\u{1b}[31m".to_owned();
        worker.status.conditions.push(Condition {
            kind: "DiskPressure".to_owned(),
            status: "True".to_owned(),
            message: "kubelet has disk pressure".to_owned(),
            ..Condition::default()
        });
        let Some(Ok(nodes)) = &mut seen.nodes else {
            panic!("no nodes");
        };
        nodes.remove("node1");
        nodes.insert("node9".to_owned(), healthy_node());
    });
    insta::assert_snapshot!(found, @"
    node1: has not registered as a node
      hint: run `kubexm install`, which makes the host a node
    node2: the node is not Ready: cni plugin not initialized evil
      hint: read the log of the kubelet with `kubexm logs kubelet`
    node2: the node is cordoned: no new pods run on it
      hint: run `kubectl uncordon` for the node when its maintenance has ended
    node2: the node reports DiskPressure: kubelet has disk pressure
      hint: https://kubernetes.io/docs/reference/node/node-status/ explains the condition
    the node node9 is not in the cluster file
      hint: add the host to the cluster file; or remove it, with a cluster file that has it: `kubexm node remove node9`
    ");
}

#[tokio::test]
async fn stopped_look_does_not_say_that_no_host_was_touched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    std::fs::write(&file, text_of(ROLES, "", "")).unwrap();
    let options = StatusOptions {
        cluster: file,
        connection: Connection {
            state: Some(folder.path().join("state")),
            ..Connection::default()
        },
        diff: None,
        ca_encryption: None,
    };
    let stop = Stop::new();
    stop.cancel();
    let ended = status(&options, &Events::silent(), &stop).await;
    insta::assert_snapshot!(ended.unwrap_err(), @"
    stopped before the state of the cluster was known
    hint: run the same command again to go on
    ");
}

#[test]
fn host_of_another_cluster_is_found() {
    let identity = |id: &str| ClusterIdentity {
        id: ClusterId::parse(id).unwrap(),
        name: host("example"),
        created: UtcTime::now(),
    };
    let (ours, theirs) = (
        "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11",
        "1b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11",
    );
    let found = |membership: Membership| {
        problems(|seen| {
            seen.identity = Some(identity(ours));
            seen.facts.get_mut(&host("node2")).unwrap().cluster = membership;
        })
    };
    assert_eq!(found(Membership::Cluster(identity(ours))), "");
    let other = found(Membership::Cluster(identity(theirs)));
    assert!(
        other.starts_with("node2: belongs to ") && other.contains(theirs),
        "{other}"
    );
    assert!(found(Membership::Damaged).contains("is damaged"));
}

#[test]
fn host_without_a_cluster_is_one_problem() {
    let found = problems(|seen| {
        seen.facts.get_mut(&host("node2")).unwrap().receipt = false;
        seen.answers.remove(&host("node2"));
    });
    insta::assert_snapshot!(found, @"
    node2: kubexm has not installed a cluster on this host
      hint: run `kubexm install`, or correct the address of the host in the cluster file
    ");
}

#[test]
fn clock_and_certificates_need_attention() {
    let certificate = |on: Option<&str>, path: &str, standing, days| CheckedCertificate {
        host: on.map(host),
        path: path.to_owned(),
        purpose: String::new(),
        content: Content {
            expires: Some("2026-01-31T12:00:00Z".to_owned()),
            days_left: Some(days),
            ..Content::default()
        },
        standing,
    };
    let cluster = cluster("");
    let mut seen = healthy(&cluster);
    seen.facts.get_mut(&host("node2")).unwrap().clock_ahead = -3600.25;
    seen.certificates.certificates = vec![
        certificate(
            Some("node1"),
            "/etc/kubernetes/pki/apiserver.crt",
            Standing::Expired,
            -3,
        ),
        certificate(
            Some("node1"),
            "/etc/kubernetes/admin.conf",
            Standing::Expired,
            -2,
        ),
        certificate(
            Some("node2"),
            "/var/lib/kubelet/pki/kubelet.crt",
            Standing::Ok,
            300,
        ),
        certificate(None, "admin.conf", Standing::ExpiresSoon, 20),
    ];
    let report = super::cluster::judge(&seen);
    assert_eq!(report.hosts[0].certificate.as_ref().unwrap().days_left, -3);
    assert_eq!(report.hosts[1].clock_ahead, Some(-3_600_250));
    let found = report.problems.iter().map(|problem| format!("{problem}\n"));
    insta::assert_snapshot!(found.collect::<String>(), @"
    node1: 2 certificates need an action (expired): /etc/kubernetes/pki/apiserver.crt, /etc/kubernetes/admin.conf
      hint: list them with `kubexm certs check`, and run `kubexm certs renew`
    node2: its clock is 3600 s behind the clock of this machine
      hint: set the clock, or run a time server in this network: certificates and etcd depend on the time
    a certificate needs an action (expires soon): admin.conf
      hint: list them with `kubexm certs check`, and run `kubexm certs renew`
    ");
}
