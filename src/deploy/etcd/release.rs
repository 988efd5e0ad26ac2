//! Which of a bundle's etcds a cluster gets.

use crate::Inputs;
use kubexm_bundle::Lock;
use kubexm_bundle::lock::{KubeadmFacts, LockedFile};
use kubexm_types::{Arch, Version};

/// Of those that the cluster's kubeadm takes: the newest of the minor that its own list of images
/// names, with which that Kubernetes was tested; else the newest.
pub(super) fn of_cluster<'a>(inputs: &'a Inputs<'_>, arch: Arch) -> Option<&'a LockedFile> {
    choose(inputs.lock, &inputs.cluster.kubernetes.version, arch)
}

fn choose<'a>(lock: &'a Lock, kubernetes: &Version, arch: Arch) -> Option<&'a LockedFile> {
    let facts = lock.kubeadm(kubernetes);
    let tested = facts.and_then(tested);
    let least = facts.and_then(|facts| facts.minimum_etcd.as_ref());
    let fits = |file: &&LockedFile| {
        file.component == "etcd" && file.arch == arch && least.is_none_or(|l| file.version >= *l)
    };
    let is_tested =
        |file: &LockedFile| tested == Some((file.version.major(), file.version.minor()));
    let fitting = lock.files.iter().filter(fits);
    fitting.max_by_key(|file| (is_tested(file), &file.version))
}

/// What is lacking where none fits.
pub(super) fn lacking(inputs: &Inputs<'_>, arch: Arch) -> Option<String> {
    if of_cluster(inputs, arch).is_some() {
        return None;
    }
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let wanted = match facts.and_then(|facts| facts.minimum_etcd.as_ref()) {
        Some(least) => format!("etcd {least} or newer for {arch}"),
        None => format!("etcd for {arch}"),
    };
    Some(match inputs.lock.file("etcd", arch) {
        Some(file) => format!("{wanted} (it has {})", file.version),
        None => wanted,
    })
}

/// Major and minor of the etcd that kubeadm itself would run, as in `3.6.8-0`.
fn tested(facts: &KubeadmFacts) -> Option<(u64, u64)> {
    let mut images = facts.images.iter();
    let image = images.find(|image| image.repository().rsplit('/').next() == Some("etcd"))?;
    let version: Version = image.tag()?.parse().ok()?;
    Some((version.major(), version.minor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock with these etcds, of a kubeadm that runs `own` itself and takes `least` from others.
    fn chosen(etcds: &[&str], own: &str, least: &str) -> Option<String> {
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
             images: []\npackages: []\nkubeadm:\n- {{version: 1.36.3, minimumEtcd: {least}, \
             images: ['registry.k8s.io/etcd:{own}']}}\n"
        );
        let lock: Lock = serde_saphyr::from_str(&text).unwrap();
        let file = choose(&lock, &"1.36.3".parse().unwrap(), Arch::Amd64)?;
        Some(file.version.to_string())
    }

    #[test]
    fn the_minor_that_kubeadm_runs_goes_first_and_the_least_that_it_takes_is_kept() {
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
