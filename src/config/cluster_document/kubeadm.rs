//! `spec.kubernetes.kubeadm`: the settings of kubeadm, besides patches.

use super::contradiction::refuse;
use super::own_fields::{self, Own};
use super::patches::read_patches;
use crate::cluster::{Cluster, HostSpec, Kubeadm, KubeadmConfig, KubernetesKind, SkipPhases};
use crate::reader::Fields;
use kubexm_types::Line;

const REMOVE: &str = "remove the field: kubexm writes it";
const NODE: [Own; 11] = [
    ("apiVersion", REMOVE),
    ("kind", REMOVE),
    ("nodeRegistration.name", "name the host in spec.hosts"),
    ("nodeRegistration.criSocket", "use containerRuntime.type"),
    ("nodeRegistration.taints", "use taints of the host"),
    (
        "nodeRegistration.kubeletExtraArgs",
        "use kubernetes.kubelet.extraArgs",
    ),
    (
        "nodeRegistration.ignorePreflightErrors",
        "use kubernetes.kubeadm.ignorePreflightErrors",
    ),
    ("patches", "use kubernetes.kubeadm.patches"),
    ("skipPhases", "use kubernetes.kubeadm.skipPhases"),
    ("dryRun", "use `kubexm install --dry-run`"),
    ("certificateKey", REMOVE),
];
const INIT: [Own; 3] = [
    (
        "bootstrapTokens",
        "remove the field: kubexm creates a token for each run and deletes it",
    ),
    (
        "localAPIEndpoint.advertiseAddress",
        "use internalAddress of the host",
    ),
    ("localAPIEndpoint.bindPort", "use kubernetes.apiServer.port"),
];
const JOIN: [Own; 3] = [
    (
        "discovery",
        "remove the field: kubexm pins the CA of the cluster",
    ),
    (
        "controlPlane",
        "use roleGroups.control-plane and kubernetes.apiServer.port",
    ),
    ("caCertPath", REMOVE),
];
const CLUSTER: [Own; 27] = [
    ("apiVersion", REMOVE),
    ("kind", REMOVE),
    ("kubernetesVersion", "use kubernetes.version"),
    ("clusterName", "use kubernetes.clusterName"),
    ("controlPlaneEndpoint", "use spec.controlPlaneEndpoint"),
    ("networking.dnsDomain", "use kubernetes.dnsDomain"),
    ("networking.podSubnet", "use network.podCIDR"),
    ("networking.serviceSubnet", "use network.serviceCIDR"),
    ("apiServer.extraArgs", "use kubernetes.apiServer.extraArgs"),
    (
        "apiServer.extraVolumes",
        "use kubernetes.apiServer.extraVolumes",
    ),
    ("apiServer.certSANs", "use kubernetes.apiServer.certSANs"),
    (
        "controllerManager.extraArgs",
        "use kubernetes.controllerManager.extraArgs",
    ),
    (
        "controllerManager.extraVolumes",
        "use kubernetes.controllerManager.extraVolumes",
    ),
    ("scheduler.extraArgs", "use kubernetes.scheduler.extraArgs"),
    (
        "scheduler.extraVolumes",
        "use kubernetes.scheduler.extraVolumes",
    ),
    ("etcd.external", "use etcd.external"),
    ("etcd.local.dataDir", "use etcd.dataDir"),
    ("etcd.local.extraArgs", "use etcd.extraArgs"),
    ("etcd.local.serverCertSANs", "use etcd.certSANs"),
    ("etcd.local.peerCertSANs", "use etcd.certSANs"),
    ("etcd.local.imageRepository", IMAGES),
    ("etcd.local.imageTag", IMAGES),
    ("dns", "use spec.dns; the images are those of the bundle"),
    ("imageRepository", IMAGES),
    ("certificatesDir", REMOVE),
    (
        "certificateValidityPeriod",
        "use kubernetes.certificates.validityDays",
    ),
    (
        "caCertificateValidityPeriod",
        "use kubernetes.certificates.caValidityDays",
    ),
];
const IMAGES: &str = "remove the field: nodes pull the images of the bundle by their own names";

