//! What a host reports although a part of it does not answer.

use std::collections::BTreeMap;

use super::*;
use crate::status::answers;
use crate::status::questions::Question;
use kubexm_host::facts::Disk;
use kubexm_safekeeping::certs::{CertificateReport, Content};
use kubexm_session::data_directories;
use kubexm_session::example::cluster_of_two as cluster;
use kubexm_types::{ClusterId, Message, UtcTime};

/// Returns what kubexm sees of an installed cluster whose hosts have facts, and no answers.
pub(in crate::status) fn seen(cluster: &Cluster) -> Seen<'_> {
    let paths = data_directories::paths(cluster).into_iter();
    let disk = |path| {
        let disk = Disk {
            free: 50 << 20,
            size: 100 << 20,
            mount: "/".to_owned(),
        };
        (path, disk)
    };
    let facts = Facts {
        receipt: true,
        disks: paths.map(disk).collect(),
        ..Facts::default()
    };
    let hosts = cluster.hosts.iter();
    Seen {
        cluster,
        identity: None,
        removed: BTreeMap::new(),
        bundle: None,
        facts: hosts
            .map(|host| (host.name.clone(), facts.clone()))
            .collect(),
        answers: BTreeMap::new(),
        checked: BTreeMap::new(),
        errors: Vec::new(),
        nodes: None,
        applications: None,
        certificates: CertificateReport {
            cluster: cluster.name.clone(),
            rotation: None,
            certificates: Vec::new(),
            unchecked: Vec::new(),
            damaged: None,
        },
        findings: Vec::new(),
        drift: None,
        other_bundle: None,
        timers: Vec::new(),
    }
}

fn shown(judged: &Judged) -> String {
    let problems = judged.problems.iter();
    problems.map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn facts_count_when_the_programs_do_not_answer() {
    let cluster = cluster("");
    let mut seen = seen(&cluster);
    let host = &cluster.hosts[1];
    let identity = |id: &str| ClusterIdentity {
        id: ClusterId::parse(id).unwrap(),
        name: "example".parse().unwrap(),
        created: UtcTime::parse("2026-01-02T03:04:05Z").unwrap(),
    };
    seen.identity = Some(identity("0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11"));
    let facts = seen.facts.get_mut(&host.name).unwrap();
    facts.cluster = Membership::Cluster(identity("1b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11"));
    facts.clock_ahead = 3600.0;
    facts.disks.get_mut("/var/lib/kubelet").unwrap().free = 1;
    seen.certificates.certificates = vec![CheckedCertificate {
        host: Some(host.name.clone()),
        path: "/etc/kubernetes/kubelet.conf".to_owned(),
        purpose: String::new(),
        content: Content {
            expires: Some("2026-01-31T12:00:00Z".to_owned()),
            days_left: Some(-3),
            ..Content::default()
        },
        standing: Standing::Expired,
    }];
    seen.errors.push((
        host.name.clone(),
        HostError::Command {
            host: host.name.clone(),
            command: "look at the programs".to_owned(),
            reason: "the state is incomplete: its end is missing".into(),
        },
    ));
    let judged = judge(&seen, host);
    let abouts: Vec<About> = judged.problems.iter().map(|one| one.about).collect();
    assert_eq!(
        abouts,
        [
            About::Host,
            About::Identity,
            About::Clock,
            About::Disk,
            About::Certificate
        ],
        "{}",
        shown(&judged)
    );
    let state = judged.state;
    assert!(state.unknown.is_some());
    assert_eq!((state.clock_ahead, state.disks.len()), (Some(3_600_000), 1));
    assert_eq!(state.certificate.unwrap().days_left, -3);
}

#[test]
fn question_without_an_answer_is_a_problem_besides_the_others() {
    let cluster = cluster("");
    let mut seen = seen(&cluster);
    let host = &cluster.hosts[1];
    let asked = [
        Question::new(["unit", "kubelet.service"]),
        Question::new(["unit", "containerd.service"]),
        Question::new(["version", "kubelet"]),
    ];
    let text = "unit=kubelet.service \n\
                unit=containerd.service NRestarts=3 LoadState=loaded ActiveState=failed SubState=failed \n\
                version=kubelet 1.36.3\nend=\n";
    let answers = answers::parse(text, &asked.into()).unwrap();
    seen.answers.insert(host.name.clone(), answers);
    let judged = judge(&seen, host);
    insta::assert_snapshot!(shown(&judged), @"
    node2: containerd.service is failed (failed), restarts: 3
      hint: read its log with `kubexm logs containerd --host node2`; `kubexm install` starts it again
    node2: the question 'unit kubelet.service' was not answered: line 1 of the state is 'unit=kubelet.service': is not a state
      hint: run the command again; if it fails again, log in to the host and look for what is slow or broken
    ");
    assert_eq!(judged.state.unhealthy, ["containerd"]);
    assert!(judged.state.kubelet.is_some() && judged.state.unknown.is_none());
}

/// Hardening writes such a file: everything works until the first reboot.
#[test]
fn what_the_next_boot_breaks_is_a_problem() {
    let cluster = cluster("");
    let mut seen = seen(&cluster);
    let host = &cluster.hosts[1];
    let text = "next_sysctl=# /etc/sysctl.d/99-cis.conf\nnext_sysctl=net.ipv4.ip_forward=0\nend=\n";
    let answers = kubexm_host::Answers::parse(text, host_checks::KEYS).unwrap();
    seen.checked.insert(host.name.clone(), Ok(answers));
    let judged = judge(&seen, host);
    assert_eq!(judged.problems[0].about, About::HostCheck);
    insta::assert_snapshot!(shown(&judged), @"
    node2: /etc/sysctl.d/99-cis.conf sets net.ipv4.ip_forward to 0, and the cluster needs 1: the next boot applies this file after /etc/sysctl.d/90-kubexm.conf
      hint: remove the line from /etc/sysctl.d/99-cis.conf
    ");
    let silent = Err(Message::new("no answer within 75 seconds"));
    seen.checked.insert(host.name.clone(), silent);
    insta::assert_snapshot!(shown(&judge(&seen, host)), @"
    node2: does not answer the questions of the checks: no answer within 75 seconds
      hint: run the command again; if it fails again, log in to the host and look for what is slow or broken
    ");
}
