//! Long commands, their input, and receipts, after an interruption.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::locks;
use crate::sandbox::{Sandbox, path};
use async_trait::async_trait;
use kubexm_engine::plan::{Check, Ensure, Receipt, StepError, Stop, UndoLog};
use kubexm_engine::reset::reset_host;
use kubexm_engine::steps::{InputFile, RunScript, RunToCompletion, Undo, WriteFile};
use kubexm_host::{Command, Host, HostError, Input, Limit, Output};
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, Listener};
use serde_json::json;

const SECRET: &str = "token: abcdef.0123456789abcdef\n";

/// Logs what it does. Between begin and end it waits until a file is deleted.
const COMMAND: &str = r#"
# timeout(1), which limits the command, is its parent; the guard is the parent of that.
cut -d' ' -f4 "/proc/$PPID/stat" >/etc/test-guard
echo $$ >/etc/test-command
cat "$INPUT" >/etc/test-input
echo begin >>/etc/test-log
while [ -e /etc/test-hold ]; do sleep 0.1; done
echo end >>/etc/test-log
"#;

fn created(name: &str) -> Undo {
    Undo::RemoveFile {
        path: path(&format!("/etc/test-{name}")),
        folders: Vec::new(),
    }
}

fn once() -> RunToCompletion {
    RunToCompletion {
        id: "init".to_owned(),
        title: "Run init".to_owned(),
        command: COMMAND.into(),
        input: Some(InputFile {
            path: path("/run/kubexm/init.yaml"),
            preview: "token: <token>".to_owned(),
            content: Arc::new(|| Ok(SECRET.into())),
        }),
        cleanup: "echo clean >>/etc/test-log".into(),
        arguments: Vec::new(),
        waits_for: "tests",
        limit: Limit::CHANGE,
        undo: ["input", "guard", "command"].map(created).into(),
    }
}

async fn until(mut what: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the condition does not hold after 60 seconds");
}

fn kill_9(pid: &str) {
    let status = std::process::Command::new("kill")
        .args(["-9", pid.trim()])
        .status();
    assert!(status.unwrap().success());
}

