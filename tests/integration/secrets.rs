//! Secrets are only where they must be.

use std::collections::BTreeMap;

use std::sync::{Arc, Mutex};

use crate::sandbox::{Sandbox, path};
use kubexm_engine::plan::{Journal, Plan, Step, Stop, Task, TaskValue, execute};
use kubexm_engine::steps::{InputFile, ProvideValue, RunScript, RunToCompletion, WriteFile};
use kubexm_host::Limit;
use kubexm_types::event::{Event, Events, Listener};

/// All events.
#[derive(Default)]
struct Book {
    events: Mutex<Vec<Event>>,
}

struct Both(Arc<Journal>, Arc<Book>);

impl Listener for Both {
    fn on(&self, event: &Event) {
        self.0.on(event);
        self.1.events.lock().unwrap().push(event.clone());
    }
}

/// Runs every step that takes a secret, with success and with failure. Returns everything that it reported
/// and stored.
#[tokio::test]
async fn secrets_are_not_in_arguments_events_journal_or_receipt() {
    const SECRET: &str = "pw-0123456789abcdef-SECRET";
    let input = || Some(Arc::new(|| Ok(SECRET.into())) as kubexm_engine::steps::DeferredInput);
    // Every user of a host can read the arguments of processes.
    const LEAKS: &str = "if grep -aqFf \"$INPUT\" /proc/[0-9]*/cmdline 2>/dev/null; then : >/root/leaked; fi; exit \"$1\"";
    let once = |end: &str| RunToCompletion {
        id: format!("once-{end}"),
        title: "Run once".to_owned(),
        command: LEAKS.into(),
        input: input().map(|content| InputFile {
            path: path("/run/kubexm/once.yaml"),
            preview: String::new(),
            content,
        }),
        cleanup: ":".into(),
        arguments: vec![end.to_owned()],
        limit: Limit::CHANGE,
        undo: Vec::new(),
    };
    let script =
        |apply: &'static str| RunScript::new(apply, "Run", "false", apply).input(input().unwrap());
    let produce = |script: &'static str| ProvideValue::<()> {
        title: "Mint".to_owned(),
        script: script.into(),
        arguments: Vec::new(),
        input: input(),
        parse: Box::new(|_| Err("this is not a token".to_owned())),
        value: TaskValue::new("token"),
        files: Vec::new(),
    };
    let host = Sandbox::new();
    let name = host.host.name().clone();
    let mut plan = Plan::default();
    let mut add = |task: &str, step: Step| {
        plan.tasks.push(Task::new("m", task, &name).step(step));
    };
    add("1", WriteFile::secret(path("/etc/secret"), SECRET).into());
    add("2", WriteFile::secret(path("/proc/secret"), SECRET).into());
    add("3", once("0").into());
    add("4", once("7").into());
    add("5", script("cat >/root/got").into());
    add("6", script("cat >/nowhere/got").into());
    add("7", produce("cat").into());
    add("8", produce("cat >/dev/null; exit 1").into());
    let shown = kubexm_engine::plan::show::as_text(&plan).unwrap();
    let files = format!(
        "{:?}",
        plan.tasks
            .iter()
            .flat_map(|t| &t.steps)
            .map(|s| s.files())
            .collect::<Vec<_>>()
    );
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(folder.path()).unwrap());
    let book = Arc::new(Book::default());
    let events = Events::new(Arc::new(Both(Arc::clone(&journal), Arc::clone(&book))));
    let hosts = BTreeMap::from([(name.clone(), Arc::clone(&host.host))]);
    let stop = Stop::new();
    let outcome = execute(plan, &hosts, &events, &stop).await.unwrap();
    assert_eq!(
        (outcome.changed, outcome.failed.len()),
        (3, 5),
        "{outcome:?}"
    );
    assert_eq!(
        host.read("/etc/secret"),
        SECRET,
        "the secret did not go where it belongs"
    );
    assert_eq!(host.read("/root/got"), SECRET);
    assert!(
        !host.at("/root/leaked").exists(),
        "the secret was an argument of a command"
    );
    let reported = serde_json::to_string(&*book.events.lock().unwrap()).unwrap();
    let kept = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
    let receipt = host.read("/var/lib/kubexm/receipt.jsonl");
    assert!(receipt.contains("/etc/secret") && kept.contains("Mint") && reported.contains("Mint"));
    for text in [
        reported,
        kept,
        receipt,
        shown,
        files,
        format!("{outcome:?}"),
    ] {
        assert!(!text.contains("0123456789"), "{text}");
    }
}
