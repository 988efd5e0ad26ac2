//! Checks that an external registry answers and has the images of a cluster. Changes nothing in the registry.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use hyper::Method;

use crate::finding::Finding;
use crate::probe;
use crate::registry_client::{Lookup, RegistryClient, StatusError, is_passing};
use kubexm_config::cluster::Cluster;
use kubexm_host::{Host, TunnelError};
use kubexm_types::{HostName, ImageRef};

/// Returns all findings. Every node checks that the registry answers, and the first node checks the images.
/// `images` are names of images with their repositories in the registry.
pub async fn check(
    cluster: &Cluster,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
    images: &[(ImageRef, String)],
) -> Vec<Finding> {
    let Some(registry) = &cluster.registry.external else {
        return Vec::new();
    };
    let nodes: Vec<&Arc<dyn Host>> = cluster
        .nodes()
        .iter()
        .filter_map(|host| hosts.get(&host.name))
        .collect();
    let Some(first) = nodes.first() else {
        return Vec::new();
    };
    // Without a CA file the hosts use their own CAs, which kubexm does not know.
    let client = match RegistryClient::new(registry) {
        Ok(Some(client)) => client,
        Ok(None) => return Vec::new(),
        Err(what) => {
            let hint = "correct caFile and passwordFile of spec.registry in the cluster file";
            return vec![Finding::new(first.name(), true, what, hint)];
        }
    };
    let answers = nodes
        .iter()
        .map(|host| check_answer(&client, host.as_ref()));
    let findings: Vec<Finding> = join_all(answers).await.into_iter().flatten().collect();
    if !findings.is_empty() {
        return findings;
    }
    check_images(&client, first.as_ref(), images).await
}

/// Returns a finding if the registry does not answer a host correctly.
async fn check_answer(client: &RegistryClient<'_>, host: &dyn Host) -> Option<Finding> {
    let address = client.address();
    let hint =
        "correct spec.registry, or open the network to it: hosts pull every image from there";
    match client.status(host, Method::GET, "/v2/").await {
        Ok(200) => None,
        Ok(401) => {
            let what = format!("the registry {address} refuses the login");
            let hint = "correct username and passwordFile of spec.registry";
            Some(Finding::new(host.name(), true, what, hint))
        }
        Ok(status) if is_passing(status) => {
            let what = format!("the registry {address} does not answer: status {status}");
            let hint = "wait until the registry is ready, or read its log";
            Some(Finding::new(host.name(), true, what, hint))
        }
        Ok(status) => {
            let what = format!("the server at {address} is not a registry (status {status})");
            Some(Finding::new(host.name(), true, what, hint))
        }
        Err(StatusError::Tunnel(TunnelError::NotAllowed)) => {
            let what = format!("cannot check {address}: {}", TunnelError::NotAllowed);
            let hint = "allow TCP forwarding in sshd_config, or check yourself that nodes can pull from it";
            Some(Finding::new(host.name(), false, what, hint))
        }
        Err(error) => {
            let what = format!("cannot use the registry {address}: {error}");
            Some(Finding::new(host.name(), true, what, hint))
        }
    }
}

/// Returns findings for the images that the registry does not have, and for those that it did not answer for.
async fn check_images(
    client: &RegistryClient<'_>,
    host: &dyn Host,
    images: &[(ImageRef, String)],
) -> Vec<Finding> {
    let lookups = images.iter().map(|(image, repository)| async move {
        (
            image.to_string(),
            client.look_up(host, image, repository).await,
        )
    });
    let lookups = stream::iter(lookups).buffered(probe::PARALLEL);
    let results: Vec<(String, Lookup)> = lookups.collect().await;
    let (address, total) = (client.address(), results.len());
    let mut findings = Vec::new();
    let unknown = results.iter().filter_map(|(image, lookup)| match lookup {
        Lookup::Unknown(cause) => Some(format!("{image}: {cause}")),
        Lookup::Present | Lookup::Absent => None,
    });
    let unknown: Vec<String> = unknown.collect();
    if let Some(first) = unknown.first() {
        let count = unknown.len();
        let what = format!(
            "the registry {address} did not answer for {count} of {total} images, so kubexm does not know \
             whether it has them: {first}"
        );
        let hint = "check that the registry is not overloaded and that the login may read this repository, \
                    read the registry's log, and run the command again";
        findings.push(Finding::new(host.name(), true, what, hint));
    }
    let absent = results
        .iter()
        .filter(|(_, lookup)| *lookup == Lookup::Absent);
    let absent: Vec<&str> = absent.map(|(image, _)| image.as_str()).collect();
    if !absent.is_empty() {
        let (count, some) = (absent.len(), absent[..absent.len().min(3)].join(", "));
        let what =
            format!("the registry {address} is missing {count} of the bundle's images: {some}…");
        let hint = "run kubexm registry seed BUNDLE -f CLUSTER";
        findings.push(Finding::new(host.name(), true, what, hint));
    }
    findings
}
