//! systemd on this machine.

use std::path::Path;
use std::process::{Command, Output};

use kubexm_session::{CommandError, FileError};
use kubexm_types::{Untrusted, write_atomic};

/// The directory of units that an administrator installs.
pub(super) const UNITS: &str = "/etc/systemd/system";

fn output(program: &str, arguments: &[String]) -> Result<Output, CommandError> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    command.output().map_err(|error| {
        CommandError::machine(format!("cannot run {program}: {error}"))
            .hint("a timer needs a machine with systemd")
    })
}

/// Runs `systemctl`.
///
/// # Errors
/// It fails.
pub(super) fn systemctl<const N: usize>(arguments: [&str; N]) -> Result<(), CommandError> {
    let words = arguments.map(str::to_owned);
    let ended = output("systemctl", &words)?;
    if ended.status.success() {
        return Ok(());
    }
    let complaint = Untrusted::last(String::from_utf8_lossy(&ended.stderr).trim());
    Err(CommandError::machine(format!(
        "systemctl {} failed on this machine: {complaint}",
        words.join(" ")
    ))
    .hint("run the command as root, on a machine that systemd has started"))
}

/// How a program ended that ran as a service.
pub(super) struct ServiceRun {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    /// Both streams, the standard output first.
    pub(super) printed: String,
}

/// Runs a program as a transient service with these properties.
///
/// # Errors
/// `systemd-run` cannot be started.
pub(super) fn run_as_service(
    properties: &[String],
    command: &[String],
) -> Result<ServiceRun, CommandError> {
    let start = ["--quiet", "--wait", "--collect", "--pipe"].map(str::to_owned);
    let properties = properties
        .iter()
        .map(|property| format!("--property={property}"));
    let words: Vec<String> = start
        .into_iter()
        .chain(properties)
        .chain(["--".to_owned()])
        .chain(command.iter().cloned())
        .collect();
    let ended = output("systemd-run", &words)?;
    let printed = [&ended.stdout[..], &ended.stderr[..]].concat();
    Ok(ServiceRun {
        code: ended.status.code(),
        stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
        printed: String::from_utf8_lossy(&printed).into_owned(),
    })
}

/// Returns when a timer runs next, as systemd prints it.
pub(super) fn next(timer: &str) -> Option<String> {
    let arguments = [
        "show",
        "--property=NextElapseUSecRealtime",
        "--value",
        timer,
    ];
    let ended = output("systemctl", &arguments.map(str::to_owned)).ok()?;
    let printed = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    (!printed.is_empty()).then_some(printed)
}

/// Writes a unit.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_unit(path: &Path, text: &str) -> Result<(), CommandError> {
    let written = write_atomic(path, text.as_bytes(), 0o644);
    Ok(written.map_err(|error| FileError::io("write the unit", path, &error))?)
}
