//! `kubexm doctor`: what is wrong with a cluster, why, and what to do.

#[cfg(test)]
pub mod example;

use kubexm_types::ErrorKind;
use std::path::PathBuf;

use clap::Args;

use super::connection::ConnectionArgs;
use super::{Failure, interrupt, output};
use crate::report::Output;
use kubexm_diagnose::doctor::{self, Area, DoctorOptions, DoctorReport, Finding, Verdict};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm doctor -f cluster.yaml
  kubexm doctor -f cluster.yaml --checks
  kubexm doctor -f cluster.yaml --output json")]
pub struct Doctor {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Print every check with what it reads and its verdict, instead of one line for each area
    #[arg(long)]
    checks: bool,
}

/// Prints the findings.
///
/// # Errors
/// Fails with the exit code 9 if something is wrong, and with 4 if only hosts cannot be reached.
pub async fn run(arguments: &Doctor, format: Output, events: &Events) -> Result<(), Failure> {
    let options = DoctorOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let report = doctor::doctor(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("DoctorReport", &report)?,
        Output::Auto | Output::Plain => output::text(&text(&report, arguments.checks)),
    }
    match (report.has_problems(), report.has_unreachable()) {
        (true, _) => Err(Failure::found(ErrorKind::Attention)),
        (false, true) => Err(Failure::found(ErrorKind::Host)),
        (false, false) => Ok(()),
    }
}

/// The most characters of a line, besides commands, which must be copied as they are.
const COLUMNS: usize = 80;
/// The width of the names before the texts of a finding.
const LABEL: usize = 11;

/// Returns the report for people.
fn text(report: &DoctorReport, checks: bool) -> String {
    let mut lines = vec![heading(report), String::new()];
    if checks {
        lines.extend(every_check(report))
    } else {
        lines.extend(areas(report))
    }
    for (at, found) in report.causes().enumerate() {
        lines.push(String::new());
        lines.extend(cause(at + 1, found));
    }
    let consequences: Vec<&Finding> = report.consequences().collect();
    if !consequences.is_empty() {
        lines.push(String::new());
        lines.push("These follow from the causes above, and should end with them:".to_owned());
        for found in consequences {
            let origin = found.follows.unwrap_or_default();
            let what = format!("{}{} (follows from {origin})", hosts(found), found.what);
            lines.extend(wrapped("  - ", &what));
        }
    }
    lines.join("\n") + "\n"
}

fn heading(report: &DoctorReport) -> String {
    let count = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let causes = report.causes().count();
    let follow = report.consequences().count();
    let unknown = report.checks.iter();
    let unknown = unknown
        .filter(|check| check.verdict == Verdict::Unknown)
        .count();
    let (hosts, checks) = (
        count(report.hosts, "host", "hosts"),
        count(report.checks.len(), "check", "checks"),
    );
    let mut line = format!("cluster {}, {hosts}, {checks}: ", report.cluster);
    line.push_str(&match causes {
        0 => "no problems".to_owned(),
        causes => count(causes, "problem", "problems"),
    });
    if follow > 0 {
        line.push_str(&format!(
            ", {}",
            count(follow, "consequence", "consequences")
        ));
    }
    if unknown > 0 {
        line.push_str(&format!(", {unknown} not checked"));
    }
    line
}

/// Returns one line for each area.
fn areas(report: &DoctorReport) -> Vec<String> {
    let mut lines = vec![format!("{:<13}  {:>6}  RESULT", "AREA", "CHECKS")];
    for area in Area::ALL {
        let checks = report.checks.iter().filter(|check| check.area == area);
        let of = |verdict| {
            let found = checks.clone().filter(|check| check.verdict == verdict);
            found.map(|check| check.check).collect::<Vec<_>>()
        };
        let (problems, unknown) = (of(Verdict::Problem), of(Verdict::Unknown));
        let mut results = Vec::new();
        let is_cause = |name: &&&str| report.causes().any(|found| found.check == **name);
        let causes: Vec<&str> = problems.iter().filter(is_cause).copied().collect();
        let others = problems.iter().filter(|name| !is_cause(name));
        let others: Vec<&str> = others.copied().collect();
        if !causes.is_empty() {
            results.push(format!("PROBLEM: {}", causes.join(", ")));
        }
        if !others.is_empty() {
            results.push(format!("consequence: {}", others.join(", ")));
        }
        if !unknown.is_empty() {
            results.push(format!("not checked: {}", unknown.join(", ")));
        }
        if results.is_empty() {
            results.push("ok".to_owned());
        }
        let start = format!("{area:<13}  {:>6}  ", checks.count());
        lines.extend(wrapped(&start, &results.join("; ")));
    }
    lines
}

fn every_check(report: &DoctorReport) -> Vec<String> {
    let mut lines = Vec::new();
    for check in &report.checks {
        let verdict = match check.verdict {
            Verdict::Ok => "ok".to_owned(),
            Verdict::Problem => "PROBLEM".to_owned(),
            Verdict::Unknown => {
                let reason = check.reason.as_deref().unwrap_or_default();
                format!("not checked: {reason}")
            }
        };
        lines.extend(wrapped(&format!("{:<21}  ", check.check), &verdict));
        lines.extend(wrapped("    reads ", check.read));
    }
    lines
}

fn hosts(found: &Finding) -> String {
    let names: Vec<&str> = found.hosts.iter().map(|host| host.as_str()).collect();
    match names.len() {
        0 => String::new(),
        1..=6 => format!("{}: ", names.join(", ")),
        count => format!("{} and {} others: ", names[..5].join(", "), count - 5),
    }
}

fn cause(number: usize, found: &Finding) -> Vec<String> {
    let title = format!("{}{}", hosts(found), found.what);
    let mut lines = wrapped(&format!("{number}. "), &title);
    let label = |name: &str| format!("   {name:<LABEL$}");
    let check = format!("{}, {}", found.check, found.certainty);
    lines.push(format!("{}{check}", label("check")));
    for (at, line) in found.evidence.iter().enumerate() {
        lines.extend(wrapped(&label(if at == 0 { "evidence" } else { "" }), line));
    }
    if !found.cause.is_empty() {
        lines.extend(wrapped(&label("cause"), &found.cause));
    }
    if !found.fix.is_empty() {
        lines.extend(wrapped(&label("fix"), &found.fix));
    }
    lines.extend(
        found
            .commands
            .iter()
            .map(|command| format!("     $ {command}")),
    );
    lines
}

/// Returns a text in lines of at most 80 characters. The first one begins with `start`, and the others with as many blanks.
/// A word that is longer than a line gets a line of its own.
fn wrapped(start: &str, text: &str) -> Vec<String> {
    let indent = start.chars().count();
    let mut lines = Vec::new();
    let mut line = start.to_owned();
    let mut width = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > indent && width + 1 + length > COLUMNS {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            width = indent;
        }
        if width > indent {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += length;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_before_their_consequences() {
        insta::assert_snapshot!(text(&example::report(), false));
    }

    #[test]
    fn every_check_has_a_line_with_what_it_reads() {
        insta::assert_snapshot!(text(&example::report(), true));
    }

    #[test]
    fn lines_besides_commands_have_at_most_80_characters() {
        let mut report = example::report();
        report.findings[0].cause = "a word and ".repeat(40);
        for checks in [true, false] {
            for line in text(&report, checks).lines() {
                let fits = line.chars().count() <= COLUMNS;
                assert!(fits || line.starts_with("     $ "), "{line}");
            }
        }
    }
}
