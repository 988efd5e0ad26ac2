//! A small cluster and its bundle, for tests of plans.

use std::io::Read;
use std::sync::Arc;

use super::{Inputs, plan, rendered};
use kubexm_bundle::lock::{
    ChecksumSource, Descriptor, FileFormat, KubeadmFacts, LockedFile, LockedImage, PlatformManifest,
};
use kubexm_bundle::{Blobs, BundleError, Lock};
use kubexm_config::Cluster;
pub(super) use kubexm_config::example::cluster;
use kubexm_engine::plan::Plan;
use kubexm_types::{Arch, Digest, ImageRef, Version};

/// A bundle in which every blob has the same content.
pub(super) struct OneFile(pub Vec<u8>);

impl Blobs for OneFile {
    fn open(&self, _: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        Ok(Box::new(std::io::Cursor::new(self.0.clone())))
    }
}

/// Catalog names of files.
const FILES: [&str; 14] = [
    "kubeadm",
    "kubelet",
    "kubectl",
    "containerd",
    "runc",
    "cni-plugins",
    "crictl",
    "registry",
    "calico",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
];
const KUBEADM_IMAGES: [&str; 4] = [
    "registry.k8s.io/kube-apiserver:v1.36.3",
    "registry.k8s.io/kube-proxy:v1.36.3",
    "registry.k8s.io/coredns/coredns:v1.14.2",
    "registry.k8s.io/pause:3.10.2",
];

/// Returns the lock of a bundle with kubeadm's images and `more`.
pub(super) fn lock(more: &[&str]) -> Lock {
    let digest = Digest::of(b"content");
    let file = |component: &&str| LockedFile {
        component: (*component).to_owned(),
        version: Version::new(1, 36, 3),
        arch: Arch::Amd64,
        file_name: (*component).to_owned(),
        url: "https://dl.example/file".parse().unwrap(),
        size: 7,
        digest,
        checksum: ChecksumSource::FirstSeen,
        format: FileFormat::Binary,
        members: Vec::new(),
        linking: None,
        signature: None,
        unsigned: None,
    };
    let descriptor = || Descriptor {
        media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
        digest,
        size: 7,
    };
    let image = |name: &&str| LockedImage {
        name: ImageRef::parse(name).unwrap(),
        signature: None,
        manifest: descriptor(),
        platforms: vec![PlatformManifest {
            indexes: Vec::new(),
            arch: Some(Arch::Amd64),
            manifest: descriptor(),
            blobs: Vec::new(),
        }],
        unsigned: None,
        checksum: None,
    };
    Lock {
        kubernetes: vec![Version::new(1, 36, 3)],
        architectures: vec![Arch::Amd64],
        files: FILES.iter().map(file).collect(),
        images: KUBEADM_IMAGES.iter().chain(more).map(image).collect(),
        kubeadm: vec![KubeadmFacts {
            version: Version::new(1, 36, 3),
            images: KUBEADM_IMAGES
                .iter()
                .map(|name| ImageRef::parse(name).unwrap())
                .collect(),
            minimum_etcd: None,
        }],
        ..Lock::empty("example")
    }
}

/// Calls `look` with the inputs of a cluster and a bundle. The bundle has kubeadm's images and `images`, and
/// every file has the content.
pub(super) fn with_inputs<T>(
    cluster: &Cluster,
    images: &[&str],
    content: &str,
    look: impl FnOnce(&Inputs<'_>) -> T,
) -> T {
    let lock = lock(images);
    let blobs = Arc::new(OneFile(content.as_bytes().to_vec()));
    look(&Inputs::assumed(cluster, &lock, blobs))
}

/// Returns the plan of a cluster without these workers; otherwise like [`with_inputs`].
pub(super) fn plan_without(cluster: &Cluster, images: &[&str], absent: &[&str]) -> Plan {
    with_inputs(cluster, images, "", |inputs| {
        let inputs = Inputs {
            absent: absent.iter().map(|name| name.parse().unwrap()).collect(),
            ..inputs.clone()
        };
        plan(&inputs).unwrap().plan
    })
}

/// Returns the text of a file that the plan writes on a host; `None` if it does not write it.
pub(super) fn file_of(inputs: &Inputs<'_>, host: &str, path: &str) -> Option<String> {
    let deployment = plan(inputs).unwrap_or_else(|error| panic!("{error}"));
    let files = rendered(&deployment.plan);
    let host_files = files.get(&host.parse().unwrap())?;
    let file = host_files.iter().find(|file| file.path.as_str() == path)?;
    Some(file.content.clone())
}
