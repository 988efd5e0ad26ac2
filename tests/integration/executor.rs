//! Plans on simulated hosts: the order of tasks, skipped tasks with reasons, and events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::plan::{AT_ONCE, SkipReason};
use kubexm_engine::plan::{
    Action, Check, Condition, Describe, Ensure, Outcome, Plan, Step, StepContext, StepError, Stop,
    Task, Wait, execute,
};
use kubexm_host::{Command, Host, HostError, Output};
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, Listener, StepState};
use serde_json::json;

/// A simulated host: every command succeeds and is counted.
struct Counting {
    name: HostName,
    commands: AtomicUsize,
}

#[async_trait]
impl Host for Counting {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, _: Command) -> Result<Output, HostError> {
        self.commands.fetch_add(1, Ordering::SeqCst);
        Ok(Output {
            status: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            log: None,
        })
    }
}

/// The results of a run.
#[derive(Default)]
struct Book {
    order: Mutex<Vec<String>>,
    events: Mutex<Vec<Event>>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Listener for Book {
    fn on(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
    }
}

#[derive(Clone, Copy)]
enum Act {
    /// An action.
    Run,
    /// A condition that holds at the second poll.
    Meet,
    Change,
    Nothing,
    Fail,
    Panic,
    Stop,
    /// The connection breaks.
    Lose,
    /// Takes an hour.
    Slow,
}

/// A simulated step.
struct Note {
    name: String,
    act: Act,
    book: Arc<Book>,
    stop: Stop,
}

impl Describe for Note {
    fn id(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> String {
        format!("Do {}", self.name)
    }
}

impl From<Note> for Step {
    fn from(note: Note) -> Self {
        match note.act {
            Act::Run => Self::Action(Box::new(note)),
            Act::Meet => Self::Wait(Box::new(note)),
            _ => Self::Ensure(Box::new(note)),
        }
    }
}

#[async_trait]
impl Action for Note {
    async fn run(&self, _: &dyn Host) -> Result<(), StepError> {
        self.book.order.lock().unwrap().push(self.name.clone());
        Ok(())
    }
}

#[async_trait]
impl Wait for Note {
    fn limit(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn poll(&self, _: &dyn Host) -> Result<Condition, StepError> {
        let mut order = self.book.order.lock().unwrap();
        let again = order.contains(&self.name);
        order.push(self.name.clone());
        Ok(if again {
            Condition::Met
        } else {
            Condition::Unmet("it is the first poll".to_owned())
        })
    }

    async fn diagnose(&self, _: &dyn Host) -> Result<String, StepError> {
        Ok(String::new())
    }
}

#[async_trait]
impl Ensure for Note {
    async fn check(&self, _: &dyn Host) -> Result<Check, StepError> {
        Ok(match self.act {
            Act::Nothing => Check::Satisfied,
            _ => Check::needed("it is a test"),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        context.undo.record(&self.name, json!(self.name)).await?;
        self.book.order.lock().unwrap().push(self.name.clone());
        let running = self.book.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.book.most.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.book.running.fetch_sub(1, Ordering::SeqCst);
        match self.act {
            Act::Lose => Err(StepError::Host(HostError::Unreachable {
                host: context.host.name().clone(),
                address: "192.0.2.12:22".to_owned(),
                reason: "no answer for 40 seconds".into(),
            })),
            Act::Slow => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(())
            }
            Act::Fail => Err(StepError::Other("the disk is full".into())),
            Act::Panic => panic!("a defect"),
            Act::Stop => {
                self.stop.cancel();
                Ok(())
            }
            Act::Run | Act::Meet | Act::Change | Act::Nothing => Ok(()),
        }
    }
}

#[derive(Default)]
struct Stage {
    book: Arc<Book>,
    stop: Stop,
    hosts: BTreeMap<HostName, Arc<Counting>>,
    plan: Plan,
}

impl Stage {
    /// Adds a task with a step for each act. `after` names tasks as `name@host`.
    fn task(&mut self, name: &str, host: &str, acts: &[Act], after: &[&str]) -> &mut Task {
        let host: HostName = host.parse().unwrap();
        self.hosts.entry(host.clone()).or_insert_with(|| {
            Arc::new(Counting {
                name: host.clone(),
                commands: AtomicUsize::new(0),
            })
        });
        let ids = after
            .iter()
            .map(|id| kubexm_engine::plan::TaskId(format!("m/{id}")));
        let mut task = Task::new("m", name, &host).after(ids);
        for (at, act) in acts.iter().enumerate() {
            task = task.step(Note {
                name: format!("{name}{at}"),
                act: *act,
                book: Arc::clone(&self.book),
                stop: self.stop.clone(),
            });
        }
        self.plan.tasks.push(task);
        self.plan.tasks.last_mut().unwrap()
    }

    async fn run(&mut self) -> Result<Outcome, String> {
        let hosts = self.hosts.iter();
        let hosts = hosts
            .map(|(name, host)| (name.clone(), Arc::clone(host) as Arc<dyn Host>))
            .collect();
        let events = Events::new(Arc::clone(&self.book) as Arc<dyn Listener>);
        let plan = std::mem::take(&mut self.plan);
        let outcome = execute(plan, &hosts, &events, &self.stop).await;
        outcome.map_err(|error| error.to_string())
    }

