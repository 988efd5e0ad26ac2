//! A run of a timer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::status::{self, About, NodeStanding, Problem, ProblemKind, StatusOptions, StatusReport};
use kubexm_safekeeping::backup::{self, CreateOptions};
use kubexm_safekeeping::certs::{self, Expiring, RenewOptions};
use kubexm_safekeeping::timer::{Job, Recorder, RunResult};
use kubexm_session::{CommandError, Connection, Stop, certificates};
use kubexm_types::Message;
use kubexm_types::event::Events;

/// How often, and in which steps, a run looks whether the control plane is healthy after a renewal.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_secs(12);

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    pub result: RunResult,
    /// One line for people.
    pub message: String,
    /// The backup.
    pub backup: Option<PathBuf>,
}

impl RunReport {
    fn new(result: RunResult, message: String) -> Self {
        Self {
            result,
            message,
            backup: None,
        }
    }
}

/// Renews certificates that expire within a number of days, are missing or cannot be read, if all control planes and members of
/// etcd are healthy, and records the run. A dry run emits the plan as a note, and records nothing.
///
/// # Errors
/// A host cannot be reached, the control plane is not healthy, or the renewal failed.
pub async fn renew(
    options: &RenewOptions,
    days: u16,
    events: &Events,
    stop: &Stop,
) -> Result<RunReport, CommandError> {
    let state = state_of(&options.cluster, &options.connection, events)?;
    if options.dry_run {
        return renew_if_healthy(options, days, events, stop).await;
    }
    let recorder = Recorder::begin(&state, Job::Certificates)?;
    let renewing = renew_if_healthy(options, days, events, stop).await;
    recorded(recorder, renewing)
}

/// Creates a backup, and records the run.
///
/// # Errors
/// See [`backup::create`].
pub async fn back_up(
    options: &CreateOptions,
    events: &Events,
    stop: &Stop,
) -> Result<RunReport, CommandError> {
    let state = state_of(&options.cluster, &options.connection, events)?;
    let recorder = Recorder::begin(&state, Job::Backup)?;
    let created = backup::create(options, events, stop).await.map(|created| {
        let etcd = &created.manifest.etcd;
        let message = format!(
            "{}: {} bytes, with {} keys of etcd at revision {} from {}; {} older ones removed",
            created.path.display(),
            created.size,
            etcd.keys,
            etcd.revision,
            etcd.member,
            created.removed.len()
        );
        let (result, message) = if created.gaps.is_empty() {
            (RunResult::Done, message)
        } else {
            let gaps = created.gaps.join("; ");
            (RunResult::Failed, format!("{gaps}: {message}"))
        };
        RunReport {
            backup: Some(created.path),
            ..RunReport::new(result, message)
        }
    });
    recorded(recorder, created)
}

fn state_of(
    cluster: &Path,
    connection: &Connection,
    events: &Events,
) -> Result<PathBuf, CommandError> {
    let cluster = kubexm_config::load_cluster(cluster)?;
    connection.state_directory(&cluster, events)
}

fn recorded(
    recorder: Recorder<'_>,
    ended: Result<RunReport, CommandError>,
) -> Result<RunReport, CommandError> {
    match &ended {
        Ok(report) => {
            let message = Message::new(&report.message);
            recorder.end(report.result, message, report.backup.as_deref())?;
        }
        Err(error) => recorder.end(RunResult::Failed, Message::from(error), None)?,
    }
    ended
}

async fn renew_if_healthy(
    options: &RenewOptions,
    days: u16,
    events: &Events,
    stop: &Stop,
) -> Result<RunReport, CommandError> {
    let state = state_of(&options.cluster, &options.connection, events)?;
    // A timer that cannot renew certificates fails long before one expires.
    let encryption = options.ca_encryption.as_ref();
    if !options.dry_run {
        certificates::check_opens(&state, encryption)?;
    }
    let expiring = certs::expiring(options, days, events, stop).await?;
    let continues = certs::is_interrupted(options, events)?;
    if expiring.is_empty() && !continues {
        if options.dry_run {
            certificates::warn_unless_opens(&state, encryption, events);
        }
        let message = certs::nothing_to_renew(days);
        return Ok(RunReport::new(RunResult::Nothing, message));
    }
    let problems = look(options, events, stop).await?;
    if !problems.is_empty() {
        return Err(CommandError::Unhealthy {
            what: "certificates that expire soon or are lost were not renewed",
            problems,
            hint: "repair what `kubexm status` names; the next run of the timer tries again, and `kubexm certs renew` works \
                   at once",
        });
    }
    let renewed = certs::renew_expiring(options, &expiring, events, stop).await?;
    let Some(changes) = renewed.changed else {
        let message = planned_text(&expiring, continues);
        return Ok(RunReport::new(RunResult::Nothing, message));
    };
    let mut problems = Vec::new();
    for at in 0..LOOKS {
        problems = look(options, events, stop).await?;
        if problems.is_empty() {
            break;
        }
        if at + 1 < LOOKS {
            tokio::time::sleep(PAUSE).await;
        }
    }
    if !problems.is_empty() {
        return Err(CommandError::Unhealthy {
            what: "the certificates were renewed, and afterwards",
            problems,
            hint: "repair what `kubexm status` names",
        });
    }
    let message = renewed_text(&expiring, continues, changes);
    Ok(RunReport::new(RunResult::Done, message))
}

