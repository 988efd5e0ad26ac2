//! Labels and taints of nodes, which every install compares with the API and sets there.
//!
//! A kubelet may not set all labels for its node, and it sets labels and taints only when it registers
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction>). Annotations of the
//! node state what an install has set, so that a later one can remove it. Other labels and taints stay.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use async_trait::async_trait;

use crate::Inputs;
use crate::objects::{Node, Server, Taint};
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind};
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_engine::{Command, Host};
use kubexm_scripts::kubernetes::NODE_METADATA;
use kubexm_types::HostName;

/// The key of a control plane's label and of its taint. The taint prevents pods, unless the user configures other
/// taints
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/#node-role-kubernetes-io-control-plane-taint>).
pub(super) const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// A label that kubeadm sets on control planes
/// (<https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-exclude-from-external-load-balancers>).
const NO_LOAD_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The step that sets labels and taints of nodes.
pub(super) struct NodeMetadata {
    nodes: BTreeMap<HostName, Desired>,
}

/// What the cluster file states about a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Desired {
    labels: BTreeMap<String, String>,
    /// `None` if the cluster file does not state taints.
    taints: Option<BTreeSet<Taint>>,
    is_control_plane: bool,
    /// Whether kubeadm marks it as a control plane when it joins. The mark is gone if its node registers again, as after a restore of
    /// a backup of before it joined.
    has_mark: bool,
}

/// What the API has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Live {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    /// The keys of labels that an install has set.
    own_labels: BTreeSet<String>,
    /// Key and effect of the taints that an install has set, as `key:effect`; `None` if none has set any.
    own_taints: Option<BTreeSet<String>>,
}

/// The changes of a node, as kubectl expects them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    labels: Vec<String>,
    taints: Vec<String>,
    annotations: Vec<String>,
}

