//! What the cluster says before an upgrade.

use std::collections::BTreeMap;
use std::time::Duration;

use kubexm_config::Cluster;
use kubexm_deploy::expected;
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_preflight::Finding;
use kubexm_scripts::kubernetes::UPGRADE_SURVEY;
use kubexm_session::CommandError;
use kubexm_types::{HostName, ImageRef, Untrusted, Version};

/// The largest number of names that a finding lists.
const LISTED: usize = 10;

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
        let seconds = patience.as_secs().to_string();
        let names = cluster.roles.control_plane.iter();
        let servers = names
            .filter_map(|name| cluster.host(name))
            .map(|host| expected::api_server(cluster, host));
        let arguments = std::iter::once(seconds).chain(servers);
        let command = Command::from_script(UPGRADE_SURVEY, arguments).describe(what);
        let output = host.run(command).await?;
        let failed = |cause: String| {
            CommandError::step(format!("{}: {cause}", host.name())).hint(
                "kubexm needs an API server that answers; kubexm logs kube-apiserver shows its log",
            )
        };
        let output =
            StepError::unless_done(what, output).map_err(|error| failed(error.to_string()))?;
        Self::parse(&output.text()).map_err(|line| {
            let line = Untrusted::one_line(&line, 100);
            failed(format!(
                "{what}: the answer has an unexpected line '{line}'"
            ))
        })
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

    /// Parses the output of the script. The error is the line that has another form.
    fn parse(text: &str) -> Result<Self, String> {
        let mut survey = Self::default();
        let mut is_complete = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let refused = || line.to_owned();
            let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
            match words[..] {
                ["node", name, version, ready] => {
                    let node = Node {
                        kubelet: version.parse().map_err(|_| refused())?,
                        is_ready: ready == "True",
                    };
                    let name = name.parse().map_err(|_| refused())?;
                    survey.nodes.insert(name, node);
                }
                ["request", name] => survey.requests.push(name.to_owned()),
                ["budget", name] => survey.budgets.push(name.to_owned()),
                ["unmanaged", node, pod] => survey.unmanaged.push(pair(node, pod)),
                ["local", node, volume] => survey.local.push(pair(node, volume)),
                ["webhook", name, service] => survey.webhooks.push(pair(name, service)),
                ["deprecated", release, resource] => {
                    survey.deprecated.push(pair(release, resource));
                }
                // The API server accepts any text as the name of an image.
                ["image", name] => survey.images.extend(ImageRef::parse(name)),
                ["exec", role] => survey.streams.push(role.to_owned()),
                ["end"] => is_complete = true,
                _ => return Err(refused()),
            }
        }
        if is_complete {
            Ok(survey)
        } else {
            Err(text.lines().last().unwrap_or_default().to_owned())
        }
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
                findings.push(Finding::new(first, fatal, what, hint));
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "node node1 1.35.4 True
node node2 1.34.4 Unknown
request csr-1
budget default/web
unmanaged node2 default/shell
local node2 pv-1
webhook validatingwebhook/policy.example.com policy/server
deprecated 1.36 things.example.k8s.io/v1beta1
deprecated 1.40 others/v1
exec ClusterRole/debug
end
";

    fn found(permitted: Permitted, continues: bool) -> Vec<(String, bool)> {
        let survey = Survey::parse(TEXT).unwrap();
        let version = "1.36.3".parse().unwrap();
        let findings = survey.findings(&"node1".parse().unwrap(), &version, permitted, continues);
        let short = |finding: Finding| (finding.what.chars().take(24).collect(), finding.fatal);
        findings.into_iter().map(short).collect()
    }

    #[test]
    fn what_stops_an_upgrade_halfway_is_found_before_it() {
        let found = found(Permitted::default(), false);
        let expected = [
            ("the node is not Ready", true),
            ("these PodDisruptionBudge", true),
            ("nothing creates these po", true),
            ("these webhooks refuse re", true),
            ("these certificate signin", false),
            ("since Kubernetes 1.35, t", false),
            ("clients have requested r", false),
        ];
        let expected = expected.map(|(what, fatal)| (what.to_owned(), fatal));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_the_user_permits_is_a_warning() {
        let permitted = Permitted {
            deletes_unmanaged: true,
            ignores_budgets: true,
        };
        let fatal = found(permitted, true);
        let fatal: Vec<_> = fatal.iter().filter(|(_, fatal)| *fatal).collect();
        // The drain of an interrupted run may have ended the pods of a webhook.
        assert!(fatal.is_empty(), "{fatal:?}");
        let fatal = found(permitted, false);
        let fatal: Vec<_> = fatal.iter().filter(|(_, fatal)| *fatal).collect();
        assert_eq!(fatal.len(), 2, "{fatal:?}");
    }

    #[test]
    fn answer_that_is_not_complete_or_unknown_is_refused() {
        for text in [
            "node node1 1.36.3 True\n",
            "node node1 x True\nend\n",
            "node 1 2\nend\n",
            "surprise\nend\n",
        ] {
            assert!(Survey::parse(text).is_err(), "{text}");
        }
        let text = "image ghcr.io/a/b:v1\nimage A:B:C\nimage ghcr.io/a/c:v1\nend";
        let survey = Survey::parse(text).unwrap();
        let new = ["ghcr.io/a/b:v2", "ghcr.io/a/c:v1", "ghcr.io/a/d:v1"];
        let new = new.map(|name| ImageRef::parse(name).unwrap());
        assert_eq!(survey.changed_images(&new), ["ghcr.io/a/b v1 -> v2"]);
        let nodes = Survey::parse(TEXT).unwrap().nodes;
        let node = &nodes[&"node2".parse::<HostName>().unwrap()];
        assert!(!node.is_ready);
    }
}
