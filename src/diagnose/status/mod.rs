//! `status`: the state of a cluster, by its hosts and by its API. It needs neither a bundle nor an API server, and changes
//! nothing without `--fix`.

use kubexm_types::Message;

mod answers;
mod applications;
mod begun;
mod cluster;
mod disks;
mod drift;
#[cfg(test)]
pub mod example;
mod fix;
mod hosts;
mod members;
mod questions;
mod reply;
mod report;
mod seen;
mod skew;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

pub use answers::{Answers, Unit};
use applications::Installed;
pub use applications::{ApplicationState, ReleaseState};
pub use cluster::is_ready;
pub use fix::{FixOptions, FixReport, fix};
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_deploy::expected;
use kubexm_deploy::objects::{Node, Server};
use kubexm_engine::cluster::ClusterRecord;
use kubexm_host::{Command, Facts, Host, HostError, Limit};
use kubexm_preflight::{Finding, external_checks, host_checks, registry_checks};
use kubexm_safekeeping::certs;
use kubexm_safekeeping::timer;
use kubexm_scripts::Script;
use kubexm_scripts::status::HOST;
use kubexm_session::begun::StateRecord;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::rollback::Newest;
pub use kubexm_session::rollback::Newest as NewestBundle;
use kubexm_session::session::{self, HostErrors, Hosts, PARALLEL};
use kubexm_session::stop::{AGAIN, unless_stopped};
use kubexm_session::{
    BundleAccess, ClusterSource, CommandError, Connection, Stop, data_directories, notices,
};
use kubexm_types::event::Events;
use kubexm_types::{ErrorKind, HostName};
pub use reply::is_about_certificate;
pub use report::{
    About, CertificateState, DiskState, EndpointState, EtcdState, HostState, InodeState,
    MemberState, NodeStanding, NodeState, Problem, ProblemKind, RegistryState, StatusReport,
    Subject,
};
pub use seen::Checked;
use seen::Seen;

/// How long the programs of a host may take to answer all questions. Each question has limits of its own.
const LIMIT: Limit = Limit::new(Duration::from_secs(90), "the state of programs");

/// Which cluster to look at.
#[derive(Debug, Clone)]
pub struct StatusOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The bundles with whose plan to compare the hosts; `None` to compare nothing.
    pub diff: Option<BundlesToCompare>,
    /// What encrypts the keys of CAs in the state directory. Only a comparison reads such a key.
    pub ca_encryption: Option<CaEncryption>,
}

/// A bundle with whose plan the hosts are compared.
#[derive(Debug, Clone)]
pub struct BundlesToCompare {
    /// The bundle; an incremental bundle follows its base bundles.
    pub bundles: Vec<PathBuf>,
    /// How they are opened.
    pub access: BundleAccess,
}

/// What kubexm knows after a look at a cluster.
pub struct Looked {
    pub cluster: Cluster,
    pub report: StatusReport,
    /// The hosts with a connection, those without facts among them.
    pub hosts: Hosts,
    pub facts: BTreeMap<HostName, Facts>,
    pub answers: BTreeMap<HostName, Answers>,
    pub checked: BTreeMap<HostName, Checked>,
    /// The nodes by name; `None` if no API server lists them.
    pub nodes: Option<BTreeMap<String, Node>>,
}

/// Looks at the hosts that answer, at their programs, and at the cluster through an API server that is ready. Changes nothing.
///
/// # Errors
/// The cluster file is wrong, or the user stopped the command. An unreachable host and a damaged record in the state directory
/// are part of the report.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn status(
    options: &StatusOptions,
    events: &Events,
    stop: &Stop,
) -> Result<StatusReport, CommandError> {
    Ok(look(options, events, stop).await?.report)
}

