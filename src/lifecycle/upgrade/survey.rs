//! What the cluster says before an upgrade.

mod objects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use kubexm_config::Cluster;
use kubexm_deploy::expected;
use kubexm_deploy::objects::Server;
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_preflight::Finding;
use kubexm_scripts::kubernetes::DEPRECATED_REQUESTS;
use kubexm_session::CommandError;
use kubexm_types::{FindingKind, HostName, ImageRef, Message, Untrusted, Version};
use objects::{Object, RESOURCES};
use tokio::time::{Instant, sleep};

/// The largest number of names that a finding lists.
const LISTED: usize = 10;

/// The time until an API server is asked again that does not answer.
const PAUSE: Duration = Duration::from_secs(5);

/// The minor version since which exec, attach and portforward need the verb `create` in each protocol.
const STREAMS: u64 = 35;

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The version of its kubelet.
    pub kubelet: Version,
    pub is_ready: bool,
}

/// What the API server says about the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    pub nodes: BTreeMap<HostName, Node>,
    requests: Vec<String>,
    budgets: Vec<String>,
    /// Node and name of each pod.
    unmanaged: Vec<(String, String)>,
    /// Node and name of each persistent volume that is on one node only.
    local: Vec<(String, String)>,
    /// Name and service.
    webhooks: Vec<(String, String)>,
    /// Release without the resource, and the resource.
    deprecated: Vec<(String, String)>,
    /// Images of DaemonSets and Deployments.
    images: Vec<ImageRef>,
    /// Roles that do not permit exec, attach or portforward since [`STREAMS`].
    streams: Vec<String>,
}

/// What the user permits for drains.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Permitted {
    pub(super) deletes_unmanaged: bool,
    pub(super) ignores_budgets: bool,
}

impl Survey {
    /// Asks the API servers of a cluster, from a control plane. It waits so long for an API server that does not answer.
    ///
    /// # Errors
    /// The API server does not answer, or the answer has another form.
    pub async fn read(
        cluster: &Cluster,
        host: &dyn Host,
        patience: Duration,
    ) -> Result<Self, CommandError> {
        let what = "ask the API server about the cluster";
        let failed = |error: StepError| {
            CommandError::step(format!("{}: {error}", host.name())).hint(
                "kubexm needs an API server that answers; kubexm logs kube-apiserver shows its log",
            )
        };
        let began = Instant::now();
        let objects = loop {
            let words = [RESOURCES, "--all-namespaces"];
            match Server::of(host).list(what, &words).await {
                Err(StepError::Command { .. }) if began.elapsed() < patience => sleep(PAUSE).await,
                ended => break ended.map_err(failed)?,
            }
        };
        let names = cluster.roles.control_plane.iter();
        let servers = names
            .filter_map(|name| cluster.host(name))
            .map(|host| expected::api_server(cluster, host));
        let command = Command::from_script(DEPRECATED_REQUESTS, servers).describe(what);
        let output = StepError::unless_done(what, host.run(command).await?).map_err(failed)?;
        let mut survey = Self::of(objects).map_err(|said| {
            failed(StepError::Other(Message::quoting(format!(
                "{what}: {said}"
            ))))
        })?;
        survey.deprecated = deprecated(&output.text());
        Ok(survey)
    }

    /// Returns the pods of a node that no controller creates again.
    pub fn unmanaged_on(&self, node: &HostName) -> Vec<String> {
        on(&self.unmanaged, node)
    }

    /// Returns the persistent volumes that are on this node only.
    pub fn local_on(&self, node: &HostName) -> Vec<String> {
        on(&self.local, node)
    }

