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
use crate::registry_client::{CaError, Lookup, RegistryClient, StatusError, is_passing};
use kubexm_config::cluster::Cluster;
use kubexm_host::{Host, TunnelError};
use kubexm_types::{FindingKind, HostName, ImageRef};

/// The hint for a registry whose certificate a host does not accept by its own CAs.
const OWN_CA: &str = "install the CA of the registry among the CAs of the host, or name it in caFile of spec.registry";

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
    let client = match RegistryClient::new(registry) {
        Ok(client) => client,
        Err(what) => {
            let hint = "correct caFile and passwordFile of spec.registry in the cluster file";
            return vec![Finding::new(
                FindingKind::Registry,
                first.name(),
                true,
                what,
                hint,
            )];
        }
    };
    let asked = nodes.iter().map(|host| ask(&client, host.as_ref()));
    let mut findings = Vec::new();
    let mut answers = Vec::new();
    for result in join_all(asked).await {
        match result {
            Ok(answer) => answers.push(answer),
            Err(finding) => findings.push(finding),
        }
    }
    match answers.first() {
        Some((client, access)) if findings.is_empty() => {
            check_images(client, *access, first.as_ref(), images).await
        }
        _ => findings,
    }
}

/// What a registry requires of a host that reads images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The login of the cluster file; nothing if it has none.
    Login,
    /// A token, which container runtimes get without a login
    /// (<https://distribution.github.io/distribution/spec/auth/token/>).
    Token,
}

/// Returns the client of a host that the registry answers correctly, and what the registry requires.
async fn ask<'a>(
    client: &RegistryClient<'a>,
    host: &dyn Host,
) -> Result<(RegistryClient<'a>, Access), Finding> {
    let client = client.of_host(host).await.map_err(|error| {
        let what = format!("cannot check the registry {}: {error}", client.address());
        let hint = match error {
            CaError::Unread(_) => "log in to the host and look for what is slow or broken",
            CaError::Absent(_) => OWN_CA,
        };
        Finding::new(FindingKind::Registry, host.name(), false, what, hint)
    })?;
    let access = check_answer(&client, host).await?;
    Ok((client, access))
}

/// Returns what the registry requires, or a finding if the registry does not answer a host correctly.
async fn check_answer(client: &RegistryClient<'_>, host: &dyn Host) -> Result<Access, Finding> {
    let address = client.address();
    let hint =
        "correct spec.registry, or open the network to it: hosts pull every image from there";
    let finding = |fatal, what, hint| {
        Err(Finding::new(
            FindingKind::Registry,
            host.name(),
            fatal,
            what,
            hint,
        ))
    };
    let answer = match client.ask(host, Method::GET, "/v2/").await {
        Ok(answer) => answer,
        Err(StatusError::Tunnel(TunnelError::NotAllowed)) => {
            let what = format!("cannot check {address}: {}", TunnelError::NotAllowed);
            let hint = "allow TCP forwarding in sshd_config, or check yourself that nodes can pull from it";
            return finding(false, what, hint);
        }
        // The runtime of the host may accept a certificate that kubexm does not.
        Err(StatusError::Certificate(error)) if !client.has_own_ca() => {
            let what =
                format!("cannot use the registry {address} with the CAs of the host: {error}");
            return finding(false, what, OWN_CA);
        }
        Err(error) => {
            let what = format!("cannot use the registry {address}: {error}");
            return finding(true, what, hint);
        }
    };
    match answer.status {
        200 => Ok(Access::Login),
        401 => match (client.has_login(), answer.asks_for_token) {
            (false, true) => Ok(Access::Token),
            (true, true) => {
                let what = format!(
                    "the registry {address} does not accept the login here: it is wrong, or the registry gives a token for it, \
                     for which kubexm does not ask"
                );
                let hint = "check username and passwordFile of spec.registry, for example with skopeo login";
                finding(false, what, hint)
            }
            (true, false) => {
                let what = format!("the registry {address} refuses the login");
                let hint = "correct username and passwordFile of spec.registry";
                finding(true, what, hint)
            }
            (false, false) => {
                let what =
                    format!("the registry {address} requires a login, and spec.registry has none");
                let hint = "set username and passwordFile of spec.registry";
                finding(client.has_own_ca(), what, hint)
            }
        },
        status if is_passing(status) => {
            let what = format!("the registry {address} does not answer: status {status}");
            finding(
                true,
                what,
                "wait until the registry is ready, or read its log",
            )
        }
        status => {
            let what = format!("the server at {address} is not a registry (status {status})");
            finding(true, what, hint)
        }
    }
}

/// Returns the finding that kubexm does not know which images a registry has that gives them for a token; `None` if there are
/// no images to ask for.
fn without_token(client: &RegistryClient<'_>, host: &dyn Host, images: usize) -> Option<Finding> {
    let what = format!(
        "the registry {} gives images for a token, for which kubexm does not ask, so kubexm does not know whether it has the \
         {images} images of the bundle",
        client.address()
    );
    let hint = "check that the registry has the images and that nodes may pull them without a login, or set username and \
                passwordFile of spec.registry";
    (images > 0).then(|| Finding::new(FindingKind::Registry, host.name(), false, what, hint))
}

/// Returns findings for the images that the registry does not have, and for those that it did not answer for.
async fn check_images(
    client: &RegistryClient<'_>,
    access: Access,
    host: &dyn Host,
    images: &[(ImageRef, String)],
) -> Vec<Finding> {
    if access == Access::Token {
        return without_token(client, host, images.len())
            .into_iter()
            .collect();
    }
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
        findings.push(Finding::new(
            FindingKind::Registry,
            host.name(),
            true,
            what,
            hint,
        ));
    }
    let absent = results
        .iter()
        .filter(|(_, lookup)| *lookup == Lookup::Absent);
    let absent: Vec<&str> = absent.map(|(image, _)| image.as_str()).collect();
    if !absent.is_empty() {
        let (count, some) = (absent.len(), absent[..absent.len().min(3)].join(", "));
        let what =
            format!("the registry {address} is missing {count} of the bundle's images: {some}…");
        let hint = "run kubexm registry seed --bundle BUNDLE -f CLUSTER";
        findings.push(Finding::new(
            FindingKind::Registry,
            host.name(),
            true,
            what,
            hint,
        ));
    }
    findings
}
