//! The second process of a sandbox, the init of its process namespace. All processes of the namespace end with it.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::process::{NOBODY, map_user, step, unless_failed};
use crate::run::{Identity, ProgramRun, Specification};
use crate::{loopback, mounts};

/// Maximum number of open files of a process.
const MOST_FILES: u64 = 1024;

/// Isolates this process, starts the program and waits for it.
pub fn run(specification: Option<&OsStr>) -> ExitCode {
    unless_failed(isolate(specification).and_then(|program| {
        let child = start(&program)?;
        Ok(wait_for(&child))
    }))
}

fn isolate(specification: Option<&OsStr>) -> Result<ProgramRun, String> {
    let Specification { identity, program } = Specification::parse(specification)?;
    mounts::build(&program)?;
    loopback::activate().map_err(step("cannot activate the loopback interface"))?;
    become_nobody(identity).map_err(step("cannot give up the rights of root"))?;
    // Programs with set-user-ID bits and file capabilities get no rights.
    set_no_new_privs().map_err(step("cannot set no_new_privs"))?;
    let limits = [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, program.largest_file),
        (Resource::RLIMIT_NOFILE, MOST_FILES),
        (Resource::RLIMIT_CPU, 2 * program.limit.as_secs()),
    ];
    for (resource, limit) in limits {
        setrlimit(resource, limit, limit).map_err(step("cannot set a limit"))?;
    }
    if let Some(answer) = program.answer.clone() {
        let served = answer.serve();
        served.map_err(step("cannot serve on the loopback interface"))?;
    }
    end_with_kubexm().map_err(step("cannot start a thread"))?;
    Ok(program)
}

/// Becomes a user without rights. A program that this process starts has no capabilities, because the kernel
/// gives them only to the user 0 (capabilities(7)).
fn become_nobody(identity: Identity) -> std::io::Result<()> {
    match identity {
        Identity::Root => {
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            setgroups(&[])?;
            setresgid(group, group, group)?;
            setresuid(user, user, user)?;
        }
        Identity::Mapped => {
            // The map of the first user namespace has one user; another one needs another namespace.
            unshare(CloneFlags::CLONE_NEWUSER)?;
            map_user((0, 0), NOBODY)?;
        }
    }
    Ok(())
}

/// Ends this process, and with it the program, when kubexm ends.
fn end_with_kubexm() -> std::io::Result<()> {
    std::thread::Builder::new().spawn(|| {
        // kubexm writes nothing: this returns when the last other end is closed.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    })?;
    Ok(())
}

fn start(program: &ProgramRun) -> Result<Child, String> {
    let mut command = Command::new(&program.program);
    command
        .args(&program.arguments)
        .env_clear()
        .envs(
            program
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .current_dir(&program.scratch)
        .stdin(Stdio::null());
    let named = format!("cannot execute {}", program.program.display());
    command.spawn().map_err(step(&named))
}

/// Waits for the program. Also collects its orphans, because this process is their parent.
fn wait_for(child: &Child) -> ExitCode {
    let program = i32::try_from(child.id()).unwrap_or(0);
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid.as_raw() == program => {
                return ExitCode::from(u8::try_from(code).unwrap_or(1));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid.as_raw() == program => {
                return ExitCode::from(128 + signal as u8);
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}
