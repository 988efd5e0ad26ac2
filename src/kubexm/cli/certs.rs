//! `kubexm certs`: the certificates of a cluster.

mod rotate;

use kubexm_types::ErrorKind;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::connection::ConnectionArgs;
use super::output::outln;
use super::password::CaPassphraseArgs;
use super::{Failure, duration, interrupt, output, timer};
use crate::report::Output;
use kubexm_safekeeping::certs::{
    self, CertificateReport, CheckOptions, CheckedCertificate, RenewOptions, Standing,
};
use kubexm_session::HostSelection;
use kubexm_types::HostName;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the certificates of a cluster with their expiry dates
    ///
    /// Reads the certificates and kubeconfigs on every host, and those in the state directory. It changes nothing, and
    /// needs no API server. The exit code is 8 if a certificate has expired, expires soon, or does not match its CA. It
    /// is 4 if the only problem is an unreachable host.
    ///
    /// A certificate expires soon if less than 60 days are left, or less than a third of a shorter validity. The kubelet
    /// renews its own certificates: for them, it is a tenth.
    Check(Check),
    /// Issue the certificates and kubeconfigs of a cluster again
    ///
    /// Works on one host after another, and goes on when the programs of a host are healthy. It first prints the
    /// certificates of each host, and what restarts. It also writes a new admin.conf into the state directory. It does
    /// not replace a CA, and does not renew the certificates that kubelets renew themselves. A kubelet of kubeadm whose
    /// certificate has expired gets a new one.
    ///
    /// A renewal that was interrupted continues when the same command runs again within 24 hours.
    Renew(Renew),
    /// Renew certificates that expire soon, by a timer of systemd on this machine
    #[command(subcommand)]
    Timer(timer::CertsTimer),
    /// Replace the CAs of a cluster in three phases
    ///
    /// Each run completes one phase, so that you can stop between them.
    ///
    /// Phase 1, trust: every program trusts the present and the next CA. `--cancel` can undo it.
    ///
    /// Phase 2, switch: the new CA signs, and every program gets certificates of it. It cannot be undone.
    ///
    /// Phase 3, remove: no file has the former CA any more. kubexm first proves that nothing uses it. Pods that started
    /// earlier may trust it until they restart.
    ///
    /// Between them, install, upgrade, renewals and new nodes are refused. With several control planes, API servers restart one
    /// after another, and the endpoint answers all the time.
    RotateCa(rotate::RotateCa),
    /// Replace the key that signs tokens of service accounts, in three phases
    ///
    /// Each run completes one phase, so that you can stop between them.
    ///
    /// Phase 1, trust: every API server accepts tokens of the present and the next key. `--cancel` can undo it.
    ///
    /// Phase 2, switch: the new key signs. It cannot be undone.
    ///
    /// Phase 3, remove: tokens of the former key are invalid. kubexm refuses this for a year, unless you accept the loss.
    RotateSaKey(rotate::RotateSaKey),
}

