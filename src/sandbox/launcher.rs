//! The first process of a sandbox: it leaves kubexm's namespaces.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::lchown;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::init;
use crate::run::{Identity, Specification};

/// The argument that starts this process.
pub const ROLE: &str = "sandbox-launcher";
/// The exit code of a sandbox that could not be prepared. The reason is on standard error.
pub const UNPREPARED: u8 = 125;
/// The start of that reason.
pub const REASON: &str = "kubexm-sandbox: ";
/// The user and group `nobody`, as which a program runs.
pub const NOBODY: u32 = 65534;

/// Starts the init in new namespaces, and waits for it.
pub fn run(specification: Option<&OsStr>) -> ExitCode {
    unless_failed(prepare(specification).and_then(|mut command| {
        let status = command.status().map_err(step("cannot start the init"))?;
        Ok(exit_code(status))
    }))
}

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

fn prepare(specification: Option<&OsStr>) -> Result<Command, String> {
    let mut specification = Specification::parse(specification)?;
    close_inherited();
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let scratch = specification.program.scratch.clone();
    // Fails without the right to change owners, and in a user namespace without the user `nobody`.
    let is_given = lchown(&scratch, Some(NOBODY), Some(NOBODY)).is_ok();
    specification.identity = if is_given && unshare(namespaces()).is_ok() {
        Identity::Root
    } else {
        // An unprivileged user, or root in a container without CAP_SYS_ADMIN.
        lchown(&scratch, Some(user), Some(group)).map_err(step("cannot own the directory"))?;
        let flags = namespaces() | CloneFlags::CLONE_NEWUSER;
        unshare(flags).map_err(|error| match error {
            // unshare(2): its text, "No space left on device", would be misleading.
            Errno::ENOSPC => "user.max_user_namespaces permits no other namespace".to_owned(),
            error => step("cannot create a user namespace")(error),
        })?;
        // The init needs the rights of root in this namespace, which only the user 0 keeps.
        map_user((user, group), 0).map_err(step("cannot map the user"))?;
        Identity::Mapped
    };
    // The link refers to the child before it starts the new program: to the same file as this process.
    let mut command = Command::new("/proc/self/exe");
    let text = specification.text().map_err(step("a path is not UTF-8"))?;
    command.arg(init::ROLE).arg(text);
    // The init ends when kubexm closes its end of this process's standard input.
    command.env_clear().stdin(Stdio::inherit());
    Ok(command)
}

fn namespaces() -> CloneFlags {
    CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
}

/// Closes files that kubexm's own parent has left open. A directory among them would permit access to the file
/// system outside of the sandbox.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The number of the closed directory is among them.
        let _ = nix::unistd::close(number);
    }
}

/// Gives this process's user and group another number in a new user namespace (user_namespaces(7)).
pub fn map_user((user, group): (u32, u32), to: u32) -> io::Result<()> {
    // Without this, the kernel does not accept a map of groups.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{to} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{to} {group} 1"))
}
