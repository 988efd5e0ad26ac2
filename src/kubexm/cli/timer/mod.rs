//! `kubexm certs timer` and `kubexm backup timer`: timers of systemd on this machine.

pub mod print;

use kubexm_types::ErrorKind;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};

pub use self::print::last_run;
use self::print::print;
use super::connection::ConnectionArgs;
use super::output::outln;
use super::password::CaPassphraseArgs;
use super::{Failure, duration, interrupt};
use crate::report::Output;
use kubexm_diagnose::timer_run::{self, RunReport};
use kubexm_safekeeping::backup::{BackupRecipients, CreateOptions, create_dry_run};
use kubexm_safekeeping::certs::{RENEWAL_DAYS, RenewOptions};
use kubexm_safekeeping::timer::{
    self, InstallOptions, Job, RemoveOptions, Schedule, TimerOptions, Unattended,
};
use kubexm_session::HostSelection;
use kubexm_types::event::Events;

/// The commands of the timer that renews certificates.
#[derive(Debug, Subcommand)]
pub enum CertsTimer {
    /// Install the timer on this machine
    ///
    /// Writes a service and a timer of systemd, which need root. The service has the user that owns the state directory, and
    /// no terminal: kubexm first logs in to all hosts as the service does. Run the command again to change the timer.
    Install(InstallCerts),
    /// Do what the timer does, and record it for `kubexm status`
    ///
    /// Ends without a change if no certificate expires soon, is missing or unreadable. If a control plane or a member of etcd is
    /// not healthy, it refuses and names the cause. Otherwise it renews the certificates of the hosts with such a certificate,
    /// one host after another, and waits until all are healthy.
    Run(RunCerts),
    /// Print when the timer runs, and how its last run ended
    Status(StateCerts),
    /// Remove the timer from this machine
    Remove(RemoveCerts),
}

/// The commands of the timer that creates backups.
#[derive(Debug, Subcommand)]
pub enum BackupTimer {
    /// Install the timer on this machine
    ///
    /// Writes a service and a timer of systemd, which need root. The service has the user that owns the state directory, and
    /// the public keys only: this machine cannot read its backups. kubexm first logs in to all hosts as the service does. Run the
    /// command again to change the timer.
    Install(InstallBackup),
    /// Do what the timer does, and record it for `kubexm status`
    Run(RunBackup),
    /// Print when the timer runs, and how its last run ended
    Status(StateBackup),
    /// Remove the timer from this machine
    Remove(RemoveBackup),
}

impl BackupArgs {
    /// Returns the public keys.
    ///
    /// # Errors
    /// There is none.
    fn recipients(&self) -> Result<Vec<String>, Failure> {
        if !self.recipients.is_empty() {
            Ok(self.recipients.clone())
        } else {
            Err(Failure::configuration(
                "a backup contains all keys of the cluster, so a public key of age is required",
            )
            .hint(
                "pass --recipient KEY; \
             `age-keygen` prints one",
            ))
        }
    }
}

impl CertsTimer {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        !matches!(self, Self::Status(_))
    }
}

impl BackupTimer {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        !matches!(self, Self::Status(_))
    }
}

