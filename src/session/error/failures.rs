//! What failed on several hosts.

use std::collections::BTreeMap;
use std::fmt;

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

    #[test]
    fn a_lost_host_is_named_once() {
        let lost = || HostError::Unreachable {
            host: "node2".parse().unwrap(),
            address: "192.0.2.12:22".to_owned(),
            reason: Message::new("the connection broke"),
        };
        let failures = StepFailures {
            failed: vec![(
                TaskId("join@node1".to_owned()),
                "Copy the files".to_owned(),
                StepError::Host(lost()),
            )],
            unreachable: vec![lost()],
            left: LeftOver {
                running: 0,
                waiting: 0,
            },
        };
        assert_eq!(
            Message::from(&failures).text,
            "join@node1: Copy the files: node2: cannot reach 192.0.2.12:22: the connection broke"
        );
    }
}
