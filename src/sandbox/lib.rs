//! Runs programs that were downloaded, such as kubeadm, so that a wrong program cannot harm this machine.
//!
//! A program sees the system's programs and libraries (`/usr`), its inputs, an empty writable directory, `/proc`
//! with its own processes and five devices. It has no network except a loopback interface of its own, no
//! capabilities, another user than root, an empty environment, and a time limit that also ends its children.
//!
//! The kernel applies a namespace to a process, not to a part of it. kubexm therefore starts itself as a
//! *launcher*, which [`enter`] recognises at the start of `main`. The launcher leaves the namespaces of kubexm and
//! starts itself as the *init* of a process namespace. The init builds the file system, gives up its privileges and
//! starts the program. If one of these steps fails, the program is not started.

mod init;
mod launcher;
mod loopback;
mod mounts;
mod process;
mod run;
mod workspace;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub use loopback::LoopbackAnswer;
pub use run::{ProgramOutput, ProgramRun};
pub use workspace::Workspace;

/// How downloaded programs run.
#[derive(Debug, Clone)]
pub enum Sandbox {
    /// Isolated; `launcher` is a program whose `main` calls [`enter`] first.
    On { launcher: PathBuf },
    /// With all rights of this process. The user has asked for it.
    Off,
}

impl Default for Sandbox {
    /// Isolated; this program is the launcher.
    fn default() -> Self {
        Self::On {
            launcher: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel or the container of this process does not permit a part of the isolation.
    #[error(
        "cannot isolate the program: {0}\nhint: run kubexm as root, or permit user namespaces (`sysctl user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`); --no-sandbox runs downloaded programs with all of your rights"
    )]
    Unavailable(String),
    /// The program cannot be started, or a directory cannot be prepared for it.
    #[error("cannot start the program: {0}")]
    Start(#[from] io::Error),
    /// The program and its children were killed.
    #[error("the program did not end within {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    /// The program and its children were killed.
    #[error("the program printed more than {0} bytes and was killed")]
    TooMuchOutput(u64),
}

/// Runs a part of a sandbox if a sandbox has started this process. `main` must call it before anything else,
/// because a process with several threads cannot leave its user namespace.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    let specification = arguments.next();
    match role.to_str()? {
        process::LAUNCHER => Some(launcher::run(specification.as_deref())),
        process::INIT => Some(init::run(specification.as_deref())),
        _ => None,
    }
}