/// Phases of `kubeadm init` and `kubeadm join` without which kubexm can install a cluster
/// (<https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-init/>).
const SKIPPED_AT_INIT: [&str; 6] = [
    "preflight",
    "upload-certs",
    "mark-control-plane",
    "kubelet-finalize",
    "addon/kube-proxy",
    "show-join-command",
];
const SKIPPED_AT_JOIN: [&str; 2] = ["preflight", "control-plane-join/mark-control-plane"];

pub(super) fn read_kubeadm(kubernetes: &Fields<'_>, hosts: &[HostSpec]) -> Kubeadm {
    let Some(fields) = kubernetes.section("kubeadm") else {
        return Kubeadm::default();
    };
    let ignored: Vec<Line> = fields.values("ignorePreflightErrors");
    let kubeadm = Kubeadm {
        ignore_preflight_errors: ignored.iter().map(ToString::to_string).collect(),
        patches: read_patches(&fields, hosts),
        config: read_config(&fields),
        skip_phases: read_skipped(&fields),
    };
    fields.finish();
    kubeadm
}

fn read_config(kubeadm: &Fields<'_>) -> KubeadmConfig {
    let Some(fields) = kubeadm.section("extraConfig") else {
        return KubeadmConfig::default();
    };
    let document = |name: &'static str, own: &[&[Own]]| {
        for own in own {
            own_fields::refuse_all(&fields, name, own);
        }
        fields.json_object(name)
    };
    let config = KubeadmConfig {
        init: document("initConfiguration", &[&NODE, &INIT]),
        cluster: document("clusterConfiguration", &[&CLUSTER]),
        join: document("joinConfiguration", &[&NODE, &JOIN]),
    };
    fields.finish();
    config
}

fn read_skipped(kubeadm: &Fields<'_>) -> SkipPhases {
    let Some(fields) = kubeadm.section("skipPhases") else {
        return SkipPhases::default();
    };
    let phases = |name: &'static str, accepted: &[&str]| {
        let Some(node) = fields.get(name) else {
            return Vec::new();
        };
        let reader = fields.reader();
        let mut phases = Vec::new();
        for (item, path) in reader.items(node, &fields.path(name)) {
            let Some(phase) = reader.text(item, &path) else {
                continue;
            };
            if !accepted.contains(&phase.as_str()) {
                let message =
                    format!("kubexm needs the phase '{phase}', or kubeadm does not have it");
                let hint = format!("phases that may be left out: {}", accepted.join(", "));
                reader.problem(item, &path, message, Some(&hint));
            }
            phases.push(phase);
        }
        phases
    };
    let skipped = SkipPhases {
        init: phases("init", &SKIPPED_AT_INIT),
        join: phases("join", &SKIPPED_AT_JOIN),
    };
    fields.finish();
    skipped
}

/// Refuses settings of kubeadm that have no effect because kubeadm does not run, or because its version does not have
/// them.
pub(super) fn check(spec: &Fields<'_>, cluster: &Cluster) {
    let refuse_given = |path: &str, message: &str, hint: &str| {
        if spec.at(path).is_some() {
            refuse(spec, &format!("spec.{path}"), message, hint);
        }
    };
    let kubernetes = &cluster.kubernetes;
    if kubernetes.kind == KubernetesKind::Systemd {
        for name in ["extraConfig", "skipPhases"] {
            let message = "is a setting of kubeadm, and kubernetes.type is systemd";
            let hint = "remove it, or use the fields of kubernetes for each program";
            refuse_given(&format!("kubernetes.kubeadm.{name}"), message, hint);
        }
        for name in ["apiServer", "controllerManager", "scheduler"] {
            let message = "mounts files into a pod, and kubernetes.type is systemd";
            let hint = "remove it: a systemd unit reads the files of the host";
            refuse_given(&format!("kubernetes.{name}.extraVolumes"), message, hint);
        }
    } else if crate::cluster::kubeadm_api(&kubernetes.version) == "v1beta3" {
        let message = format!("kubeadm {} does not have this setting", kubernetes.version);
        let hint = "use Kubernetes 1.31 or newer, or kubernetes.type: systemd";
        for name in ["validityDays", "caValidityDays"] {
            refuse_given(&format!("kubernetes.certificates.{name}"), &message, hint);
        }
    }
}
