//! What failed on several hosts.

use std::collections::BTreeMap;
use std::fmt;

use crate::stop::AGAIN;
use kubexm_engine::plan::{StepError, TaskId};
use kubexm_host::HostError;
use kubexm_types::{HostName, Message};

/// The workers that an install left out, with the causes.
#[derive(Debug)]
pub struct WorkersLeftOut(pub BTreeMap<HostName, String>);

impl fmt::Display for WorkersLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, cause) in &self.0 {
            write!(f, "\n  {name}: {}", cause.replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

/// The steps that failed in a run, the hosts that were lost, and what was left undone.
#[derive(Debug)]
pub struct StepFailures {
    /// Task, step and cause of each failure.
    pub failed: Vec<(TaskId, String, StepError)>,
    /// Hosts that no longer answer. A step on another host may have failed because it waited for one.
    pub unreachable: Vec<HostError>,
    /// What was left undone.
    pub left: LeftOver,
}

impl StepFailures {
    /// Returns what did not come true in time, without hints and without what hosts report, which the end of each task shows;
    /// `None` if something else failed as well.
    pub fn unmet(&self) -> Option<String> {
        let mut failed = self.failed.iter();
        if !self.unreachable.is_empty() || !failed.all(|(_, _, error)| error.is_unmet()) {
            return None;
        }
        let texts = self.failed.iter();
        let texts = texts.map(|(task, _, error)| {
            let text = Message::from(error).text;
            format!("{task}: {}", text.lines().next().unwrap_or_default())
        });
        Some(texts.collect::<Vec<_>>().join("\n"))
    }

    /// Returns whether a command failed while it waited for other parts of the cluster, and no host was lost.
    pub fn has_awaited(&self) -> bool {
        let is_awaited = |error: &StepError| matches!(error, StepError::Awaited(_));
        self.unreachable.is_empty() && self.failed.iter().any(|(_, _, error)| is_awaited(error))
    }

    pub(super) fn has_lost_host(&self) -> bool {
        let mut failed = self.failed.iter();
        !self.unreachable.is_empty() || failed.any(|(_, _, error)| error.is_loss_of_host())
    }
}

impl From<&StepFailures> for Message {
    fn from(failures: &StepFailures) -> Self {
        let failed = failures.failed.iter();
        let failed = failed.map(|(task, step, error)| {
            let cause = match error {
                // A step may ask another host than that of its task.
                StepError::Host(lost) => Self::from(lost),
                other => Self::from(other),
            };
            cause.within(step).within(task)
        });
        // The step that failed on a lost host already names the cause.
        let is_named = |lost: &&HostError| {
            let mut failed = failures.failed.iter();
            failed.any(|(_, _, error)| {
                error.is_loss_of_host()
                    && matches!(error, StepError::Host(other) if other.host() == lost.host())
            })
        };
        let unreachable = failures.unreachable.iter().filter(|lost| !is_named(lost));
        let items = failed.chain(unreachable.map(Self::from)).collect();
        let mut message = Self::list("", items);
        message.text += &failures.left.to_string();
        message
    }
}

/// Conditions that did not hold in time, and why.
#[derive(Debug)]
pub struct Explained {
    /// What is wrong, and what the user can do.
    pub cause: Message,
    /// Commands that do what the hint of the cause says.
    pub commands: Vec<String>,
    /// What did not come true: see [`StepFailures::unmet`].
    pub waited: String,
    pub left: LeftOver,
}

impl From<&Explained> for Message {
    fn from(explained: &Explained) -> Self {
        let Explained {
            cause,
            commands,
            waited,
            left,
        } = explained;
        let fix = cause.hint.as_ref();
        let fix = fix.map(|fix| format!("{fix}; then ")).unwrap_or_default();
        let (text, commands) = (&cause.text, super::indented(commands));
        Self::new(format!(
            "{text}\nThis did not come true in time:\n{waited}{left}"
        ))
        .hint(format!("{fix}{AGAIN}{commands}"))
    }
}

/// The number of tasks that did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOver {
    /// Tasks whose commands may still run on the hosts.
    pub running: usize,
    /// Tasks that did not start.
    pub waiting: usize,
}

impl fmt::Display for LeftOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.running > 0 {
            write!(
                f,
                "\n{} tasks did not end in time: their commands may still run on the hosts, and the next run \
                 waits for them",
                self.running
            )?;
        }
        if self.waiting > 0 {
            write!(f, "\n{} tasks were not started", self.waiting)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandError;

    fn failures(error: StepError, unreachable: Vec<HostError>) -> StepFailures {
        StepFailures {
            failed: vec![(
                TaskId("dns@cluster".to_owned()),
                "Wait until CoreDNS answers".to_owned(),
                error,
            )],
            unreachable,
            left: LeftOver {
                running: 0,
                waiting: 0,
            },
        }
    }

    #[test]
    fn the_cause_of_a_wait_is_the_error_and_its_fix_the_hint() {
        let waited =
            Message::new("Wait until CoreDNS answers: the condition does not hold\nNAME READY");
        let waited = StepError::Unmet(waited.hint("remove the cause"));
        let waited = failures(waited, Vec::new());
        let error = CommandError::Explained(Box::new(Explained {
            cause: Message::new("node2: a CNI plugin is missing").hint("install it"),
            commands: vec!["kubexm exec --host node2 -- true".to_owned()],
            waited: waited.unmet().unwrap(),
            left: waited.left,
        }));
        insta::assert_snapshot!(error, @"
        node2: a CNI plugin is missing
        This did not come true in time:
        dns@cluster: Wait until CoreDNS answers: the condition does not hold
        hint: install it; then run the same command again to go on
          kubexm exec --host node2 -- true
        ");
        let other = StepError::Other(Message::new("exit status 1"));
        assert_eq!(failures(other, Vec::new()).unmet(), None);
    }

    #[test]
    fn a_lost_host_is_named_once() {
        let lost = || HostError::Unreachable {
            host: "node2".parse().unwrap(),
            address: "192.0.2.12:22".to_owned(),
            reason: Message::new("the connection broke"),
        };
        let failures = failures(StepError::Host(lost()), vec![lost()]);
        assert_eq!(
            Message::from(&failures).text,
            "dns@cluster: Wait until CoreDNS answers: node2: cannot reach 192.0.2.12:22: the connection broke"
        );
    }
}