    /// Returns how the tags of these images change, for people.
    pub(super) fn changed_images(&self, new: &[ImageRef]) -> Vec<String> {
        let is_same = |one: &ImageRef, other: &ImageRef| {
            (one.registry(), one.repository()) == (other.registry(), other.repository())
        };
        let changed = new.iter().filter_map(|image| {
            let mut found = self.images.iter().filter(|old| is_same(old, image));
            let from = found.clone().next()?.tag()?;
            let to = image.tag()?;
            // An upgrade that was interrupted may have applied it.
            found
                .all(|old| old != image)
                .then(|| format!("{}/{} {from} -> {to}", image.registry(), image.repository()))
        });
        changed.collect()
    }

    /// Reads the objects of a cluster.
    ///
    /// # Errors
    /// A node has a name or a version that kubexm cannot read.
    fn of(objects: Vec<Object>) -> Result<Self, String> {
        let mut survey = Self::default();
        let mut webhooks = Vec::new();
        let mut ready = BTreeSet::new();
        let mut images = BTreeSet::new();
        for object in objects {
            match object {
                Object::Node(node) => {
                    let version = node.status.node_info.kubelet_version.as_str();
                    let name = &node.metadata.name;
                    let unknown = |what: &dyn Display| format!("the node {name}: {what}");
                    let kubelet = version.strip_prefix('v').unwrap_or(version);
                    let read = Node {
                        kubelet: kubelet.parse().map_err(|error| unknown(&error))?,
                        is_ready: node.ready() == "True",
                    };
                    let name = name.parse().map_err(|error| unknown(&error))?;
                    survey.nodes.insert(name, read);
                }
                Object::CertificateSigningRequest(request) if request.is_open() => {
                    survey.requests.push(request.metadata.name);
                }
                Object::PodDisruptionBudget(budget) if budget.permits_nothing() => {
                    survey.budgets.push(budget.metadata.path());
                }
                // Static pods have the node as their controller. An owner that is not a controller creates no pod again, and a
                // drain stops at its pods.
                Object::Pod(pod) => {
                    let is_managed = pod
                        .metadata
                        .owner_references
                        .iter()
                        .any(|owner| owner.controller);
                    if !is_managed && !pod.has_ended() && !pod.spec.node_name.is_empty() {
                        let path = pod.metadata.path();
                        survey.unmanaged.push((pod.spec.node_name, path));
                    }
                }
                Object::PersistentVolume(volume) => {
                    let node = volume.only_node().map(str::to_owned);
                    survey
                        .local
                        .extend(node.map(|node| (node, volume.metadata.name)));
                }
                Object::ValidatingWebhookConfiguration(all) => webhooks.push(("validating", all)),
                Object::MutatingWebhookConfiguration(all) => webhooks.push(("mutating", all)),
                Object::EndpointSlice(slice) => ready.extend(slice.ready()),
                Object::DaemonSet(workload) | Object::Deployment(workload) => {
                    images.extend(workload.spec.names().map(str::to_owned));
                }
                Object::ClusterRole(role) if role.lacks_create() => {
                    survey
                        .streams
                        .push(format!("ClusterRole/{}", role.metadata.name));
                }
                Object::Role(role) if role.lacks_create() => {
                    survey
                        .streams
                        .push(format!("Role/{}", role.metadata.path()));
                }
                _ => {}
            }
        }
        // The API server accepts any text as the name of an image.
        survey.images = images
            .iter()
            .flat_map(|image| ImageRef::parse(image))
            .collect();
        for (kind, all) in &webhooks {
            let silent = all.needed().filter(|(_, service)| !ready.contains(service));
            survey.webhooks.extend(
                silent.map(|(name, service)| (format!("{kind}webhook/{name}"), service.path())),
            );
        }
        Ok(survey)
    }

