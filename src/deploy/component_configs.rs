//! The configuration files of Kubernetes' programs in a plan, which the programs parse before an install.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{DeployError, Inputs, plan, rendered};
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::Cluster;

/// A configuration file of a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComponentConfig {
    /// The program, as in `kubelet`.
    pub program: &'static str,
    /// One YAML document.
    pub text: String,
}

/// The kinds of configurations, and the programs that parse them strictly.
const KINDS: [(&str, &str); 3] = [
    ("KubeletConfiguration", "kubelet"),
    ("KubeProxyConfiguration", "kube-proxy"),
    ("KubeSchedulerConfiguration", "kube-scheduler"),
];

/// Returns the different configurations of a cluster.
///
/// # Errors
/// The cluster cannot be planned with this lock.
pub fn component_configs(
    cluster: &Cluster,
    lock: &Lock,
    blobs: &Arc<dyn Blobs>,
) -> Result<BTreeSet<ComponentConfig>, DeployError> {
    let inputs = Inputs::assumed(cluster, lock, Arc::clone(blobs));
    let deployment = plan(&inputs)?;
    let files = rendered(&deployment.plan);
    let texts = files.values().flatten().map(|file| file.content.as_str());
    Ok(texts.flat_map(documents).filter_map(config).collect())
}

/// Returns the YAML documents of a file.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n---\n")
}

fn config(document: &str) -> Option<ComponentConfig> {
    let kind = document
        .lines()
        .find_map(|line| line.strip_prefix("kind: "))?;
    let (_, program) = KINDS.into_iter().find(|(name, _)| *name == kind.trim())?;
    Some(ComponentConfig {
        program,
        text: document.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_programs_are_found_among_other_documents() {
        let text = "# kubeadm\nkind: ClusterConfiguration\n---\nkind: KubeletConfiguration\nmaxPods: 9\n---\nkind: Pod\n";
        let found: Vec<_> = documents(text).filter_map(config).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].program, found[0].text.lines().last()),
            ("kubelet", Some("maxPods: 9"))
        );
    }
}