/// Does the same as [`status`], and returns also the connections and what each host answered.
pub async fn look(
    options: &StatusOptions,
    events: &Events,
    stop: &Stop,
) -> Result<Looked, CommandError> {
    options.connection.check()?;
    options.connection.warn_of_lost_state(events);
    let (opened, cluster) = open(options, events)?;
    let state = options.connection.state_directory(&cluster, events)?;
    let mut damaged = Vec::new();
    let record = known(ClusterRecord::read(&state), About::Identity, &mut damaged);
    let bundle = known(Newest::read(&state), About::Version, &mut damaged);
    let other_bundle = opened
        .as_ref()
        .and_then(|opened| drift::other_bundle(&state, opened.bundle()));
    let (timers, of_timers) = timer::states(&state);
    let of_timers = of_timers.iter();
    damaged.extend(of_timers.map(|error| Problem::of_error(About::Timer, error)));
    let looking = async {
        let connecting = options.connection.connect_each(&cluster, &state, events);
        let (hosts, mut errors) = connecting.await?;
        let observed = session::watched(&hosts, events);
        let (facts, more) =
            session::gather_with(&observed, &data_directories::paths(&cluster)).await;
        errors.extend(more);
        let certificates = certs::report(&cluster, &state, &facts, Vec::new());
        let ((answers, more), checked) = tokio::join!(
            ask_all(&cluster, &observed, &facts),
            check_all(&cluster, &observed, &facts)
        );
        errors.extend(more);
        let (asked, mut findings) = tokio::join!(
            ask_server(&cluster, &observed, &answers),
            findings(&cluster, &observed, &facts)
        );
        findings.extend(begun::problems(&cluster, &state, &facts));
        findings.extend(damaged);
        let drift = match &opened {
            Some(bundle) => {
                let installed = observed.iter().filter(|(name, _)| {
                    facts.get(*name).is_some_and(hosts::is_installed)
                        && !drift::is_lost(&errors, name)
                });
                let installed = installed.map(|(name, host)| (name.clone(), Arc::clone(host)));
                findings.extend(drift::receipts(&installed.collect()).await);
                let encryption = options.ca_encryption.as_ref();
                let comparing =
                    drift::compare(&cluster, bundle, &state, encryption, &observed, &facts);
                Some(comparing.await?)
            }
            None => None,
        };
        let seen = Seen {
            cluster: &cluster,
            identity: record.as_ref().map(|record| record.identity().clone()),
            removed: record.map_or_else(BTreeMap::new, |record| record.removed().clone()),
            bundle,
            facts,
            answers,
            checked,
            errors,
            nodes: asked.nodes,
            applications: asked.applications,
            certificates,
            findings,
            drift,
            other_bundle,
            timers,
        };
        let report = cluster::judge(&seen);
        let nodes = seen.nodes.and_then(Result::ok);
        Ok(Looked {
            cluster: cluster.clone(),
            report,
            hosts: observed,
            facts: seen.facts,
            answers: seen.answers,
            checked: seen.checked,
            nodes,
        })
    };
    let looked = unless_stopped(stop, looking).await;
    // A look can follow a fix, which has changed hosts.
    looked.map_err(|error| stopped(error, "stopped before the state of the cluster was known"))
}

/// Returns the error of a command that the user stopped with another text, and other errors as they are.
fn stopped(error: CommandError, what: &str) -> CommandError {
    if error.kind() == ErrorKind::Interrupted {
        CommandError::interrupted(what).hint(AGAIN)
    } else {
        error
    }
}

/// Returns a record of the state directory, and lists a damaged one as a problem: a look at the cluster needs none of them.
fn known<T>(
    read: Result<Option<T>, CommandError>,
    about: About,
    damaged: &mut Vec<Problem>,
) -> Option<T> {
    read.unwrap_or_else(|error| {
        damaged.push(Problem::of_error(about, &error));
        None
    })
}

/// Reads the cluster file, and opens the bundle if there is one.
fn open(
    options: &StatusOptions,
    events: &Events,
) -> Result<(Option<Arc<BundleSet>>, Cluster), CommandError> {
    let Some(BundlesToCompare { bundles, access }) = options.diff.clone() else {
        let cluster = kubexm_config::load_cluster(&options.cluster)?;
        notices::emit(&cluster.notices, events);
        return Ok((None, cluster));
    };
    let source = ClusterSource {
        bundles,
        cluster: options.cluster.clone(),
        access,
    };
    let (bundle, cluster) = source.open(events)?;
    Ok((Some(bundle), cluster))
}

