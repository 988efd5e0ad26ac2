//! What a plan would change on the hosts as they are now (`kubexm plan --diff`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use serde::{Serialize, Serializer};

use super::executor::AT_ONCE;
use super::graph::{Graph, InvalidPlan};
use super::step::{Check, Step, StepError};
use super::task::{Plan, Task, TaskId};
use kubexm_host::Host;
use kubexm_types::message::as_text;
use kubexm_types::{HostName, Message};

/// The checks of all [`Ensure`](Step::Ensure) steps of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDiff {
    /// The hosts, in the order of the plan.
    pub hosts: Vec<HostDiff>,
}

impl PlanDiff {
    /// Returns whether an install would change a host, as far as the checks show.
    pub fn has_changes(&self) -> bool {
        let differences = self.hosts.iter().flat_map(|host| &host.differences);
        let mut reasons = differences.map(|difference| &difference.reason);
        reasons.any(|reason| matches!(reason, Reason::Needed(_) | Reason::Failed(_)))
    }

    /// Returns the errors of the hosts whose checks did not all run.
    pub fn unreachable(&self) -> impl Iterator<Item = &Lost> {
        let hosts = self.hosts.iter();
        hosts.filter_map(|host| host.unreachable.as_ref())
    }
}

impl fmt::Display for PlanDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hosts.iter().try_for_each(|host| host.fmt(f))
    }
}

/// The checks of all [`Ensure`](Step::Ensure) steps of a plan on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostDiff {
    pub host: HostName,
    /// The number of steps that found the desired state.
    pub unchanged: usize,
    /// The steps that would run, or whose check has no result, in the order of the plan.
    pub differences: Vec<Difference>,
    /// The number of actions. They have no check, and every run of the plan contains them.
    pub actions: usize,
    /// The error that ended the checks of this host; `None` if all checks ran.
    pub unreachable: Option<Lost>,
}

/// Why the checks of a host ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub host: HostName,
    pub cause: Message,
}

impl From<&Lost> for Message {
    fn from(lost: &Lost) -> Self {
        lost.cause.clone().within(&lost.host)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Message::from(self).as_item().fmt(f)
    }
}

impl Serialize for Lost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A step that did not find the desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    pub task: TaskId,
    /// The name of the step within the host.
    #[serde(skip)]
    pub id: String,
    /// One line for the user.
    pub step: String,
    pub reason: Reason,
}

/// Why a step is in the list of differences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The host must change; the text is the check's reason.
    Needed(String),
    /// The check requires a value that these tasks provide while the plan runs.
    DependsOn(Vec<TaskId>),
    /// The check requires a value that could not be read: the host has it, and the text is the task and the error, or this
    /// machine has it, and the text is the cause.
    #[serde(serialize_with = "as_text")]
    Unread(Message),
    /// The check failed.
    #[serde(serialize_with = "as_text")]
    Failed(Message),
    /// The host keeps its state; the text states what the user must do.
    #[serde(serialize_with = "as_text")]
    Reported(Message),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needed(reason) => f.write_str(reason),
            Self::DependsOn(tasks) => {
                let tasks: Vec<String> = tasks.iter().map(ToString::to_string).collect();
                write!(f, "depends on task {}", tasks.join(", "))
            }
            Self::Unread(error) => write!(f, "not compared: {error}"),
            Self::Failed(error) => write!(f, "cannot be checked: {error}"),
            Self::Reported(text) => write!(f, "not applied: {text}"),
        }
    }
}

impl HostDiff {
    fn lose(&mut self, cause: Message) {
        let host = self.host.clone();
        self.unreachable = Some(Lost { host, cause });
    }
}

impl fmt::Display for HostDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.differences.len();
        let (unchanged, actions) = (self.unchanged, self.actions);
        writeln!(
            f,
            "{}: {count} steps differ, {unchanged} found the desired state, {actions} actions run in every install",
            self.host
        )?;
        for Difference {
            task, step, reason, ..
        } in &self.differences
        {
            let reason = reason.to_string();
            // The lines of a file's difference stand below the step.
            let reason = reason.trim_end().replace('\n', "\n    ");
            writeln!(f, "  {task}: {step}: {reason}")?;
        }
        match &self.unreachable {
            Some(error) => writeln!(f, "  not checked to the end: {}", error.cause.as_item()),
            None => Ok(()),
        }
    }
}

