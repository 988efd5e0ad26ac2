//! Objects that need what a bare cluster does not have: volumes, a controller of Ingresses, addresses. And Jobs of releases.

use serde::Deserialize;

use kubexm_deploy::objects::{Class, Condition, Metadata, condition};

/// The arguments of `kubectl get`. Classes come first: users decide how many others there are.
pub(super) const WORDS: [&str; 2] = [
    "storageclasses,ingressclasses,runtimeclasses,persistentvolumeclaims,ingresses,services,jobs",
    "--all-namespaces",
];
/// The annotation of hooks (<https://helm.sh/docs/topics/charts_hooks/>).
const HOOK: &str = "helm.sh/hook";
/// The annotation of the other objects of a release.
const RELEASE: &str = "meta.helm.sh/release-name";
/// The annotation with which an Ingress named its class before `ingressClassName`.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// An object that may need something of the cluster, or a class.
#[derive(Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Need {
    StorageClass(Class),
    IngressClass(Class),
    RuntimeClass(RuntimeClass),
    PersistentVolumeClaim(Claim),
    Ingress(Ingress),
    Service(Service),
    Job(Job),
}

impl Need {
    /// Returns whether checks look at it.
    pub(super) fn counts(&self) -> bool {
        match self {
            Self::StorageClass(_) | Self::IngressClass(_) | Self::RuntimeClass(_) => true,
            Self::PersistentVolumeClaim(claim) => claim.waits_for_class(),
            Self::Ingress(ingress) => ingress.needs_class(),
            Self::Service(service) => service.spec.kind == "LoadBalancer",
            Self::Job(job) => job.is_of_helm() && job.failure().is_some(),
        }
    }
}

/// A RuntimeClass.
#[derive(Deserialize)]
pub(super) struct RuntimeClass {
    pub(super) metadata: Metadata,
    /// The name by which the container runtime of a node knows it.
    pub(super) handler: String,
}

/// A PersistentVolumeClaim.
#[derive(Deserialize)]
pub(super) struct Claim {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    storage_class_name: Option<String>,
    volume_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
}

impl Claim {
    /// Returns the name of its class; `None` for the default one.
    pub(super) fn class(&self) -> Option<&str> {
        self.spec.storage_class_name.as_deref()
    }

    /// Returns whether it waits for a volume of a class. One with an empty class or the name of a volume waits for a person.
    fn waits_for_class(&self) -> bool {
        self.status.phase == "Pending"
            && self.spec.volume_name.is_empty()
            && self.class() != Some("")
    }
}

/// An Ingress.
#[derive(Deserialize)]
pub(super) struct Ingress {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: IngressSpec,
    #[serde(default)]
    status: Addressed,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IngressSpec {
    ingress_class_name: Option<String>,
}

/// The status of an object that gets addresses.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Addressed {
    load_balancer: LoadBalancer,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<serde::de::IgnoredAny>,
}

impl Ingress {
    /// Returns the name of its class; `None` without one.
    pub(super) fn class(&self) -> Option<&str> {
        self.spec.ingress_class_name.as_deref()
    }

    /// Returns whether only its class can lead to a controller. A controller that has set an address serves it.
    fn needs_class(&self) -> bool {
        let has_annotation = self.metadata.annotations.contains_key(INGRESS_CLASS);
        !has_annotation && self.status.load_balancer.ingress.is_empty()
    }
}

/// A Service.
#[derive(Deserialize)]
pub(super) struct Service {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: ServiceSpec,
    #[serde(default)]
    status: Addressed,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    kind: String,
}

impl Service {
    pub(super) fn has_address(&self) -> bool {
        !self.status.load_balancer.ingress.is_empty()
    }
}

/// A Job.
#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) metadata: Metadata,
    #[serde(default)]
    status: JobStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobStatus {
    conditions: Vec<Condition>,
}

impl Job {
    /// Returns why it failed; `None` if it did not.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = condition(&self.status.conditions, "Failed")?;
        (failed.status == "True").then(|| format!("{}: {}", failed.reason, failed.message))
    }

    pub(super) fn is_hook(&self) -> bool {
        self.metadata.annotations.contains_key(HOOK)
    }

    fn is_of_helm(&self) -> bool {
        self.is_hook() || self.metadata.annotations.contains_key(RELEASE)
    }

    /// Returns whether it may be of a release: hooks do not name theirs.
    pub(super) fn may_be_of(&self, namespace: &str, release: &str) -> bool {
        let named = self.metadata.annotations.get(RELEASE);
        let named = named.or_else(|| self.metadata.labels.get("app.kubernetes.io/instance"));
        self.metadata.namespace == namespace && named.is_none_or(|name| name == release)
    }
}
