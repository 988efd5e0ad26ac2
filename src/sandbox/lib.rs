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

mod error;
mod init;
mod launcher;
mod loopback;
mod mounts;
mod process;
mod run;
mod sandbox;
mod workspace;

use std::process::ExitCode;

pub use error::SandboxError;
pub use loopback::LoopbackAnswer;
pub use run::{ProgramOutput, ProgramRun};
pub use sandbox::Sandbox;
pub use workspace::Workspace;

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
