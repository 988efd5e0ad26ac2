//! `app list`: the applications that a cluster has, and those of its cluster file.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use kubexm_config::Cluster;
use kubexm_deploy::objects::Server;
use kubexm_deploy::{InstalledRelease, releases};
use kubexm_host::Host;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, Stop, notices};
use kubexm_types::event::Events;

/// Which applications to list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to list releases that kubexm did not create, too.
    pub all: bool,
}

/// The applications of a cluster.
#[derive(Debug, Serialize)]
pub struct ApplicationList {
    /// Those of the cluster file, in its order; then the others by namespace and name.
    pub applications: Vec<ListedApplication>,
}

/// An application: a release of Helm.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedApplication {
    pub name: String,
    pub namespace: String,
    /// The chart of the newest revision; `None` for manifests, and for a release that kubexm did not create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The version of this chart, in which `_` replaces characters that a label cannot have, as `+`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_version: Option<String>,
    /// The number of the newest revision; 0 if it is not installed.
    pub revision: u64,
    /// The status of the newest revision, as in `deployed`, or `not installed`.
    pub status: String,
    /// Whether Helm created the newest revision without kubexm, and kubexm an earlier one.
    pub is_changed_by_helm: bool,
    /// Whether the cluster file has it.
    pub is_in_cluster_file: bool,
    /// Whether kubexm created the release.
    pub is_of_kubexm: bool,
}

/// Lists applications. Changes nothing.
///
/// # Errors
/// No control plane can be reached, or the API server does not answer.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn list(
    options: &ListOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ApplicationList, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let looking = async {
        let (hosts, _) = options
            .connection
            .connect_reachable(&cluster, &state, events)
            .await?;
        let host = control_plane(&cluster, &hosts)?;
        let found = releases(Server::of(host.as_ref())).await?;
        Ok(listed(&cluster, found, options.all))
    };
    unless_stopped(stop, looking).await
}

/// Returns the first control plane that can be reached.
///
/// # Errors
/// There is none.
pub(crate) fn control_plane<'a>(
    cluster: &'a Cluster,
    hosts: &'a Hosts,
) -> Result<&'a Arc<dyn Host>, CommandError> {
    let found = session::first_control_plane(cluster, hosts);
    found.map(|(_, host)| host).ok_or_else(|| {
        CommandError::refused("no control plane can be reached")
            .hint("run the command again when one answers")
    })
}

fn listed(cluster: &Cluster, found: Vec<InstalledRelease>, all: bool) -> ApplicationList {
    let wanted = cluster.applications.iter().map(|one| {
        let release = found.iter().find(|release| release.is_of(one)).cloned();
        let release = release.unwrap_or_else(|| InstalledRelease {
            name: one.name.to_string(),
            namespace: one.namespace.to_string(),
            status: "not installed".to_owned(),
            ..InstalledRelease::default()
        });
        row(release, true)
    });
    let is_other = |release: &&InstalledRelease| {
        (all || release.is_of_kubexm) && !release.is_of_any(&cluster.applications)
    };
    let others = found.iter().filter(is_other);
    ApplicationList {
        applications: wanted
            .chain(others.map(|release| row(release.clone(), false)))
            .collect(),
    }
}

fn row(release: InstalledRelease, is_in_cluster_file: bool) -> ListedApplication {
    ListedApplication {
        name: release.name,
        namespace: release.namespace,
        chart: release.chart,
        chart_version: release.chart_version,
        revision: release.revision,
        status: release.status,
        is_changed_by_helm: release.is_changed_by_helm,
        is_in_cluster_file,
        is_of_kubexm: release.is_of_kubexm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_of_the_cluster_file_come_first() {
        let cluster = kubexm_config::example::cluster(
            "",
            "applications: [{name: shop, namespace: web, chart: shop}, {name: text, manifests: [a.yaml]}]",
        );
        let release = |name: &str, namespace: &str, is_of_kubexm| InstalledRelease {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: 3,
            status: "deployed".to_owned(),
            is_of_kubexm,
            ..InstalledRelease::default()
        };
        let found = [
            release("foreign", "a", false),
            release("shop", "default", true),
            release("shop", "web", true),
        ];
        let names = |all| -> Vec<String> {
            let list = listed(&cluster, found.to_vec(), all).applications;
            list.iter()
                .map(|one| {
                    let (name, namespace) = (&one.name, &one.namespace);
                    format!(
                        "{namespace}/{name} {} {}",
                        one.status, one.is_in_cluster_file
                    )
                })
                .collect()
        };
        let ours = [
            "web/shop deployed true",
            "default/text not installed true",
            "default/shop deployed false",
        ];
        assert_eq!(names(false), ours);
        let foreign = "a/foreign deployed false";
        assert_eq!(names(true), [ours[0], ours[1], foreign, ours[2]]);
    }
}
