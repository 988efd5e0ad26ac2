//! The wait for the pods of the cluster itself.

use std::fmt::Write;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_config::cluster::{Cluster, PluginProperties};
use kubexm_engine::plan::{About, Condition, Describe, Step, StepError, Wait};
use kubexm_engine::steps::{LONGEST_REASON, POLL, diagnosis, failed};
use kubexm_engine::{Command, Host};
use kubexm_scripts::dns::DIAGNOSIS;
use kubexm_scripts::kubernetes::LAST_LOG;
use kubexm_types::Untrusted;

use crate::objects::{Pod, Server};

/// The largest number of pods that are named.
const MOST: usize = 5;

/// Waits until a pod of CoreDNS is ready. It names the pods of the cluster that do not start, and why: without the network plugin
/// CoreDNS does not start either.
pub(crate) struct DnsPodsWait {
    plugin: &'static PluginProperties,
    at_most: Duration,
}

impl DnsPodsWait {
    pub(crate) fn new(cluster: &Cluster, at_most: Duration) -> Self {
        Self {
            plugin: cluster.network.plugin.properties(),
            at_most,
        }
    }

    async fn missing(&self, host: &dyn Host) -> Result<Option<String>, StepError> {
        let (server, what) = (Server::of(host).limit(POLL), self.describe());
        let label = ["pods", "-n", "kube-system", "-l", "k8s-app=kube-dns"];
        let dns: Vec<Pod> = server.list(&what, &label).await?;
        if dns.iter().any(Pod::is_ready) {
            return Ok(None);
        }
        let mut pods = Vec::new();
        for namespace in self.plugin.namespaces.iter().chain(&["kube-system"]) {
            let words = ["pods", "-n", namespace];
            pods.extend(server.list::<Pod>(&what, &words).await?);
        }
        // Those of the network come first: the others need them.
        let mut missing = "no pod of CoreDNS is ready".to_owned();
        for trouble in troubles(host, &pods, str::to_owned).await? {
            let _ = write!(missing, "\n{trouble}");
        }
        Ok(Some(missing))
    }
}

/// Returns a line for each pod that does not become ready, of at most five: where it is, and why. `shown` hides secrets of a
/// reason before it is cut.
///
/// # Errors
/// The host was lost.
pub(crate) async fn troubles(
    host: &dyn Host,
    pods: &[Pod],
    shown: impl Fn(&str) -> String,
) -> Result<Vec<String>, StepError> {
    let mut lines = Vec::new();
    let failing = pods
        .iter()
        .filter_map(|pod| Some((pod, pod.trouble()?)))
        .take(MOST);
    for (pod, trouble) in failing {
        let mut reason = trouble;
        if let Some(line) = last_log(host, pod).await? {
            let _ = write!(reason, "; its log ends with: {line}");
        }
        let reason = Untrusted::one_line(&shown(&reason), LONGEST_REASON);
        let (path, node) = (pod.metadata.path(), &pod.spec.node_name);
        let place = if node.is_empty() {
            String::new()
        } else {
            format!(" on {node}")
        };
        lines.push(format!("{path}{place}: {reason}"));
    }
    Ok(lines)
}

/// Returns the last line that a pod logged before it ended, if it did.
async fn last_log(host: &dyn Host, pod: &Pod) -> Result<Option<String>, StepError> {
    if !pod.has_crashed() {
        return Ok(None);
    }
    let arguments = [&pod.metadata.namespace, &pod.metadata.name];
    let command = Command::from_script(LAST_LOG, arguments).describe("read the log of a pod");
    let output = host.run(command.limit(POLL)).await?;
    let line = output.text().trim().to_owned();
    Ok((!line.is_empty()).then_some(line))
}

impl Describe for DnsPodsWait {
    fn id(&self) -> String {
        format!("wait {}", self.describe())
    }

    fn describe(&self) -> String {
        "Wait until a pod of CoreDNS is ready".to_owned()
    }
}

impl From<DnsPodsWait> for Step {
    fn from(step: DnsPodsWait) -> Self {
        Self::Wait(Box::new(step))
    }
}

#[async_trait]
impl Wait for DnsPodsWait {
    fn limit(&self) -> Duration {
        self.at_most
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        match self.missing(host).await {
            Ok(None) => Ok(Condition::Met),
            Ok(Some(missing)) => Ok(Condition::Unmet(missing)),
            Err(error) => failed(error),
        }
    }

    fn about(&self) -> About {
        About::Dns
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        diagnosis(host, &DIAGNOSIS.into()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::FakeApi;
    use kubexm_config::cluster::PluginKind;
    use serde_json::{Value, json};

    fn pod(namespace: &str, name: &str, status: Value) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"nodeName": "node1"},
            "status": status,
        })
    }

    async fn polled(dns: Value, network: Value) -> Condition {
        let dns = pod("kube-system", "coredns-1", dns);
        let network = pod("kube-flannel", "flannel-1", network);
        let host = FakeApi::new([
            ("pods -n kube-system -l", json!({"items": [dns.clone()]})),
            ("pods -n kube-system", json!({"items": [dns]})),
            ("pods -n kube-flannel", json!({"items": [network]})),
        ]);
        let wait = DnsPodsWait {
            plugin: PluginKind::Flannel.properties(),
            at_most: Duration::from_secs(1),
        };
        wait.poll(&host).await.unwrap()
    }

    #[tokio::test]
    async fn pods_that_do_not_start_are_named_with_the_reason() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let waits = |reason: &str, message: &str| {
            let waiting = json!({"reason": reason, "message": message});
            json!({"containerStatuses": [{"ready": false, "state": {"waiting": waiting}}]})
        };
        let creating = waits("ContainerCreating", "");
        assert_eq!(
            polled(ready.clone(), creating.clone()).await,
            Condition::Met
        );
        let pulling = waits("ImagePullBackOff", "not found");
        let expected = "no pod of CoreDNS is ready\nkube-flannel/flannel-1 on node1: ImagePullBackOff: not found\n\
                        kube-system/coredns-1 on node1: ContainerCreating";
        assert_eq!(
            polled(creating, pulling).await,
            Condition::Unmet(expected.to_owned())
        );
        let pending = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "1 node is tainted"}
        ]});
        let expected = "no pod of CoreDNS is ready\nkube-system/coredns-1 on node1: not scheduled: 1 node is tainted";
        assert_eq!(
            polled(pending, ready).await,
            Condition::Unmet(expected.to_owned())
        );
    }
}
