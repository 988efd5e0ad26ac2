//! What a script receives: arguments that are known only while the plan runs, and standard input, which arrives completely
//! or not at all.

use std::sync::Arc;

use crate::plan::StepError;
use kubexm_host::{Command, Input};
use kubexm_scripts::Script;
use kubexm_scripts::steps::RECEIVE_INPUT;

/// Produces the bytes of a script's standard input when the script runs. They may be secret.
pub type DeferredInput = Arc<dyn Fn() -> Result<Vec<u8>, StepError> + Send + Sync>;

/// Produces arguments of a script that other tasks provide. They are not secret.
pub type DeferredArguments = Arc<dyn Fn() -> Result<Vec<String>, StepError> + Send + Sync>;

/// Returns the command of a script that starts after all of its input has arrived.
pub(super) fn script_with_input(
    script: Script,
    arguments: &[String],
    input: Option<&DeferredInput>,
) -> Result<Command, StepError> {
    match input {
        None => Ok(Command::from_script(script, arguments)),
        Some(input) => Ok(after_input(script, arguments, input()?)),
    }
}

/// Returns the command of a script that starts after all of `bytes` have arrived.
pub(super) fn after_input<I, S>(script: Script, arguments: I, bytes: Vec<u8>) -> Command
where
    I: IntoIterator<Item = S>,
    S: Into<String>,
{
    let receiver = [bytes.len().to_string(), script.text.to_owned()];
    let arguments = receiver.into_iter().chain(script.arguments(arguments));
    Command::from_script(RECEIVE_INPUT, arguments).input(Input::Bytes(bytes))
}
