//! What stand-ins of hosts share, for tests of steps.

use async_trait::async_trait;

use kubexm_engine::Command;
use kubexm_engine::Host;
use kubexm_engine::plan::{Ensure, StepContext, StepError, UndoLog};
use kubexm_host::Output;
use kubexm_types::event::Events;

/// Keeps no records.
pub(crate) struct NoUndo;

#[async_trait]
impl UndoLog for NoUndo {
    async fn record(&self, _: &str, _: serde_json::Value) -> Result<(), StepError> {
        Ok(())
    }
}

/// Returns the verb and the arguments of a script.
pub(crate) fn words(command: Command) -> Vec<String> {
    command.into_parts().0.split_off(4)
}

/// Returns what a script printed on standard output, with its status.
pub(crate) fn printed(status: i32, text: String) -> Output {
    Output {
        status,
        stdout: text.into_bytes(),
        stderr: Vec::new(),
        log: None,
    }
}

/// Applies a step. Returns the error for people.
pub(crate) async fn apply(step: &dyn Ensure, host: &dyn Host) -> Result<(), String> {
    let context = StepContext {
        host,
        undo: &NoUndo,
        events: &Events::silent(),
    };
    let applied = step.apply(&context).await;
    applied.map_err(|error| error.to_string())
}
