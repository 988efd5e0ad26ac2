//! Which of a bundle's etcds a cluster gets.

use crate::bundle::lock::LockedFile;
use crate::deploy::Inputs;
use crate::spec::{Arch, Version};

/// Of those that the cluster's kubeadm takes: the newest of the minor that its own list of images
/// names, with which that Kubernetes was tested; else the newest.
pub(super) fn of_cluster<'a>(inputs: &'a Inputs<'_>, arch: Arch) -> Option<&'a LockedFile> {
    let tested = tested(inputs);
    let least = least(inputs);
    let fits = |file: &&LockedFile| {
        file.component == "etcd" && file.arch == arch && least.is_none_or(|l| file.version >= *l)
    };
    let is_tested =
        |file: &LockedFile| tested == Some((file.version.major(), file.version.minor()));
    let fitting = inputs.lock.files.iter().filter(fits);
    fitting.max_by_key(|file| (is_tested(file), &file.version))
}

/// What is lacking where none fits.
pub(super) fn lacking(inputs: &Inputs<'_>, arch: Arch) -> Option<String> {
    if of_cluster(inputs, arch).is_some() {
        return None;
    }
    let wanted = match least(inputs) {
        Some(least) => format!("etcd {least} or newer for {arch}"),
        None => format!("etcd for {arch}"),
    };
    Some(match inputs.lock.file("etcd", arch) {
        Some(file) => format!("{wanted} (it has {})", file.version),
        None => wanted,
    })
}

fn least<'a>(inputs: &'a Inputs<'_>) -> Option<&'a Version> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version)?;
    facts.minimum_etcd.as_ref()
}

/// Major and minor of the etcd that kubeadm itself would run, as in `3.6.8-0`.
fn tested(inputs: &Inputs<'_>) -> Option<(u64, u64)> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version)?;
    let mut images = facts.images.iter();
    let image = images.find(|image| image.repository().rsplit('/').next() == Some("etcd"))?;
    let version: Version = image.tag()?.parse().ok()?;
    Some((version.major(), version.minor()))
}