/// Returns what a renewal did, in a line.
fn renewed_text(expiring: &[Expiring], continues: bool, changes: usize) -> String {
    let what = if continues {
        "completed the renewal that was interrupted".to_owned()
    } else {
        format!("renewed the certificates of {}", hosts_of(expiring))
    };
    let (count, lost) = counts(expiring);
    let lost = lost.map_or_else(String::new, |lost| {
        format!("{lost} were missing or unreadable, ")
    });
    format!("{what}: {count} were about to expire, {lost}{changes} changes")
}

/// Returns what a run would do, in a line.
fn planned_text(expiring: &[Expiring], continues: bool) -> String {
    if continues {
        "a run completes the renewal that was interrupted".to_owned()
    } else {
        let (hosts, (count, lost)) = (hosts_of(expiring), counts(expiring));
        let lost = lost.map_or_else(String::new, |lost| {
            format!(", {lost} are missing or unreadable")
        });
        format!("a run renews the certificates of {hosts}: {count} expire soon{lost}")
    }
}

/// Returns how many certificates expire soon, and how many are missing or unreadable; `None` if none is.
fn counts(expiring: &[Expiring]) -> (usize, Option<usize>) {
    let dated = expiring.iter().filter(|one| one.expires.is_some()).count();
    (dated, Some(expiring.len() - dated).filter(|lost| *lost > 0))
}

fn hosts_of(expiring: &[Expiring]) -> String {
    let mut hosts: Vec<&str> = expiring.iter().map(|one| one.host.as_str()).collect();
    hosts.dedup();
    hosts.join(", ")
}

async fn look(
    options: &RenewOptions,
    events: &Events,
    stop: &Stop,
) -> Result<Vec<String>, CommandError> {
    let looked = StatusOptions {
        cluster: options.cluster.clone(),
        connection: options.connection.clone(),
        diff: None,
        ca_encryption: None,
    };
    Ok(unhealthy(&status::status(&looked, events, stop).await?))
}

/// Returns what is wrong with control planes and members of etcd.
fn unhealthy(report: &StatusReport) -> Vec<String> {
    let is_critical = |host: &&status::HostState| {
        let mut roles = host.roles.iter();
        roles.any(|role| matches!(*role, "control-plane" | "etcd"))
    };
    let critical = report.hosts.iter().filter(is_critical);
    let names: Vec<_> = critical.clone().map(|host| &host.host).collect();
    let concerns = report.problems.iter().filter(|problem| {
        let is_about = matches!(
            problem.about,
            About::Unreachable
                | About::Host
                | About::Identity
                | About::Unit
                | About::Program
                | About::Etcd
                | About::ApiServer
                | About::Endpoint
                | About::Node
        );
        let is_here = problem
            .host
            .as_ref()
            .map_or(problem.about != About::Node, |host| names.contains(&host));
        is_about && is_here && !is_without_danger(report, problem)
    });
    let mut lines: Vec<String> = concerns
        .map(|problem| match &problem.host {
            Some(host) => format!("{host}: {}", problem.what),
            None => problem.what.clone(),
        })
        .collect();
    if lines.is_empty() {
        let without = critical.filter(|host| {
            let node = host.node.as_ref();
            node.is_some_and(|node| node.standing != NodeStanding::Ready)
        });
        lines.extend(without.map(|host| format!("{}: the node is not Ready", host.host)));
    }
    lines
}

