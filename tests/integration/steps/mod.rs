//! The contract of steps: each detects whether it is needed, changes what it reports, detects changes by
//! others, and is reverted without a trace, also after an interruption.

mod cases;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::sandbox::{Sandbox, path};
use async_trait::async_trait;
use cases::{Case, binaries, cases, folders, names};
use kubexm_engine::plan::{
    About, Check, Done, Receipt, Step, StepError, Stop, TaskValue, UndoLog, perform,
};
use kubexm_engine::steps::{
    ConfigReadAtInit, ProvideValue, RunHook, RunHookAlways, RunScript, TrackNewDirs, WaitFor,
    WriteFile,
};
use kubexm_host::{Command, Host, HostError, Limit, Output};
use kubexm_types::event::{Event, Events, Listener};
use kubexm_types::{Digest, HostName, Message, Secret};

#[tokio::test]
async fn every_step_is_applied_idempotent_and_reverted() {
    for Case {
        name,
        step,
        before,
        disturb,
    } in cases()
    {
        let host = Sandbox::new();
        before(&host);
        let original = host.listing();
        assert_ne!(
            host.check(step.as_ref()).await,
            Check::Satisfied,
            "{name}: at first"
        );
        assert_eq!(
            host.listing(),
            original,
            "{name}: a check changed something"
        );
        host.apply(step.as_ref()).await.unwrap();
        assert_eq!(
            host.check(step.as_ref()).await,
            Check::Satisfied,
            "{name}: after apply"
        );
        let wanted = host.listing();
        assert_ne!(wanted, original, "{name}");
        host.apply(step.as_ref()).await.unwrap();
        assert_eq!(
            host.listing(),
            wanted,
            "{name}: a second apply changed something"
        );
        disturb(&host);
        assert_ne!(
            host.check(step.as_ref()).await,
            Check::Satisfied,
            "{name}: after a change by another process"
        );
        host.apply(step.as_ref()).await.unwrap();
        assert_eq!(
            host.check(step.as_ref()).await,
            Check::Satisfied,
            "{name}: repaired"
        );
        let _ = std::fs::remove_file(host.at("/etc/app/other"));
        assert_eq!(host.listing(), wanted, "{name}: repaired to something else");
        host.take_back().await;
        assert_eq!(host.listing(), original, "{name}: taken back");
    }
}

/// A connection to a host that breaks after this number of commands.
struct Breaking {
    host: Arc<dyn Host>,
    left: AtomicUsize,
}

#[async_trait]
impl Host for Breaking {
    fn name(&self) -> &HostName {
        self.host.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let take_one = |left: usize| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one)
            .is_ok()
        {
            return self.host.run(command).await;
        }
        Err(HostError::Unreachable {
            host: self.name().clone(),
            address: "10.0.0.1:22".to_owned(),
            reason: "the connection was cut".into(),
        })
    }
}

#[tokio::test]
async fn interrupted_step_is_completed_or_reverted() {
    for Case {
        name, step, before, ..
    } in cases()
    {
        for commands in 0.. {
            let host = Sandbox::new();
            before(&host);
            let original = host.listing();
            let left = AtomicUsize::new(commands);
            let way: Arc<dyn Host> = Arc::new(Breaking {
                host: Arc::clone(&host.host),
                left,
            });
            let whole = host.apply_on(&way, step.as_ref()).await.is_ok();
            if commands % 2 == 0 {
                host.apply(step.as_ref()).await.unwrap();
                assert_eq!(
                    host.check(step.as_ref()).await,
                    Check::Satisfied,
                    "{name}: {commands}"
                );
            }
            host.take_back().await;
            assert_eq!(
                host.listing(),
                original,
                "{name}: cut off after {commands} commands"
            );
            if whole {
                break;
            }
        }
    }
}