fn id(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

fn of_control_plane() -> Taint {
    Taint {
        key: CONTROL_PLANE.to_owned(),
        effect: "NoSchedule".to_owned(),
        value: String::new(),
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.taints.is_empty() && self.annotations.is_empty()
    }
}

impl NodeMetadata {
    pub(super) fn of(inputs: &Inputs<'_>, hosts: &[&HostSpec]) -> Self {
        let desired = |host: &&HostSpec| (host.name.clone(), desired(inputs.cluster, host));
        Self {
            nodes: hosts.iter().map(desired).collect(),
        }
    }

    /// Returns the changes of each node that does not have what the cluster file states.
    async fn changes(&self, host: &dyn Host) -> Result<BTreeMap<&HostName, Changes>, StepError> {
        let action = "read labels and taints of nodes";
        let nodes: Vec<Node> = Server::of(host).list(action, &["nodes"]).await?;
        let mut changes = BTreeMap::new();
        for node in nodes {
            let mut known = self.nodes.iter();
            let known = known.find(|(name, _)| name.as_str() == node.metadata.name);
            if let Some((name, desired)) = known {
                let needed = difference(desired, &Live::of(node));
                if !needed.is_empty() {
                    changes.insert(name, needed);
                }
            }
        }
        Ok(changes)
    }
}

fn desired(cluster: &Cluster, host: &HostSpec) -> Desired {
    let is_control_plane = cluster.is_control_plane(&host.name);
    let own = host.labels.iter();
    let mut labels: BTreeMap<String, String> = own
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    if is_control_plane && cluster.kubernetes.kind == KubernetesKind::Systemd {
        labels.insert(CONTROL_PLANE.to_owned(), String::new());
        labels.insert(NO_LOAD_BALANCER.to_owned(), String::new());
    }
    let taints = host.taints.as_ref().map(|taints| {
        let taints = taints.iter().map(|taint| Taint {
            key: taint.key.to_string(),
            effect: taint.effect.clone(),
            value: taint.value.to_string(),
        });
        taints.collect()
    });
    let skipped = &cluster.kubernetes.kubeadm.skip_phases;
    let mut skipped = skipped.init.iter().chain(&skipped.join);
    let has_mark = is_control_plane
        && cluster.kubernetes.kind == KubernetesKind::Kubeadm
        && !skipped.any(|phase| phase.ends_with("mark-control-plane"));
    Desired {
        labels,
        taints,
        is_control_plane,
        has_mark,
    }
}

impl Desired {
    /// Returns whether the node has registered again since kubeadm marked it. Without its label, the user cannot have removed the
    /// taint alone.
    fn lacks_mark(&self, live: &Live) -> bool {
        self.has_mark && !live.labels.contains_key(CONTROL_PLANE)
    }
}

impl Live {
    fn of(node: Node) -> Self {
        let annotations = node.metadata.annotations;
        let list = |text: &str| -> BTreeSet<String> {
            let items = text.split(',').filter(|item| !item.is_empty());
            items.map(str::to_owned).collect()
        };
        let own_labels = annotations.get("kubexm.io/labels");
        let own_taints = annotations.get("kubexm.io/taints");
        Self {
            labels: node.metadata.labels,
            taints: node.spec.taints,
            own_labels: own_labels.map_or_else(BTreeSet::new, |text| list(text)),
            // An annotation with an empty list is not empty.
            own_taints: own_taints
                .filter(|text| !text.is_empty())
                .map(|text| list(text.trim_start_matches('-'))),
        }
    }
}

fn difference(desired: &Desired, live: &Live) -> Changes {
    let mut changes = Changes::default();
    for (key, value) in &desired.labels {
        if live.labels.get(key) != Some(value) {
            changes.labels.push(format!("{key}={value}"));
        }
    }
    if desired.lacks_mark(live) {
        let marks = [CONTROL_PLANE, NO_LOAD_BALANCER].into_iter();
        let marks = marks.filter(|key| !desired.labels.contains_key(*key));
        changes.labels.extend(marks.map(|key| format!("{key}=")));
    }
    let former = live.own_labels.iter();
    let former =
        former.filter(|key| !desired.labels.contains_key(*key) && live.labels.contains_key(*key));
    changes.labels.extend(former.map(|key| format!("{key}-")));
    let own: BTreeSet<String> = desired.labels.keys().cloned().collect();
    if own != live.own_labels {
        changes.annotations.push(annotation("labels", "", &own));
    }
    taints(desired, live, &mut changes);
    changes
}

fn taints(desired: &Desired, live: &Live, changes: &mut Changes) {
    let default = || {
        if desired.is_control_plane {
            BTreeSet::from([of_control_plane()])
        } else {
            BTreeSet::new()
        }
    };
    let expected = match (&desired.taints, &live.own_taints) {
        (Some(taints), _) => taints.clone(),
        // The cluster file no longer states taints.
        (None, Some(_)) => default(),
        (None, None) if desired.lacks_mark(live) => default(),
        (None, None) => return,
    };
    for taint in &expected {
        if !live.taints.contains(taint) {
            let Taint { key, effect, value } = taint;
            changes.taints.push(match value.as_str() {
                "" => format!("{key}:{effect}"),
                value => format!("{key}={value}:{effect}"),
            });
        }
    }
    let mut former = live.own_taints.clone().unwrap_or_default();
    // kubeadm sets this one if the cluster file does not state taints.
    former.extend(default().iter().map(id));
    let is_kept = |id: &str| expected.iter().any(|taint| self::id(taint) == id);
    for taint in &live.taints {
        let id = id(taint);
        if former.contains(&id) && !is_kept(&id) {
            changes.taints.push(format!("{id}-"));
        }
    }
    let own: Option<BTreeSet<String>> = desired
        .taints
        .as_ref()
        .map(|taints| taints.iter().map(id).collect());
    match &own {
        own if *own == live.own_taints => {}
        Some(own) => changes.annotations.push(annotation("taints", "-", own)),
        None => changes.annotations.push("kubexm.io/taints-".to_owned()),
    }
}

/// Returns the change of an annotation; `empty` is the value for an empty list, and none for no annotation.
fn annotation(name: &str, empty: &str, list: &BTreeSet<String>) -> String {
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    match (list.is_empty(), empty) {
        (true, "") => format!("kubexm.io/{name}-"),
        (true, empty) => format!("kubexm.io/{name}={empty}"),
        (false, _) => format!("kubexm.io/{name}={}", list.join(",")),
    }
}

/// Describes the changes for the user, in one line for each node.
fn described(changes: &BTreeMap<&HostName, Changes>) -> String {
    let mut text = String::new();
    for (name, changes) in changes {
        let _ = write!(text, "{}{name}:", if text.is_empty() { "" } else { "\n" });
        for (what, list) in [("label", &changes.labels), ("taint", &changes.taints)] {
            for change in list {
                let _ = write!(text, " {what} {change}");
            }
        }
        if changes.labels.is_empty() && changes.taints.is_empty() {
            text.push_str(" record which labels and taints the cluster file states");
        }
    }
    text
}

impl Describe for NodeMetadata {
    fn id(&self) -> String {
        "node labels".to_owned()
    }

    fn describe(&self) -> String {
        "Set labels and taints of nodes".to_owned()
    }
}

impl From<NodeMetadata> for Step {
    fn from(step: NodeMetadata) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for NodeMetadata {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let changes = self.changes(host).await?;
        Ok(if changes.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(described(&changes))
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let mut arguments = Vec::new();
        for (name, changes) in self.changes(context.host).await? {
            // The annotation is last: a removal that was interrupted is still known to the next install.
            for (verb, list) in [
                ("label", &changes.labels),
                ("taint", &changes.taints),
                ("annotate", &changes.annotations),
            ] {
                if !list.is_empty() {
                    arguments.extend([verb.to_owned(), name.to_string(), list.join(" ")]);
                }
            }
        }
        let apply = Command::from_script(NODE_METADATA, arguments);
        let output = context.host.run(apply.describe(self.describe())).await?;
        StepError::unless_done(&self.describe(), output).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
