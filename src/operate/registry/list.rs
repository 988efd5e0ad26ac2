//! `registry list`.

use std::path::PathBuf;

use super::catalog::Catalog;
use super::report::RegistryReport;
use super::site::{Site, check_own, connect};
use super::uses::Uses;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, Stop, notices, session};
use kubexm_types::event::Events;

/// Which registries to list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
}

/// Lists the images of the registries of a cluster. Changes nothing.
///
/// # Errors
/// kubexm does not run the registry of the cluster, no host with a registry can be reached, or a host cannot read it.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn list(
    options: &ListOptions,
    events: &Events,
    stop: &Stop,
) -> Result<RegistryReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    check_own(&cluster, &options.cluster)?;
    let state = options.connection.state_directory(&cluster, events)?;
    let looking = async {
        let (hosts, unreachable) = connect(&cluster, &options.connection, &state, events).await?;
        let hosts = session::watched(&hosts, events);
        let site = Site::of(&cluster, &state, hosts, unreachable, events).await?;
        let (catalog, uses) = tokio::join!(Catalog::read(&cluster, &site.hosts), Uses::read(&site));
        let catalog = catalog?;
        catalog.warn_of_tags(&cluster, events);
        Ok(RegistryReport::of(&site, &catalog, &uses))
    };
    unless_stopped(stop, looking).await
}
