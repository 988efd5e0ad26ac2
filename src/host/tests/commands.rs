//! Commands over a real sshd on loopback, with both programs that speak SSH: they end on the host too.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::sshd::{PROGRAMS, Sshd};
use crate::{Command, Host, HostError, Input, Limit, SshHost};

/// Writes the process ids of itself and of two children to `$1`. One of the children ignores TERM. Logs to `$2`
/// what comes after its input.
const SCRIPT: &str = r#"
sleep 600 & one=$!
(trap '' TERM; exec sleep 600) & two=$!
echo "$$ $one $two" >"$1.partial"
mv "$1.partial" "$1"
echo "reading its input"
cat >/dev/null
echo went-on >"$2"
wait
"#;

fn is_running(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // A zombie has ended; only its parent has not waited for it.
    state.is_ok_and(|state| !state.contains(") Z "))
}

async fn until(what: impl Fn() -> bool) -> bool {
    for _ in 0..1200 {
        if what() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

fn pids(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

async fn all_end(file: &str) {
    let pids = pids(file);
    assert_eq!(pids.len(), 3);
    let ended = until(|| !pids.iter().any(|pid| is_running(pid))).await;
    let left: Vec<_> = pids.iter().filter(|pid| is_running(pid)).collect();
    assert!(ended, "these processes still run: {left:?}");
}

/// Standard input that has no byte and no end until the test drops the sender.
struct Held(std::sync::mpsc::Receiver<()>);

impl std::io::Read for Held {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        let _ = self.0.recv();
        Ok(0)
    }
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn command_and_its_children_end_at_the_limit() {
    for program in PROGRAMS {
        let sshd = Sshd::start();
        let host = sshd.connect_by(program).await;
        let (started, went_on) = (sshd.file("pids"), sshd.file("went-on"));
        let command = Command::script(SCRIPT, [&started, &went_on])
            .describe("wait")
            .limit(Limit::new(Duration::from_secs(2), "tests"));
        let (_end, held) = std::sync::mpsc::channel();
        let command = command.input(Input::Stream(Box::new(Held(held))));
        let error = host.run(command).await.unwrap_err();
        let expected = "node1: wait: exceeded the time limit of 2 seconds for tests; it printed last:\n\
             reading its input\n\
             Terminated\n  hint: kubexm ended the command on the host; look at the load, the disks and the journal of the host (journalctl -e), then run kubexm again";
        assert_eq!(error.to_string(), expected);
        all_end(&started).await;
        // The connection still works.
        let output = host.run(Command::new("echo").arg("here")).await.unwrap();
        assert_eq!((output.status, output.text().as_str()), (0, "here\n"));
    }
}

/// As /etc/environment of the site, through PAM.
#[tokio::test]
#[ignore = "requires root and sshd"]
async fn commands_have_the_same_environment_on_every_host() {
    for program in PROGRAMS {
        let lines =
            "SetEnv https_proxy=http://192.0.2.1:3128 KUBECONFIG=/nowhere LC_ALL=de_DE.UTF-8";
        let sshd = Sshd::start_with(lines, |_| ());
        let host = sshd.connect_by(program).await;
        let output = host.run(Command::new("env")).await.unwrap();
        let mut names: Vec<String> = output
            .text()
            .lines()
            .map(|line| line.split('=').next().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        // A shell on the host sets `PWD`.
        assert_eq!(names, ["HOME", "LC_ALL", "PATH", "PWD"]);
        assert!(output.text().contains("LC_ALL=C\n"));
    }
}

/// Runs a command, and cancels it when it has created the file `started`.
async fn cancel_when_started(host: &Arc<SshHost>, command: Command, started: &str) {
    let running = {
        let host = Arc::clone(host);
        tokio::spawn(async move { host.run(command).await })
    };
    assert!(until(|| Path::new(started).exists()).await);
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    host.settle().await;
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn cancelled_command_ends_without_seeing_the_end_of_its_input() {
    for program in PROGRAMS {
        let sshd = Sshd::start();
        let host = sshd.connect_by(program).await;
        let (started, went_on) = (sshd.file("pids"), sshd.file("went-on"));
        let command = Command::script(SCRIPT, [&started, &went_on]);
        let (_end, held) = std::sync::mpsc::channel();
        let command = command.input(Input::Stream(Box::new(Held(held))));
        cancel_when_started(&host, command, &started).await;
        all_end(&started).await;
        assert!(
            !Path::new(&went_on).exists(),
            "the command used half of its input"
        );
    }
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn command_that_must_finish_continues_when_cancelled() {
    for program in PROGRAMS {
        let sshd = Sshd::start();
        let host = sshd.connect_by(program).await;
        let (started, hold, done) = (sshd.file("pids"), sshd.file("hold"), sshd.file("done"));
        std::fs::write(&hold, "").unwrap();
        let script = "echo $$ >\"$1\"; while [ -e \"$2\" ]; do sleep 0.1; done; echo done >\"$3\"";
        let command = Command::script(script, [&started, &hold, &done]).continues_when_cancelled();
        cancel_when_started(&host, command, &started).await;
        std::fs::remove_file(&hold).unwrap();
        assert!(until(|| Path::new(&done).exists()).await);
    }
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn unreadable_input_ends_the_command() {
    for program in PROGRAMS {
        struct Damaged;
        impl std::io::Read for Damaged {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("damaged"))
            }
        }
        let sshd = Sshd::start();
        let host = sshd.connect_by(program).await;
        let (started, went_on) = (sshd.file("pids"), sshd.file("went-on"));
        let command = Command::script(SCRIPT, [&started, &went_on]);
        let result = host
            .run(command.input(Input::Stream(Box::new(Damaged))))
            .await;
        assert!(matches!(result, Err(HostError::Input { .. })), "{result:?}");
        // The command may have been ended before it wrote its process ids.
        if Path::new(&started).exists() {
            all_end(&started).await;
        }
        assert!(
            !Path::new(&went_on).exists(),
            "the command used half of its input"
        );
    }
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn endless_output_is_an_error_and_ends_the_command() {
    for program in PROGRAMS {
        let sshd = Sshd::start();
        let host = sshd.connect_by(program).await;
        let started = sshd.file("pids");
        let script = "echo \"$$ $$ $$\" >\"$1\"; while :; do echo 0123456789012345678901234567890123456789; done";
        let command = Command::script(script, [&started]).describe("list");
        let error = host.run(command).await.unwrap_err().to_string();
        assert_eq!(
            error,
            "node1: list: the command printed more than 16 MiB, which is not a result"
        );
        host.settle().await;
        all_end(&started).await;
    }
}

/// As a hardened host: each connection has one session.
#[tokio::test]
#[ignore = "requires root and sshd"]
async fn commands_wait_for_each_other_if_sshd_permits_one_session() {
    for program in PROGRAMS {
        let sshd = Sshd::start_with("MaxSessions 1", |_| ());
        let host = sshd.connect_by(program).await;
        let run = async |number: &str| {
            let output = host
                .run(Command::script("sleep 0.2; echo $1", [number]))
                .await;
            output.unwrap().text()
        };
        let printed = tokio::join!(run("1"), run("2"), run("3"), run("4"));
        let expected = ["1\n", "2\n", "3\n", "4\n"].map(str::to_owned);
        assert_eq!(<[String; 4]>::from(printed), expected);
    }
}

/// The command of the configuration stands for a login shell that replaces backslashes in single quotes, as fish does.
#[tokio::test]
#[ignore = "requires root and sshd"]
async fn login_shell_with_other_quotes_changes_no_script() {
    for program in PROGRAMS {
        let shell = r#"#!/bin/sh
exec sh -c "$(printf '%s\n' "$SSH_ORIGINAL_COMMAND" | sed 's/\\\\/\\/g')"
"#;
        let sshd = Sshd::start_with("ForceCommand sh FOLDER/shell", |folder| {
            std::fs::write(format!("{folder}/shell"), shell).unwrap();
        });
        let host = sshd.connect_by(program).await;
        let script = r"printf '%s|' '\\' 'it'\''s' '$x' '!'";
        let output = host.run(Command::script(script, [""; 0])).await.unwrap();
        assert_eq!(output.text(), r"\\|it's|$x|!|");
    }
}
