//! CoreDNS: kubeadm's own with what the spec says of it, or one that kubexm deploys whole where
//! there is no kubeadm.

use super::corefile;
use crate::{DeployError, ETC, Inputs, kubernetes, manifest};
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, WriteFile};
use kubexm_render::dns;
use kubexm_scripts::dns as scripts;
use kubexm_types::{HostPath, ImageRef};

/// As many as kubeadm has.
const REPLICAS: u32 = 2;

/// The image of the cluster's CoreDNS: the one that this version's kubeadm lists.
pub(super) fn image(inputs: &Inputs<'_>) -> Option<ImageRef> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version)?;
    let is_coredns = |image: &&ImageRef| image.repository().ends_with("coredns");
    facts.images.iter().find(is_coredns).cloned()
}

/// Has CoreDNS as the spec wants it, before its pods start.
pub(super) fn configure(inputs: &Inputs<'_>, first: &HostSpec) -> Result<Task, DeployError> {
    let task = super::CONFIGURE
        .task(&first.name)
        .after([kubernetes::first_control_plane(first)]);
    match inputs.cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => adjust(inputs, task),
        KubernetesKind::Systemd => deploy(inputs, first, task),
    }
}

/// All of it, where nobody else deploys it.
fn deploy(inputs: &Inputs<'_>, first: &HostSpec, task: Task) -> Result<Task, DeployError> {
    let version = &inputs.cluster.kubernetes.version;
    let image = image(inputs).ok_or_else(|| {
        let what = format!("a CoreDNS image in the list of kubeadm {version}");
        DeployError::Incomplete(vec![what])
    })?;
    let text = kubexm_render::text(
        "CoreDNS",
        &dns::CoreDns {
            corefile: corefile::of_coredns(inputs)?,
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

/// What kubeadm deployed, with the spec's Corefile and replicas.
fn adjust(inputs: &Inputs<'_>, task: Task) -> Result<Task, DeployError> {
    let map = dns::CorefileMap {
        corefile: corefile::of_coredns(inputs)?,
    };
    let path = HostPath::parse(&format!("{ETC}/corefile.yaml"))?;
    let mut step = manifest::apply("corefile", "Configure CoreDNS", path.as_str());
    if !corefile::is_asked_for(inputs) {
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
