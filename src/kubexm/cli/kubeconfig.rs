//! `kubexm kubeconfig`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use time::format_description::well_known::Rfc3339;

use super::connection::ConnectionArgs;
use super::output::outln;
use super::{Failure, duration, interrupt, output};
use crate::report::Output;
use kubexm_operate::kubeconfig::{self, KubeconfigOptions, LONGEST, SHORTEST, SubjectName};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm kubeconfig anna -f cluster.yaml --group developers -o anna.conf
  kubexm kubeconfig audit -f cluster.yaml --expires 8h -o audit.conf
  kubexm kubeconfig anna -f cluster.yaml -o anna.conf --dry-run")]
pub struct Kubeconfig {
    /// The user in Kubernetes, to whom you bind a role
    #[arg(value_name = "USER", value_parser = SubjectName::parse)]
    user: SubjectName,
    /// The cluster file
    #[arg(short = 'f', long, alias = "file", value_name = "CLUSTER")]
    cluster: PathBuf,
    /// The group of the user
    #[arg(long, value_name = "NAME", value_parser = SubjectName::parse)]
    group: Option<SubjectName>,
    /// How long the certificate is valid, as in 8h or 30d
    ///
    /// From 10m to 24855d. The cluster shortens it to the limit of its controller manager, by default one year. A certificate
    /// cannot be revoked.
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = validity)]
    expires: Duration,
    /// Path of the kubeconfig, which must not exist
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl Kubeconfig {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        self.dry_run
    }
}

fn validity(text: &str) -> Result<Duration, String> {
    let validity = duration::parse(text)?;
    if validity < SHORTEST {
        return Err("Kubernetes signs no certificate for less than 10m".to_owned());
    }
    if validity > LONGEST {
        let days = LONGEST.as_secs() / (24 * 60 * 60);
        return Err(format!(
            "the API of Kubernetes takes at most {days}d\nhint: the cluster shortens it to the limit of its controller manager, \
             by default one year"
        ));
    }
    Ok(validity)
}

/// Writes the kubeconfig and prints when it expires.
///
/// # Errors
/// See [`kubeconfig::kubeconfig`].
pub async fn run(arguments: &Kubeconfig, format: Output, events: &Events) -> Result<(), Failure> {
    let options = KubeconfigOptions {
        cluster: arguments.cluster.clone(),
        connection: arguments.connection.options()?,
        user: arguments.user.clone(),
        group: arguments.group.clone(),
        validity: arguments.expires,
        out: arguments.out.clone(),
    };
    let stop = interrupt::watch(events, interrupt::STOPPING_COMMAND);
    if arguments.dry_run {
        return Ok(kubeconfig::dry_run(&options, events, &stop).await?);
    }
    let written = kubeconfig::kubeconfig(&options, events, &stop).await?;
    if format == Output::Json {
        return output::document("WrittenKubeconfig", &written);
    }
    let expires = written.expires.format(&Rfc3339).map_err(Failure::defect)?;
    let group = written
        .group
        .map_or_else(String::new, |group| format!(" of the group {group}"));
    outln!(
        "{}: kubeconfig of the user {}{group}, valid until {expires}",
        written.path.display(),
        written.user
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn validity_is_one_that_the_api_takes() {
        for good in ["10m", "30d", "24855d"] {
            assert!(validity(good).is_ok(), "{good}");
        }
        for wrong in ["9m", "24856d", "36500d"] {
            assert!(validity(wrong).is_err(), "{wrong}");
        }
        let refused = validity("36500d").unwrap_err();
        assert!(refused.contains("at most 24855d\nhint: "), "{refused}");
    }
}
