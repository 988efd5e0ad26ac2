//! Pods that may know only the CA from before a rotation: many programs read it once, when they start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::pods::{Controller, Pod};
use kubexm_config::cluster::{PluginKind, PluginProperties};
use kubexm_deploy::objects::{METADATA, Metadata, Object, Server, restart as restart_pods};
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::kubernetes::ROLLOUT;
use kubexm_session::CommandError;
use kubexm_types::event::Events;
use kubexm_types::{Message, Untrusted, UtcTime, WarningKind};

/// How long workloads may take to restart.
const RESTART: Limit = Limit::new(Duration::from_secs(3600), "restarts of workloads");
/// The title of the commands that restart them.
const RESTARTS: &str = "restart workloads";
/// The workloads that can be restarted.
const KINDS: [&str; 3] = ["Deployment", "DaemonSet", "StatefulSet"];

/// Pods of a workload, or a pod without one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    namespace: String,
    /// `KIND/NAME` of the workload, or `Pod/NAME`.
    name: String,
}

impl Workload {
    /// Returns whether kubexm deployed it.
    pub(super) fn is_own(&self) -> bool {
        let namespace = self.namespace.as_str();
        let is_own = |plugin: &PluginProperties| {
            plugin.namespaces.contains(&namespace) || plugin.other_namespaces.contains(&namespace)
        };
        namespace == "kube-system" || PluginKind::all_properties().any(is_own)
    }

    /// Returns whether it can be restarted, so that its pods are replaced.
    pub(super) fn can_restart(&self) -> bool {
        let kind = self.name.split('/').next().unwrap_or_default();
        KINDS.contains(&kind)
    }

    /// Returns the words of the workload for kubectl.
    fn words(&self) -> [&str; 3] {
        [&self.name, "-n", &self.namespace]
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(
            f,
            "{}",
            Untrusted::one_line(&format!("{namespace}/{name}"), 300)
        )
    }
}

/// The pods of a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Workloads {
    /// The time on the host.
    pub(super) now: UtcTime,
    /// The start of the oldest container of each workload.
    oldest: BTreeMap<Workload, UtcTime>,
}

impl Workloads {
    /// Reads the pods that run.
    ///
    /// # Errors
    /// The API server does not answer.
    pub(super) async fn read(host: &dyn Host) -> Result<Self, CommandError> {
        let title = "list the pods of the cluster";
        let date = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
        let now = UtcTime::parse(run(host, title, date).await?.trim());
        let now = now.map_err(|error| CommandError::step(format!("cannot {title}: {error}")))?;
        let server = Server::of(host);
        let sets: Vec<Object> = server.list(title, &["replicasets", "-A"]).await?;
        let tokens = tokens(host, title).await?;
        let words = ["pods", "-A", "--field-selector=status.phase=Running"];
        let pods: Vec<Pod> = server.list(title, &words).await?;
        Ok(Self::of(now, &sets, &tokens, &pods))
    }

    fn of(now: UtcTime, sets: &[Object], tokens: &[Object], pods: &[Pod]) -> Self {
        // A Deployment owns its pods by a ReplicaSet.
        let sets = sets.iter().filter_map(|set| {
            let Metadata {
                namespace, name, ..
            } = &set.metadata;
            let owner = set.metadata.owner()?;
            Some(((namespace.as_str(), format!("ReplicaSet/{name}")), owner))
        });
        let sets: BTreeMap<(&str, String), String> = sets.collect();
        let mut oldest: BTreeMap<Workload, UtcTime> = BTreeMap::new();
        for pod in pods {
            let Metadata {
                namespace, name, ..
            } = &pod.metadata;
            let has_ca = |secret: &str| {
                let path = format!("{namespace}/{secret}");
                tokens.iter().any(|token| token.metadata.path() == path)
            };
            let counts = pod.metadata.deletion_timestamp.is_none() && pod.reads_ca(has_ca);
            let Some(start) = pod.oldest_start().filter(|_| counts) else {
                continue;
            };
            let owner = pod.metadata.owner();
            let owner = owner.unwrap_or_else(|| format!("Pod/{name}"));
            let owner = (namespace.as_str(), owner);
            let workload = Workload {
                namespace: namespace.clone(),
                name: sets.get(&owner).unwrap_or(&owner.1).clone(),
            };
            let known = oldest.entry(workload).or_insert_with(|| start.clone());
            if start < known {
                known.clone_from(start);
            }
        }
        Self { now, oldest }
    }

