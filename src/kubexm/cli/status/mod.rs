//! `kubexm status`: the state of a cluster.

#[cfg(test)]
pub mod example;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;

use super::bundle_args::AccessArgs;
use super::connection::ConnectionArgs;
use super::password::CaPassphraseArgs;
use super::timer::last_run;
use super::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_commands::CommandLine;
use kubexm_commands::install::CaEncryption;
use kubexm_commands::status::{
    self, About, BundlesToCompare, EtcdState, FixOptions, HostState, NodeStanding, NodeState,
    Problem, StatusOptions, StatusReport,
};
use kubexm_commands::{ClusterSource, Stop};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm status -f cluster.yaml
  kubexm status -f cluster.yaml --output json
  kubexm status -f cluster.yaml --diff --bundle bundle.tar.zst
  kubexm status -f cluster.yaml --fix --bundle bundle.tar.zst --dry-run")]
pub struct Status {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Also compare the hosts with the plan of an install from --bundle, and change nothing
    ///
    /// Runs the checks of `kubexm plan --diff`. A host that differs is a problem, which `--fix` removes.
    #[arg(long, requires = "bundle")]
    diff: bool,
    /// Remove the differences to the plan of an install from --bundle, then print the state with --diff
    ///
    /// Prints the steps of each host first. They are steps of an install, in its order, and only those that differ, with the
    /// restarts of units that read a changed file. No host joins the cluster. What an install does not change either is
    /// named and stays as it is. The bundle must be the one of the last install or upgrade.
    ///
    /// A fix that was interrupted continues when the same command runs again.
    #[arg(long, requires = "bundle")]
    fix: bool,
    /// Print the steps of --fix and change nothing; the exit code is 6 if there is one
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// The bundle for --diff or --fix; the base bundles of an incremental bundle come before it
    #[arg(long, value_name = "BUNDLE")]
    bundle: Vec<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Fix hosts although no key verifies the signature of the bundle
    #[arg(long, requires = "fix", conflicts_with = "trust")]
    unsigned: bool,
    /// The identity file of age that encrypts the keys of CAs in the state directory, for --diff and --fix
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

impl Status {
    /// Returns what encrypts the keys of CAs; `None` if the command reads none.
    fn ca_encryption(&self) -> Result<Option<CaEncryption>, Failure> {
        let identity = self.ca_identity.as_deref();
        if !self.fix && !self.diff {
            return Ok(None);
        }
        let only_compares = !self.fix || self.dry_run;
        self.passphrase.comparing_if_dry(identity, only_compares)
    }

    /// Removes the differences.
    ///
    /// # Errors
    /// Fails with the exit code 6 if a dry run found some.
    async fn fix(
        &self,
        ca_encryption: Option<CaEncryption>,
        events: &Events,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let options = FixOptions {
            source: ClusterSource {
                bundles: self.bundle.clone(),
                cluster: self.cluster.clone(),
                access: self.access.options(),
            },
            connection: self.connection.options()?,
            unsigned: self.unsigned,
            ca_encryption,
            dry_run: self.dry_run,
        };
        let report = status::fix(&options, events, stop).await?;
        match report.has_differences {
            true => Err(Failure::changes()),
            false => Ok(()),
        }
    }
}

/// Prints the state.
///
/// # Errors
/// Fails with the exit code 9 if something needs attention, and with 4 if only hosts cannot be reached.
pub async fn run(arguments: &Status, format: Output, events: &Events) -> Result<(), Failure> {
    if arguments.bundle.is_empty() == (arguments.diff || arguments.fix) {
        return Err(Failure::configuration(
            "--bundle is for --diff and --fix\nhint: pass one of them",
        ));
    }
    // A file descriptor gives a passphrase once, and a user types it once.
    let ca_encryption = arguments.ca_encryption()?;
    if arguments.fix {
        let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
        arguments.fix(ca_encryption.clone(), events, &stop).await?;
        if arguments.dry_run {
            return Ok(());
        }
    }
    let options = StatusOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        diff: (arguments.diff || arguments.fix).then(|| BundlesToCompare {
            bundles: arguments.bundle.clone(),
            access: arguments.access.options(),
        }),
        ca_encryption,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let report = status::status(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("StatusReport", &report)?,
        Output::Auto | Output::Plain => {
            let line = CommandLine::new(&options.cluster, &options.connection);
            // A program that reads the names needs all of their characters.
            let columns = std::io::stdout().is_terminal().then_some(COLUMNS);
            output::text(&text(&report, &line, columns));
        }
    }
    match (report.has_problems(), report.has_unreachable()) {
        (true, _) => Err(Failure::attention()),
        (false, true) => Err(Failure::unreachable()),
        (false, false) => Ok(()),
    }
}

/// Returns the state for people. `columns` is where lines of the table and of timers are cut; `None` cuts none.
fn text(report: &StatusReport, line: &CommandLine, columns: Option<usize>) -> String {
    let mut lines = facts(report, columns);
    lines.push(String::new());
    lines.extend(table(report, columns));
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

/// The most characters of a line in the table on a terminal.
const COLUMNS: usize = 80;
/// The most characters of a host's name in the table on a terminal.
const NAME: usize = 24;

/// Returns the table of hosts. Lines are at most `columns` characters long: a longer text is cut. `None` cuts nothing.
fn table(report: &StatusReport, columns: Option<usize>) -> Vec<String> {
    let mut rows = vec![
        [
            "HOST", "ROLES", "KUBELET", "NODE", "FREE", "EXPIRES", "STATE",
        ]
        .map(str::to_owned),
    ];
    rows.extend(report.hosts.iter().map(|host| row(report, host)));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    if let Some(columns) = columns {
        widths[0] = widths[0].min(NAME);
        // The roles get what the other columns and the start of the state leave.
        let others: usize = widths[0] + widths[2..6].iter().sum::<usize>() + 2 * 6;
        let state = widths[6].min("unreachable".len());
        widths[1] = widths[1]
            .min(columns.saturating_sub(others + state))
            .max("ROLES".len());
    }
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{:<width$}", without_middle(cell, width)));
        let line = cells.collect::<Vec<_>>().join("  ");
        cut(line.trim_end(), columns)
    };
    rows.iter().map(line).collect()
}

fn row(report: &StatusReport, host: &HostState) -> [String; 7] {
    let unknown = || "-".to_owned();
    let running = host.node.as_ref().and_then(|node| node.kubelet.clone());
    let kubelet = running.or_else(|| host.kubelet.clone());
    let free = host.disks.iter().map(|disk| disk.percent()).min();
    let days = host
        .certificate
        .as_ref()
        .map(|certificate| certificate.days_left);
    let mut problems = report.problems.iter();
    let problem = problems.find(|problem| problem.host.as_ref() == Some(&host.host));
    let state = match (
        host.unhealthy.as_slice(),
        problem.map(|problem| problem.about),
    ) {
        (programs @ [_, ..], _) => programs.join(","),
        ([], Some(About::Unreachable)) => "unreachable".to_owned(),
        ([], Some(_)) => "see below".to_owned(),
        ([], None) => "ok".to_owned(),
    };
    [
        host.host.to_string(),
        host.roles.join(","),
        kubelet.map_or_else(unknown, |version| version.to_string()),
        host.node.as_ref().map_or_else(unknown, node),
        free.map_or_else(unknown, |percent| format!("{percent} %")),
        days.map_or_else(unknown, |days| format!("{days} days")),
        state,
    ]
}

/// The problems below the table name a node that is cordoned and not Ready.
fn node(node: &NodeState) -> String {
    match (node.standing, node.is_cordoned) {
        (NodeStanding::Ready, true) => "cordoned".to_owned(),
        (standing, _) => standing.to_string(),
    }
}

/// Cuts the end of a text that is longer than a number of characters.
fn cut(text: &str, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if text.chars().count() > columns => text
            .chars()
            .take(columns.saturating_sub(1))
            .chain(['…'])
            .collect(),
        _ => text.to_owned(),
    }
}

