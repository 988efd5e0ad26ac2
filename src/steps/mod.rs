//! The atoms of a deployment, one file a verb. They know nothing of Kubernetes.

mod block;
mod folders;
mod install;
mod once;
mod packages;
mod produce;
mod script;
pub mod undo;
mod unit;
mod wait;
mod write;

pub use block::ManagedBlock;
pub use folders::OwnFolders;
pub use install::{InstallFiles, Payload, Source};
pub use once::{InputFile, RunOnce};
pub use packages::InstallPackages;
pub use produce::Produce;
pub use script::RunScript;
pub use undo::Undo;
pub use unit::ManageUnit;
pub use wait::WaitFor;
pub use write::{Content, WriteFile};

use crate::host::{Command, Output};
use crate::plan::{StepContext, StepError};

/// Runs a command that must succeed.
async fn must(
    context: &StepContext<'_>,
    action: &str,
    command: Command,
) -> Result<Output, StepError> {
    let output = context.host.run(command.describe(action)).await?;
    if output.success() {
        return Ok(output);
    }
    let (status, complaint) = (output.status, output.complaint());
    Err(StepError::Command {
        action: action.to_owned(),
        status,
        complaint,
    })
}
