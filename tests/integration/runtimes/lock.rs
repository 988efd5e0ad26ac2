//! The lock of a bundle that has every runtime.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kubexm::bundle::Lock;
use kubexm::bundle::lock::{
    ChecksumSource, Descriptor, KubeadmFacts, LockedFile, LockedImage, Member, PlatformManifest,
};
use kubexm::catalog::Catalog;
use kubexm::spec::manifest::Manifest;
use kubexm::spec::{self, Arch, Digest, ImageRef, Version};

use super::OWN;

static LOCK: LazyLock<Lock> = LazyLock::new(make);

pub fn lock() -> Lock {
    LOCK.clone()
}

fn manifest(name: &str) -> Manifest {
    let path = format!("{}/manifests/{name}", env!("CARGO_MANIFEST_DIR"));
    spec::load_manifest(path.as_ref()).unwrap()
}

/// The lock of a bundle with all components of the two manifests that have runtimes; its content is made
/// up, its names and versions are the catalog's.
fn make() -> Lock {
    let (usual, others) = (
        manifest("kubernetes-1.36.yaml"),
        manifest("runtimes-1.36.yaml"),
    );
    let (version, catalog) = (Version::new(1, 36, 3), Catalog::embedded().unwrap());
    let programs = ["kubeadm", "kubelet", "kubectl"].map(|name| (name.to_owned(), version.clone()));
    let components = usual.components.into_iter().chain(others.components);
    let components = components.flat_map(|(name, versions)| {
        versions
            .into_iter()
            .map(move |version| (name.clone(), version))
    });
    let wanted: BTreeSet<(String, Version)> = components.chain(programs).collect();
    let images = [
        "kube-apiserver:v1.36.3",
        "kube-proxy:v1.36.3",
        "pause:3.10.2",
        "etcd:3.6.8-0",
    ];
    let listed: Vec<ImageRef> = images
        .map(|name| format!("registry.k8s.io/{name}").parse().unwrap())
        .to_vec();
    let flannel = ["flannel:v0.28.4", "flannel-cni-plugin:v1.9.1-flannel1"];
    let flannel = flannel.map(|name| format!("ghcr.io/flannel-io/{name}").parse().unwrap());
    let all = listed
        .iter()
        .cloned()
        .chain(flannel)
        .chain([OWN.parse().unwrap()]);
    let mut lock = Lock {
        lock_version: Lock::VERSION,
        name: "runtimes".into(),
        kubernetes: vec![version.clone()],
        architectures: vec![Arch::Amd64],
        files: wanted
            .iter()
            .map(|(name, version)| file(&catalog, name, version))
            .collect(),
        images: all.map(image).collect(),
        packages: Vec::new(),
        kubeadm: vec![KubeadmFacts {
            version,
            images: listed,
            minimum_etcd: None,
        }],
        own: Vec::new(),
    };
    lock.sort();
    lock
}

fn file(catalog: &Catalog, component: &str, version: &Version) -> LockedFile {
    let file = catalog.download(component, version, Arch::Amd64);
    let file = file.unwrap().unwrap();
    let member = |path: &String| Member {
        path: path.clone(),
        size: 1,
        digest: Digest::of(path.as_bytes()),
    };
    LockedFile {
        component: component.to_owned(),
        version: version.clone(),
        arch: Arch::Amd64,
        file_name: file.file_name,
        url: file.url,
        size: 1,
        digest: Digest::of(component.as_bytes()),
        checksum: ChecksumSource::Pinned,
        format: file.format,
        members: file.members.iter().map(member).collect(),
    }
}

fn image(name: ImageRef) -> LockedImage {
    let manifest = Descriptor {
        media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
        digest: Digest::of(name.to_string().as_bytes()),
        size: 1,
    };
    LockedImage {
        name,
        manifest: manifest.clone(),
        platforms: vec![PlatformManifest {
            arch: Arch::Amd64,
            manifest,
            blobs: Vec::new(),
        }],
    }
}
