//! A lock with everything: each component of the catalog, for every minor that kubexm supports.

use kubexm_bundle::Lock;
use kubexm_bundle::lock::{
    ChecksumSource, Descriptor, FileFormat, KubeadmFacts, LockedFile, LockedImage, LockedPackage,
    LockedPackages, Member, PackageFormat, PlatformManifest,
};
use kubexm_catalog::Catalog;
use kubexm_types::{Arch, Digest, ImageRef, Version};
use serde::Deserialize;

/// A component of the catalog, as far as a lock needs it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Component {
    name: String,
    url: Option<String>,
    #[serde(default)]
    images: Vec<String>,
    /// Images that its manifest names, by version.
    #[serde(default)]
    former_images: std::collections::BTreeMap<String, Vec<String>>,
}

/// The common part of all versions of `kubernetes`, and the programs of each version.
pub fn lock(kubernetes: &[Version]) -> Lock {
    let catalog = Catalog::embedded().unwrap();
    let mut lock = Lock {
        lock_version: Lock::VERSION,
        name: "everything".into(),
        kubernetes: kubernetes.to_vec(),
        architectures: vec![Arch::Amd64],
        files: Vec::new(),
        images: Vec::new(),
        packages: vec![packages()],
        kubeadm: kubernetes.iter().map(facts).collect(),
        artifacts: Vec::new(),
        image_paths: Vec::new(),
        index: Default::default(),
    };
    for component in components() {
        for version in versions(&component, kubernetes) {
            if component.url.is_some() {
                lock.files.push(file(&catalog, &component.name, &version));
            }
            let images = catalog.images(&component.name, &version).unwrap();
            lock.images.extend(images.into_iter().map(image));
            let named = catalog.former_images(&component.name, &version).unwrap();
            lock.images.extend(named.into_iter().map(image));
        }
    }
    let of_kubeadm = lock.kubeadm.iter().flat_map(|facts| facts.images.clone());
    lock.images
        .extend(of_kubeadm.map(image).collect::<Vec<_>>());
    lock.images.sort_by(|a, b| a.name.cmp(&b.name));
    lock.images.dedup_by(|a, b| a.name == b.name);
    lock.sort();
    lock
}

fn components() -> Vec<Component> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/catalog");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let components: Vec<Component> = serde_saphyr::from_str(&text).unwrap();
        all.extend(components);
    }
    assert!(
        all.len() > 10,
        "the catalogue is not where it is looked for"
    );
    all
}

/// Returns versions of a component. Programs of Kubernetes have the versions of Kubernetes. If a manifest
/// names the images, the catalog lists a version with its images. For all other components any current version will do.
fn versions(component: &Component, kubernetes: &[Version]) -> Vec<Version> {
    let url = component.url.as_deref().unwrap_or_default();
    if url.contains("dl.k8s.io") {
        return kubernetes.to_vec();
    }
    let listed = component.former_images.keys();
    let mut listed: Vec<Version> = listed.map(|text| Version::parse(text).unwrap()).collect();
    if listed.is_empty() {
        listed.push(match component.name.as_str() {
            "etcd" => Version::new(3, 6, 8),
            "containerd" => Version::new(2, 3, 7),
            "docker" => Version::new(29, 8, 1),
            "cri-dockerd" => Version::new(0, 4, 0),
            _ => Version::new(1, 36, 0),
        });
    }
    assert!(component.url.is_some() || !component.images.is_empty() || !listed.is_empty());
    listed
}

fn file(catalog: &Catalog, name: &str, version: &Version) -> LockedFile {
    let download = catalog
        .download(name, version, Arch::Amd64)
        .unwrap()
        .unwrap();
    let member = |path: &String| Member {
        path: path.clone(),
        size: 1,
        digest: Digest::of(format!("{name} {version} {path}").as_bytes()),
        linking: None,
    };
    LockedFile {
        component: name.to_owned(),
        version: version.clone(),
        arch: Arch::Amd64,
        file_name: download.file_name,
        url: download.url,
        size: 1,
        digest: Digest::of(format!("{name} {version}").as_bytes()),
        checksum: ChecksumSource::Pinned,
        format: download.format,
        signature: None,
        linking: None,
        members: match download.format {
            FileFormat::TarGz => download.members.iter().map(member).collect(),
            _ => Vec::new(),
        },
        unsigned: None,
    }
}

/// Returns an empty image.
pub fn image(name: ImageRef) -> LockedImage {
    let manifest = descriptor(&name.to_string());
    LockedImage {
        platforms: vec![PlatformManifest {
            indexes: Vec::new(),
            arch: Some(Arch::Amd64),
            manifest: manifest.clone(),
            blobs: vec![descriptor(&format!("configuration of {name}"))],
        }],
        name,
        manifest,
        signature: None,
        unsigned: None,
        checksum: None,
    }
}

fn descriptor(content: &str) -> Descriptor {
    Descriptor {
        media_type: "application/vnd.oci.image.manifest.v1+json".into(),
        digest: Digest::of(content.as_bytes()),
        size: content.len() as u64,
    }
}

/// Returns what `kubeadm config images list` prints. The tags are those of 1.36; no test depends on them.
fn facts(version: &Version) -> KubeadmFacts {
    let programs = ["apiserver", "controller-manager", "scheduler", "proxy"];
    let mut images: Vec<String> = programs
        .iter()
        .map(|program| format!("registry.k8s.io/kube-{program}:v{version}"))
        .collect();
    images.extend(
        ["coredns/coredns:v1.14.2", "pause:3.10.2", "etcd:3.6.8-0"]
            .map(|image| format!("registry.k8s.io/{image}")),
    );
    KubeadmFacts {
        version: version.clone(),
        images: images.iter().map(|image| image.parse().unwrap()).collect(),
        minimum_etcd: Some(Version::new(3, 5, 0)),
    }
}

/// Returns Debian packages with the names that os-packages and load balancers require.
fn packages() -> LockedPackages {
    let names = [
        "conntrack",
        "ebtables",
        "ethtool",
        "haproxy",
        "ipset",
        "iptables",
        "ipvsadm",
        "keepalived",
        "libnginx-mod-stream",
        "nftables",
        "nginx",
        "socat",
    ];
    let package = |name: &&str| LockedPackage {
        name: (*name).to_owned(),
        version: "1".into(),
        file_name: format!("{name}_1_amd64.deb"),
        url: "http://deb.debian.org/debian/pool/x.deb".parse().unwrap(),
        size: 1,
        digest: Digest::of(name.as_bytes()),
    };
    LockedPackages {
        distribution: "debian".into(),
        release: "trixie".into(),
        arch: Arch::Amd64,
        requested: names.iter().map(ToString::to_string).collect(),
        format: PackageFormat::Deb,
        index: descriptor("index"),
        packages: names.iter().map(package).collect(),
    }
}
