//! `spec.security`.

use std::collections::BTreeMap;

use kubexm_kinds::named_kinds;
use kubexm_types::{KernelSetting, KernelValue};

named_kinds! {
    /// Sets of security settings: values of `spec.security.profile`.
    SecurityProfile {
        /// Settings that need no change of workloads.
        Default = "default",
        /// Settings that the CIS Kubernetes Benchmark asks for.
        Cis = "cis",
    }
}

named_kinds! {
    /// How the API server encrypts Secrets in etcd
    /// (<https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/#providers>).
    EncryptionProvider {
        /// XSalsa20 and Poly1305.
        Secretbox = "secretbox",
        /// AES-CBC with PKCS#7 padding.
        AesCbc = "aescbc",
    }
}

/// `spec.security`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Security {
    pub profile: SecurityProfile,
    /// Encryption of Secrets in etcd; `None` to store them as they are.
    pub encryption: Option<Encryption>,
}

/// Encryption of Secrets in etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encryption {
    pub provider: EncryptionProvider,
    /// Number of the key with which the API servers write; 0 if they only can read with keys and write plain text.
    pub key: u32,
}

/// Kernel settings that a kubelet with `protectKernelDefaults` requires
/// (<https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/cm/container_manager_linux.go>).
pub const KUBELET_KERNEL_SETTINGS: [(&str, &str); 6] = [
    ("kernel.keys.root_maxbytes", "25000000"),
    ("kernel.keys.root_maxkeys", "1000000"),
    ("kernel.panic", "10"),
    ("kernel.panic_on_oops", "1"),
    ("vm.overcommit_memory", "1"),
    ("vm.panic_on_oom", "0"),
];

impl Security {
    /// Returns true for the profile `cis`.
    pub fn is_cis(&self) -> bool {
        self.profile == SecurityProfile::Cis
    }

    /// Returns the mode of units and of the network plugin's configuration. With the profile `cis`, only root can read
    /// them.
    pub fn settings_mode(&self) -> u32 {
        if self.is_cis() { 0o600 } else { 0o644 }
    }

    /// Returns the first of the user's kernel settings that the profile does not accept, with the value that it
    /// requires.
    pub(crate) fn contradiction<'a>(
        &self,
        sysctl: &'a BTreeMap<KernelSetting, KernelValue>,
    ) -> Option<(&'a KernelSetting, &'static str)> {
        let required = |key: &KernelSetting| {
            let name = key.as_str().replace('/', ".");
            let mut settings = KUBELET_KERNEL_SETTINGS.iter();
            settings
                .find(|(setting, _)| *setting == name)
                .map(|(_, value)| *value)
        };
        let mut given = sysctl.iter().filter(|_| self.is_cis());
        given.find_map(|(key, value)| {
            let required = required(key)?;
            (value.as_str() != required).then_some((key, required))
        })
    }
}
