//! The state of a cluster for people.

use super::applications;
use super::table::{cut, table};
use crate::cli::timer::last_run;
use kubexm_diagnose::status::{EtcdState, Problem, StatusReport};
use kubexm_session::CommandLine;

/// Returns the state for people. `columns` is where lines of the table and of timers are cut; `None` cuts none.
pub(super) fn of(report: &StatusReport, line: &CommandLine, columns: Option<usize>) -> String {
    let mut lines = facts(report, columns);
    lines.push(String::new());
    lines.extend(table(report, columns));
    let applications = report.applications.as_deref().unwrap_or_default();
    if !applications.is_empty() {
        lines.push(String::new());
        lines.extend(applications::table(applications, columns));
    }
    lines.push(String::new());
    lines.push(match report.problems.len() {
        0 => "no problems".to_owned(),
        1 => "1 problem:".to_owned(),
        count => format!("{count} problems:"),
    });
    let complete = |problem: &Problem| Problem {
        hint: line.complete(&problem.hint),
        ..problem.clone()
    };
    let problems = report.problems.iter().map(complete);
    lines.extend(problems.map(|problem| problem.to_string()));
    lines.join("\n") + "\n"
}

/// Returns lines about the whole cluster.
fn facts(report: &StatusReport, columns: Option<usize>) -> Vec<String> {
    let id = report.id.as_deref().unwrap_or("unknown");
    let mut lines = vec![format!("cluster     {}, ID {id}", report.cluster)];
    if let Some(rotation) = &report.rotation {
        lines.push(format!("rotation    {rotation}"));
    }
    if let Some(bundle) = &report.bundle {
        lines.push(format!(
            "bundle      '{}', sequence number {}, created {}",
            bundle.name, bundle.sequence, bundle.created
        ));
    }
    lines.push(format!(
        "Kubernetes  {}{}",
        report.kubernetes,
        servers(report)
    ));
    let endpoint = &report.endpoint;
    let answered = answered(endpoint.answers.len(), endpoint.silent.len());
    lines.push(format!("endpoint    {} {answered}", endpoint.address));
    lines.push(format!("etcd        {}", etcd(report)));
    for registry in &report.registries {
        let answered = self::answered(registry.answers.len(), registry.silent.len());
        lines.push(format!("registry    {} {answered}", registry.address));
    }
    for timer in &report.timers {
        let line = format!("timer       {}: {}", timer.job, last_run(timer));
        lines.push(cut(&line, columns));
    }
    lines
}

/// What stands for an answer that no host was asked for.
const NOT_ASKED: &str = "was not asked";

fn answered(answers: usize, silent: usize) -> String {
    match (answers, silent) {
        (0, 0) => NOT_ASKED.to_owned(),
        (answers, silent) => format!("answers {answers} of {} nodes", answers + silent),
    }
}

fn servers(report: &StatusReport) -> String {
    let hosts = report
        .hosts
        .iter()
        .filter(|host| host.roles.contains(&"control-plane"));
    let total = hosts.clone().count();
    let running: Vec<String> = hosts
        .filter_map(|host| Some(host.api_server.as_ref()?.to_string()))
        .collect();
    let count = running.len();
    format!(", API servers that answer: {count} of {total}")
}

/// Returns whether kubexm knows the state of a host with a member of etcd, also if the member does not answer.
fn is_etcd_known(report: &StatusReport) -> bool {
    let role = match report.etcd.kind {
        "systemd" => "etcd",
        _ => "control-plane",
    };
    let mut hosts = report.hosts.iter();
    hosts.any(|host| host.roles.contains(&role) && host.unknown.is_none())
}

