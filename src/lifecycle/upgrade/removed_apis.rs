//! API versions of built-in kinds that Kubernetes has stopped to serve
//! (<https://kubernetes.io/docs/reference/using-api/deprecation-guide/>).

/// An API version that Kubernetes does not serve for some kinds any more.
struct Removed {
    /// The first minor version of Kubernetes without it.
    minor: u64,
    api_version: &'static str,
    kinds: &'static [&'static str],
    /// The API version with these kinds that replaces it; `None` for kinds that are removed.
    replacement: Option<&'static str>,
}

const fn removed(
    minor: u64,
    api_version: &'static str,
    kinds: &'static [&'static str],
    replacement: &'static str,
) -> Removed {
    Removed {
        minor,
        api_version,
        kinds,
        replacement: Some(replacement),
    }
}

const AUTOSCALERS: &[&str] = &["HorizontalPodAutoscaler"];
const FLOWS: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io/v1";
const INGRESSES: &[&str] = &["Ingress"];

/// The removals from Kubernetes 1.22 to 1.36.
const REMOVED: &[Removed] = &[
    removed(
        22,
        "admissionregistration.k8s.io/v1beta1",
        &[
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ],
        "admissionregistration.k8s.io/v1",
    ),
    removed(
        22,
        "apiextensions.k8s.io/v1beta1",
        &["CustomResourceDefinition"],
        "apiextensions.k8s.io/v1",
    ),
    removed(
        22,
        "apiregistration.k8s.io/v1beta1",
        &["APIService"],
        "apiregistration.k8s.io/v1",
    ),
    removed(
        22,
        "certificates.k8s.io/v1beta1",
        &["CertificateSigningRequest"],
        "certificates.k8s.io/v1",
    ),
    removed(
        22,
        "coordination.k8s.io/v1beta1",
        &["Lease"],
        "coordination.k8s.io/v1",
    ),
    removed(22, "extensions/v1beta1", INGRESSES, "networking.k8s.io/v1"),
    removed(
        22,
        "networking.k8s.io/v1beta1",
        &["Ingress", "IngressClass"],
        "networking.k8s.io/v1",
    ),
    removed(
        22,
        "rbac.authorization.k8s.io/v1beta1",
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        "rbac.authorization.k8s.io/v1",
    ),
    removed(
        22,
        "scheduling.k8s.io/v1beta1",
        &["PriorityClass"],
        "scheduling.k8s.io/v1",
    ),
    removed(
        22,
        "storage.k8s.io/v1beta1",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
        "storage.k8s.io/v1",
    ),
    removed(25, "autoscaling/v2beta1", AUTOSCALERS, "autoscaling/v2"),
    removed(25, "batch/v1beta1", &["CronJob"], "batch/v1"),
    removed(
        25,
        "discovery.k8s.io/v1beta1",
        &["EndpointSlice"],
        "discovery.k8s.io/v1",
    ),
    removed(25, "events.k8s.io/v1beta1", &["Event"], "events.k8s.io/v1"),
    removed(
        25,
        "node.k8s.io/v1beta1",
        &["RuntimeClass"],
        "node.k8s.io/v1",
    ),
    removed(25, "policy/v1beta1", &["PodDisruptionBudget"], "policy/v1"),
    Removed {
        minor: 25,
        api_version: "policy/v1beta1",
        kinds: &["PodSecurityPolicy"],
        replacement: None,
    },
    removed(26, "autoscaling/v2beta2", AUTOSCALERS, "autoscaling/v2"),
    removed(
        26,
        "flowcontrol.apiserver.k8s.io/v1beta1",
        FLOWS,
        FLOW_CONTROL,
    ),
    removed(
        27,
        "storage.k8s.io/v1beta1",
        &["CSIStorageCapacity"],
        "storage.k8s.io/v1",
    ),
    removed(
        29,
        "flowcontrol.apiserver.k8s.io/v1beta2",
        FLOWS,
        FLOW_CONTROL,
    ),
    removed(
        32,
        "flowcontrol.apiserver.k8s.io/v1beta3",
        FLOWS,
        FLOW_CONTROL,
    ),
];

fn until(minor: u64) -> impl Iterator<Item = &'static Removed> {
    REMOVED.iter().filter(move |one| one.minor <= minor)
}

/// Returns what replaces the API version of a kind that a minor version of Kubernetes does not serve, and an earlier one does, as a
/// phrase; `None` if it is not known as removed.
pub(super) fn replacement((from, to): (u64, u64), api_version: &str, kind: &str) -> Option<String> {
    let mut all = until(to).filter(|one| one.minor > from);
    let found = all.find(|one| one.api_version == api_version && one.kinds.contains(&kind))?;
    Some(match found.replacement {
        Some(replacement) => format!("{replacement} replaces it"),
        None => "nothing replaces it".to_owned(),
    })
}

/// Returns whether a minor version of Kubernetes does not serve an API version for a kind, or for some kinds.
pub(super) fn is_removed(minor: u64, api_version: &str, kind: Option<&str>) -> bool {
    until(minor).any(|one| {
        one.api_version == api_version && kind.is_none_or(|kind| one.kinds.contains(&kind))
    })
}