    fn order(&self) -> Vec<String> {
        self.book.order.lock().unwrap().clone()
    }

    fn states(&self) -> Vec<StepState> {
        let events = self.book.events.lock().unwrap();
        let states = events.iter().filter_map(|event| match event {
            Event::Step { state, .. } => Some(state.clone()),
            _ => None,
        });
        states.collect()
    }

    fn commands(&self, host: &str) -> usize {
        self.hosts[&host.parse().unwrap()]
            .commands
            .load(Ordering::SeqCst)
    }
}

fn skipped(outcome: &Outcome) -> Vec<String> {
    outcome
        .skipped
        .iter()
        .map(|(id, why)| format!("{id}: {why}"))
        .collect()
}

#[tokio::test]
async fn task_order_follows_values_and_names_across_hosts() {
    let mut stage = Stage::default();
    stage.task("last", "a", &[Act::Change], &["join@b"]);
    stage
        .task("join", "b", &[Act::Change], &[])
        .requires
        .push("token");
    stage
        .task("init", "a", &[Act::Change, Act::Change], &[])
        .provides
        .push("token");
    let outcome = stage.run().await.unwrap();
    assert_eq!(stage.order(), ["init0", "init1", "join0", "last0"]);
    assert_eq!((outcome.changed, outcome.unchanged), (4, 0));
    assert!(outcome.failed.is_empty() && outcome.skipped.is_empty() && !outcome.interrupted);
}

#[tokio::test]
async fn invalid_plan_changes_nothing() {
    type Build = fn(&mut Stage);
    let broken: [Build; 3] = [
        |stage| drop(stage.task("a", "h", &[Act::Change], &["none@h"]).id()),
        |stage| {
            stage
                .task("a", "h", &[Act::Change], &[])
                .requires
                .push("token")
        },
        |stage| {
            stage.task("a", "h", &[Act::Change], &["c@h"]);
            stage.task("b", "h", &[Act::Change], &["a@h"]);
            stage.task("c", "h", &[Act::Change], &["b@h"]);
        },
    ];
    let mut all = String::new();
    for build in broken {
        let mut stage = Stage::default();
        stage.task("fine", "h", &[Act::Change], &[]);
        build(&mut stage);
        let error = stage.run().await.unwrap_err();
        all += &format!("{error}\n");
        assert!(stage.order().is_empty() && stage.commands("h") == 0);
    }
    insta::assert_snapshot!(all, @"
    invalid plan: m/a@h waits for m/none@h, which is not in the plan
    invalid plan: m/a@h requires 'token', which no task provides
    invalid plan: m/a@h waits for itself
    ");
}

#[tokio::test]
async fn failed_host_stops_only_dependent_tasks() {
    let mut stage = Stage::default();
    stage.task("init", "a", &[Act::Fail, Act::Change], &[]);
    stage.task("other", "b", &[Act::Change], &[]);
    stage.task("join", "b", &[Act::Change], &["init@a"]);
    stage.task("after", "b", &[Act::Change], &["other@b"]);
    stage.task("wait", "c", &[Act::Change], &["join@b"]);
    let outcome = stage.run().await.unwrap();
    let mut order = stage.order();
    order.sort();
    assert_eq!(order, ["after0", "init0", "other0"]);
    let (task, step, error) = &outcome.failed[0];
    assert_eq!(
        format!("{task}: {step}: {error}"),
        "m/init@a: Do init0: the disk is full"
    );
    assert_eq!(outcome.failed.len(), 1);
    let expected = [
        "m/join@b: it requires m/init@a, which was not done",
        "m/wait@c: it requires m/init@a, which was not done",
    ];
    assert_eq!(skipped(&outcome), expected);
    assert!(!outcome.interrupted);
    let events = stage.book.events.lock().unwrap();
    for reason in expected {
        let reported =
            |event: &Event| matches!(event, Event::Note { message } if message.contains(reason));
        assert!(events.iter().any(reported), "not reported: {reason}");
    }
}

#[tokio::test]
async fn task_that_panics_fails() {
    let mut stage = Stage::default();
    stage.task("init", "a", &[Act::Panic], &[]);
    stage.task("join", "b", &[Act::Change], &["init@a"]);
    let outcome = stage.run().await.unwrap();
    assert_eq!(outcome.failed.len(), 1);
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(outcome.failed[0].2, @r#"the task panicked, which is a defect of kubexm: task [number] panicked with message "a defect""#);
    assert_eq!(
        skipped(&outcome),
        ["m/join@b: it requires m/init@a, which was not done"]
    );
}

#[tokio::test]
async fn unreachable_host_fails_its_tasks() {
    let mut stage = Stage::default();
    stage.task("a", "here", &[Act::Change], &[]);
    stage.task("b", "gone", &[Act::Change], &[]);
    stage.hosts.remove(&"gone".parse().unwrap());
    let outcome = stage.run().await.unwrap();
    assert_eq!(
        outcome.failed[0].2.to_string(),
        "there is no connection to gone"
    );
    assert_eq!(outcome.changed, 1);
}

#[tokio::test]
async fn interrupt_completes_the_running_step_and_starts_no_other() {
    let mut stage = Stage::default();
    stage.task("first", "a", &[Act::Stop, Act::Change], &[]);
    stage.task("second", "a", &[Act::Change], &["first@a"]);
    let outcome = stage.run().await.unwrap();
    assert_eq!(stage.order(), ["first0"]);
    assert!(outcome.interrupted && outcome.failed.is_empty());
    assert_eq!(outcome.changed, 1);
    assert_eq!(
        outcome.skipped[0].1,
        SkipReason::StoppedBefore("Do first1".to_owned())
    );
    assert_eq!(outcome.skipped[1].1, SkipReason::Stopped);
}

// Time is paused. It advances only when every task waits, so that tasks overlap as much as they can.
#[tokio::test(start_paused = true)]
async fn one_task_per_host_and_at_most_so_many_hosts_run_at_once() {
    let mut stage = Stage::default();
    for n in 0..3 {
        stage.task(&format!("t{n}"), "a", &[Act::Change], &[]);
    }
    stage.run().await.unwrap();
    assert_eq!(stage.book.most.load(Ordering::SeqCst), 1);
    let mut stage = Stage::default();
    for n in 0..AT_ONCE + 9 {
        stage.task("t", &format!("node{n}"), &[Act::Change], &[]);
    }
    assert_eq!(stage.run().await.unwrap().changed, AT_ONCE + 9);
    assert_eq!(stage.book.most.load(Ordering::SeqCst), AT_ONCE);
}

#[tokio::test]
async fn run_without_changes_writes_nothing() {
    let mut stage = Stage::default();
    stage.task("a", "h", &[Act::Nothing, Act::Nothing], &[]);
    let outcome = stage.run().await.unwrap();
    assert_eq!((outcome.changed, outcome.unchanged), (0, 2));
    assert_eq!(stage.commands("h"), 0, "not even the receipt is read");
    let (started, same) = (StepState::Started, StepState::Unchanged);
    assert_eq!(
        stage.states(),
        [started.clone(), same.clone(), started, same]
    );
}

#[tokio::test]
async fn each_step_kind_reports_its_result() {
    let mut stage = Stage::default();
    let acts = [Act::Run, Act::Change, Act::Nothing, Act::Meet];
    stage.task("a", "h", &acts, &[]);
    let outcome = stage.run().await.unwrap();
    assert_eq!((outcome.changed, outcome.unchanged, outcome.ran), (1, 1, 1));
    assert_eq!(stage.order(), ["a0", "a1", "a3", "a3"]);
    let ends: Vec<StepState> = stage.states().into_iter().skip(1).step_by(2).collect();
    let (ran, changed) = (StepState::Ran, StepState::Changed);
    let (unchanged, met) = (StepState::Unchanged, StepState::Met);
    assert_eq!(ends, [ran, changed, unchanged, met]);
}

// Time is paused, so the slow step takes no time.
#[tokio::test(start_paused = true)]
async fn lost_host_stops_only_its_tasks_and_those_that_depend_on_them() {
    let mut stage = Stage::default();
    stage.task("join", "gone", &[Act::Lose, Act::Change], &[]);
    stage.task("label", "gone", &[Act::Change], &[]);
    stage.task("slow", "here", &[Act::Slow, Act::Change], &[]);
    stage.task("after", "here", &[Act::Change], &["slow@here"]);
    stage.task("ready", "here", &[Act::Change], &["join@gone"]);
    let outcome = stage.run().await.unwrap();
    assert_eq!(stage.order(), ["join0", "slow0", "slow1", "after0"]);
    let failed: Vec<_> = outcome
        .failed
        .iter()
        .map(|(id, _, _)| id.to_string())
        .collect();
    assert_eq!(failed, ["m/join@gone"]);
    let expected = [
        "m/label@gone: its host does not answer any more",
        "m/ready@here: it requires m/join@gone, which was not done",
    ];
    assert_eq!(skipped(&outcome), expected);
}

#[tokio::test(start_paused = true)]
async fn step_without_progress_is_named_once_in_30_seconds() {
    let mut stage = Stage::default();
    stage.task("slow", "here", &[Act::Slow], &[]);
    stage.task("quick", "there", &[Act::Change, Act::Change], &[]);
    stage.run().await.unwrap();
    let events = stage.book.events.lock().unwrap();
    let waits = events.iter().filter_map(|event| match event {
        Event::Waiting {
            host,
            what,
            elapsed,
            ..
        } => Some((host.clone()?.to_string(), what.clone(), elapsed.as_secs())),
        _ => None,
    });
    let waits: Vec<_> = waits.collect();
    let expected: Vec<_> = (1..=120)
        .map(|nth| ("here".to_owned(), "Do slow0".to_owned(), nth * 30))
        .collect();
    assert_eq!(waits, expected);
}
