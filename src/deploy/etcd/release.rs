//! Chooses the version of etcd from the bundle.

use crate::Inputs;
use kubexm_bundle::Lock;
use kubexm_bundle::lock::{KubeadmFacts, LockedFile};
use kubexm_types::{Arch, Version};

/// Returns the etcd for the cluster's Kubernetes version.
///
/// Among the versions that its kubeadm supports, this is the newest of the minor version in kubeadm's image
/// list, because Kubernetes is tested with it. Otherwise it is the newest version.
pub(super) fn newest_tested<'a>(inputs: &'a Inputs<'_>, arch: Arch) -> Option<&'a LockedFile> {
    choose(inputs.lock, &inputs.cluster.kubernetes.version, arch)
}

pub(super) fn choose<'a>(
    lock: &'a Lock,
    kubernetes: &Version,
    arch: Arch,
) -> Option<&'a LockedFile> {
    let facts = lock.kubeadm(kubernetes);
    let tested = facts.and_then(tested);
    let minimum = facts.and_then(|facts| facts.minimum_etcd.as_ref());
    let fits = |file: &&LockedFile| {
        file.component == "etcd"
            && file.arch == arch
            && minimum.is_none_or(|minimum| file.version >= *minimum)
    };
    let is_tested = |file: &LockedFile| tested == Some(file.version.major_minor());
    let fitting = lock.files.iter().filter(fits);
    fitting.max_by_key(|file| (is_tested(file), &file.version))
}

/// Returns what the bundle does not contain; `None` if it contains a suitable version.
pub(super) fn missing(inputs: &Inputs<'_>, arch: Arch) -> Option<String> {
    if newest_tested(inputs, arch).is_some() {
        return None;
    }
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let required = match facts.and_then(|facts| facts.minimum_etcd.as_ref()) {
        Some(minimum) => format!("etcd {minimum} or newer for {arch}"),
        None => format!("etcd for {arch}"),
    };
    Some(match inputs.lock.file("etcd", arch) {
        Some(file) => format!("{required} (the bundle has {})", file.version),
        None => required,
    })
}

/// Returns major and minor of the etcd in kubeadm's image list, as in `3.6.8-0`.
fn tested(facts: &KubeadmFacts) -> Option<(u64, u64)> {
    of_kubeadm(facts).map(|version| version.major_minor())
}

/// Returns the version of etcd in kubeadm's image list, without the number of the image.
pub(super) fn of_kubeadm(facts: &KubeadmFacts) -> Option<Version> {
    let mut images = facts.images.iter();
    let image = images.find(|image| image.repository().rsplit('/').next() == Some("etcd"))?;
    let version: Version = image.tag()?.parse().ok()?;
    Some(Version::new(
        version.major(),
        version.minor(),
        version.patch(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses from a lock with these versions, whose kubeadm lists `listed` and supports `minimum` or newer.
    fn chosen(etcds: &[&str], listed: &str, minimum: &str) -> Option<String> {
        let files: String = etcds
            .iter()
            .map(|version| {
                format!(
                    "- {{component: etcd, version: {version}, arch: amd64, fileName: e, \
                     url: 'https://example.org/e', size: 1, digest: 'sha256:{}', \
                     checksum: pinned, format: tar-gz}}\n",
                    "0".repeat(64)
                )
            })
            .collect();
        let text = format!(
            "lockVersion: 1\nname: x\nkubernetes: [1.36.3]\narchitectures: [amd64]\nfiles:\n{files}\
             images: []\npackages: []\nkubeadm:\n- {{version: 1.36.3, minimumEtcd: {minimum}, \
             images: ['registry.k8s.io/etcd:{listed}']}}\n"
        );
        let lock: Lock = serde_saphyr::from_str(&text).unwrap();
        let file = choose(&lock, &"1.36.3".parse().unwrap(), Arch::Amd64)?;
        Some(file.version.to_string())
    }

    #[test]
    fn minor_of_kubeadm_is_preferred_and_its_minimum_is_kept() {
        let both = ["3.5.12", "3.5.26", "3.6.8"];
        assert_eq!(chosen(&both, "3.6.5-0", "3.5.24").unwrap(), "3.6.8");
        assert_eq!(chosen(&both, "3.5.12-0", "3.4.13").unwrap(), "3.5.26");
        assert_eq!(
            chosen(&["3.5.12", "3.6.8"], "3.5.21-0", "3.5.21").unwrap(),
            "3.6.8"
        );
        assert_eq!(chosen(&["3.5.12"], "3.6.5-0", "3.5.24"), None);
    }
}
