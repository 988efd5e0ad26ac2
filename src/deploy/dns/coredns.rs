//! CoreDNS. kubexm configures the CoreDNS that kubeadm deploys, or deploys it without kubeadm.

use super::corefile;
use crate::{DeployError, ETC, Inputs, kubernetes, manifest};
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::plan::{Task, TaskName};
use kubexm_engine::steps::{RunScript, WriteFile};
use kubexm_render::dns;
use kubexm_scripts::dns as scripts;
use kubexm_types::{HostPath, ImageRef};

/// Configures DNS in the cluster.
pub(crate) const CONFIGURE: TaskName = TaskName::new("dns", "configure");

/// The default number of replicas, as in kubeadm.
const REPLICAS: u32 = 2;

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
    let path = HostPath::parse(&format!("{ETC}/coredns.yaml"))?;
    let title = format!("Deploy CoreDNS from {}", first.name);
    Ok(task
        .step(WriteFile::new(path.clone(), text))
        .step(manifest::apply("coredns", title, path.as_str())))
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
        task = task.step(scale(replicas));
    }
    Ok(task)
}

fn scale(replicas: u32) -> RunScript {
    let (check, apply) = (
        scripts::REPLICAS.verb("check"),
        scripts::REPLICAS.verb("apply"),
    );
    let title = format!("Run {replicas} replicas of CoreDNS");
    RunScript::new("coredns replicas", title, check, apply).arguments([replicas.to_string()])
}
