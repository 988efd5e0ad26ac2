//! Runs downloaded programs in a sandbox.

use super::FetchError;
use kubexm_sandbox::{ProgramOutput, ProgramRun, Sandbox};

/// Runs a program to its end. `what` is the program and its version, for errors.
///
/// # Errors
/// The program did not run to its end.
pub(crate) async fn output(
    run: ProgramRun,
    sandbox: &Sandbox,
    what: &str,
) -> Result<ProgramOutput, FetchError> {
    let output = run.output(sandbox).await;
    output.map_err(|source| FetchError::Program {
        what: what.to_owned(),
        source,
    })
}

/// Runs a program that must succeed. Returns what it printed on standard output.
///
/// # Errors
/// The program did not run to its end, or it failed.
pub(crate) async fn printed(
    run: ProgramRun,
    sandbox: &Sandbox,
    what: &str,
) -> Result<String, FetchError> {
    let output = output(run, sandbox, what).await?;
    if output.is_success {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(FetchError::Content {
        what: what.to_owned(),
        reason: String::from_utf8_lossy(&output.stderr)
            .trim()
            .to_owned()
            .into(),
    })
}
