//! The applications of the cluster file, and the releases that kubexm created.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use super::report::{About, Problem, ProblemKind, Subject};
use kubexm_config::Cluster;
use kubexm_config::cluster::Application;
use kubexm_deploy::objects::Server;
use kubexm_deploy::{InstalledRelease, former_releases, releases, unready_pods};
use kubexm_engine::plan::StepError;

/// The most namespaces whose pods are read at the same time.
const PARALLEL: usize = 4;

/// What an API server answered about applications.
#[derive(Debug, Default)]
pub(super) struct Installed {
    /// The releases that kubexm created, and those of applications of the cluster file.
    pub(super) releases: Vec<InstalledRelease>,
    /// Pods that are not ready, with the reason, by their namespace.
    pub(super) unready: BTreeMap<String, Vec<String>>,
}

/// An application of the cluster file, or a release that kubexm created for one of an earlier cluster file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationState {
    /// The name of the release.
    pub name: String,
    pub namespace: String,
    /// Whether the cluster file has it.
    pub is_in_cluster_file: bool,
    /// The chart; `None` for manifests.
    pub chart: Option<String>,
    /// The newest revision of the release; `None` if the cluster has none.
    pub release: Option<ReleaseState>,
    /// Pods of its namespace that are not ready, with the reason: at most five.
    pub unready_pods: Vec<String>,
}

/// A revision of a release of Helm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseState {
    pub revision: u64,
    /// The version of the chart; `None` for manifests.
    pub version: Option<String>,
    /// The status, with the words of Helm, as in `deployed` or `pending-upgrade`.
    pub status: String,
    /// Whether Helm created the revision without kubexm, as by `helm upgrade` or `helm rollback`.
    pub is_changed_by_helm: bool,
}

/// Asks an API server. A cluster without releases of kubexm costs one question.
///
/// # Errors
/// The API server does not answer.
pub(super) async fn ask(cluster: &Cluster, server: Server<'_>) -> Result<Installed, StepError> {
    let applications = &cluster.applications;
    let is_ours = |one: &InstalledRelease| one.is_of_kubexm || one.is_of_any(applications);
    let mut found = releases(server).await?;
    found.retain(is_ours);
    let namespaces: BTreeSet<&str> = found.iter().map(|one| one.namespace.as_str()).collect();
    let unready = stream::iter(namespaces)
        .map(async |namespace| {
            let pods = unready_pods(server, namespace).await?;
            Ok::<_, StepError>((namespace.to_owned(), pods))
        })
        .buffered(PARALLEL);
    let unready = unready.try_collect().await?;
    Ok(Installed {
        releases: found,
        unready,
    })
}

/// Returns the applications in the order of the cluster file, and then releases that the cluster file does not have.
pub(super) fn judge(
    cluster: &Cluster,
    installed: &Installed,
    problems: &mut Vec<Problem>,
) -> Vec<ApplicationState> {
    let mut states = Vec::new();
    for wanted in &cluster.applications {
        let chart = wanted.content.chart().map(str::to_owned);
        let release = installed.releases.iter().find(|one| one.is_of(wanted));
        problems.extend(
            release
                .filter(|one| one.is_changed_by_helm)
                .map(changed_by_helm),
        );
        problems.extend(match release.filter(|one| one.status != "uninstalled") {
            Some(release) => unlike_deployed(release),
            None => Some(missing(wanted)),
        });
        states.push(ApplicationState {
            name: wanted.name.to_string(),
            namespace: wanted.namespace.to_string(),
            is_in_cluster_file: true,
            chart,
            release: release.map(state),
            unready_pods: unready(installed, wanted.namespace.as_str()),
        });
    }
    for former in former_releases(&installed.releases, &cluster.applications) {
        problems.push(not_wanted(former));
        problems.extend(unlike_deployed(former));
        states.push(ApplicationState {
            name: former.name.clone(),
            namespace: former.namespace.clone(),
            is_in_cluster_file: false,
            chart: former.chart.clone(),
            release: Some(state(former)),
            unready_pods: unready(installed, &former.namespace),
        });
    }
    let pods = installed.unready.values().flatten();
    problems.extend(pods.map(|pod| {
        let what = format!("a pod is not ready: {pod}");
        problem(
            ProblemKind::PodNotReady,
            what,
            "`kubexm doctor` looks for the cause",
        )
    }));
    states
}

fn state(release: &InstalledRelease) -> ReleaseState {
    ReleaseState {
        revision: release.revision,
        version: release.chart_version.clone(),
        status: release.status.clone(),
        is_changed_by_helm: release.is_changed_by_helm,
    }
}

fn unready(installed: &Installed, namespace: &str) -> Vec<String> {
    installed
        .unready
        .get(namespace)
        .cloned()
        .unwrap_or_default()
}

fn problem(kind: ProblemKind, what: String, hint: impl Into<String>) -> Problem {
    Problem::new(About::Application, what, hint).of_kind(kind)
}

fn missing(wanted: &Application) -> Problem {
    let what = format!(
        "the application {} is not installed in the namespace {}",
        wanted.name, wanted.namespace
    );
    let hint = "`kubexm app apply` installs it from a bundle, and so does `kubexm install`";
    problem(ProblemKind::ApplicationMissing, what, hint)
}

fn not_wanted(release: &InstalledRelease) -> Problem {
    let InstalledRelease {
        name, namespace, ..
    } = release;
    let what = format!("the release {namespace}/{name} is not in the cluster file");
    let hint = format!(
        "add it to spec.applications again, or run `kubexm app remove {name} --namespace {namespace}`"
    );
    problem(ProblemKind::ReleaseFormer, what, hint).of(Subject::Release {
        namespace: namespace.clone(),
        name: name.clone(),
    })
}

/// Returns the problem of a release that the next install changes back.
fn changed_by_helm(release: &InstalledRelease) -> Problem {
    let InstalledRelease {
        name,
        namespace,
        revision,
        ..
    } = release;
    let what = format!(
        "the release {namespace}/{name} was changed by helm since kubexm applied it, revision {revision}"
    );
    let hint = "`kubexm app apply` applies the values of the cluster file again, and `kubexm app diff` shows what that changes; \
                write into the cluster file what is to stay";
    problem(ProblemKind::ReleaseChanged, what, hint).of(Subject::Release {
        namespace: namespace.clone(),
        name: name.clone(),
    })
}

/// Returns the problem of a release that is not deployed.
fn unlike_deployed(release: &InstalledRelease) -> Option<Problem> {
    let InstalledRelease {
        name,
        namespace,
        revision,
        status,
        ..
    } = release;
    if status == "deployed" {
        return None;
    }
    let what = format!("revision {revision} of the release {namespace}/{name} is {status}");
    let found = if release.is_uninstalling() {
        let hint = format!(
            "wait until Helm ends; if it was killed, `helm uninstall {name} -n {namespace}` on a control plane continues"
        );
        problem(ProblemKind::ReleasePending, what, hint)
    } else if release.is_pending() {
        let hint = "wait until Helm ends; if it was killed, `kubexm app apply` continues";
        problem(ProblemKind::ReleasePending, what, hint)
    } else {
        let hint = format!(
            "`helm history {name} -n {namespace}` on a control plane shows why; correct the application, and run `kubexm app apply`"
        );
        problem(ProblemKind::ReleaseFailed, what, hint)
    };
    Some(found.of(Subject::Release {
        namespace: namespace.clone(),
        name: name.clone(),
    }))
}
