//! The first process of a sandbox: it leaves kubexm's namespaces.

use std::ffi::OsStr;
use std::os::unix::fs::lchown;
use std::process::{Command, ExitCode, Stdio};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::process::{INIT, NOBODY, exit_code, map_user, step, unless_failed};
use crate::run::{Identity, Specification};

/// Starts the init in new namespaces, and waits for it.
pub fn run(specification: Option<&OsStr>) -> ExitCode {
    unless_failed(prepare(specification).and_then(|mut command| {
        let status = command.status().map_err(step("cannot start the init"))?;
        Ok(exit_code(status))
    }))
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
    command.arg(INIT).arg(text);
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
