//! The steps of a deployment, one file for each. They know nothing of Kubernetes.
//!
//! Each type has one kind, which its `From` for [`Step`](crate::plan::Step) states: [`Produce`] is
//! an action, [`WaitFor`] is a wait, and all others ensure a state.

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
pub use produce::{Parse, Produce};
pub use read_once::ReadOnce;
pub use script::RunScript;
pub use undo::Undo;
pub use unit::ManageUnit;
pub use wait::WaitFor;
pub use write::{Content, WriteFile};

use crate::plan::{Check, StepError};
use kubexm_host::{Command, Host, Output};
use kubexm_scripts::marks;

/// Runs a command that must succeed.
async fn must(host: &dyn Host, action: &str, command: Command) -> Result<Output, StepError> {
    let output = host.run(command.describe(action)).await?;
    StepError::unless_done(action, output)
}

/// Runs a command that exits with 0 if the host has the desired state, and else prints why not.
async fn ask(host: &dyn Host, action: String, command: Command) -> Result<Check, StepError> {
    let output = host.run(command.describe(action)).await?;
    Ok(match output.success() {
        true => Check::Satisfied,
        false => Check::Needed(output.text().trim().to_owned()),
    })
}

/// Ends with 0 if the mark of what is done once is set.
fn look_for_mark(id: &str) -> Command {
    Command::from_script(marks::CHECK, [id])
}
