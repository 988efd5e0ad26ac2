//! Secrets are only where they must be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;

use crate::sandbox::{Sandbox, path};
use kubexm_engine::plan::{Check, Journal, Plan, Step, Stop, Task, TaskValue, execute};
use kubexm_engine::steps::{
    InputFile, ProvideValue, RunHook, RunHookAlways, RunScript, RunToCompletion, WriteFile,
};
use kubexm_host::{Command, Limit};
use kubexm_types::event::{Event, Events, Listener};
use kubexm_types::{Digest, Secret};

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
        waits_for: "tests",
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
        parse: Box::new(|_| Err("this is not a token".into())),
        value: TaskValue::new("token"),
        only_reads: false,
        files: Vec::new(),
    };
    let hook = |end: &str| RunHook {
        name: format!("site-{end}").parse().unwrap(),
        title: "Run a hook".to_owned(),
        script: Secret(format!(
            "# {SECRET}\nsed -n 's/^# //p' \"$0\" >/root/pattern\nif grep -aqFf /root/pattern /proc/[0-9]*/cmdline \
             2>/dev/null; then : >/root/leaked; fi\nexit {end}\n"
        )),
        cluster: "demo".to_owned(),
        limit: Limit::CHANGE,
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
    add("9", hook("0").into());
    add("10", hook("7").into());
    add("11", RunHookAlways(hook("0")).into());
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
        (4, 6),
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

/// Where a text is found: command lines that were seen while steps ran, and files of a host.
struct Search {
    stop: Arc<AtomicBool>,
    looking: std::thread::JoinHandle<BTreeSet<String>>,
}

impl Search {
    /// Reads the command lines of all processes until [`Search::found`].
    fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let looking = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !ended.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                    let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                    seen.insert(String::from_utf8_lossy(&line).into_owned());
                }
            }
            seen
        });
        Self { stop, looking }
    }

    /// Returns the places of a secret or its digest, in the forms that programs print.
    fn found(self, host: &Sandbox, secrets: &[&str], at_home: &[&str]) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        let lines = self.looking.join().unwrap();
        let forms = |secret: &&str| {
            let digest = Digest::of(secret.as_bytes());
            let digest64 = base64::engine::general_purpose::STANDARD.encode(digest.bytes());
            let secret64 = base64::engine::general_purpose::STANDARD.encode(secret);
            [(*secret).to_owned(), digest.hex(), digest64, secret64]
        };
        let forms: Vec<String> = secrets.iter().flat_map(forms).collect();
        let has = |text: &str| forms.iter().any(|form| text.contains(form));
        let mut places = BTreeSet::new();
        if lines.iter().any(|line| has(line)) {
            places.insert("a command line".to_owned());
        }
        let mut folders = vec![host.at("/")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                let path = entry.path();
                let place = path.strip_prefix(host.at("/")).unwrap().display();
                let place = format!("/{place}");
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() && !at_home.contains(&&*place) {
                    let content = std::fs::read(&path).unwrap();
                    if has(&String::from_utf8_lossy(&content)) {
                        places.insert(place);
                    }
                }
            }
        }
        places
    }
}

#[tokio::test]
async fn secrets_and_their_digests_are_only_in_their_files() {
    let host = Sandbox::new();
    let file = |secret: &str| WriteFile::secret(path("/etc/app/login"), secret);
    let (old, new) = ("pw-first-0123456789", "pw-second-0123456789");
    let search = Search::begin();
    for secret in [old, new] {
        host.apply(&file(secret)).await.unwrap();
        assert_eq!(host.check(&file(secret)).await, Check::Satisfied);
    }
    // A file of this kind that another user changed, and one that cannot be written.
    host.write("/etc/app/login", "of another program");
    assert_ne!(host.check(&file(new)).await, Check::Satisfied);
    host.apply(&file(new)).await.unwrap();
    let refused = WriteFile::secret(path("/proc/login"), new);
    assert!(host.apply(&refused).await.is_err());
    let found = search.found(&host, &[old, new], &["/etc/app/login"]);
    assert_eq!(found, BTreeSet::new());
    assert_eq!(host.read("/etc/app/login"), new);
    // What is planted is found, so that the search cannot be blind.
    let search = Search::begin();
    let digest = Digest::of(new.as_bytes()).hex();
    let planted = format!("echo {digest} >/root/planted; sleep 1");
    host.host
        .run(Command::script(planted, [""; 0]))
        .await
        .unwrap();
    let found = search.found(&host, &[old, new], &["/etc/app/login"]);
    let expected = ["/root/planted", "a command line"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected));
}
