//! The table of hosts of `kubexm status`.

use crate::cli::columns;
use kubexm_diagnose::status::{About, HostState, NodeStanding, NodeState, StatusReport};

/// The most characters of a line in the table on a terminal.
pub(super) const COLUMNS: usize = 80;
/// The most characters of a host's name in the table on a terminal.
const NAME: usize = 24;

/// Returns the table of hosts. Lines are at most `columns` characters long: a longer text is cut. `None` cuts nothing.
pub(super) fn table(report: &StatusReport, columns: Option<usize>) -> Vec<String> {
    let mut rows = vec![
        [
            "HOST", "ROLES", "KUBELET", "NODE", "FREE", "EXPIRES", "STATE",
        ]
        .map(str::to_owned),
    ];
    rows.extend(report.hosts.iter().map(|host| row(report, host)));
    let mut widths = columns::widths(&rows);
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
        let cells: [String; 7] = std::array::from_fn(|at| without_middle(&row[at], widths[at]));
        cut(
            &columns::line(cells.each_ref().map(String::as_str), widths),
            columns,
        )
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
pub(super) fn cut(text: &str, columns: Option<usize>) -> String {
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
pub(super) fn without_middle(text: &str, width: usize) -> String {
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

    use super::*;
    use crate::cli::status::example;

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
        let report = example::with_names(&names.each_ref().map(String::as_str));
        insta::assert_snapshot!(table(&report, Some(COLUMNS)).join("\n"), @"
        HOST                      ROLES        KUBELET  NODE     FREE  EXPIRES   STATE
        kubernetes-p…n-worker-01  contr…istry  1.36.3   Ready    62 %  364 days  ok
        kubernetes-p…n-worker-02  worker       1.36.3   Unknown  62 %  364 days  kubelet
        kubernetes-p…n-worker-03  worker       1.36.3   Ready    -     -         ok
        ");
    }
}
