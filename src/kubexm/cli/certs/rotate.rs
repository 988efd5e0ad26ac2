//! `kubexm certs rotate-ca` and `kubexm certs rotate-sa-key`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::connection::ConnectionArgs;
use crate::cli::output::outln;
use crate::cli::password::CaPassphraseArgs;
use crate::cli::{Failure, explain, interrupt};
use crate::report::Output;
use kubexm_safekeeping::certs::{self, OldPods, Phase, RotateOptions, Rotated};
use kubexm_types::Authority;
use kubexm_types::event::Events;

/// A CA on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ca {
    /// The CA of API servers, kubelets and users.
    Kubernetes,
    /// The CA for clients of aggregated API servers.
    FrontProxy,
    /// The CA of etcd.
    Etcd,
    /// The CA of the registry.
    Registry,
}

impl Ca {
    fn authority(self) -> Authority {
        match self {
            Self::Kubernetes => Authority::Kubernetes,
            Self::FrontProxy => Authority::FrontProxy,
            Self::Etcd => Authority::Etcd,
            Self::Registry => Authority::Registry,
        }
    }
}

/// A phase on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PhaseArg {
    /// Every program trusts the present and the next authority.
    Trust,
    /// The new authority signs, and every program gets credentials of it.
    Switch,
    /// No program trusts the former authority any more.
    Remove,
}

impl PhaseArg {
    fn phase(self) -> Phase {
        match self {
            Self::Trust => Phase::Trust,
            Self::Switch => Phase::Switch,
            Self::Remove => Phase::Remove,
        }
    }
}

#[derive(Debug, Args)]
struct Common {
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Run this phase; by default the next one
    ///
    /// A phase begins after the one before is complete. A phase that was interrupted continues.
    #[arg(long, value_name = "PHASE", value_enum)]
    phase: Option<PhaseArg>,
    /// Undo the phase trust, and end the rotation
    ///
    /// This is possible until the phase switch begins.
    #[arg(long, conflicts_with = "phase")]
    cancel: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The identity file of age that encrypts the secrets of the state directory
    #[arg(long, value_name = "FILE", env = "KUBEXM_CA_IDENTITY")]
    ca_identity: Option<PathBuf>,
    #[command(flatten)]
    passphrase: CaPassphraseArgs,
}

impl Common {
    fn options(&self, rotated: Rotated) -> Result<RotateOptions, Failure> {
        Ok(RotateOptions {
            cluster: self.cluster.clone(),
            connection: self.connection.options()?,
            rotated,
            phase: self.phase.map(PhaseArg::phase),
            cancel: self.cancel,
            old_pods: OldPods::Refuse,
            invalidates_tokens: false,
            dry_run: self.dry_run,
            ca_encryption: self
                .passphrase
                .encryption(self.ca_identity.as_deref(), self.dry_run)?,
        })
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs rotate-ca -f cluster.yaml --dry-run
  kubexm certs rotate-ca -f cluster.yaml
  kubexm certs rotate-ca -f cluster.yaml --phase switch --restart-workloads
  kubexm certs rotate-ca -f cluster.yaml --ca etcd
  kubexm certs rotate-ca -f cluster.yaml --ca registry
  kubexm certs rotate-ca -f cluster.yaml --cancel")]
pub struct RotateCa {
    #[command(flatten)]
    common: Common,
    /// Replace this CA only; repeatable
    ///
    /// By default the CA of Kubernetes, the front-proxy CA, and the CA of an etcd of the cluster.
    #[arg(long = "ca", value_name = "CA", value_enum)]
    cas: Vec<Ca>,
    /// Restart workloads with pods that may know only the former CA
    ///
    /// Many programs read the CA of their service account once, when they start. This restarts the Deployments, DaemonSets
    /// and StatefulSets of pods that started before the phase trust was complete, and waits for them.
    #[arg(long, conflicts_with = "leave_workloads")]
    restart_workloads: bool,
    /// Go on although pods may know only the former CA
    ///
    /// Programs that read the CA once lose the API server in the phase switch.
    #[arg(long)]
    leave_workloads: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm certs rotate-sa-key -f cluster.yaml --dry-run
  kubexm certs rotate-sa-key -f cluster.yaml
  kubexm certs rotate-sa-key -f cluster.yaml --phase remove --invalidate-tokens")]
pub struct RotateSaKey {
    #[command(flatten)]
    common: Common,
    /// Remove the former key while its tokens may be in use
    ///
    /// Tokens that the former key signed are then invalid: those of programs that do not read their token again, which are valid
    /// for a year, and those in Secrets, which never expire.
    #[arg(long)]
    invalidate_tokens: bool,
}

/// Replaces CAs.
pub async fn ca(arguments: &RotateCa, output: Output, events: &Events) -> Result<(), Failure> {
    let cas = arguments.cas.iter().map(|ca| ca.authority()).collect();
    let options = arguments.common.options(Rotated::Cas(cas))?;
    let old_pods = match (arguments.restart_workloads, arguments.leave_workloads) {
        (true, _) => OldPods::Restart,
        (false, true) => OldPods::Leave,
        (false, false) => OldPods::Refuse,
    };
    run(
        RotateOptions {
            old_pods,
            ..options
        },
        output,
        events,
    )
    .await
}

/// Replaces the key of service accounts.
pub async fn sa_key(
    arguments: &RotateSaKey,
    output: Output,
    events: &Events,
) -> Result<(), Failure> {
    let options = arguments.common.options(Rotated::ServiceAccountKey)?;
    let options = RotateOptions {
        invalidates_tokens: arguments.invalidate_tokens,
        ..options
    };
    run(options, output, events).await
}

async fn run(options: RotateOptions, output: Output, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    let site = (&*options.cluster, &options.connection);
    let report = explain::during(site, events, &stop, async |events| {
        certs::rotate(&options, &events, &stop).await
    })
    .await?;
    if report.changed.is_some() && output != Output::Json {
        outln!("{}", report.text);
    }
    Ok(())
}