fn is_running(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A zombie has ended; only its parent has not waited for it.
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// Starts to apply the step, stops the command in the middle and kills its guard.
async fn kill_in_the_middle(host: &Arc<Sandbox>) {
    host.write("/etc/test-hold", "");
    let (other, begun) = (Arc::clone(host), host.read("/etc/test-log").len());
    let running = tokio::spawn(async move { other.apply(&once()).await });
    until(|| host.read("/etc/test-log").len() > begun).await;
    kill_9(&host.read("/etc/test-guard"));
    assert!(running.await.unwrap().is_err());
}

#[tokio::test]
async fn run_once_runs_once() {
    let host = Sandbox::new();
    assert_ne!(host.check(&once()).await, Check::Satisfied);
    host.apply(&once()).await.unwrap();
    assert_eq!(host.check(&once()).await, Check::Satisfied);
    host.apply(&once()).await.unwrap();
    assert_eq!(host.read("/etc/test-log"), "begin\nend\n");
    assert_eq!(host.read("/etc/test-input"), SECRET);
    let left: Vec<_> = std::fs::read_dir(host.at("/run/kubexm")).unwrap().collect();
    assert!(
        !left
            .iter()
            .map(|entry| format!("{entry:?}"))
            .any(|name| name.contains("input-") || name.contains("init.yaml")),
        "the secret stays behind: {left:?}"
    );
    host.take_back().await;
    assert_eq!(host.read("/etc/test-log"), "begin\nend\n");
    assert!(!host.at("/etc/test-input").exists(), "the undo records ran");
}

#[tokio::test]
async fn next_run_waits_for_and_cleans_up_after_an_orphaned_command() {
    let host = Arc::new(Sandbox::new());
    kill_in_the_middle(&host).await;
    let other = Arc::clone(&host);
    let again = tokio::spawn(async move { other.apply(&once()).await });
    until(|| locks::is_held(&host.at("/run/kubexm/once.lock"))).await;
    assert_eq!(
        host.read("/etc/test-log"),
        "begin\n",
        "the command was run twice"
    );
    std::fs::remove_file(host.at("/etc/test-hold")).unwrap();
    again.await.unwrap().unwrap();
    assert_eq!(
        host.read("/etc/test-log"),
        "begin\nend\nclean\nbegin\nend\n"
    );
    assert_eq!(host.check(&once()).await, Check::Satisfied);
}

#[tokio::test]
async fn reset_kills_an_orphaned_command_first() {
    let host = Arc::new(Sandbox::new());
    kill_in_the_middle(&host).await;
    let command = host.read("/etc/test-command");
    assert!(is_running(&command));
    host.take_back().await;
    assert!(
        !host.at("/etc/test-command").exists(),
        "the undo records ran"
    );
    until(|| !is_running(&command)).await;
    assert_eq!(host.read("/etc/test-log"), "begin\n");
}

#[tokio::test]
async fn failed_command_is_cleaned_up_and_its_output_reported() {
    let host = Sandbox::new();
    let failing = RunToCompletion {
        command: "echo no room; exit 3".into(),
        ..once()
    };
    let error = host.apply(&failing).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"
    Run init failed (exit status 3):
    no room
    ");
    assert!(!error.contains("abcdef"), "{error}");
    host.apply(&once()).await.unwrap();
    assert_eq!(host.read("/etc/test-log"), "clean\nbegin\nend\n");
}

/// A host whose connection breaks while the input is sent, as when kubexm is killed. The standard input of
/// the command then ends.
struct CutOff(Arc<dyn Host>);

#[async_trait]
impl Host for CutOff {
    fn name(&self) -> &HostName {
        self.0.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let half = SECRET.as_bytes()[..SECRET.len() / 2].to_vec();
        self.0.run(command.input(Input::Bytes(half))).await
    }
}

/// Another test covers receipts.
struct Forget;

#[async_trait]
impl UndoLog for Forget {
    async fn record(&self, _: &str, _: serde_json::Value) -> Result<(), StepError> {
        Ok(())
    }
}

#[tokio::test]
async fn incomplete_input_is_never_used() {
    let host = Sandbox::new();
    let way: Arc<dyn Host> = Arc::new(CutOff(Arc::clone(&host.host)));
    let script = RunScript::new("s", "Read", "false", "cat >/etc/test-input")
        .input(Arc::new(|| Ok(SECRET.into())));
    let file = WriteFile::secret(path("/etc/test-input"), SECRET);
    for step in [&once() as &dyn Ensure, &script, &file] {
        let error = step
            .apply(&host.context(&way, &Forget))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            !host.at("/etc/test-input").exists(),
            "{}: {error}",
            step.describe()
        );
        assert!(!error.contains("abcdef"), "{error}");
        step.apply(&host.context(&host.host, &Forget))
            .await
            .unwrap();
        assert_eq!(host.read("/etc/test-input"), SECRET);
        std::fs::remove_file(host.at("/etc/test-input")).unwrap();
    }
}

#[tokio::test]
async fn unreadable_input_kills_the_command() {
    struct Damaged;
    impl std::io::Read for Damaged {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("damaged"))
        }
    }
    let host = Sandbox::new();
    let command = Command::script("cat; : >/etc/test-went-on", [""; 0]);
    let result = host
        .host
        .run(command.input(Input::Stream(Box::new(Damaged))))
        .await;
    assert!(matches!(result, Err(HostError::Input { .. })), "{result:?}");
    assert!(!host.at("/etc/test-went-on").exists());
}