    /// Returns the workloads with a container that started before a time.
    pub(super) fn before(&self, time: &UtcTime) -> BTreeSet<Workload> {
        let old = self.oldest.iter().filter(|(_, start)| *start <= time);
        old.map(|(workload, _)| workload.clone()).collect()
    }
}

/// Restarts workloads that have not restarted since a time, and waits until their pods are ready.
///
/// # Errors
/// A workload does not become ready.
pub(super) async fn restart(
    host: &dyn Host,
    since: &UtcTime,
    workloads: &BTreeSet<Workload>,
    events: &Events,
) -> Result<(), CommandError> {
    for workload in workloads {
        events.note(format!("restarts {workload}"));
    }
    let (mut manual, mut restarted) = (Vec::new(), Vec::new());
    for workload in workloads.iter().filter(|workload| workload.can_restart()) {
        let words = workload.words();
        let found = Server::of(host)
            .find::<Controller>(RESTARTS, &words)
            .await?;
        let found = found.unwrap_or_default();
        if !found.replaces_pods() {
            manual.push(workload);
            continue;
        }
        // An interrupted run has restarted it.
        if !found.has_restarted_since(since) {
            restart_pods(host, RESTARTS, &words).await?;
        }
        restarted.push(words);
    }
    for words in restarted {
        let limits = ["--timeout=1800s", "--request-timeout=0"];
        let words = [&["status"][..], &words, &limits].concat();
        let command = Command::from_script(ROLLOUT, words);
        run(host, RESTARTS, command).await?;
    }
    for workload in manual {
        let warning = Message::new(format!(
            "{workload}: Kubernetes does not replace its pods, because it is paused or its update strategy is OnDelete"
        ))
        .hint("replace them before the next phase");
        events.warn(WarningKind::Pods, warning);
    }
    Ok(())
}

/// Returns the Secrets with a token that has no expiry.
async fn tokens(host: &dyn Host, title: &str) -> Result<Vec<Object>, CommandError> {
    let of_type = "--field-selector=type=kubernetes.io/service-account-token";
    let words = ["secrets", "-A", of_type, "-o", METADATA];
    Ok(Server::of(host).list(title, &words).await?)
}

/// Returns the Secrets with tokens that have no expiry, as `NAMESPACE/NAME`, without those that were created after a time.
///
/// # Errors
/// The API server does not answer.
pub(super) async fn lasting_tokens(
    host: &dyn Host,
    until: Option<&UtcTime>,
) -> Result<Vec<String>, CommandError> {
    let tokens = tokens(host, "list the tokens in Secrets").await?;
    Ok(secrets_until(&tokens, until))
}

/// Returns the Secrets that were not created after a time. One without a time stays.
fn secrets_until(tokens: &[Object], until: Option<&UtcTime>) -> Vec<String> {
    let is_later = |token: &&Object| {
        let created = token.metadata.creation_timestamp;
        created
            .zip(until)
            .is_some_and(|(own, until)| own > until.time())
    };
    let tokens = tokens.iter().filter(|token| !is_later(token));
    let names = tokens.map(|token| Untrusted::one_line(&token.metadata.path(), 300).to_string());
    names.collect()
}

async fn run(host: &dyn Host, title: &str, command: Command) -> Result<String, CommandError> {
    let output = host.run(command.limit(RESTART).describe(title)).await?;
    Ok(StepError::unless_done(title, output)?.text())
}

#[cfg(test)]
mod tests;
