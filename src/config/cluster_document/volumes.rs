//! `extraVolumes` of the programs of the control plane.

use std::collections::BTreeSet;

use crate::cluster::ExtraVolume;
use crate::reader::{Fields, accept};
use kubexm_types::{HostName, HostPath, Line};

/// Types of a hostPath volume that kubeadm accepts, without the empty one
/// (<https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types>).
const KINDS: [&str; 7] = [
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
];

/// Names of volumes in kubeadm's static pods
/// (<https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubeadm/app/phases/controlplane/volumes.go>).
const OF_KUBEADM: [&str; 10] = [
    "k8s-certs",
    "ca-certs",
    "etcd-certs-0",
    "etcd-certs-1",
    "kubeconfig",
    "flexvolume-dir",
    "etc-pki",
    "etc-ca-certificates",
    "usr-share-ca-certificates",
    "usr-local-share-ca-certificates",
];

pub(super) fn read_volumes(component: &Fields<'_>) -> Vec<ExtraVolume> {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    component.sections("extraVolumes", |fields| {
        let volume = read_volume(fields)?;
        let is_new = [
            names.insert(volume.name.clone()),
            paths.insert(volume.mount_path.clone()),
        ];
        if is_new.contains(&false) {
            let hint = "give each volume a name and a mountPath of its own";
            let message = "another volume has the same name or the same mountPath";
            fields.problem_here(message, Some(hint));
        }
        Some(volume)
    })
}

fn read_volume(fields: &Fields<'_>) -> Option<ExtraVolume> {
    let name = fields
        .required("name")
        .and_then(|_| fields.value::<Line>("name"));
    let host_path = fields
        .required("hostPath")
        .and_then(|_| fields.value::<HostPath>("hostPath"));
    let mount_path = match fields.get("mountPath") {
        Some(_) => fields.value::<HostPath>("mountPath"),
        None => host_path.clone(),
    };
    let read_only = fields.flag("readOnly", false);
    let kind = fields.choice("pathType", accept(&KINDS));
    let name = name?;
    check_name(fields, &name);
    Some(ExtraVolume {
        name,
        host_path: host_path?,
        mount_path: mount_path?,
        read_only,
        kind,
    })
}

/// Checks that the name is a DNS label that neither kubeadm nor kubexm uses.
fn check_name(fields: &Fields<'_>, name: &Line) {
    let is_label = name.as_str().len() <= 63
        && !name.as_str().contains('.')
        && HostName::parse(name.as_str()).is_ok();
    let taken = name.as_str().starts_with("kubexm-") || OF_KUBEADM.contains(&name.as_str());
    let message = match (is_label, taken) {
        (false, _) => "expected lower-case letters, digits and '-', at most 63 characters",
        (true, true) => "is the name of a volume that the pod has already",
        (true, false) => return,
    };
    let hint = "use another name, as in site-policies";
    fields.problem("name", message, Some(hint));
}
