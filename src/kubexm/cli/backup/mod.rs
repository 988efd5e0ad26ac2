//! `kubexm backup`: encrypted backups of a cluster, and their restore.

mod create;
mod list;
mod restore;
mod size;
mod verify;

use clap::Subcommand;

use super::{Failure, timer};
use crate::report::Output;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Save etcd, keys, configuration and state of a cluster in an encrypted file
    ///
    /// Takes a snapshot of etcd on the newest member that is not the leader. The file also contains certificates and keys,
    /// static pods or units, the configuration of kubelet, kubeadm and load balancer, the cluster file, the state directory,
    /// and the program etcdutl. It does not contain volumes of pods, images, and files of workers. The cluster runs meanwhile.
    ///
    /// The file is a tar archive, compressed by zstd, in the format of age: `age -d -i IDENTITY FILE | zstd -d | tar -t` lists
    /// it without kubexm. Keep it away from the cluster, and its identity or passphrase away from the file.
    Create(create::Create),
    /// List the backups in a directory
    ///
    /// Without an identity or a passphrase, the list has names, times and sizes only.
    List(list::List),
    /// Read a whole backup, and with --trust try a restore of its snapshot
    ///
    /// Decrypts the file, and compares all digests with its manifest. With --trust, it also restores the snapshot into a
    /// temporary directory with the program etcdutl of the backup. The directory needs about three times the size of the
    /// snapshot; TMPDIR names another one.
    Verify(verify::Verify),
    /// Bring a cluster back to the state of a backup
    ///
    /// Prints the plan, what is lost, and the point of no return, and asks. kubexm creates the new data of etcd beside the old
    /// one while the cluster runs. Then all API servers and members of etcd stop, and start with the new data; the former data
    /// stays in the data directory. kubexm compares the data of all members with the backup before the first API server
    /// starts.
    ///
    /// On hosts without a cluster, it first installs them from the bundle with the authorities of the backup, so that
    /// tokens, kubeconfigs and Secrets stay valid. If only some control planes are lost, restore with a cluster file
    /// without them, and add new hosts with `kubexm install`.
    ///
    /// A restore that was interrupted continues when the same command runs again.
    Restore(restore::Restore),
    /// Create backups by a timer of systemd on this machine
    #[command(subcommand)]
    Timer(timer::BackupTimer),
}

impl Command {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        match self {
            Self::Create(_) | Self::Restore(_) => true,
            Self::List(_) | Self::Verify(_) => false,
            Self::Timer(command) => command.emits_events(),
        }
    }
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Create(arguments) => create::run(&arguments, output, events).await,
        Command::List(arguments) => list::run(&arguments, output).await,
        Command::Verify(arguments) => verify::run(&arguments, output, events).await,
        Command::Restore(arguments) => restore::run(&arguments, output, events).await,
        Command::Timer(command) => timer::backup(command, output, events).await,
    }
}
