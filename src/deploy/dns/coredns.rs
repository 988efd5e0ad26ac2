//! CoreDNS. kubexm configures the CoreDNS that kubeadm deploys, or deploys it without kubeadm.

use super::corefile;
use crate::objects::{Server, checked, patch};
use crate::{DeployError, ETC, Inputs, kubernetes, manifest};
use async_trait::async_trait;
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError, Task, TaskName};
use kubexm_engine::steps::WriteFile;
use kubexm_render::dns;
use kubexm_scripts::dns as scripts;
use kubexm_types::{HostPath, ImageRef};
use serde::Deserialize;
use serde_json::json;

/// Configures DNS in the cluster.
pub(crate) const CONFIGURE: TaskName = TaskName::new("dns", "configure");

/// The default number of replicas, as in kubeadm.
const REPLICAS: u32 = 2;
/// The Deployment, for kubectl.
const DEPLOYMENT: [&str; 4] = ["deployment", "coredns", "-n", "kube-system"];

/// Returns the image of CoreDNS in the image list of this version of kubeadm.
pub(super) fn image(inputs: &Inputs<'_>) -> Option<ImageRef> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version)?;
    let is_coredns = |image: &&ImageRef| image.repository().ends_with("coredns");
    facts.images.iter().find(is_coredns).cloned()
}

/// Returns the task that configures CoreDNS before its pods start.
pub(super) fn configure(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let task = CONFIGURE
        .task(&first.name)
        .after([kubernetes::first_control_plane(first)]);
    match inputs.cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => adjust(inputs, task),
        KubernetesKind::Systemd => deploy(inputs, first, task),
    }
}

/// Deploys CoreDNS in a cluster without kubeadm.
fn deploy(inputs: &Inputs<'_>, first: &HostSpec, task: Task) -> Result<Task, DeployError> {
    let version = &inputs.cluster.kubernetes.version;
    let image = image(inputs).ok_or_else(|| {
        let what = format!("a CoreDNS image in the list of kubeadm {version}");
        DeployError::Incomplete(vec![what])
    })?;
    let text = kubexm_render::text(
        "CoreDNS",
        &dns::CoreDns {
            corefile: corefile::for_coredns(inputs)?,
            image: image.to_string(),
            replicas: inputs.cluster.dns.replicas.unwrap_or(REPLICAS),
            dns_address: inputs.cluster.network.dns_address.to_string(),
        },
    )?;
    let title = format!("Deploy CoreDNS from {}", first.name);
    manifest::written(task, "coredns", title, text)
}

/// Sets the Corefile and the number of replicas in the CoreDNS that kubeadm deployed.
fn adjust(inputs: &Inputs<'_>, task: Task) -> Result<Task, DeployError> {
    let map = dns::CorefileMap {
        corefile: corefile::for_coredns(inputs)?,
    };
    let path = HostPath::parse(&format!("{ETC}/corefile.yaml"))?;
    let mut step = manifest::apply("corefile", "Configure CoreDNS", path.as_str());
    if !corefile::differs_from_kubeadm(inputs) {
        step.check = scripts::COREFILE_CHECK;
    }
    let mut task = task
        .step(WriteFile::new(path, kubexm_render::text("Corefile", &map)?))
        .step(step);
    if let Some(replicas) = inputs.cluster.dns.replicas {
        task = task.step(Replicas(replicas));
    }
    Ok(task)
}

/// Sets the number of replicas of the Deployment.
struct Replicas(u32);

/// A Deployment.
#[derive(Deserialize)]
struct Deployment {
    spec: DeploymentSpec,
}

#[derive(Deserialize)]
struct DeploymentSpec {
    replicas: u32,
}

impl Describe for Replicas {
    fn id(&self) -> String {
        "coredns replicas".to_owned()
    }

    fn describe(&self) -> String {
        format!("Run {} replicas of CoreDNS", self.0)
    }
}

impl From<Replicas> for Step {
    fn from(step: Replicas) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for Replicas {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let (title, words) = (
            self.describe(),
            [&DEPLOYMENT[..], &["--ignore-not-found"]].concat(),
        );
        let found = Server::of(host).find::<Deployment>(&title, &words).await;
        checked(found.map(|found| match found {
            Some(found) if found.spec.replicas == self.0 => Check::Satisfied,
            Some(found) => Check::needed(format!("has {} replicas", found.spec.replicas)),
            None => Check::needed("has no replicas"),
        }))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let fields = json!({"spec": {"replicas": self.0}});
        patch(context.host, &self.describe(), &DEPLOYMENT, &fields).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, NO_CLUSTER, apply};

    /// `status --fix` applies what differs, so an API server that does not answer must not look like a difference.
    #[tokio::test]
    async fn number_of_replicas_that_is_unknown_is_not_another_one() {
        let found = json!({"spec": {"replicas": 2}});
        let host = FakeApi::new([("deployment coredns -n kube-system", found)]);
        assert_eq!(Replicas(2).check(&host).await.unwrap(), Check::Satisfied);
        let other = Check::needed("has 2 replicas");
        assert_eq!(Replicas(3).check(&host).await.unwrap(), other);
        apply(&Replicas(3), &host).await.unwrap();
        let change = r#"deployment coredns -n kube-system --patch {"spec":{"replicas":3}}"#;
        assert_eq!(host.changes(), [change]);
        let absent = FakeApi::without_cluster();
        let before = Check::needed(NO_CLUSTER);
        assert_eq!(Replicas(2).check(&absent).await.unwrap(), before);
        assert!(Replicas(2).check(&FakeApi::silent()).await.is_err());
    }
}