/// Runs the check of every [`Ensure`](Step::Ensure) step, after the [`Action`](Step::Action)s that only read. Runs nothing else: no
/// `apply`, no other action, no [`Wait`](Step::Wait).
///
/// A step that reads what an earlier step writes is compared with the present state. A unit that an
/// install would restart because of a new file is not listed, for example.
///
/// # Errors
/// The plan is not consistent. What fails on a host is in its [`HostDiff`].
pub async fn diff(
    plan: &Plan,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
) -> Result<PlanDiff, InvalidPlan> {
    let order = Graph::new(plan)?.order;
    let mut tasks: Vec<(&HostName, Vec<&Task>)> = Vec::new();
    for place in order {
        let task = &plan.tasks[place];
        match tasks.iter_mut().find(|(host, _)| **host == task.host) {
            Some((_, tasks)) => tasks.push(task),
            None => tasks.push((&task.host, vec![task])),
        }
    }
    let reads = tasks
        .iter()
        .map(|(name, tasks)| read_values(tasks, hosts.get(*name)));
    let unread: Vec<Unread> = stream::iter(reads).buffered(AT_ONCE).collect().await;
    let unread: Unread = unread.into_iter().flatten().collect();
    let diffs = tasks
        .into_iter()
        .map(|(name, tasks)| diff_host(plan, &unread, name, tasks, hosts.get(name)));
    let hosts = stream::iter(diffs).buffered(AT_ONCE).collect().await;
    Ok(PlanDiff { hosts })
}

/// The first error of each task that could not read a value.
type Unread = BTreeMap<TaskId, Message>;

/// Runs the actions that only read. What needs a value that could not be read is not compared.
async fn read_values(tasks: &[&Task], host: Option<&Arc<dyn Host>>) -> Unread {
    let mut unread = Unread::new();
    let Some(host) = host else {
        return unread;
    };
    for task in tasks {
        for step in &task.steps {
            if let Step::Action(action) = step
                && action.only_reads()
                && let Err(error) = action.run(host.as_ref()).await
            {
                unread
                    .entry(task.id())
                    .or_insert_with(|| Message::from(&error));
            }
        }
    }
    unread
}

async fn diff_host(
    plan: &Plan,
    unread: &Unread,
    name: &HostName,
    tasks: Vec<&Task>,
    host: Option<&Arc<dyn Host>>,
) -> HostDiff {
    let mut diff = HostDiff {
        host: name.clone(),
        unchanged: 0,
        differences: Vec::new(),
        actions: 0,
        unreachable: None,
    };
    let Some(host) = host else {
        diff.lose("there is no connection".into());
        return diff;
    };
    for task in tasks {
        for step in &task.steps {
            let ensure = match step {
                Step::Ensure(ensure) => ensure,
                Step::Action(_) => {
                    diff.actions += 1;
                    continue;
                }
                Step::Wait(_) => continue,
            };
            let reason = match ensure.check(host.as_ref()).await {
                Ok(Check::Satisfied) => {
                    diff.unchanged += 1;
                    continue;
                }
                Ok(Check::Needed { reason, .. }) => Reason::Needed(reason),
                Ok(Check::Reported(text)) => Reason::Reported(text),
                Err(StepError::Missing(value)) => missing(providers(plan, task, value), unread),
                Err(StepError::Unknown(cause)) => Reason::Unread(cause),
                Err(error) if error.is_loss_of_host() => {
                    diff.lose(Message::from(&error));
                    return diff;
                }
                Err(error) => Reason::Failed(Message::from(&error)),
            };
            diff.differences.push(Difference {
                task: task.id(),
                id: step.id(),
                step: step.describe(),
                reason,
            });
        }
    }
    diff
}

/// Returns why a check has no value that these tasks provide.
fn missing(providers: Vec<TaskId>, unread: &Unread) -> Reason {
    let error = providers
        .iter()
        .find_map(|task| Some((task, unread.get(task)?)));
    match error {
        Some((task, error)) => {
            let place = format!("task {task} could not read a value");
            Reason::Unread(error.clone().within(place))
        }
        None => Reason::DependsOn(providers),
    }
}

/// Returns the task itself if it provides the value, and otherwise every task that provides it.
fn providers(plan: &Plan, task: &Task, value: &str) -> Vec<TaskId> {
    let provides = |task: &&Task| task.provides.contains(&value);
    if provides(&task) {
        return vec![task.id()];
    }
    plan.tasks.iter().filter(provides).map(Task::id).collect()
}
