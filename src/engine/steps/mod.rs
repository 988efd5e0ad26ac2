//! The step types, one file for each. They are independent of Kubernetes.
//!
//! The `From` implementation for [`Step`](crate::plan::Step) states the kind of a type: [`ProvideValue`] and
//! [`RunHookAlways`] are actions, [`WaitFor`] is a wait, and all others ensure a state.

mod block;
mod config_read_at_init;
mod difference;
mod input;
mod install;
mod packages;
mod provide_value;
mod run_hook;
mod run_to_completion;
mod script;
mod track_new_dirs;
pub mod undo;
mod unit;
mod wait;
mod write;

pub use block::ManagedBlock;
pub use config_read_at_init::ConfigReadAtInit;
pub use difference::{unified, unified_and_redacted};
pub use input::{DeferredArguments, DeferredInput};
pub use install::{InstallFiles, Payload, Source};
pub use packages::InstallPackages;
pub use provide_value::{Parse, ProvideValue};
pub use run_hook::{RunHook, RunHookAlways, remove_hook_files};
pub use run_to_completion::{InputFile, RunToCompletion};
pub use script::{Hiding, RunScript};
pub use track_new_dirs::TrackNewDirs;
pub use undo::Undo;
pub use unit::{ManageUnit, Reload};
pub use wait::{LONGEST_REASON, POLL, WaitFor, diagnosis, failed, unanswered};
pub use write::{Content, WriteFile};

use crate::plan::{Check, StepError};
use kubexm_host::{Command, Host, Output};
use kubexm_scripts::markers;
use kubexm_types::Message;

/// Runs a command.
///
/// # Errors
/// The command fails, or the connection to the host breaks.
pub(crate) async fn run_command(
    host: &dyn Host,
    action: &str,
    command: Command,
) -> Result<Output, StepError> {
    let output = host.run(command.describe(action)).await?;
    StepError::unless_done(action, output)
}

/// The exit status of a check that found another state, which no `apply` changes (`EX_CONFIG` of sysexits.h).
const REPORTED: i32 = 78;

/// The exit status of a check that could not see the state of the host (`EX_TEMPFAIL` of sysexits.h).
const NOT_ANSWERED: i32 = 75;

/// Runs a check: a command that exits with 0 if the host has the desired state, with 78 if it has another one that the step
/// does not change, and otherwise prints the reason.
///
/// # Errors
/// The check could not see the state: what it asked did not answer. Or the connection to the host breaks.
pub(crate) async fn run_check(
    host: &dyn Host,
    action: String,
    command: Command,
) -> Result<Check, StepError> {
    let output = host.run(command.describe(action.clone())).await?;
    match output.status {
        0 => Ok(Check::Satisfied),
        REPORTED => Ok(Check::Reported(Message::printed(output.shown().as_str()))),
        NOT_ANSWERED => StepError::unless_done(&action, output).map(|_| Check::Satisfied),
        _ => {
            let reason = output.shown().to_string();
            // `diff -u` prints such a line before the lines that differ.
            let shows_lines = reason.lines().any(|line| line.starts_with("@@ "));
            Ok(Check::Needed {
                reason,
                shows_lines,
            })
        }
    }
}

/// Returns the check whether a marker file exists.
fn check_marker(id: &str) -> Command {
    Command::from_script(markers::CHECK, [id])
}
