//! Add-ons: applications of other projects that a cluster gets by one line in the bundle manifest and one in the cluster file.
//! `manifests/catalog/addons.yaml` has their addresses.

use crate::named_kinds;

named_kinds! {
    /// Add-ons: fields of `spec.addons` of a bundle manifest, and values of `addon` in `spec.applications`.
    Addon {
        LocalPathProvisioner = "local-path-provisioner",
        MetricsServer = "metrics-server",
        Traefik = "traefik",
        MetalLb = "metallb",
        CertManager = "cert-manager",
    }
}

/// What kubexm knows of an add-on.
#[derive(Debug, Clone, Copy)]
pub struct AddonProperties {
    /// The namespace of its release, if the cluster file does not name another one.
    pub namespace: &'static str,
    /// What the bundle has of it.
    pub content: AddonContent,
    /// Values with which it works behind an air gap, as YAML. Those of the cluster file replace them.
    pub values: &'static str,
    /// Whether its pods use ports, directories or the network of their host, which the profile `cis` refuses elsewhere.
    pub needs_host: bool,
    /// Objects that it needs and that its project does not install, because they belong to the site.
    pub objects: Option<AddonObjects>,
}

/// What the project of an add-on publishes.
#[derive(Debug, Clone, Copy)]
pub enum AddonContent {
    /// A chart with this name.
    Chart(&'static str),
    /// A file with the objects. The template changes them by the values.
    Manifest {
        /// The name of the file.
        name: &'static str,
        /// A template of Helm, which reads the objects from `manifests.yaml`.
        template: &'static str,
    },
}

/// Objects of the site, as a release of their own: an API server accepts them when the add-on runs.
#[derive(Debug, Clone, Copy)]
pub struct AddonObjects {
    /// The end of the name of the release, after the name of the application and a hyphen.
    pub suffix: &'static str,
    /// A template of Helm.
    pub template: &'static str,
}

const LOCAL_PATH_PROVISIONER: AddonProperties = AddonProperties {
    namespace: "local-path-storage",
    content: AddonContent::Manifest {
        name: "local-path-storage.yaml",
        template: include_str!("../../manifests/addons/local-path-provisioner.tpl"),
    },
    values: include_str!("../../manifests/addons/local-path-provisioner.yaml"),
    needs_host: true,
    objects: None,
};

const METRICS_SERVER: AddonProperties = AddonProperties {
    namespace: "kube-system",
    content: AddonContent::Chart("metrics-server"),
    values: include_str!("../../manifests/addons/metrics-server.yaml"),
    needs_host: false,
    objects: None,
};

const TRAEFIK: AddonProperties = AddonProperties {
    namespace: "traefik",
    content: AddonContent::Chart("traefik"),
    values: include_str!("../../manifests/addons/traefik.yaml"),
    needs_host: true,
    objects: None,
};

const METALLB: AddonProperties = AddonProperties {
    namespace: "metallb-system",
    content: AddonContent::Chart("metallb"),
    values: include_str!("../../manifests/addons/metallb.yaml"),
    needs_host: true,
    objects: Some(AddonObjects {
        suffix: "addresses",
        template: include_str!("../../manifests/addons/metallb-addresses.tpl"),
    }),
};

const CERT_MANAGER: AddonProperties = AddonProperties {
    namespace: "cert-manager",
    content: AddonContent::Chart("cert-manager"),
    values: include_str!("../../manifests/addons/cert-manager.yaml"),
    needs_host: false,
    objects: Some(AddonObjects {
        suffix: "issuer",
        template: include_str!("../../manifests/addons/cert-manager-issuer.tpl"),
    }),
};

impl Addon {
    /// Returns what kubexm knows of the add-on.
    pub const fn properties(self) -> &'static AddonProperties {
        match self {
            Self::LocalPathProvisioner => &LOCAL_PATH_PROVISIONER,
            Self::MetricsServer => &METRICS_SERVER,
            Self::Traefik => &TRAEFIK,
            Self::MetalLb => &METALLB,
            Self::CertManager => &CERT_MANAGER,
        }
    }
}
