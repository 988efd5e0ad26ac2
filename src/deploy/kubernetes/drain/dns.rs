//! DNS in the cluster while a node loses its pods.

use tokio::time::{Instant, sleep};

use super::kubectl::{AT_MOST, Kubectl, PAUSE, unless_refused};
use crate::objects::Pod;
use kubexm_engine::plan::StepError;

impl Kubectl<'_> {
    /// Waits until a pod of CoreDNS is ready on another node: the cluster has no DNS if all of them leave the same node. One
    /// of them moves before the others.
    pub(super) async fn keep_dns(&self) -> Result<(), StepError> {
        let deadline = Instant::now() + AT_MOST;
        loop {
            let words = ["pods", "-n", "kube-system", "-l", "k8s-app=kube-dns"];
            match self.list::<Pod>(&words).await {
                Ok(pods) => {
                    let ready = pods.iter().filter(|pod| pod.is_ready());
                    let (here, elsewhere): (Vec<&Pod>, Vec<&Pod>) =
                        ready.partition(|pod| pod.spec.node_name == self.node);
                    // A single pod cannot move without an interruption.
                    if !elsewhere.is_empty() || pods.len() < 2 {
                        return Ok(());
                    }
                    if let [first, _, ..] = here[..] {
                        let name = first.metadata.name.as_str();
                        unless_refused(self.call("delete", &[name]).await)?;
                    }
                }
                other => drop(unless_refused(other)?),
            }
            if Instant::now() >= deadline {
                let said = format!(
                    "no pod of CoreDNS is ready on another node than {}",
                    self.node
                );
                let hint = "kubectl -n kube-system get pods -l k8s-app=kube-dns shows why; then run the same command again";
                return Err(self.give_up(said, hint.to_owned()).await);
            }
            sleep(PAUSE).await;
        }
    }
}