/// A cluster, and how to reach it.
#[derive(Debug, Args)]
pub struct OfCluster {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl OfCluster {
    fn options(&self, job: Job) -> Result<TimerOptions, Failure> {
        Ok(TimerOptions {
            job,
            cluster: self.cluster.clone(),
            connection: self.connection.options()?,
        })
    }
}

/// Which keys of CAs a renewal opens, and which certificates it renews.
#[derive(Debug, Args)]
pub struct RenewalArgs {
    /// Renew certificates that expire within this time, in days
    ///
    /// Of a certificate that is valid for less than three times as long, the last third of its validity counts.
    #[arg(long, value_name = "DURATION", default_value_t = RENEWAL_DAYS, value_parser = duration::days)]
    days: u16,
    /// The identity file of age that encrypts the secrets of the state directory
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs timer install -f cluster.yaml --state /srv/state --dry-run
  kubexm certs timer install -f cluster.yaml --state /srv/state
  kubexm certs timer install -f cluster.yaml --schedule daily --days 60d")]
pub struct InstallCerts {
    #[command(flatten)]
    of: OfCluster,
    /// When the timer runs, as a calendar of systemd.time(7)
    #[arg(long, value_name = "CALENDAR", default_value = "weekly")]
    schedule: String,
    #[command(flatten)]
    renewal: RenewalArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs timer run -f cluster.yaml --dry-run
  kubexm certs timer run -f cluster.yaml
  kubexm certs timer run -f cluster.yaml --days 60d")]
pub struct RunCerts {
    #[command(flatten)]
    of: OfCluster,
    #[command(flatten)]
    renewal: RenewalArgs,
    /// Print the plan, change nothing and record nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs timer status -f cluster.yaml")]
pub struct StateCerts {
    #[command(flatten)]
    of: OfCluster,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs timer remove -f cluster.yaml --state /srv/state --dry-run
  kubexm certs timer remove -f cluster.yaml --state /srv/state")]
pub struct RemoveCerts {
    #[command(flatten)]
    of: OfCluster,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Where backups go, and who can read them.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The directory of the backups
    ///
    /// The default is `backups` in the state directory. Another disk, or a directory that is copied to another site, survives
    /// the loss of this machine.
    #[arg(short = 'o', long = "output-dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Encrypt for the owner of this public key of age; repeatable
    ///
    /// This machine cannot read the backups. `age-keygen` creates an identity and prints its public key.
    #[arg(long = "recipient", value_name = "KEY")]
    recipients: Vec<String>,
    /// Remove the oldest backups of the cluster in the directory, except for this number
    #[arg(long, value_name = "N", default_value = "14")]
    keep: NonZeroUsize,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup timer install -f cluster.yaml -o backups --recipient age1…
  kubexm backup timer install -f c.yaml --recipient age1… --schedule hourly")]
pub struct InstallBackup {
    #[command(flatten)]
    of: OfCluster,
    /// When the timer runs, as a calendar of systemd.time(7)
    #[arg(long, value_name = "CALENDAR", default_value = "daily")]
    schedule: String,
    #[command(flatten)]
    backup: BackupArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup timer run -f c.yaml -o backups --recipient age1… --dry-run
  kubexm backup timer run -f cluster.yaml -o backups --recipient age1…")]
pub struct RunBackup {
    #[command(flatten)]
    of: OfCluster,
    #[command(flatten)]
    backup: BackupArgs,
    /// Print the plan, change nothing and record nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup timer status -f cluster.yaml")]
pub struct StateBackup {
    #[command(flatten)]
    of: OfCluster,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm backup timer remove -f cluster.yaml --state /srv/state --dry-run
  kubexm backup timer remove -f cluster.yaml --state /srv/state")]
pub struct RemoveBackup {
    #[command(flatten)]
    of: OfCluster,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs one of the commands of `kubexm certs timer`.
pub async fn certs(command: CertsTimer, format: Output, events: &Events) -> Result<(), Failure> {
    let job = Job::Certificates;
    match command {
        CertsTimer::Install(arguments) => {
            let renewal = &arguments.renewal;
            let identity = renewal.ca_identity.as_deref();
            let key = renewal.passphrase.unattended(identity)?;
            let work = Unattended::Certificates {
                days: renewal.days,
                ca_encryption: renewal.passphrase.encryption(identity, false)?,
            };
            let schedule = (&*arguments.schedule, arguments.dry_run);
            install(job, &arguments.of, work, key, schedule, events).await
        }
        CertsTimer::Run(arguments) => {
            let renewal = &arguments.renewal;
            let key = renewal.ca_identity.as_deref();
            let options = RenewOptions {
                cluster: arguments.of.cluster.clone(),
                connection: arguments.of.connection.options()?,
                selection: HostSelection::default(),
                dry_run: arguments.dry_run,
                ca_encryption: renewal.passphrase.encryption(key, arguments.dry_run)?,
            };
            let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
            ended(&timer_run::renew(&options, renewal.days, events, &stop).await?)
        }
        CertsTimer::Status(arguments) => print(&arguments.of.options(job)?, format, events),
        CertsTimer::Remove(arguments) => remove(job, &arguments.of, arguments.dry_run, events),
    }
}

/// Runs one of the commands of `kubexm backup timer`.
pub async fn backup(command: BackupTimer, format: Output, events: &Events) -> Result<(), Failure> {
    let job = Job::Backup;
    match command {
        BackupTimer::Install(arguments) => {
            let backup = &arguments.backup;
            let work = Unattended::Backup {
                directory: backup.directory.clone(),
                recipients: backup.recipients()?,
                keep: backup.keep.get(),
            };
            let schedule = (&*arguments.schedule, arguments.dry_run);
            install(job, &arguments.of, work, Vec::new(), schedule, events).await
        }
        BackupTimer::Run(arguments) => {
            let options = CreateOptions {
                cluster: arguments.of.cluster.clone(),
                connection: arguments.of.connection.options()?,
                output: arguments.backup.directory.clone(),
                recipients: BackupRecipients::Keys(arguments.backup.recipients()?),
                keep: Some(arguments.backup.keep),
            };
            let stop = interrupt::watch(events, interrupt::STOPPING);
            if arguments.dry_run {
                return Ok(create_dry_run(&options, events, &stop).await?);
            }
            ended(&timer_run::back_up(&options, events, &stop).await?)
        }
        BackupTimer::Status(arguments) => print(&arguments.of.options(job)?, format, events),
        BackupTimer::Remove(arguments) => remove(job, &arguments.of, arguments.dry_run, events),
    }
}

async fn install(
    job: Job,
    of: &OfCluster,
    work: Unattended,
    key: Vec<String>,
    (schedule, dry_run): (&str, bool),
    events: &Events,
) -> Result<(), Failure> {
    let mut arguments = of.connection.unattended()?;
    arguments.extend(key);
    let options = InstallOptions {
        timer: of.options(job)?,
        work,
        arguments,
        schedule: Schedule::parse(schedule)?,
        dry_run,
    };
    timer::install(&options, events).await?;
    if !dry_run {
        outln!(
            "the {job} timer is installed; `kubexm {job} timer status` and `kubexm status` show its runs"
        );
    }
    Ok(())
}

fn remove(job: Job, of: &OfCluster, dry_run: bool, events: &Events) -> Result<(), Failure> {
    let options = RemoveOptions {
        timer: of.options(job)?,
        dry_run,
    };
    let is_installed = timer::remove(&options, events)?;
    match (dry_run, is_installed) {
        (true, _) => {}
        (false, true) => outln!("the {job} timer is removed"),
        (false, false) => outln!("there is no {job} timer of this cluster on this machine"),
    }
    Ok(())
}

fn ended(report: &RunReport) -> Result<(), Failure> {
    outln!("{}", report.message);
    match report.result {
        timer::RunResult::Failed => Err(Failure::found(ErrorKind::Attention)),
        _ => Ok(()),
    }
}