fn etcd(report: &StatusReport) -> String {
    let etcd: &EtcdState = &report.etcd;
    if etcd.kind == "external" {
        return format!("external, {} endpoints", etcd.expected);
    }
    if etcd.members.is_empty() && !is_etcd_known(report) {
        return NOT_ASKED.to_owned();
    }
    let healthy = etcd
        .members
        .iter()
        .filter(|member| member.is_healthy)
        .count();
    let mut text = format!("healthy members: {healthy} of {}", etcd.expected);
    let mut members = etcd.members.iter();
    if let Some(leader) = members.find(|member| member.is_leader) {
        text.push_str(&format!(", leader {}", leader.host));
    }
    let versions = etcd
        .members
        .iter()
        .filter_map(|member| member.version.as_ref());
    if let Some(version) = versions.min() {
        text.push_str(&format!(", {version}"));
    }
    let sizes = etcd.members.iter().filter_map(|member| member.size);
    if let Some(size) = sizes.max() {
        text.push_str(&format!(", database {} MiB", size.div_ceil(1 << 20)));
    }
    text
}
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;
    use crate::cli::status::example;
    use crate::cli::status::table::COLUMNS;
    use kubexm_session::Connection;

    fn line() -> CommandLine {
        CommandLine::new(Path::new("cluster.yaml"), &Connection::default())
    }

    #[test]
    fn state_is_a_table_with_the_problems_below() {
        insta::assert_snapshot!(of(&example::report(), &line(), Some(COLUMNS)), @"
        cluster     example, ID 0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11
        bundle      'kubernetes', sequence number 1767323045, created 2026-01-02T03:04:05Z
        Kubernetes  1.36.3, API servers that answer: 1 of 1
        endpoint    192.0.2.11:6443 answers 2 of 2 nodes
        etcd        healthy members: 1 of 1, leader node1, 3.6.8, database 12 MiB
        registry    registry.example:5000 answers 2 of 2 nodes
        timer       certs: 2026-01-31T12:00:00Z, renewed the certificates of node1: 10 …
        timer       backup: 2026-01-31T12:00:00Z, /srv/backups/example-20260131T120000Z…

        HOST   ROLES                   KUBELET  NODE     FREE  EXPIRES   STATE
        node1  control-plane,registry  1.36.3   Ready    62 %  364 days  ok
        node2  worker                  1.36.3   Unknown  62 %  364 days  kubelet
        node3  worker                  1.36.3   Ready    -     -         unreachable

        APPLICATION        CHART       REVISION  STATE
        default/shop       shop 1.2.0  3         deployed
        monitoring/agents  manifests   1         deployed, 1 pod is not ready
        default/cache      redis       -         not installed
        default/old        blog 0.9.1  7         failed, not in the cluster file

        3 problems:
        node3: cannot reach 192.0.2.13:22: no route to host
          hint: start the host and its SSH server, or correct its address and its login in the cluster file
        node2: kubelet.service is inactive (dead)
          hint: read its log with `kubexm logs kubelet --host node2 -f cluster.yaml`; `kubexm install` starts it again
        node2: the node is cordoned: no new pods run on it
          hint: run `kubectl uncordon` for the node when its maintenance has ended
        ");
    }

    #[test]
    fn cluster_without_problems_has_none() {
        let mut report = example::report();
        report.problems.clear();
        report.hosts[1].unhealthy.clear();
        let text = of(&report, &line(), Some(COLUMNS));
        assert!(text.ends_with("\nno problems\n"), "{text}");
        assert!(
            text.lines()
                .any(|line| line.starts_with("node2") && line.ends_with(" ok")),
            "{text}"
        );
    }

    #[test]
    fn cluster_without_applications_has_no_table_of_them() {
        let mut report = example::report();
        for applications in [None, Some(Vec::new())] {
            report.applications = applications;
            let text = of(&report, &line(), Some(COLUMNS));
            assert!(!text.contains("APPLICATION"), "{text}");
        }
    }

    #[test]
    fn file_or_program_gets_whole_lines() {
        let names = ["a-very-long-name-of-a-host.in.a.domain.example", "b", "c"];
        let mut report = example::with_names(&names);
        let roles = [
            "control-plane",
            "worker",
            "etcd",
            "registry",
            "loadbalancer",
        ];
        report.hosts[0].roles = roles.to_vec();
        report.hosts[1].unhealthy = vec!["kubelet".to_owned(); 20];
        let text = of(&report, &line(), None);
        for whole in [
            names[0],
            &roles.join(","),
            &report.hosts[1].unhealthy.join(","),
        ] {
            assert!(text.contains(whole), "{text}");
        }
        assert!(!text.contains('…'), "{text}");
    }

    #[test]
    fn etcd_without_an_answer_is_down_only_if_its_host_is_known() {
        let mut report = example::report();
        report.etcd.members.clear();
        assert_eq!(etcd(&report), "healthy members: 0 of 1");
        report.hosts[0].unknown = Some("no route to host".to_owned());
        assert_eq!(etcd(&report), "was not asked");
        // Workers do not ask etcd.
        report.hosts[1].unknown = None;
        assert_eq!(etcd(&report), "was not asked");
        report.etcd.kind = "systemd";
        report.hosts[1].roles.push("etcd");
        assert_eq!(etcd(&report), "healthy members: 0 of 1");
    }
}