/// The warnings of a run.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Listener for Warnings {
    fn on(&self, event: &Event) {
        if let Event::Warning { message, .. } = event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

/// A receipt that cannot be written.
struct NoReceipt;

#[async_trait]
impl UndoLog for NoReceipt {
    async fn record(&self, _: &str, _: serde_json::Value) -> Result<(), StepError> {
        Err(StepError::Other("the disk is full".into()))
    }
}

#[tokio::test]
async fn undo_record_is_written_before_the_change() {
    for Case {
        name, step, before, ..
    } in cases()
    {
        let host = Sandbox::new();
        before(&host);
        let original = host.listing();
        let result = step.apply(&host.context(&host.host, &NoReceipt)).await;
        assert!(
            result.unwrap_err().to_string().contains("disk is full"),
            "{name}"
        );
        assert_eq!(host.listing(), original, "{name}");
    }
}

#[tokio::test]
async fn lines_around_a_block_are_unchanged() {
    let host = Sandbox::new();
    host.write("/etc/hosts", "first\n");
    host.apply(&names()).await.unwrap();
    let text = host.read("/etc/hosts");
    assert_eq!(
        text,
        "first\n# kubexm begin\n10.0.0.1 node1\n10.0.0.2 node2\n# kubexm end\n"
    );
    // Another process adds lines, and an editor deletes the end marker.
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(host.at("/etc/hosts"))
        .unwrap();
    file.write_all(b"theirs\n").unwrap();
    host.take_back().await;
    assert_eq!(host.read("/etc/hosts"), "first\ntheirs\n");
    host.write("/etc/hosts", "first\n# kubexm begin\ntheirs\n");
    host.apply(&names()).await.unwrap();
    assert!(host.read("/etc/hosts").contains("theirs\n"));
    host.take_back().await;
    assert!(host.read("/etc/hosts").contains("theirs\n"));
}

#[tokio::test]
async fn reset_deletes_own_directories_and_keeps_others() {
    let host = Sandbox::new();
    host.write("/srv/theirs/data", "theirs");
    symlink("/mnt/not-mounted", host.at("/srv/unmounted")).unwrap();
    let original = host.listing();
    assert_ne!(host.check(&folders()).await, Check::Satisfied);
    host.apply(&folders()).await.unwrap();
    assert_eq!(host.check(&folders()).await, Check::Satisfied);
    assert!(host.at("/srv/own/.kubexm-owner").exists());
    host.write("/srv/own/docker/registry/v2/blobs/data", "ours");
    symlink("/etc", host.at("/srv/own/docker/registry/v2/link")).unwrap();
    // A second run must not mistake the step's own result for the original state, nor the reverse.
    host.apply(&folders()).await.unwrap();
    host.take_back().await;
    assert_eq!(host.listing(), original);
}

#[tokio::test]
async fn reset_removes_empty_directories_above_those_of_the_cluster() {
    let host = Sandbox::new();
    host.write("/srv/theirs", "");
    let original = host.listing();
    let paths = ["/srv/a/b/data", "/srv/a/b/data/member", "/srv/c/data"];
    let dirs = || TrackNewDirs::new("data", "data folders", &paths).unwrap();
    host.apply(&dirs()).await.unwrap();
    // A second run must not mistake the step's own result for the original state.
    host.apply(&dirs()).await.unwrap();
    host.write("/srv/c/notes", "theirs");
    host.take_back().await;
    assert_eq!(host.read("/srv/c/notes"), "theirs");
    std::fs::remove_dir_all(host.at("/srv/c")).unwrap();
    assert_eq!(host.listing(), original);
}

#[tokio::test]
async fn reset_removes_a_directory_whose_setting_changed_after_the_first_install() {
    let host = Sandbox::new();
    host.write("/srv/theirs", "");
    let original = host.listing();
    let dirs = |path: &str| TrackNewDirs::new("data", "data folders", &[path]).unwrap();
    for path in ["/srv/former", "/srv/later"] {
        assert_ne!(host.check(&dirs(path)).await, Check::Satisfied);
        host.apply(&dirs(path)).await.unwrap();
        assert_eq!(host.check(&dirs(path)).await, Check::Satisfied);
    }
    host.write("/srv/later/docker/registry/v2/blobs/data", "ours");
    host.take_back().await;
    assert_eq!(host.listing(), original);
}

#[tokio::test]
async fn reset_reports_and_keeps_what_no_program_of_the_cluster_created() {
    let warnings = Arc::new(Warnings::default());
    let mut host = Sandbox::new();
    host.events = Events::new(Arc::clone(&warnings) as Arc<dyn Listener>);
    host.apply(&folders()).await.unwrap();
    host.write("/srv/own/docker/registry/v2/blobs/data", "ours");
    host.write("/srv/own/notes", "theirs");
    // Another directory took the place of the one that kubexm created.
    std::fs::remove_dir_all(host.at("/srv/theirs")).unwrap();
    host.write("/srv/theirs/member/wal/0.wal", "theirs");
    host.take_back().await;
    assert!(!host.at("/srv/own/docker").exists());
    assert_eq!(host.read("/srv/own/notes"), "theirs");
    assert_eq!(host.read("/srv/theirs/member/wal/0.wal"), "theirs");
    insta::assert_snapshot!(warnings.0.lock().unwrap().join("\n"), @"
    node1: /srv/theirs stays: kubexm did not create it, or its file .kubexm-owner is missing
    node1: /srv/own/notes stays: no program of the cluster creates it
    ");
}

#[tokio::test]
async fn directory_at_the_path_of_a_file_is_refused() {
    let host = Sandbox::new();
    host.write("/etc/app/conf/theirs", "x");
    let original = host.listing();
    let error = host
        .apply(&WriteFile::new(path("/etc/app/conf"), "a"))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"
    read /etc/app/conf failed (exit status 1):
    /etc/app/conf is a directory, but kubexm must write a file there
    hint: move it away
    ");
    assert_eq!(host.listing(), original);
}

#[tokio::test]
async fn wrong_content_never_replaces_the_file() {
    let host = Sandbox::new();
    let mut step = binaries();
    step.payloads[1].digest = Digest::of(b"something else");
    let error = host.apply(&step).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"
    Install tools 1.0 failed (exit status 1):
    the content of /opt/tools/bin/noise arrived with the digest 8cfcba83dcfc81a193bb4e52fd3161efb513906f52cbbe2328fac5f1a79c2b6e instead of f41f3fa625ff120ddca7ef456bf66371ecea23c129f4e4c32367101edb516cf8
    ");
    assert!(!host.at("/opt/tools/bin/noise").exists());
    host.take_back().await;
    assert!(!host.at("/opt").exists());
}

#[tokio::test]
async fn value_is_provided_again_in_every_run() {
    let host = Sandbox::new();
    let value = TaskValue::new("token");
    let step = |value: &TaskValue<u32>| ProvideValue {
        title: "Mint".to_owned(),
        script: "cat; echo 2".into(),
        arguments: Vec::new(),
        input: Some(Arc::new(|| Ok(b"4".to_vec()))),
        parse: Box::new(|text| text.trim().parse().map_err(|_| "no number".into())),
        value: value.clone(),
        only_reads: false,
        files: Vec::new(),
    };
    let receipt = Receipt::new(Arc::clone(&host.host));
    let context = host.context(&host.host, &receipt);
    let action = Step::from(step(&value));
    assert_eq!(action.provides(), ["token"]);
    let done = perform(&action, &context, &Stop::new()).await;
    assert_eq!(done.unwrap(), Done::Ran);
    assert_eq!(value.get(), Some(&42));
    let broken = ProvideValue {
        script: "echo SECRET-TOKEN".into(),
        ..step(&TaskValue::new("token"))
    };
    let error = perform(&broken.into(), &context, &Stop::new())
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(error, "Mint: no number");
}

#[tokio::test]
async fn wait_reports_the_condition_and_a_diagnosis() {
    let host = Sandbox::new();
    let wait = |seconds| WaitFor {
        title: "Wait until it is there".to_owned(),
        script: "[ -e \"$1\" ] || { echo \"$1 is missing\"; exit 1; }".into(),
        arguments: vec!["/root/ready".to_owned()],
        at_most: Duration::from_secs(seconds),
        diagnosis: "echo look at the log".into(),
        about: About::Other,
    };
    let receipt = Receipt::new(Arc::clone(&host.host));
    let context = host.context(&host.host, &receipt);
    let stop = Stop::new();
    let error = perform(&wait(1).into(), &context, &stop)
        .await
        .unwrap_err()
        .to_string();
    insta::assert_snapshot!(error, @"
    Wait until it is there: the condition does not hold after 1 seconds: /root/ready is missing
    look at the log
    hint: the lines above are what the host reports; remove the cause, then run the same command again: it continues with this condition
    ");
    let undiagnosed = WaitFor {
        diagnosis: "exec kill -s KILL 0".into(),
        ..wait(1)
    };
    let error = perform(&undiagnosed.into(), &context, &stop)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("1 seconds: /root/ready is missing"),
        "{error}"
    );
    let appear = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        host.write("/root/ready", "");
    };
    let step = wait(3600).into();
    let both = async { tokio::join!(perform(&step, &context, &stop), appear) };
    let in_time = tokio::time::timeout(Duration::from_secs(120), both).await;
    let (done, ()) = in_time.expect("it waits for its limit, not for the condition");
    assert_eq!(done.unwrap(), Done::Met);
    // An interrupt ends the wait before its limit.
    std::fs::remove_file(host.at("/root/ready")).unwrap();
    stop.cancel();
    let done = perform(&wait(3600).into(), &context, &stop).await;
    assert_eq!(done.unwrap(), Done::Stopped);
}

/// A check that did not get an answer does not know whether a change is needed.
#[tokio::test]
async fn check_without_an_answer_fails_and_changes_nothing() {
    let host = Sandbox::new();
    let receipt = Receipt::new(Arc::clone(&host.host));
    let context = host.context(&host.host, &receipt);
    let step = |status: i32| {
        let check = "echo no answer >&2; exit \"$1\"";
        RunScript::new("images", "Pull images", check, ": >/root/pulled")
            .arguments([status.to_string()])
    };
    let failed = perform(&step(75).into(), &context, &Stop::new()).await;
    let error = failed.unwrap_err().to_string();
    assert!(
        error.starts_with("check: Pull images failed (exit status 75):\nno answer"),
        "{error}"
    );
    assert!(!host.at("/root/pulled").exists());
    let done = perform(&step(1).into(), &context, &Stop::new()).await;
    assert_eq!(done.unwrap(), Done::Changed);
    assert!(host.at("/root/pulled").exists());
}

#[tokio::test]
async fn file_that_no_program_reads_again_is_reported() {
    let warnings = Arc::new(Warnings::default());
    let mut host = Sandbox::new();
    host.events = Events::new(Arc::clone(&warnings) as Arc<dyn Listener>);
    let file = |text: &str| ConfigReadAtInit {
        file: WriteFile::new(path("/etc/app/init.yaml"), text),
        marker: "init".to_owned(),
        advice: "Ask Anna.".to_owned(),
    };
    // It is written before it is read, and written again before it is read again.
    for text in ["one", "two"] {
        assert_ne!(host.check(&file(text)).await, Check::Satisfied);
        host.apply(&file(text)).await.unwrap();
    }
    host.write("/var/lib/kubexm/done/init", "");
    assert_eq!(host.check(&file("two")).await, Check::Satisfied);
    // Every run reports a later change, and the file remains what the command has read.
    for _ in 0..2 {
        let Check::Reported(Message { text, .. }) = host.check(&file("three")).await else {
            panic!("the change is not reported");
        };
        assert!(
            text.starts_with("/etc/app/init.yaml is not applied"),
            "{text}"
        );
        assert!(text.ends_with("Ask Anna."), "{text}");
    }
    assert_eq!(host.read("/etc/app/init.yaml"), "two");
}

fn hook(script: &str, seconds: u64) -> RunHook {
    RunHook {
        name: "site".parse().unwrap(),
        title: "Run the hook 'site' before runtime".to_owned(),
        script: Secret(script.to_owned()),
        cluster: "demo".to_owned(),
        limit: Limit::new(Duration::from_secs(seconds), "this hook"),
    }
}

#[tokio::test]
async fn hook_runs_until_its_content_has_succeeded() {
    let host = Sandbox::new();
    let failing = hook("echo ran >>/etc/ran; echo 'no disk' >&2; exit 3", 60);
    for _ in 0..2 {
        assert_eq!(
            host.check(&failing).await,
            Check::needed("has not run on this host")
        );
        let error = host.apply(&failing).await.unwrap_err().to_string();
        let expected =
            "the hook 'site' on node1 failed with exit status 3; it printed last:\nno disk\nhint: ";
        assert!(error.starts_with(expected), "{error}");
    }
    let first = hook("echo ran >>/etc/ran", 60);
    host.apply(&first).await.unwrap();
    assert_eq!(host.check(&first).await, Check::Satisfied);
    assert_eq!(host.read("/etc/ran"), "ran\n".repeat(3));
    let other = hook("echo other >>/etc/ran", 60);
    assert_ne!(host.check(&other).await, Check::Satisfied);
    host.apply(&other).await.unwrap();
    assert_ne!(host.check(&first).await, Check::Satisfied);
    // A hook that runs always has no record.
    let step = Step::from(RunHookAlways(hook("echo always >>/etc/ran", 60)));
    for _ in 0..2 {
        let receipt = Receipt::new(Arc::clone(&host.host));
        let done = perform(&step, &host.context(&host.host, &receipt), &Stop::new()).await;
        assert_eq!(done.unwrap(), Done::Ran);
    }
    assert_eq!(host.check(&other).await, Check::Satisfied);
    host.take_back().await;
    assert!(!host.at("/var/lib/kubexm").exists());
}

#[tokio::test]
async fn hook_ends_at_its_time_limit_with_its_children() {
    let host = Sandbox::new();
    // The time limit is long enough for a slow machine to start the script.
    let slow = hook("echo waiting; sleep 300; : >/etc/ended", 5);
    let error = host.apply(&slow).await.unwrap_err().to_string();
    let expected = "the hook 'site' on node1 was ended after its time limit of 5 seconds; it printed last:\nwaiting\n";
    assert!(error.starts_with(expected), "{error}");
    assert!(
        error.contains("\nhint: set timeoutSeconds of the hook"),
        "{error}"
    );
    assert!(!host.at("/run/kubexm/hook-site").exists());
    // The lock is free.
    host.apply(&hook("true", 60)).await.unwrap();
    assert!(!host.at("/etc/ended").exists());
}