/// Asks the hosts what the checks read that preflight makes, too.
async fn check_all(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> BTreeMap<HostName, Checked> {
    let asked = hosts.iter().filter(|(name, _)| facts.contains_key(*name));
    stream::iter(asked)
        .map(async |(name, host)| {
            let answers = host_checks::ask(cluster, host.as_ref()).await;
            (name.clone(), answers)
        })
        .buffered(PARALLEL)
        .collect()
        .await
}

/// Asks the hosts with a cluster about their programs.
async fn ask_all(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> (BTreeMap<HostName, Answers>, HostErrors) {
    let asked = cluster.hosts.iter().filter_map(|host| {
        let facts = facts.get(&host.name)?;
        hosts::is_installed(facts).then_some(())?;
        Some((host, hosts.get(&host.name)?))
    });
    let results: Vec<_> = stream::iter(asked)
        .map(async |(spec, host)| (spec.name.clone(), ask(cluster, spec, host.as_ref()).await))
        .buffered(PARALLEL)
        .collect()
        .await;
    session::separated(results)
}

async fn ask(cluster: &Cluster, spec: &HostSpec, host: &dyn Host) -> Result<Answers, HostError> {
    const ACTION: &str = "look at the programs";
    let questions = questions::of(cluster, spec);
    let arguments = questions.iter().flat_map(|question| question.words());
    let text = run(host, HOST, arguments.collect(), ACTION).await?;
    answers::parse(&text, &questions).map_err(|error| HostError::Command {
        host: host.name().clone(),
        command: ACTION.to_owned(),
        reason: error.to_string().into(),
    })
}

async fn run(
    host: &dyn Host,
    script: Script,
    arguments: Vec<String>,
    action: &str,
) -> Result<String, HostError> {
    let command = Command::from_script(script, arguments);
    let output = host.run(command.describe(action).limit(LIMIT)).await?;
    if output.success() {
        Ok(output.text())
    } else {
        Err(HostError::Command {
            host: host.name().clone(),
            command: action.to_owned(),
            reason: Message::printed(output.complaint().as_str()),
        })
    }
}

/// The answers of an API server; an error is why there is none.
#[derive(Default)]
struct ApiAnswers {
    /// The nodes by name; `None` if no API server is ready.
    nodes: Option<Result<BTreeMap<String, Node>, String>>,
    applications: Option<Result<Installed, String>>,
}

/// Asks the first API server that is ready.
async fn ask_server(
    cluster: &Cluster,
    hosts: &Hosts,
    answers: &BTreeMap<HostName, Answers>,
) -> ApiAnswers {
    let mut last = ApiAnswers::default();
    for name in &cluster.roles.control_plane {
        let is_ready = answers.get(name).and_then(cluster::is_ready);
        let (Some(true), Some(host), Some(spec)) = (is_ready, hosts.get(name), cluster.host(name))
        else {
            continue;
        };
        let server = expected::api_server(cluster, spec);
        let server = Server::of(host.as_ref()).at(&server).limit(LIMIT);
        let (nodes, applications) = tokio::join!(
            server.list::<Node>("list the nodes", &["nodes"]),
            applications::ask(cluster, server)
        );
        let named = |nodes: Vec<Node>| {
            let nodes = nodes.into_iter();
            let named = nodes.map(|node| (node.metadata.name.clone(), node));
            named.collect()
        };
        last.nodes = Some(nodes.map(named).map_err(|error| error.to_string()));
        if let Some(Ok(_)) = last.nodes {
            last.applications = Some(applications.map_err(|error| error.to_string()));
            break;
        }
    }
    last
}

/// Returns the problems of an etcd and of a registry that kubexm does not run.
async fn findings(
    cluster: &Cluster,
    hosts: &Hosts,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Problem> {
    // Hosts without facts are slow or broken.
    let known = hosts.iter().filter(|(name, _)| facts.contains_key(name));
    let hosts: Hosts = known
        .map(|(name, host)| (name.clone(), host.clone()))
        .collect();
    let (etcd, registry) = tokio::join!(
        external_checks::etcd(cluster, &hosts, facts, None),
        registry_checks::check(cluster, &hosts, &[])
    );
    let problem = |about| {
        move |finding: Finding| Problem::new(about, finding.what, finding.hint).on(&finding.host)
    };
    let etcd = etcd.into_iter().map(problem(About::Etcd));
    etcd.chain(registry.into_iter().map(problem(About::Registry)))
        .collect()
}