#[tokio::test]
async fn command_is_killed_after_its_time_limit() {
    let host = Sandbox::new();
    let limit = Limit::new(Duration::from_secs(1), "tests");
    let script = "echo $$ >/root/pid; echo asleep; exec sleep 60";
    let command = Command::script(script, [""; 0]).limit(limit);
    let error = host.host.run(command.describe("sleep")).await.unwrap_err();
    insta::assert_snapshot!(error, @"
    node1: sleep: exceeded the time limit of 1 seconds for tests; it printed last:
    asleep
    Terminated
      hint: kubexm ended the command on the host; look at the load, the disks and the journal of the host (journalctl -e), then run kubexm again
    ");
    assert!(!is_running(&host.read("/root/pid")));
}

/// The guard of a long command may wait for an earlier run. The limit of the command itself is shorter.
#[tokio::test]
async fn long_command_ends_at_its_own_limit() {
    let host = Sandbox::new();
    host.write("/etc/test-hold", "");
    let hanging = RunToCompletion {
        limit: Limit::new(Duration::from_secs(1), "tests"),
        ..once()
    };
    let error = host.apply(&hanging).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"
    Run init failed (exit status 124):
    the command was ended after its time limit of 1 seconds
    ");
    assert!(!is_running(&host.read("/etc/test-command")));
    std::fs::remove_file(host.at("/etc/test-hold")).unwrap();
    host.apply(&once()).await.unwrap();
    assert_eq!(host.read("/etc/test-log"), "begin\nclean\nbegin\nend\n");
}

async fn receipt_with(content: &[u8]) -> (Sandbox, Result<Vec<String>, StepError>) {
    let host = Sandbox::new();
    std::fs::create_dir_all(host.at("/var/lib/kubexm")).unwrap();
    std::fs::write(host.at("/var/lib/kubexm/receipt.jsonl"), content).unwrap();
    let receipt = Receipt::new(Arc::clone(&host.host));
    if let Err(error) = receipt.record("after", json!({"n": 2})).await {
        return (host, Err(error));
    }
    let records = Receipt::read(host.host.as_ref()).await;
    (
        host,
        records.map(|records| records.into_iter().map(|record| record.step).collect()),
    )
}

#[tokio::test]
async fn truncated_receipt_line_leaves_other_lines_readable() {
    let first = "{\"step\":\"before\",\"undo\":{\"n\":1}}\n";
    let cut = "{\"step\":\"füße\",\"undo\":{\"kind\":\"removeFile\"}}";
    for length in [0, 1, 9, 11, 20, cut.len() - 1] {
        let content = [first.as_bytes(), &cut.as_bytes()[..length]].concat();
        let (_, records) = receipt_with(&content).await;
        assert_eq!(
            records.unwrap(),
            ["before", "after"],
            "cut off after {length} bytes"
        );
    }
    // The line is complete without its newline: it counts.
    let (_, records) = receipt_with(format!("{first}{cut}").as_bytes()).await;
    assert_eq!(records.unwrap(), ["before", "füße", "after"]);
    // File systems fill blocks with zeros that did not reach the disk.
    let (_, records) = receipt_with(&[first.as_bytes(), &[0; 40]].concat()).await;
    assert_eq!(records.unwrap(), ["before", "after"]);
}

#[tokio::test]
async fn damaged_receipt_is_not_an_empty_one() {
    let (_, records) = receipt_with(b"{\"step\":\"a\",\"undo\":1}\n#!garbage\n").await;
    let error = records.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"
    line 2 of /var/lib/kubexm/receipt.jsonl is damaged: expected value at line 1 column 1
    hint: revert by hand what the line describes, then remove the line
    ");
    let host = Sandbox::new();
    std::fs::create_dir_all(host.at("/var/lib/kubexm/receipt.jsonl")).unwrap();
    assert!(Receipt::read(host.host.as_ref()).await.is_err());
}

#[tokio::test]
async fn reset_reverts_a_step_that_another_version_repeated_after_the_steps_that_depend_on_it() {
    let reverted = Arc::new(Reverted::default());
    let mut host = Sandbox::new();
    host.events = Events::new(Arc::clone(&reverted) as Arc<dyn Listener>);
    let undo = |text: &str| created(text);
    let records = [
        (
            "unit containerd.service",
            undo("earlier stop of containerd"),
        ),
        ("kubelet surroundings", undo("stop of pods")),
        ("unit kubelet.service", undo("earlier stop of kubelet")),
        ("unit containerd.service", undo("stop of containerd")),
        ("unit kubelet.service", undo("stop of kubelet")),
    ];
    for (step, undo) in records {
        let receipt = Receipt::new(Arc::clone(&host.host));
        receipt
            .record(step, undo.to_value().unwrap())
            .await
            .unwrap();
    }
    host.take_back().await;
    insta::assert_snapshot!(reverted.0.lock().unwrap().join("\n"), @"
    Remove /etc/test-stop of kubelet
    Remove /etc/test-earlier stop of kubelet
    Remove /etc/test-stop of pods
    Remove /etc/test-stop of containerd
    Remove /etc/test-earlier stop of containerd
    ");
}

/// The titles of the steps that a reset reverted.
#[derive(Default)]
struct Reverted(Mutex<Vec<String>>);

impl Listener for Reverted {
    fn on(&self, event: &Event) {
        if let Event::Step { step, .. } = event {
            self.0.lock().unwrap().push(step.clone());
        }
    }
}

/// A receipt that asks for a free script or a system path, as one of a hostile host can.
#[tokio::test]
async fn hostile_receipt_is_refused_before_anything_is_reverted() {
    for (record, cause) in [
        (
            json!({"kind": "script", "title": "Stop pods", "script": "touch /etc/pwned", "arguments": []}),
            "is not an undo script of kubexm",
        ),
        (
            json!({"kind": "run", "script": "../../etc/evil.sh", "arguments": []}),
            "is not an undo script of kubexm",
        ),
        (
            json!({"kind": "removeTree", "path": "/var/lib"}),
            "is a path of the operating system",
        ),
        (
            json!({"kind": "removeTree", "path": "relative"}),
            "cannot read the record",
        ),
        (
            json!({"kind": "format", "path": "/dev/sda"}),
            "cannot read the record",
        ),
    ] {
        let host = Sandbox::new();
        host.write("/etc/test-kept", "");
        host.write("/run/netns/site", "theirs");
        let records = [
            created("kept").to_value().unwrap(),
            json!({"kind": "removeTree", "path": "/run/netns"}),
            record,
        ];
        for (at, undo) in records.into_iter().enumerate() {
            let receipt = Receipt::new(Arc::clone(&host.host));
            receipt.record(&format!("step {at}"), undo).await.unwrap();
        }
        let error = reset_host(&host.host, &host.events, &Stop::new()).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(cause) && error.contains("\"step 2\""),
            "{error}"
        );
        assert!(error.contains("\nhint: "), "{error}");
        assert!(host.at("/etc/test-kept").exists(), "{cause}");
        assert!(!host.at("/etc/pwned").exists(), "{cause}");
        assert!(host.at("/var/lib/kubexm/receipt.jsonl").exists(), "{cause}");
        // Without the line, the reset is complete, and network namespaces of others stay.
        let path = host.at("/var/lib/kubexm/receipt.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().take(2).collect();
        std::fs::write(&path, format!("{}\n", lines.join("\n"))).unwrap();
        host.take_back().await;
        assert_eq!(host.read("/run/netns/site"), "theirs");
        assert!(!host.at("/etc/test-kept").exists() && !path.exists());
    }
}

#[tokio::test]
async fn undo_record_is_written_once_and_readable_by_root_only() {
    use std::os::unix::fs::PermissionsExt;
    let host = Sandbox::new();
    for _ in 0..2 {
        let receipt = Receipt::new(Arc::clone(&host.host));
        for n in [1, 2, 1] {
            receipt.record("step", json!({"n": n})).await.unwrap();
        }
    }
    assert_eq!(Receipt::read(host.host.as_ref()).await.unwrap().len(), 2);
    for (path, mode) in [
        ("/var/lib/kubexm", 0o700),
        ("/var/lib/kubexm/receipt.jsonl", 0o600),
    ] {
        let found = std::fs::metadata(host.at(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o777, mode, "{path}");
    }
}
