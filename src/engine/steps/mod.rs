//! The atoms of a deployment, one file a verb. They know nothing of Kubernetes.

mod block;
mod folders;
mod input;
mod install;
mod once;
mod packages;
mod produce;
mod read_once;
mod script;
pub mod undo;
mod unit;
mod wait;
mod write;

pub use block::ManagedBlock;
pub use folders::OwnFolders;
pub use input::LateInput;
pub use install::{InstallFiles, Payload, Source};
pub use once::{InputFile, RunOnce};
pub use packages::InstallPackages;
pub use produce::Produce;
pub use read_once::ReadOnce;
pub use script::RunScript;
pub use undo::Undo;
pub use unit::ManageUnit;
pub use wait::WaitFor;
pub use write::{Content, WriteFile};

use crate::plan::{Check, StepContext, StepError};
use kubexm_host::{Command, Output};

/// Runs a command that must succeed.
async fn must(
    context: &StepContext<'_>,
    action: &str,
    command: Command,
) -> Result<Output, StepError> {
    let output = context.host.run(command.describe(action)).await?;
    StepError::unless_done(action, output)
}

/// Runs a command that ends with 0 where the host is as wanted, and else prints why it is not.
async fn ask(
    context: &StepContext<'_>,
    action: String,
    command: Command,
) -> Result<Check, StepError> {
    let output = context.host.run(command.describe(action)).await?;
    Ok(match output.success() {
        true => Check::Satisfied,
        false => Check::Needed(output.text().trim().to_owned()),
    })
}

/// A look for the mark of what is done once.
fn look_for_mark(id: &str) -> Command {
    const LOOK: &str =
        r#"[ -e "/var/lib/kubexm/done/$1" ] || { echo "has not been done"; exit 1; }"#;
    Command::script(LOOK, [id])
}
