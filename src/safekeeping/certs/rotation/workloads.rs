//! Pods that may know only the CA from before a rotation: many programs read it once, when they start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use kubexm_config::cluster::{PluginKind, PluginProperties};
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::kubernetes::WORKLOADS;
use kubexm_session::CommandError;
use kubexm_types::event::Events;
use kubexm_types::{Message, Untrusted, UtcTime};

/// How long workloads may take to restart.
const RESTART: Limit = Limit::new(Duration::from_secs(3600), "restarts of workloads");
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
        let text = run(host, "list the pods of the cluster", "list", &[]).await?;
        Self::parse(&text).ok_or_else(|| {
            CommandError::step(
                "cannot list the pods of the cluster: the output of kubectl is incomplete",
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = || text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let now = lines().find_map(|words| match words.as_slice() {
            ["now", time] => UtcTime::parse(time).ok(),
            _ => None,
        })?;
        // A Deployment owns its pods by a ReplicaSet.
        let sets = lines().filter_map(|words| match words.as_slice() {
            ["set", namespace, name, owner] => {
                Some(((*namespace, format!("ReplicaSet/{name}")), *owner))
            }
            _ => None,
        });
        let sets: BTreeMap<(&str, String), &str> = sets.collect();
        let readers = readers(text);
        let mut oldest: BTreeMap<Workload, UtcTime> = BTreeMap::new();
        for words in lines() {
            let ["pod", namespace, name, owner, starts @ ..] = words.as_slice() else {
                continue;
            };
            let starts = starts.iter().map(|start| UtcTime::parse(start).ok());
            let starts: Vec<UtcTime> = starts.collect::<Option<_>>()?;
            let Some(start) = starts.into_iter().min() else {
                continue;
            };
            if !readers.contains(&(*namespace, *name)) {
                continue;
            }
            let owner = match *owner {
                "-" => format!("Pod/{name}"),
                owner => {
                    let of_set = sets.get(&(*namespace, owner.to_owned()));
                    (*of_set.unwrap_or(&owner)).to_owned()
                }
            };
            let workload = Workload {
                namespace: (*namespace).to_owned(),
                name: owner,
            };
            let known = oldest.entry(workload).or_insert_with(|| start.clone());
            if start < *known {
                *known = start;
            }
        }
        Some(Self { now, oldest })
    }

    /// Returns the workloads with a container that started before a time.
    pub(super) fn before(&self, time: &UtcTime) -> BTreeSet<Workload> {
        let old = self.oldest.iter().filter(|(_, start)| *start <= time);
        old.map(|(workload, _)| workload.clone()).collect()
    }
}

/// Returns the namespaces and names of the pods that read the CA of the API server: from the ConfigMap of their namespace, or from
/// a Secret with a token, which has it, too.
fn readers(text: &str) -> BTreeSet<(&str, &str)> {
    let lines = || text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let tokens = lines().filter_map(|words| match words.as_slice() {
        ["token", namespace, secret] => Some((*namespace, *secret)),
        _ => None,
    });
    let tokens: BTreeSet<(&str, &str)> = tokens.collect();
    let reads = lines().filter_map(|words| match words.as_slice() {
        ["reads", namespace, pod, "configmap", _] => Some((*namespace, *pod)),
        ["reads", namespace, pod, "secret", secret] => {
            let has_ca = tokens.contains(&(*namespace, *secret));
            has_ca.then_some((*namespace, *pod))
        }
        _ => None,
    });
    reads.collect()
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
    let names = workloads
        .iter()
        .filter(|workload| workload.can_restart())
        .map(|workload| format!("{}/{}", workload.namespace, workload.name));
    let arguments: Vec<String> = std::iter::once(since.to_string()).chain(names).collect();
    if arguments.len() == 1 {
        return Ok(());
    }
    let text = run(host, "restart workloads", "restart", &arguments).await?;
    for workload in text.lines().filter_map(|line| line.strip_prefix("manual ")) {
        let workload = Untrusted::one_line(workload, 300);
        let warning = Message::new(format!(
            "{workload}: Kubernetes does not replace its pods, because it is paused or its update strategy is OnDelete"
        ))
        .hint("replace them before the next phase");
        events.warn(warning);
    }
    Ok(())
}

/// Returns the Secrets with tokens that have no expiry, as `NAMESPACE/NAME`, without those that were created after a time.
///
/// # Errors
/// The API server does not answer.
pub(super) async fn lasting_tokens(
    host: &dyn Host,
    until: Option<&UtcTime>,
) -> Result<Vec<String>, CommandError> {
    let text = run(host, "list the tokens in Secrets", "tokens", &[]).await?;
    Ok(secrets_until(&text, until))
}

/// Returns the Secrets in the output of the script, without those that were created after a time. One without a time stays.
fn secrets_until(text: &str, until: Option<&UtcTime>) -> Vec<String> {
    let is_later = |created: &str| {
        let created = UtcTime::parse(created).ok();
        created.zip(until).is_some_and(|(own, until)| own > *until)
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let secrets = lines.filter_map(|line| match line.split_once(' ') {
        Some((created, _)) if is_later(created) => None,
        Some((_, secret)) => Some(secret),
        None => Some(line),
    });
    secrets
        .map(|secret| Untrusted::one_line(secret, 300).to_string())
        .collect()
}

async fn run(
    host: &dyn Host,
    action: &str,
    verb: &'static str,
    arguments: &[String],
) -> Result<String, CommandError> {
    let command = Command::from_script(WORKLOADS.verb(verb), arguments);
    let command = command.limit(RESTART).describe(action);
    let output = host.run(command).await?;
    let output = StepError::unless_done(action, output);
    Ok(output?.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = "now 2027-01-31T12:00:00Z
set web front-5d Deployment/front
token web robot
token db other
pod web front-5d-x ReplicaSet/front-5d 2027-01-31T10:00:00Z 2027-01-31T11:30:00Z
reads web front-5d-x configmap kube-root-ca.crt
pod web front-5d-y ReplicaSet/front-5d 2027-01-31T11:40:00Z
reads web front-5d-y configmap kube-root-ca.crt
pod web lone - 2027-01-31T09:00:00Z
reads web lone secret password
reads web lone secret robot
pod web other - 2027-01-31T09:00:00Z
reads web other secret other
pod web plain - 2027-01-31T09:00:00Z
pod kube-system kube-proxy-a DaemonSet/kube-proxy 2027-01-31T11:50:00Z
reads kube-system kube-proxy-a configmap kube-root-ca.crt
pod web waits ReplicaSet/other
reads web waits configmap kube-root-ca.crt
";

    fn time(text: &str) -> UtcTime {
        UtcTime::parse(text).unwrap()
    }

    #[test]
    fn pods_from_before_a_time_that_read_a_ca_are_found_with_their_workload() {
        let pods = Workloads::parse(PODS).unwrap();
        assert_eq!(pods.now, time("2027-01-31T12:00:00Z"));
        let old: Vec<String> = pods
            .before(&time("2027-01-31T11:00:00Z"))
            .iter()
            .map(|one| format!("{one} {} {}", one.is_own(), one.can_restart()))
            .collect();
        // The Secret `other` with a token is of another namespace, and `plain` reads no CA.
        assert_eq!(
            old,
            [
                "web/Deployment/front false true",
                "web/Pod/lone false false"
            ]
        );
        assert_eq!(pods.before(&time("2027-01-31T11:55:00Z")).len(), 3);
        assert_eq!(Workloads::parse("pod a b c d"), None);
    }

    #[test]
    fn secrets_from_after_the_switch_are_not_of_the_former_key() {
        let text = "2027-01-31T11:59:59Z web/before
2027-01-31T12:00:00Z web/same
2027-01-31T12:00:01Z web/after
 web/unknown

";
        let switched = time("2027-01-31T12:00:00Z");
        assert_eq!(
            secrets_until(text, Some(&switched)),
            ["web/before", "web/same", "web/unknown"]
        );
        assert_eq!(secrets_until(text, None).len(), 4);
    }
}
