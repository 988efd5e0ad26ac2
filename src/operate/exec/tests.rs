#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use kubexm_host::Host;
use kubexm_session::ErrorKind;

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

fn report(statuses: &[i32], failed: Vec<HostError>) -> ExecReport {
    let ended = |(at, status): (usize, &i32)| Ended {
        host: name(&format!("node{}", at + 1)),
        exit_status: *status,
        stdout: String::new(),
        stderr: String::new(),
    };
    let not_run = |error| NotRun {
        host: name("node9"),
        error,
    };
    ExecReport {
        hosts: statuses.iter().enumerate().map(ended).collect(),
        failed: failed.into_iter().map(not_run).collect(),
        stopped: Vec::new(),
    }
}

fn unreachable() -> HostError {
    HostError::Unreachable {
        host: name("node9"),
        address: "192.0.2.9:22".to_owned(),
        reason: "no route to host".into(),
    }
}

fn failure(mut report: ExecReport) -> (ErrorKind, String) {
    let error = report.check("df").unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn command_that_succeeds_on_all_hosts_is_a_success() {
    assert!(report(&[0, 0], Vec::new()).check("df").is_ok());
}

#[test]
fn failed_commands_are_counted_by_host() {
    let (kind, text) = failure(report(&[1, 0, 127], Vec::new()));
    assert_eq!(kind, ErrorKind::Step);
    insta::assert_snapshot!(text, @"
    df failed on 2 of 3 hosts: node1, node3
    hint: kubexm runs a program without a shell; for a line of shell, use -- sh -c 'LINE'
    ");
}

#[test]
fn command_that_does_not_end_is_a_failure_of_the_command() {
    let error = HostError::TimedOut {
        host: name("node9"),
        command: "df".to_owned(),
        limit: Limit::new(Duration::from_secs(2), "this command (--timeout)"),
        output: String::new(),
    };
    let (kind, text) = failure(report(&[0], vec![error]));
    assert_eq!(kind, ErrorKind::Step);
    assert!(
        text.starts_with("node9: df: exceeded the time limit of 2 seconds"),
        "{text}"
    );
}

fn options(command: &[&str]) -> ExecOptions {
    ExecOptions {
        cluster: PathBuf::from("cluster.yaml"),
        connection: Connection::default(),
        selection: HostSelection::default(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        limit: Duration::from_secs(600),
    }
}

/// A host on which the command prints `done`, or never ends. The user stops kubexm after it began on each host.
struct FakeHost {
    name: HostName,
    ends: bool,
    settled: AtomicBool,
}

#[async_trait::async_trait]
impl Host for FakeHost {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, _: Command) -> Result<Output, HostError> {
        if !self.ends {
            std::future::pending::<()>().await;
        }
        Ok(Output {
            status: 0,
            stdout: b"done".to_vec(),
            stderr: Vec::new(),
            log: None,
        })
    }

    async fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn stopped_command_keeps_the_results_of_hosts_where_it_ended() {
    let fakes = [("node1", true), ("node2", false), ("node3", false)].map(|(host, ends)| {
        Arc::new(FakeHost {
            name: name(host),
            ends,
            settled: AtomicBool::default(),
        })
    });
    let host = |fake: &Arc<FakeHost>| (fake.name.clone(), Arc::clone(fake) as Arc<dyn Host>);
    let hosts: Hosts = fakes.iter().map(host).collect();
    let stop = Stop::new();
    stop.cancel();
    let report = run_on(&hosts, &options(&["df"]), &stop).await;
    assert_eq!(report.hosts[0].stdout, "done");
    let settled = fakes.map(|fake| fake.settled.load(Ordering::Relaxed));
    assert_eq!(settled, [false, true, true]);
    let (kind, text) = failure(report);
    assert_eq!(kind, ErrorKind::Interrupted);
    let expected = "stopped: kubexm ended the command on 2 of 3 hosts: node2, node3";
    assert_eq!(text, expected);
}

#[test]
fn hosts_share_what_kubexm_keeps() {
    let output = |stdout: usize| Output {
        status: 0,
        stdout: vec![b'a'; stdout],
        stderr: [vec![b'b'; stdout], b"last".to_vec()].concat(),
        log: None,
    };
    let host = name("node1");
    let kept = |hosts: usize, printed: usize| {
        ended(&host, output(printed), Share::of(hosts), &options(&["df"]))
    };
    const KIB: usize = 1024;
    // Sixteen hosts get as much as one host can print.
    assert_eq!(Share::of(16).bytes, Share::of(1).bytes);
    let of_few = kept(16, 300 * KIB).unwrap();
    assert_eq!(of_few.stdout.len(), 300 * KIB);
    let of_many = kept(1024, 256 * KIB).unwrap();
    assert_eq!(of_many.stderr.len(), 256 * KIB);
    assert!(of_many.stderr.ends_with("last"));
    let error = kept(1024, 256 * KIB + 1).unwrap_err();
    let (kind, text) = failure(report(&[0], vec![error]));
    assert_eq!(kind, ErrorKind::Step);
    insta::assert_snapshot!(text, @"node1: df: the command printed more than 256 KiB, the most that kubexm keeps of each of 1024 hosts; print less, or select fewer hosts");
}

#[test]
fn stopped_command_names_hosts_where_it_failed_before() {
    let mut stopped = report(&[1], vec![unreachable()]);
    stopped.stopped.push(name("node2"));
    let (kind, text) = failure(stopped);
    assert_eq!(kind, ErrorKind::Interrupted);
    insta::assert_snapshot!(text, @"
    stopped: kubexm ended the command on 1 of 3 hosts: node2
    node9: cannot reach 192.0.2.9:22: no route to host
    ");
}

#[test]
fn plan_has_the_command_of_each_host() {
    let options = options(&["sh", "-c", "echo 'it is'; rm -rf /srv/x", ""]);
    let hosts = [name("node1"), name("node2")];
    insta::assert_snapshot!(plan(&options, hosts.iter()), @r"
    runs as root on these hosts at the same time, for at most 600 seconds:
      node1
        sh -c 'echo '\''it is'\''; rm -rf /srv/x' ''
      node2
        sh -c 'echo '\''it is'\''; rm -rf /srv/x' ''
    ");
}

#[test]
fn host_that_cannot_be_reached_is_a_failure_of_the_host() {
    let (kind, text) = failure(report(&[1], vec![unreachable()]));
    assert_eq!(kind, ErrorKind::Host);
    assert_eq!(text, "node9: cannot reach 192.0.2.9:22: no route to host");
}
