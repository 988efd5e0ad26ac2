//! Volumes that are attached to a node.

use std::collections::BTreeSet;

use tokio::time::{Instant, sleep};

use super::kubectl::{AT_MOST, Kubectl, PAUSE};
use crate::objects::{Attachment, PersistentVolume, Pod};
use kubexm_engine::plan::StepError;

impl Kubectl<'_> {
    /// Returns the attachments of the node, apart from those of pods of DaemonSets, which stay there and keep theirs.
    async fn attached(&self) -> Result<Vec<String>, StepError> {
        let mut attached: Vec<Attachment> = self.list(&["volumeattachments"]).await?;
        attached.retain(|one| one.spec.node_name == self.node);
        if attached.is_empty() {
            return Ok(Vec::new());
        }
        let on_node = format!("--field-selector=spec.nodeName={}", self.node);
        let mut pods: Vec<Pod> = self.list(&["pods", "-A", &on_node]).await?;
        pods.retain(Pod::is_of_daemon_set);
        let claims = pods.iter().flat_map(|pod| {
            let namespace = pod.metadata.namespace.as_str();
            pod.claims().map(move |claim| (namespace, claim))
        });
        let claims: BTreeSet<(&str, String)> = claims.collect();
        let mut volumes: Vec<PersistentVolume> = self.list(&["persistentvolumes"]).await?;
        volumes.retain(|volume| {
            let claim = volume.spec.claim_ref.as_ref();
            claim.is_some_and(|claim| {
                claims.contains(&(claim.namespace.as_str(), claim.name.clone()))
            })
        });
        let stays = |name: &str| volumes.iter().any(|volume| volume.metadata.name == name);
        attached.retain(|one| {
            let volume = one.spec.source.persistent_volume_name.as_deref();
            !volume.is_some_and(stays)
        });
        Ok(attached.into_iter().map(|one| one.metadata.name).collect())
    }

    /// Waits until no volume is attached to the node any more, and returns those that are left. Volumes that are still attached
    /// when the kubelet stops or the node is deleted stay attached for minutes, so that no other node can use them.
    pub(super) async fn detached(&self) -> Result<Vec<String>, StepError> {
        let deadline = Instant::now() + AT_MOST;
        loop {
            let attached = self.attached().await;
            let is_late = Instant::now() >= deadline;
            match attached {
                Ok(volumes) if volumes.is_empty() || is_late => return Ok(volumes),
                Err(error) if is_late || error.is_loss_of_host() => return Err(error),
                _ => sleep(PAUSE).await,
            }
        }
    }
}
