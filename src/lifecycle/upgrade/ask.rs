//! Asks a host with a script.

use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_scripts::Script;
use kubexm_session::CommandError;
use kubexm_types::Untrusted;

/// Runs a script on a host, and parses what it prints. `what` describes the question. The error of `parse` is the line that has
/// another form.
///
/// # Errors
/// The host was lost, the script failed, or its answer has another form.
pub(super) async fn ask<T>(
    host: &dyn Host,
    what: &'static str,
    script: Script,
    arguments: impl IntoIterator<Item = String>,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, CommandError> {
    let output = host
        .run(Command::from_script(script, arguments).describe(what))
        .await?;
    let failed = |cause: String| CommandError::step(format!("{}: {cause}", host.name()));
    let output = StepError::unless_done(what, output).map_err(|error| failed(error.to_string()))?;
    parse(&output.text()).map_err(|line| {
        let line = Untrusted::one_line(&line, 100);
        failed(format!("{what}: unexpected line '{line}'"))
    })
}
