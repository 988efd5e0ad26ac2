//! A host that loses its connection, for tests of steps.

use std::sync::Mutex;

use async_trait::async_trait;

use crate::fake_host::NoUndo;
use kubexm_engine::plan::{StepContext, StepError, Stop, Task, perform};
use kubexm_engine::{Command, Host, HostError, Output};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// How a host loses the connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lost {
    /// Before a command begins.
    Before,
    /// After a command has ended, and before kubexm has its result.
    After,
}

/// A host whose connection breaks once.
struct LosingHost<'a> {
    host: &'a dyn Host,
    how: Lost,
    /// How many commands run before.
    left: Mutex<usize>,
}

#[async_trait]
impl Host for LosingHost<'_> {
    fn name(&self) -> &HostName {
        self.host.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let is_lost = {
            let mut left = self.left.lock().unwrap();
            let is_lost = *left == 0;
            *left = left.saturating_sub(1);
            is_lost
        };
        if !is_lost {
            return self.host.run(command).await;
        }
        if matches!(self.how, Lost::After) {
            self.host.run(command).await?;
        }
        Err(HostError::Unreachable {
            host: self.name().clone(),
            address: "192.0.2.1:22".to_owned(),
            reason: "it broke".into(),
        })
    }
}

/// Runs the steps of a task until the connection breaks at the command with this number, counted from 0. Returns whether it
/// broke.
pub(super) async fn is_killed(task: &Task, host: &dyn Host, at: usize, how: Lost) -> bool {
    let losing = LosingHost {
        host,
        how,
        left: Mutex::new(at),
    };
    let ended = run(task, &losing).await;
    ended.is_err_and(|error| error.is_loss_of_host())
}

/// Runs the steps of a task.
pub(super) async fn run(task: &Task, host: &dyn Host) -> Result<(), StepError> {
    let context = StepContext {
        host,
        undo: &NoUndo,
        events: &Events::silent(),
    };
    for step in &task.steps {
        perform(step, &context, &Stop::new()).await?;
    }
    Ok(())
}
