//! `app remove`: removes an application from a running cluster.

use std::path::PathBuf;

use super::list::control_plane;
use crate::registry::{Change, ChangeReport, Prepared, Site};
use kubexm_deploy::objects::Server;
use kubexm_deploy::{InstalledRelease, application_removal, releases, removed_namespaces};
use kubexm_engine::plan::{Plan, TaskName};
use kubexm_session::begun::Operation;
use kubexm_session::{CommandError, Connection, Stop, notices};
use kubexm_types::event::Events;
use kubexm_types::{Namespace, ReleaseName};

/// Removes a release.
const REMOVE: TaskName = TaskName::new("applications", "remove");

/// Which application to remove.
#[derive(Debug, Clone)]
pub struct RemoveOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    pub name: ReleaseName,
    /// The namespace; `None` if only one has a release of this name.
    pub namespace: Option<Namespace>,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// Removes a release of kubexm from a cluster, if the cluster file does not have the application any more.
///
/// # Errors
/// The release does not exist, kubexm did not create it, the cluster file has the application, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn remove(
    options: &RemoveOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let change = Change {
        cluster: &cluster,
        state: &state,
        connection: &options.connection,
        operation: Operation::AppRemove,
        lock: String::new(),
        dry_run: options.dry_run,
    };
    let prepare = async |site: &mut Site<'_>, _: &Events| prepared(options, site).await;
    change.run(prepare, confirm, events, stop).await
}

async fn prepared(options: &RemoveOptions, site: &Site<'_>) -> Result<Prepared, CommandError> {
    let host = control_plane(site.cluster, &site.hosts)?;
    let found = chosen(options, releases(Server::of(host.as_ref())).await?)?;
    if found.is_of_any(&site.cluster.applications) {
        let text = format!(
            "cannot remove {}: spec.applications has it, so the next install brings it back",
            found.name
        );
        return Err(CommandError::refused(text)
            .hint("remove it from the cluster file, and run the same command again"));
    }
    let mut applications = site.cluster.applications.iter();
    let keeps_chart = applications.any(|one| one.name == options.name);
    let step = application_removal(&options.name, &found.namespace, keeps_chart);
    // Helm can remove a release that kubexm cannot read.
    let gone = removed_namespaces(Server::of(host.as_ref()), &found)
        .await
        .ok();
    let text = format!(
        "application that is removed from the cluster '{}':\n    - {}\n      {}",
        site.cluster.name,
        step.title,
        what_stays(gone.as_deref())
    );
    Ok(Prepared {
        text,
        plan: Plan {
            tasks: vec![REMOVE.task(host.name()).step(step)],
        },
        afterwards: "run the same command again",
        remaining: None,
    })
}

/// Returns what a removal leaves, for the user. `gone` are namespaces that Helm deletes: those of a chart that does not keep them.
/// `None` if the release cannot be read.
fn what_stays(gone: Option<&[String]>) -> String {
    let stays =
        "definitions of custom resources stay, and so do volumes that its claims do not delete";
    match gone {
        None => format!("kubexm cannot read which namespaces go with it; its {stays}"),
        Some([]) => format!("its namespaces and {stays}"),
        Some(gone) => format!(
            "these namespaces are deleted with everything in them: {}\n      its {stays}",
            gone.join(", ")
        ),
    }
}

/// Returns the only release that the options name.
///
/// # Errors
/// There is none, there are several, or kubexm did not create it.
fn chosen(
    options: &RemoveOptions,
    releases: Vec<InstalledRelease>,
) -> Result<InstalledRelease, CommandError> {
    let name = &options.name;
    let is_named = |one: &InstalledRelease| {
        let namespace = options.namespace.as_ref();
        one.name == name.as_str() && namespace.is_none_or(|wanted| one.namespace == wanted.as_str())
    };
    let mut found: Vec<InstalledRelease> = releases.into_iter().filter(is_named).collect();
    let Some(first) = found.pop() else {
        return Err(
            CommandError::configuration(format!("the cluster has no release {name}"))
                .hint("`helm list -A` on a control plane prints the releases"),
        );
    };
    if !found.is_empty() {
        let namespaces: Vec<&str> = found
            .iter()
            .chain([&first])
            .map(|one| one.namespace.as_str())
            .collect();
        let text = format!(
            "several namespaces have a release {name}: {}",
            namespaces.join(", ")
        );
        return Err(CommandError::configuration(text).hint("name one with --namespace"));
    }
    if !first.is_of_kubexm {
        let text = format!("cannot remove {name}: kubexm did not create this release");
        return Err(CommandError::refused(text).hint(format!(
            "run `helm uninstall {name} -n {}` on a control plane",
            first.namespace
        )));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(namespace: &str, is_of_kubexm: bool) -> InstalledRelease {
        InstalledRelease {
            namespace: namespace.to_owned(),
            name: "shop".to_owned(),
            revision: 1,
            compared: 1,
            status: "deployed".to_owned(),
            is_of_kubexm,
            ..Default::default()
        }
    }

    #[test]
    fn namespaces_that_go_with_a_chart_are_named() {
        assert!(what_stays(Some(&[])).starts_with("its namespaces and definitions"));
        let gone = what_stays(Some(&["web".to_owned(), "data".to_owned()]));
        assert!(
            gone.contains("deleted with everything in them: web, data"),
            "{gone}"
        );
    }

    #[test]
    fn only_a_release_of_kubexm_that_is_named_is_removed() {
        let choose = |namespace: Option<&str>, releases: &[InstalledRelease]| {
            let options = RemoveOptions {
                cluster: PathBuf::new(),
                connection: Connection::default(),
                name: "shop".parse().unwrap(),
                namespace: namespace.map(|name| name.parse().unwrap()),
                dry_run: false,
            };
            let chosen = chosen(&options, releases.to_vec());
            chosen
                .map(|one| one.namespace)
                .map_err(|error| error.to_string())
        };
        let two = [release("one", true), release("two", true)];
        assert_eq!(choose(Some("two"), &two).unwrap(), "two");
        assert_eq!(choose(None, &two[..1]).unwrap(), "one");
        insta::assert_snapshot!(choose(None, &two).unwrap_err(), @"
        several namespaces have a release shop: one, two
        hint: name one with --namespace
        ");
        insta::assert_snapshot!(choose(Some("three"), &two).unwrap_err(), @"
        the cluster has no release shop
        hint: `helm list -A` on a control plane prints the releases
        ");
        insta::assert_snapshot!(choose(None, &[release("one", false)]).unwrap_err(), @"
        cannot remove shop: kubexm did not create this release
        hint: run `helm uninstall shop -n one` on a control plane
        ");
    }
}
