//! `doctor`: what is wrong with a cluster, why, and what to do. It reads facts by SSH first, then asks an API server if one is
//! ready. It changes nothing.

mod answers;
mod api;
mod applications;
mod ask;
mod balancer;
mod certificates;
mod check;
mod cni;
mod disk;
mod dns;
mod etcd;
mod hosts;
mod kernel;
mod kubelet;
mod needs;
mod network;
mod order;
#[cfg(test)]
mod order_tests;
mod patterns;
mod problems;
mod registry;
mod report;
mod rules;
mod runtime;
mod runtime_class;
mod seen;
mod server;
mod shared;
#[cfg(test)]
mod tests;
mod time;
mod tokens;
mod workloads;

use std::collections::BTreeSet;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::status::{self, StatusOptions, StatusReport};
use check::{Check, Found, Lasts, Outcome};
use kubexm_config::Cluster;
use kubexm_session::command_line::CommandLine;
use kubexm_session::session::Hosts;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, Hopeless, Stop};
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostName, authority};
pub use report::{Area, Certainty, CheckResult, DoctorReport, Finding, Verdict};
use seen::Seen;

/// Which cluster to examine.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
}

/// Examines the hosts that answer, and the cluster through an API server that is ready. Changes nothing.
///
/// # Errors
/// The cluster file is wrong, a record in the state directory is damaged, or the user stopped the command. A host that
/// cannot be reached is part of the report.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn doctor(
    options: &DoctorOptions,
    events: &Events,
    stop: &Stop,
) -> Result<DoctorReport, CommandError> {
    Ok(examine(options, events, stop).await?.report)
}

/// A cluster that was examined.
pub struct Examined {
    pub cluster: Cluster,
    pub report: DoctorReport,
    pub status: StatusReport,
    /// The hosts with a connection.
    pub hosts: Hosts,
    /// A control plane whose API server is ready.
    pub server: Option<HostName>,
}

/// Does the same as [`doctor`], and returns also the connections and the state of the cluster.
pub async fn examine(
    options: &DoctorOptions,
    events: &Events,
    stop: &Stop,
) -> Result<Examined, CommandError> {
    let looking = StatusOptions {
        cluster: options.cluster.clone(),
        connection: options.connection.clone(),
        diff: None,
        ca_encryption: None,
    };
    let looked = status::look(&looking, events, stop).await?;
    let line = CommandLine::new(&options.cluster, &options.connection);
    let hosts = looked.hosts.clone();
    let asking = async { Ok(ask::all(looked, line).await) };
    let seen = Box::pin(unless_stopped(stop, asking)).await?;
    let report = judge(&seen);
    let server = seen.api.is_some().then(|| seen.administrator().clone());
    Ok(Examined {
        cluster: seen.cluster,
        report,
        status: seen.report,
        hosts,
        server,
    })
}

/// Returns every check, in the order of dependency.
fn checks() -> impl Iterator<Item = &'static Check> {
    let areas = [
        hosts::CHECKS,
        time::CHECKS,
        disk::CHECKS,
        kernel::CHECKS,
        shared::CHECKS,
        certificates::CHECKS,
        runtime::CHECKS,
        registry::CHECKS,
        etcd::CHECKS,
        server::CHECKS,
        tokens::CHECKS,
        balancer::CHECKS,
        kubelet::CHECKS,
        network::CHECKS,
        dns::CHECKS,
        workloads::CHECKS,
        runtime_class::CHECKS,
        applications::CHECKS,
    ];
    areas.into_iter().flatten()
}

/// Makes all checks.
fn judge(seen: &Seen) -> DoctorReport {
    let mut results = Vec::new();
    let mut all = Vec::new();
    for check in checks() {
        let (mut found, reason) = match (check.run)(seen) {
            Outcome::Known(found) => (found, None),
            Outcome::Unknown(reason) => (Vec::new(), Some(reason)),
        };
        patterns::extend(seen, check.id, &mut found);
        // Without an answer, nothing was found because nothing was read.
        let reason = reason.or_else(|| check.source.silence(seen).map(str::to_owned));
        let verdict = match (found.is_empty(), &reason) {
            (false, _) => Verdict::Problem,
            (true, Some(_)) => Verdict::Unknown,
            (true, None) => Verdict::Ok,
        };
        results.push(CheckResult {
            check: check.id,
            area: check.area,
            read: check.read,
            verdict,
            reason: reason.filter(|_| verdict == Verdict::Unknown),
        });
        all.extend(merged(found).into_iter().map(|found| (check, found)));
    }
    let follows = order::explain(&seen.cluster, &all);
    let findings = all.into_iter().zip(follows);
    let findings = findings.map(|((check, found), follows)| finding(seen, check, found, follows));
    DoctorReport {
        cluster: seen.cluster.name.clone(),
        hosts: seen.cluster.hosts.len(),
        checks: results,
        findings: findings.collect(),
    }
}

/// Joins findings of several hosts that say the same.
fn merged(all: Vec<Found>) -> Vec<Found> {
    let mut merged: Vec<Found> = Vec::new();
    for found in all {
        match merged.iter_mut().find(|other| other.is_like(&found)) {
            Some(other) => other.merge(found),
            None => merged.push(found),
        }
    }
    merged
}

fn finding(seen: &Seen, check: &Check, found: Found, follows: Option<&'static str>) -> Finding {
    let keeps_waiting = match &found.lasts {
        None => None,
        Some(Lasts::On(hosts)) => Some(Hopeless::Hosts(hosts.clone())),
        Some(Lasts::Without(unit)) => {
            let hosts = found.hosts.iter().filter(|host| seen.is_down(host, unit));
            let hosts: BTreeSet<HostName> = hosts.cloned().collect();
            (!hosts.is_empty()).then_some(Hopeless::Hosts(hosts))
        }
        Some(Lasts::Dns) => Some(Hopeless::Dns),
    };
    Finding {
        check: check.id,
        area: check.area,
        hosts: found.hosts,
        what: found.what,
        evidence: found.evidence,
        cause: found.cause,
        certainty: found.certainty,
        fix: found.fix,
        commands: found.commands,
        follows,
        keeps_waiting,
        is_warning: found.is_warning,
    }
}

/// Returns the fingerprint of a certificate in base64, as in a kubeconfig.
fn certificate_digest(base64: &str) -> Option<Digest> {
    let text = String::from_utf8(STANDARD.decode(base64.trim()).ok()?).ok()?;
    authority::fingerprints(&text).into_iter().next()
}
