//! The names of users and groups in certificates.

use kubexm_config::cluster::KubernetesKind;
use kubexm_pki::kubernetes::ADMIN_GROUP;
use kubexm_types::InvalidValue;

/// The most characters of a common name and of an organization (RFC 5280, appendix A.1).
const LONGEST_NAME: usize = 64;

/// The group that kubeadm binds to `cluster-admin`
/// (<https://kubernetes.io/docs/reference/setup-tools/kubeadm/implementation-details/>).
const KUBEADM_ADMINS: &str = "kubeadm:cluster-admins";

/// The name of a user or a group in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectName(pub(super) String);

impl SubjectName {
    /// Parses a name.
    ///
    /// # Errors
    /// The text is empty, longer than 64 characters or not printable, or starts with `system:`, which is for programs of
    /// Kubernetes.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let refuse = |expected| Err(InvalidValue::new("user or group", text, expected));
        let is_printable = |c: char| c == ' ' || c.is_ascii_graphic();
        if text.is_empty() || text.len() > LONGEST_NAME || !text.chars().all(is_printable) {
            return refuse("expected at most 64 printable ASCII characters");
        }
        if text.starts_with("system:") {
            return refuse("names with the prefix system: are for programs of Kubernetes");
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns a warning for the group whose members are administrators of the cluster.
    pub(super) fn of_administrators(&self, kind: KubernetesKind) -> Option<String> {
        let administrators = match kind {
            KubernetesKind::Kubeadm => KUBEADM_ADMINS,
            KubernetesKind::Systemd => ADMIN_GROUP,
        };
        (self.0 == administrators).then(|| {
            format!(
                "the group {} has all rights in the cluster, at once: they cannot be taken from this user alone until the \
                 certificate expires",
                self.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn group_of_administrators_has_a_warning() {
        let warns = |group: &str, kind| {
            let group = SubjectName::parse(group).unwrap();
            group.of_administrators(kind).is_some()
        };
        assert!(warns("kubeadm:cluster-admins", KubernetesKind::Kubeadm));
        assert!(warns("kubexm:cluster-admins", KubernetesKind::Systemd));
        assert!(!warns("kubexm:cluster-admins", KubernetesKind::Kubeadm));
        assert!(!warns("developers", KubernetesKind::Kubeadm));
    }

    #[test]
    fn names_of_programs_of_kubernetes_are_refused() {
        for good in ["anna", "anna@bank.example", "Anna B."] {
            assert!(SubjectName::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "system:masters",
            "system:node:a",
            "a\nb",
            "é",
            &"a".repeat(65),
        ] {
            assert!(SubjectName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
