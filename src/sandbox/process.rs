//! What the processes of a sandbox have in common: how they are started, how they fail and which user they become.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// The argument that starts the launcher.
pub const LAUNCHER: &str = "sandbox-launcher";
/// The argument that starts the init.
pub const INIT: &str = "sandbox-init";
/// The exit code of a sandbox that could not be prepared. The reason is on standard error.
pub const UNPREPARED: u8 = 125;
/// The start of that reason.
pub const REASON: &str = "kubexm-sandbox: ";
/// The user and group `nobody`, as which a program runs.
pub const NOBODY: u32 = 65534;

/// Prints the reason why a sandbox could not be prepared.
pub fn unless_failed(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|reason| {
        eprintln!("{REASON}{reason}");
        ExitCode::from(UNPREPARED)
    })
}

/// Adds the step that failed to an error.
pub fn step<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// Returns the exit code of a process; 128 and the signal's number if a signal ended it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code();
    let code = code.or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Gives this process's user and group another number in a new user namespace (user_namespaces(7)).
pub fn map_user((user, group): (u32, u32), to: u32) -> io::Result<()> {
    // Without this, the kernel does not accept a map of groups.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{to} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{to} {group} 1"))
}
