//! Values of `type` fields with names, and those that are not of one section.

/// Declares an enum whose variants have a name in cluster files.
macro_rules! named_kinds {
    ($(#[$doc:meta])* $kind:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $kind {
            /// All values, in the order of [`Self::NAMES`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The names in cluster files.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// Returns the value with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns the name in cluster files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

/// Former names of values, each with the name that replaced it. Files may still contain the former name;
/// it has the same meaning, and the reader reports it with a notice.
pub(crate) type FormerNames = &'static [(&'static str, &'static str)];

/// Former values of `kubernetes.type` and `etcd.type`.
pub(crate) const FORMER_SYSTEMD: FormerNames = &[("kubexm", "systemd")];

named_kinds! {
    /// How the programs of Kubernetes run: values of `spec.kubernetes.type`.
    KubernetesKind {
        /// Static pods and a DaemonSet that kubeadm creates.
        Kubeadm = "kubeadm",
        /// systemd units, with certificates that kubexm issues.
        Systemd = "systemd",
    }
}

named_kinds! {
    /// How the runtime and the kubelet limit the resources of containers
    /// (<https://kubernetes.io/docs/setup/production-environment/container-runtimes/#cgroup-drivers>).
    CgroupDriver {
        Systemd = "systemd",
        /// Without systemd, on cgroup v1 hosts that need it.
        Cgroupfs = "cgroupfs",
    }
}