/// Returns whether a renewal is safe in spite of a problem: the host works, and can stay so until its certificates expire.
fn is_without_danger(report: &StatusReport, problem: &Problem) -> bool {
    let mut hosts = report.hosts.iter();
    let host = hosts.find(|host| problem.host.as_ref() == Some(&host.host));
    let node = host.and_then(|host| host.node.as_ref());
    let is_only_cordoned = node.is_some_and(|node| {
        node.is_cordoned && node.standing == NodeStanding::Ready && node.pressure.is_empty()
    });
    match problem.about {
        About::Node => is_only_cordoned,
        About::Etcd => problem.kind == ProblemKind::DatabaseNearQuota,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::NodeState;
    use crate::status::example::report;
    use kubexm_config::example::{ROLES, text_of};
    use kubexm_session::HostSelection;
    use kubexm_session::certificates::CaEncryption;
    use kubexm_session::example::cluster_of_two as cluster;
    use kubexm_types::Secret;

    /// Returns a report about a control plane that is cordoned.
    fn cordoned() -> StatusReport {
        let mut report = report(&cluster(""));
        let host = &mut report.hosts[0];
        host.roles = vec!["control-plane"];
        host.node = Some(NodeState {
            standing: NodeStanding::Ready,
            is_cordoned: true,
            pressure: Vec::new(),
            kubelet: None,
            runtime: None,
            kernel: None,
            os: None,
        });
        let what = "the node is cordoned: no new pods run on it";
        report.problems.push(problem(About::Node, what));
        report
    }

    fn problem(about: About, what: &str) -> Problem {
        Problem::new(about, what, "").on(&"node1".parse().unwrap())
    }

    /// It succeeded until a certificate was about to expire, and failed then.
    #[tokio::test]
    async fn timer_without_the_identity_fails_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let encryption = CaEncryption::Passphrase(Secret("phrase".to_owned()));
        let identity = encryption.identity().unwrap();
        certificates::load_or_issue(&cluster(""), &state, Some(identity)).unwrap();
        let file = folder.path().join("cluster.yaml");
        std::fs::write(&file, text_of(ROLES, "", "")).unwrap();
        let options = RenewOptions {
            cluster: file,
            connection: Connection {
                state: Some(state),
                ..Connection::default()
            },
            selection: HostSelection::default(),
            dry_run: false,
            ca_encryption: None,
        };
        let stop = Stop::new();
        stop.cancel();
        let failed = renew(&options, 30, &Events::silent(), &stop).await;
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("archive.key.age is encrypted"), "{failed}");
    }

    /// Some sites cordon their control planes for good.
    #[test]
    fn control_plane_that_works_is_renewed() {
        let mut report = cordoned();
        let full = problem(
            About::Etcd,
            "the database of etcd has 1700 of at most 2048 MiB",
        );
        let full = full.of_kind(ProblemKind::DatabaseNearQuota);
        report.problems.push(full);
        assert_eq!(unhealthy(&report), [""; 0]);
        report
            .problems
            .push(problem(About::Etcd, "etcd has no leader"));
        assert_eq!(unhealthy(&report), ["node1: etcd has no leader"]);
        let mut report = cordoned();
        report.hosts[0].node.as_mut().unwrap().standing = NodeStanding::NotReady;
        let what = "node1: the node is cordoned: no new pods run on it";
        assert_eq!(unhealthy(&report), [what]);
    }

    #[test]
    fn renewal_that_was_interrupted_is_named_without_hosts() {
        let mut expiring = ["a.crt", "b.crt"].map(|path| Expiring {
            host: "node1".parse().unwrap(),
            path: path.to_owned(),
            expires: Some("2027-01-31".to_owned()),
        });
        assert_eq!(
            renewed_text(&expiring, false, 4),
            "renewed the certificates of node1: 2 were about to expire, 4 changes"
        );
        assert_eq!(
            planned_text(&expiring, false),
            "a run renews the certificates of node1: 2 expire soon"
        );
        assert_eq!(
            planned_text(&[], true),
            "a run completes the renewal that was interrupted"
        );
        assert_eq!(
            renewed_text(&[], true, 4),
            "completed the renewal that was interrupted: 0 were about to expire, 4 changes"
        );
        expiring[1].expires = None;
        assert_eq!(
            renewed_text(&expiring, false, 4),
            "renewed the certificates of node1: 1 were about to expire, 1 were missing or unreadable, 4 changes"
        );
        assert_eq!(
            planned_text(&expiring, false),
            "a run renews the certificates of node1: 1 expire soon, 1 are missing or unreadable"
        );
    }
}
