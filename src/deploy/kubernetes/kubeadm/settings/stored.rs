//! The settings that the cluster stores for nodes that join later, and those of kube-proxy.

use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_engine::{Command, Host, Limit};
use kubexm_scripts::kubeadm::{CLUSTER_SETTINGS, ClusterSettings};
use kubexm_types::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::objects::{ConfigMap, Object, Polls, Server, checked, patch, restart};

/// How long kube-proxy may take on all nodes.
const ROLLOUT: Duration = Duration::from_secs(300);
/// How long kubeadm may take.
const LIMIT: Limit = Limit::new(Duration::from_secs(600), "the settings of the cluster");
/// The annotation with the digest of the settings that a ConfigMap has.
const MARK: &str = "kubexm.io/settings";
/// The ConfigMaps for nodes that join later.
const FOR_NODES: [&str; 2] = ["kubeadm-config", "kubelet-config"];
const KUBE_PROXY: &str = "kube-proxy";
const DAEMON_SET: [&str; 4] = ["daemonset", KUBE_PROXY, "-n", "kube-system"];
/// The key of the configuration in the ConfigMap of kube-proxy.
const PROXY_CONFIG: &str = "config.conf";
const HINT: &str = "correct kubeProxy in the cluster file, then run the same command again";

/// Stores the settings of a configuration of `kubeadm init`: in the ConfigMaps kubeadm-config, kubelet-config and kube-proxy.
/// kube-proxy restarts on one node after another if its configuration changes, and gets its former one back if it does not become
/// ready.
pub(super) struct StoredSettings {
    /// The digest of the whole configuration.
    pub(super) digest: String,
    /// The digest of the configuration of kube-proxy.
    pub(super) proxy_digest: String,
    /// The configuration.
    pub(super) config: String,
    /// Whether `kubeadm init` has just stored it.
    pub(super) is_new: bool,
}

/// Why kube-proxy must change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// A change was interrupted: the pods may have either configuration.
    Interrupted,
    Settings,
}