/// Cuts the middle of a text that is longer than `width` characters. Names of hosts often differ at their ends only.
fn without_middle(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (start, end) = (kept - kept / 2, kept / 2);
    let ending = text.chars().skip(count - end);
    text.chars()
        .take(start)
        .chain(['…'])
        .chain(ending)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;
    use kubexm_commands::Connection;

    fn line() -> CommandLine {
        CommandLine::new(Path::new("cluster.yaml"), &Connection::default())
    }

    /// Returns the report of the example with hosts of these names.
    fn with_names(names: &[&str]) -> StatusReport {
        let mut report = example::report();
        for (host, name) in report.hosts.iter_mut().zip(names) {
            host.host = name.parse().unwrap();
        }
        report
    }

    #[test]
    fn state_is_a_table_with_the_problems_below() {
        insta::assert_snapshot!(text(&example::report(), &line(), Some(COLUMNS)), @"
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
        let text = text(&report, &line(), Some(COLUMNS));
        assert!(text.ends_with("\nno problems\n"), "{text}");
        assert!(
            text.lines()
                .any(|line| line.starts_with("node2") && line.ends_with(" ok")),
            "{text}"
        );
    }

    #[test]
    fn lines_of_the_table_have_at_most_80_characters() {
        let mut report = example::report();
        report.hosts[0].host = "a-very-long-name-of-a-host.in.a.domain.example"
            .parse()
            .unwrap();
        report.hosts[0].roles = vec![
            "control-plane",
            "worker",
            "etcd",
            "registry",
            "loadbalancer",
        ];
        report.hosts[1].unhealthy = vec!["kubelet".to_owned(); 20];
        for line in table(&report, Some(COLUMNS)) {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }

    #[test]
    fn names_that_differ_at_their_ends_differ_in_the_table() {
        let names = ["01", "02", "03"].map(|end| format!("kubernetes-production-worker-{end}"));
        let report = with_names(&names.each_ref().map(String::as_str));
        insta::assert_snapshot!(table(&report, Some(COLUMNS)).join("\n"), @"
        HOST                      ROLES        KUBELET  NODE     FREE  EXPIRES   STATE
        kubernetes-p…n-worker-01  contr…istry  1.36.3   Ready    62 %  364 days  ok
        kubernetes-p…n-worker-02  worker       1.36.3   Unknown  62 %  364 days  kubelet
        kubernetes-p…n-worker-03  worker       1.36.3   Ready    -     -         ok
        ");
    }

    #[test]
    fn file_or_program_gets_whole_lines() {
        let names = ["a-very-long-name-of-a-host.in.a.domain.example", "b", "c"];
        let mut report = with_names(&names);
        let roles = [
            "control-plane",
            "worker",
            "etcd",
            "registry",
            "loadbalancer",
        ];
        report.hosts[0].roles = roles.to_vec();
        report.hosts[1].unhealthy = vec!["kubelet".to_owned(); 20];
        let text = text(&report, &line(), None);
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
