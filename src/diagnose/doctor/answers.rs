//! Keys of what the scripts of `doctor` print.

pub(super) use kubexm_host::Answers;
use serde::Deserialize;

/// Fields of a KubeletConfiguration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kubelet {
    pub(super) cgroup_driver: Option<String>,
    pub(super) fail_cgroup_v1: Option<bool>,
    pub(super) fail_swap_on: Option<bool>,
}

/// Keys of `doctor/host.sh`.
pub(super) const HOST: &[&str] = &[
    "ntp",
    "ntp_unit",
    "kubelet",
    "kubelet_certificate",
    "kubelet_conf",
    "kubelet_flags",
    "resolv_conf",
    "nameserver",
    "cni_leases",
    "sandboxes",
    "flannel_subnet",
    "bridge",
    "overlay",
    "offload",
    "udp",
    "backend",
    "empty_manifest",
];
/// Keys of `doctor/runtime.sh`.
pub(super) const RUNTIME: &[&str] = &[
    "cri",
    "condition",
    "config_error",
    "disabled_plugins",
    "sandbox",
    "sandbox_expected",
    "sandbox_present",
    "stale",
    "systemd_cgroup",
    "config_path",
    "inline_mirrors",
    "mirror",
    "mirror_ca",
    "mirror_missing",
    "registry",
];
/// Keys of `doctor/ways.sh`.
pub(super) const WAYS: &[&str] = &["way"];

/// Returns the configuration of a host's kubelet, if it has one that can be read.
pub(super) fn kubelet(answers: &Answers) -> Option<Kubelet> {
    let lines = answers.all("kubelet");
    let text = (!lines.is_empty()).then(|| lines.join("\n"))?;
    serde_saphyr::from_str(&text).ok()
}