/// A DaemonSet, as far as its rollout is concerned.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DaemonSet {
    metadata: Generation,
    status: Rollout,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generation {
    generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rollout {
    observed_generation: i64,
    desired_number_scheduled: u32,
    updated_number_scheduled: u32,
    number_available: u32,
}

impl DaemonSet {
    /// Returns what a rollout waits for; `None` if it has ended.
    fn missing(&self) -> Option<Message> {
        let Rollout {
            observed_generation,
            desired_number_scheduled: all,
            updated_number_scheduled: updated,
            number_available: available,
        } = self.status;
        let is_seen = observed_generation >= self.metadata.generation;
        let is_ready = is_seen && updated == all && available == all;
        (!is_ready).then(|| {
            format!("kube-proxy restarts: {updated} of {all} nodes have started it, and it is ready on {available}").into()
        })
    }
}

impl StoredSettings {
    async fn find(&self, host: &dyn Host, name: &str) -> Result<Option<ConfigMap>, StepError> {
        let words = ["configmap", name, "-n", "kube-system", "--ignore-not-found"];
        Server::of(host).find(&self.describe(), &words).await
    }

    async fn mark(&self, host: &dyn Host, name: &str, digest: &str) -> Result<(), StepError> {
        let words = ["configmap", name, "-n", "kube-system"];
        let fields = json!({"metadata": {"annotations": {MARK: digest}}});
        patch(host, &self.describe(), &words, &fields).await
    }

    async fn mark_all(&self, host: &dyn Host) -> Result<(), StepError> {
        for name in FOR_NODES {
            self.mark(host, name, &self.digest).await?;
        }
        Ok(())
    }

    /// Returns the DaemonSet of kube-proxy; `None` if the cluster has none.
    async fn proxy<T: DeserializeOwned>(&self, host: &dyn Host) -> Result<Option<T>, StepError> {
        let words = [&DAEMON_SET[..], &["--ignore-not-found"]].concat();
        Server::of(host).find(&self.describe(), &words).await
    }

    async fn has_proxy(&self, host: &dyn Host) -> Result<bool, StepError> {
        Ok(self.proxy::<Object>(host).await?.is_some())
    }

    /// Runs the script with the configuration. Returns what it prints.
    async fn run(&self, host: &dyn Host, verb: &'static str) -> Result<String, StepError> {
        let call = CLUSTER_SETTINGS.verb(verb).with(ClusterSettings {
            config: self.config.clone(),
        });
        let command = Command::from_script(call.script, call.arguments);
        let output = host
            .run(command.describe(self.describe()).limit(LIMIT))
            .await?;
        Ok(StepError::unless_done(&self.describe(), output)?.text())
    }

    async fn found(&self, host: &dyn Host) -> Result<Check, StepError> {
        if let Some(reason) = self.difference_of_proxy(host).await? {
            return Ok(Check::needed(match reason {
                Difference::Interrupted => "a change of kube-proxy was interrupted",
                Difference::Settings => "kube-proxy has other settings",
            }));
        }
        for name in FOR_NODES {
            if !has_mark(self.find(host, name).await?.as_ref(), &self.digest) {
                let reason = format!("the ConfigMap {name} has other settings");
                return Ok(Check::needed(reason));
            }
        }
        Ok(Check::Satisfied)
    }

    /// Returns why kube-proxy must change.
    async fn difference_of_proxy(&self, host: &dyn Host) -> Result<Option<Difference>, StepError> {
        if !self.has_proxy(host).await? {
            return Ok(None);
        }
        if !self.run(host, "began").await?.is_empty() {
            return Ok(Some(Difference::Interrupted));
        }
        let found = self.find(host, KUBE_PROXY).await?;
        let has_mark = has_mark(found.as_ref(), &self.proxy_digest);
        Ok((!has_mark).then_some(Difference::Settings))
    }

    async fn proxy_config(&self, host: &dyn Host) -> Result<Option<String>, StepError> {
        let found = self.find(host, KUBE_PROXY).await?;
        Ok(found.and_then(|mut found| found.data.remove(PROXY_CONFIG)))
    }

    /// Changes kube-proxy. The present ConfigMap stays on the host until kube-proxy is ready with another one.
    async fn change_proxy(&self, host: &dyn Host, reason: Difference) -> Result<(), StepError> {
        let former = self.proxy_config(host).await?;
        self.run(host, "keep").await?;
        self.run(host, "proxy").await?;
        if reason == Difference::Interrupted || self.proxy_config(host).await? != former {
            self.restart_proxy_or_go_back(host).await?;
        }
        self.mark(host, KUBE_PROXY, &self.proxy_digest).await?;
        self.run(host, "done").await.map(drop)
    }

    async fn restart_proxy_or_go_back(&self, host: &dyn Host) -> Result<(), StepError> {
        let cause = match self.restart_proxy(host).await {
            Err(error @ StepError::Host(_)) => return Err(error),
            Err(error) => Message::from(&error),
            Ok(()) => return Ok(()),
        };
        self.run(host, "back").await?;
        // The report is that of the settings that do not work.
        let _ = self.restart_proxy(host).await;
        self.run(host, "drop").await?;
        let text = format!(
            "{}\nkube-proxy does not become ready with its new settings, so it has its former ones again",
            cause.text
        );
        Err(StepError::Other(Message::new(text).hint(HINT)))
    }

    async fn restart_proxy(&self, host: &dyn Host) -> Result<(), StepError> {
        let title = self.describe();
        restart(host, &title, &DAEMON_SET).await?;
        let polls = Polls::at_most(ROLLOUT);
        let missing = async || {
            let found: Option<DaemonSet> = self.proxy(host).await?;
            Ok(found.unwrap_or_default().missing())
        };
        while polls.go_on(missing().await).await? {}
        Ok(())
    }
}

fn has_mark(map: Option<&ConfigMap>, digest: &str) -> bool {
    let mark = map.and_then(|map| map.metadata.annotations.get(MARK));
    mark.is_some_and(|mark| mark == digest)
}

impl Describe for StoredSettings {
    fn id(&self) -> String {
        "stored settings".to_owned()
    }

    fn describe(&self) -> String {
        "Store the settings for nodes that join later, and apply those of kube-proxy".to_owned()
    }
}

impl From<StoredSettings> for Step {
    fn from(step: StoredSettings) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for StoredSettings {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        checked(self.found(host).await)
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let host = context.host;
        if self.is_new {
            self.mark_all(host).await?;
            if self.has_proxy(host).await? {
                self.mark(host, KUBE_PROXY, &self.proxy_digest).await?;
            }
            return Ok(());
        }
        if let Some(reason) = self.difference_of_proxy(host).await? {
            self.change_proxy(host, reason).await?;
        }
        self.run(host, "store").await?;
        self.mark_all(host).await
    }
}

#[cfg(test)]
mod tests;