    /// Returns what prevents an upgrade to a version, and warnings. `first` is the control plane that findings about the
    /// whole cluster name. Because of an upgrade that `continues`, nodes may not be Ready, and budgets may not permit an eviction
    /// for a while: a drain waits for them.
    pub(super) fn findings(
        &self,
        first: &HostName,
        to: &Version,
        permitted: Permitted,
        continues: bool,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, node) in &self.nodes {
            if !node.is_ready {
                findings.push(Finding::new(
                    FindingKind::Node,
                    name,
                    !continues,
                    "the node is not Ready".to_owned(),
                    "repair the node first: kubexm logs kubelet shows the log of its kubelet",
                ));
            }
        }
        let mut add = |fatal: bool, what: &str, names: Vec<String>, hint: &str| {
            if !names.is_empty() {
                let what = format!("{what}: {}", listed(&names));
                findings.push(Finding::new(FindingKind::Pods, first, fatal, what, hint));
            }
        };
        add(
            !permitted.ignores_budgets && !continues,
            "these PodDisruptionBudgets permit no eviction, so nodes cannot be drained",
            self.budgets.clone(),
            "wait until their pods are Ready, add replicas or change the budgets; --drain-disable-eviction deletes the pods \
             without regard to them",
        );
        let unmanaged = self.unmanaged.iter();
        add(
            !permitted.deletes_unmanaged,
            "nothing creates these pods again after their node is drained",
            unmanaged
                .map(|(node, pod)| format!("{pod} on {node}"))
                .collect(),
            "delete them, or permit it with --drain-force",
        );
        let webhooks = self.webhooks.iter();
        add(
            // The node on which an interrupted run has cordoned their pods away.
            !continues,
            "these webhooks refuse requests, because their services have no endpoint",
            webhooks
                .map(|(name, service)| format!("{name} ({service})"))
                .collect(),
            "start the pods of these services, or remove the webhooks",
        );
        add(
            false,
            "these certificate signing requests are neither approved nor denied",
            self.requests.clone(),
            "kubectl certificate approve or deny",
        );
        if to.minor() >= STREAMS {
            add(
                false,
                "since Kubernetes 1.35, these roles do not permit exec, attach and portforward of pods any more",
                self.streams.clone(),
                "add the verb create to the rules with pods/exec, pods/attach and pods/portforward",
            );
        }
        let gone = self.deprecated.iter().filter(|(release, _)| {
            let minor = release
                .strip_prefix("1.")
                .and_then(|minor| minor.parse().ok());
            minor.is_none_or(|minor: u64| minor <= to.minor())
        });
        add(
            false,
            "clients have requested resources that the new version does not have any more",
            gone.map(|(release, resource)| format!("{resource} (until {release})"))
                .collect(),
            "https://kubernetes.io/docs/reference/using-api/deprecation-guide/ names their replacements",
        );
        findings
    }
}

/// Returns releases and resources of the metric about deprecated requests. Servers have counted the same ones.
fn deprecated(metrics: &str) -> Vec<(String, String)> {
    let found = metrics.lines().filter_map(|line| {
        let labels = line.split_once('{')?.1.strip_suffix("} 1")?;
        let of = |name: &str| {
            let mut labels = labels.split(',');
            let label = labels.find_map(|label| label.strip_prefix(name)?.strip_prefix('='))?;
            let value = label.trim_matches('"');
            (!value.is_empty()).then_some(value)
        };
        let release = of("removed_release")?;
        let group = of("group").map_or(String::new(), |group| format!(".{group}"));
        let resource = format!("{}{group}/{}", of("resource")?, of("version")?);
        Some((release.to_owned(), resource))
    });
    let found: BTreeSet<_> = found.collect();
    found.into_iter().collect()
}

/// Joins names, at most [`LISTED`] of them. They come from the cluster.
pub fn listed(names: &[String]) -> String {
    let mut text: Vec<String> = names
        .iter()
        .take(LISTED)
        .map(|name| Untrusted::one_line(name, 200).to_string())
        .collect();
    if names.len() > LISTED {
        text.push(format!("and {} more", names.len() - LISTED));
    }
    text.join(", ")
}

/// Returns what belongs to a node, of pairs of nodes and names.
fn on(pairs: &[(String, String)], node: &HostName) -> Vec<String> {
    let own = pairs.iter().filter(|(name, _)| name == node.as_str());
    own.map(|(_, what)| what.clone()).collect()
}