impl Command {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        match self {
            Self::Check(_) => false,
            Self::Renew(_) | Self::RotateCa(_) | Self::RotateSaKey(_) => true,
            Self::Timer(command) => command.emits_events(),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs check -f cluster.yaml
  kubexm certs check -f cluster.yaml --output json")]
pub struct Check {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs renew -f cluster.yaml --dry-run
  kubexm certs renew -f cluster.yaml
  kubexm certs renew -f cluster.yaml --expiring
  kubexm certs renew -f cluster.yaml --host node1 --host node2")]
pub struct Renew {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Renew the certificates of this host only; repeatable
    ///
    /// Certificates that several hosts share stay, unless all of these hosts are in the renewal: that of the registry,
    /// and that of API servers at an etcd of kubexm.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<HostName>,
    /// Renew only on hosts with a certificate that expires within this time, in days (75d without a value)
    ///
    /// Of a certificate that is valid for less than three times as long, the last third of its validity counts. A file that is
    /// missing or unreadable counts as well. Without such a certificate, the command changes nothing and the exit code is 0.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "75d", value_parser = duration::days, conflicts_with = "hosts")]
    expiring: Option<u16>,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The identity file of age that encrypts the secrets of the state directory
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Check(arguments) => check(&arguments, output, events).await,
        Command::Renew(arguments) => renew(&arguments, output, events).await,
        Command::Timer(command) => timer::certs(command, output, events).await,
        Command::RotateCa(arguments) => rotate::ca(&arguments, output, events).await,
        Command::RotateSaKey(arguments) => rotate::sa_key(&arguments, output, events).await,
    }
}

/// Prints the certificates.
///
/// # Errors
/// Fails with the exit code 8 if a certificate needs an action, and with 4 if only hosts are unknown.
async fn check(arguments: &Check, output: Output, events: &Events) -> Result<(), Failure> {
    let options = CheckOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let report = certs::check(&options, events, &stop).await?;
    match output {
        Output::Json => output::document("CertificateReport", &report)?,
        Output::Auto | Output::Plain => print(&report),
    }
    if report.has_findings() {
        return Err(Failure::found(ErrorKind::Certificates));
    }
    if report.unchecked.is_empty() {
        Ok(())
    } else {
        Err(Failure::found(ErrorKind::Host))
    }
}

/// Renews the certificates.
async fn renew(arguments: &Renew, output: Output, events: &Events) -> Result<(), Failure> {
    let options = RenewOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        selection: HostSelection {
            names: arguments.hosts.clone(),
            roles: Vec::new(),
        },
        dry_run: arguments.dry_run,
        ca_encryption: arguments
            .passphrase
            .encryption(arguments.ca_identity.as_deref(), arguments.dry_run)?,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let report = match arguments.expiring {
        None => certs::renew(&options, events, &stop).await?,
        Some(days) => {
            let expiring = certs::expiring(&options, days, events, &stop).await?;
            if expiring.is_empty() && !certs::is_interrupted(&options, events)? {
                outln!("{}", certs::nothing_to_renew(days));
                return Ok(());
            }
            certs::renew_expiring(&options, &expiring, events, &stop).await?
        }
    };
    let (Some(changed), true) = (report.changed, output != Output::Json) else {
        return Ok(());
    };
    match &report.kubeconfig {
        Some(kubeconfig) => outln!(
            "the certificates are renewed: {changed} changes; the new kubeconfig is {}",
            kubeconfig.display()
        ),
        None => outln!("the certificates are renewed: {changed} changes"),
    }
    Ok(())
}

fn print(report: &CertificateReport) {
    if let Some(rotation) = &report.rotation {
        outln!("{rotation}");
    }
    let mut before = None;
    for certificate in &report.certificates {
        if before != Some(&certificate.host) {
            match &certificate.host {
                Some(host) => outln!("{host}"),
                None => outln!("this machine"),
            }
            before = Some(&certificate.host);
        }
        outln!("  {}", line(certificate));
    }
    for host in &report.unchecked {
        outln!("{}\n  not checked: {}", host.host, host.reason);
        if let Some(hint) = &host.hint {
            outln!("  hint: {hint}");
        }
    }
    outln!("{}", summary(report));
    if report.has_bad_certificates() {
        outln!(
            "hint: `kubexm certs renew` issues certificates and kubeconfigs again, also those that are missing or unreadable, but \
             no CA"
        );
    }
}

fn line(certificate: &CheckedCertificate) -> String {
    let content = &certificate.content;
    let days = content.days_left.map(|days| format!("{days} days"));
    let date = content
        .expires
        .as_deref()
        .and_then(|time| time.split('T').next());
    let from = content
        .issuer
        .as_deref()
        .filter(|_| !content.is_ca)
        .map(|issuer| format!(", from {issuer}"));
    format!(
        "{:<13} {:>10}  {:<10}  {} ({}{})",
        certificate.standing,
        days.unwrap_or_default(),
        date.unwrap_or_default(),
        certificate.path,
        certificate.purpose,
        from.unwrap_or_default()
    )
}

fn summary(report: &CertificateReport) -> String {
    let counts = Standing::ALL.into_iter().filter_map(|standing| {
        let count = report.count(standing);
        (count > 0 || standing == Standing::Ok).then(|| format!("{count} {standing}"))
    });
    let counts: Vec<String> = counts.collect();
    let unchecked = match report.unchecked.len() {
        0 => String::new(),
        count => format!("; hosts that were not checked: {count}"),
    };
    format!(
        "{} certificates: {}{unchecked}",
        report.certificates.len(),
        counts.join(", ")
    )
}
