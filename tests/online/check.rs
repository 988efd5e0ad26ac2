//! Checks what public sites serve, with the code that builds bundles: addresses, checksum files, members of archives,
//! platforms of images, and signatures. Each check is a row of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use kubexm_bundle::lock::{ChecksumSource, Lock, LockedFile};
use kubexm_catalog::{Catalog, Releases};
use kubexm_config::cluster::Addon;
use kubexm_config::manifest::{Manifest, PackageSource};
use kubexm_config::mirrors::Checksums;
use kubexm_config::{Mirrors, load_manifest};
use kubexm_fetch::artifacts::{ArtifactFetcher, FetchedArtifact, images_in_yaml};
use kubexm_fetch::http::StatedBy;
use kubexm_fetch::image_signatures::Found;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::releases::newest;
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use kubexm_fetch::{FetchError, Http, packages};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, ImageRef, Version};

/// Programs that a bundle has for each version of Kubernetes.
const KUBERNETES: [&str; 7] = [
    "kubeadm",
    "kubelet",
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
];
/// Maximum size of a document that is compared between a mirror and its publisher, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// What is checked, as the shipped manifests name it.
#[derive(Default)]
pub struct Pinned {
    pub components: BTreeSet<(String, Version)>,
    pub kubernetes: BTreeSet<Version>,
    pub images: BTreeSet<ImageRef>,
    pub packages: Vec<PackageSource>,
}

impl Pinned {
    /// Adds everything that a bundle manifest names.
    pub fn add(&mut self, manifest: Manifest) {
        let named = manifest.network.into_iter().chain(manifest.load_balancer);
        self.components.extend(named);
        for (name, versions) in manifest.components {
            let versions = versions.into_iter().map(|version| (name.clone(), version));
            self.components.extend(versions);
        }
        let addons = manifest.addons.into_iter();
        self.components
            .extend(addons.map(|(addon, version)| (addon.name().to_owned(), version)));
        self.kubernetes.extend(manifest.kubernetes);
        self.images.extend(manifest.images);
        for source in manifest.packages {
            let known = |other: &PackageSource| {
                (&other.distribution, &other.release) == (&source.distribution, &source.release)
            };
            if !self.packages.iter().any(known) {
                self.packages.push(source);
            }
        }
    }

    /// Reads the manifests of kubexm, and the one beside this file for components that they do not name.
    pub fn shipped(root: &Path) -> Result<Self, String> {
        let mut files: Vec<PathBuf> = vec![root.join("tests/online/components.yaml")];
        let folder =
            std::fs::read_dir(root.join("manifests")).map_err(|error| error.to_string())?;
        for entry in folder {
            let path = entry.map_err(|error| error.to_string())?.path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.lines().any(|line| line == "kind: Bundle") {
                files.push(path);
            }
        }
        files.sort();
        let mut pinned = Self::default();
        for path in files {
            pinned.add(load_manifest(&path).map_err(|problems| problems.to_string())?);
        }
        Ok(pinned)
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub kind: &'static str,
    pub item: String,
    /// What was seen, or what is wrong.
    pub result: Result<String, String>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, text) = match &self.result {
            Ok(text) => ("ok", text),
            Err(text) => ("FAILED", text),
        };
        let text = text.replace('\n', "\n                   ");
        write!(f, "{state:<7} {:<9} {}: {text}", self.kind, self.item)
    }
}

/// The checks, with a cache and a client.
pub struct Check<'a> {
    pub catalog: &'a Catalog,
    pub http: Http,
    pub policies: Policies,
    pub puller: Puller,
    pub arches: Vec<Arch>,
    pub rows: Vec<Row>,
}

impl<'a> Check<'a> {
    pub fn new(catalog: &'a Catalog, http: Http) -> Result<Self, FetchError> {
        Ok(Self {
            policies: Policies::load(catalog, &[], &[])?,
            puller: Puller::new(http.clone()),
            catalog,
            http,
            arches: vec![Arch::Amd64, Arch::Arm64],
            rows: Vec::new(),
        })
    }

    fn row(&mut self, kind: &'static str, item: String, result: Result<String, String>) {
        let row = Row { kind, item, result };
        println!("{row}");
        self.rows.push(row);
    }

    /// Checks the pinned and the newest versions of components, Kubernetes and images.
    pub async fn versions(&mut self, pinned: &Pinned) {
        let mut components = pinned.components.clone();
        let mut kubernetes = pinned.kubernetes.clone();
        for (name, version) in &pinned.components {
            components.extend(
                self.newest(name, version)
                    .await
                    .map(|new| (name.clone(), new)),
            );
        }
        for version in &pinned.kubernetes {
            kubernetes.extend(self.newest("kubeadm", version).await);
        }
        let mut images = pinned.images.clone();
        for (name, version) in components {
            images.extend(self.component(&name, &version).await);
        }
        for version in kubernetes {
            images.extend(self.kubernetes(&version).await);
        }
        for image in images {
            self.image(&image).await;
        }
    }

    /// Returns the newest release of a component, if its project lists releases.
    async fn newest(&mut self, name: &str, current: &Version) -> Option<Version> {
        let releases: Releases = self.catalog.releases(name)?.clone();
        let found = newest(&self.http, name, &releases, current).await;
        let (version, result) = match found {
            Ok(found) => {
                let text = format!("newest {}", found.of_all);
                (Some(found.of_all), Ok(text))
            }
            Err(error) => (None, Err(error.to_string())),
        };
        self.row("releases", name.to_owned(), result);
        version
    }

    /// Checks the files of a component for each architecture. Returns its images.
    pub async fn component(&mut self, name: &str, version: &Version) -> Vec<ImageRef> {
        let mut images = match self.catalog.images(name, version) {
            Ok(images) => images,
            Err(error) => {
                self.row("catalog", name.to_owned(), Err(error.to_string()));
                return Vec::new();
            }
        };
        if let Some(addon) = Addon::named(name) {
            let result = match self.addon(addon, version).await {
                Ok(found) => {
                    images.extend(found.artifact.images);
                    Ok(format!("{} bytes", found.artifact.size))
                }
                Err(error) => Err(error.to_string()),
            };
            self.row("add-on", format!("{name} {version}"), result);
            images.sort();
            images.dedup();
            return images;
        }
        for arch in self.arches.clone() {
            let item = format!("{name} {version} {arch}");
            match self.file(name, version, arch).await {
                Ok(Some(file)) => {
                    images.extend(self.named_images(&file));
                    self.row("file", item, Ok(describe(&file)));
                }
                Ok(None) => {}
                Err(error) => self.row("file", item, Err(error.to_string())),
            }
        }
        images.sort();
        images.dedup();
        images
    }

    /// Downloads and verifies the chart or the manifest of an add-on as a build does.
    async fn addon(&self, addon: Addon, version: &Version) -> Result<FetchedArtifact, FetchError> {
        let fetcher = ArtifactFetcher {
            http: &self.http,
            previous: None,
            kubernetes: None,
            renderers: Default::default(),
            values: &BTreeMap::new(),
            paths: &[],
        };
        fetcher.fetch(&self.catalog.addon(addon, version)?).await
    }

    /// Downloads and verifies a file as a build does.
    async fn file(
        &self,
        name: &str,
        version: &Version,
        arch: Arch,
    ) -> Result<Option<LockedFile>, FetchError> {
        let manifest = Manifest {
            name: "online".to_owned(),
            architectures: vec![arch],
            kubernetes: Vec::new(),
            kubernetes_kinds: Vec::new(),
            conformance: false,
            components: [(name.to_owned(), vec![version.clone()])].into(),
            network: BTreeMap::new(),
            load_balancer: BTreeMap::new(),
            addons: Vec::new(),
            images: Vec::new(),
            oci_artifacts: Vec::new(),
            images_from: Vec::new(),
            image_paths: Vec::new(),
            packages: Vec::new(),
            artifacts: Vec::new(),
            signatures: Vec::new(),
            notices: Vec::new(),
        };
        if self.catalog.download(name, version, arch)?.is_none() {
            return Ok(None);
        }
        let resolver = Resolver::new(&self.http, self.catalog, None, &self.policies);
        let lock: Lock = resolver.build(&manifest).await?;
        Ok(lock.files.into_iter().next())
    }

    /// Returns the images that the pods of a manifest run.
    fn named_images(&self, file: &LockedFile) -> Vec<ImageRef> {
        let bytes = if file.members.is_empty() && file.file_name.ends_with("ml") {
            self.http.cache().read(&file.digest).unwrap_or_default()
        } else {
            Vec::new()
        };
        let text = String::from_utf8_lossy(&bytes);
        let read = images_in_yaml(&text, &file.file_name, &[]);
        read.found.iter().filter_map(|found| found.sure()).collect()
    }

    /// Checks the programs of a version of Kubernetes. Returns the images that its kubeadm lists.
    pub async fn kubernetes(&mut self, version: &Version) -> Vec<ImageRef> {
        for name in KUBERNETES {
            self.component(name, version).await;
        }
        let resolver = Resolver::new(&self.http, self.catalog, None, &self.policies);
        let facts = async { resolver.kubeadm(version, &[]).await?.facts().await };
        let (images, result) = match facts.await {
            Ok(facts) => {
                let text = format!("lists {} images", facts.images.len());
                (facts.images, Ok(text))
            }
            Err(error) => (Vec::new(), Err(error.to_string())),
        };
        self.row("kubeadm", version.to_string(), result);
        images
    }

    /// Checks the platforms and the signature of an image. Its layers are not downloaded.
    pub async fn image(&mut self, name: &ImageRef) {
        let checked = async {
            let image = self.puller.resolve(name, &self.arches, None).await?;
            let found = self.policies.verify(&self.puller, &self.http, &image, None);
            let signer = match found.await? {
                Found::Signature(signature) => format!("signed by {}", signature.by),
                found @ (Found::NotAsked | Found::None | Found::Incomplete(_)) => {
                    let reason = match found {
                        Found::Incomplete(reason) => [(name.clone(), reason)].into(),
                        _ => BTreeMap::new(),
                    };
                    let names = [name.clone()];
                    let mirrors = self.http.mirrors();
                    self.policies.allow_unsigned(mirrors, &names, &reason)?;
                    "not signed".to_owned()
                }
            };
            let platforms = image.arches().map(|arch| arch.name());
            let platforms: Vec<&str> = platforms.collect();
            Ok::<_, FetchError>(format!("{}, {signer}", platforms.join(" and ")))
        };
        let result = checked.await.map_err(|error| error.to_string());
        self.row("image", name.to_string(), result);
    }

    /// Resolves and downloads the packages of a set for each architecture.
    pub async fn packages(&mut self, source: &PackageSource) {
        for arch in self.arches.clone() {
            let item = format!("{} {} {arch}", source.distribution, source.release);
            let set = packages::resolve(&self.http, source, arch, None).await;
            let result = set.map(|set| format!("{} packages", set.packages.len()));
            self.row("packages", item, result.map_err(|error| error.to_string()));
        }
    }

    /// Compares what each mirror of a set serves with what the publisher serves, by one checksum file or image for each
    /// mirrored address.
    pub async fn mirrors(&mut self, set: &str, mirrors: &Mirrors, pinned: &Pinned) {
        for (from, to) in &mirrors.downloads {
            let sample = self.sample(from, pinned);
            for mirror in to.iter().filter(|mirror| *mirror != from) {
                let result = match &sample {
                    None => Err("no file of the catalog is below this address".to_owned()),
                    Some(sample) => self.mirrored_text(mirrors, from, mirror, sample).await,
                };
                self.row("mirror", format!("{set}: {mirror}"), result);
            }
        }
        for (from, to) in &mirrors.registries {
            let mut images = pinned.images.iter();
            let sample = images.find(|image| image.registry() == from).cloned();
            for mirror in to.iter().filter(|mirror| !is_of(mirror, from)) {
                let result = match &sample {
                    None => Err("no image of a manifest is in this registry".to_owned()),
                    Some(image) => self.mirrored_image(mirrors, from, mirror, image).await,
                };
                self.row("mirror", format!("{set}: {mirror}"), result);
            }
        }
    }

    /// Returns a small document below a public address: a checksum file, a manifest, or the list of a repository.
    fn sample(&self, from: &str, pinned: &Pinned) -> Option<String> {
        let below = |url: &String| url.starts_with(&format!("{}/", from.trim_end_matches('/')));
        let kubernetes = pinned.kubernetes.iter();
        let kubernetes = kubernetes.map(|version| ("kubeadm".to_owned(), version.clone()));
        let files = pinned.components.iter().cloned().chain(kubernetes);
        let files = files.filter_map(|(name, version)| {
            let file = self.catalog.download(&name, &version, Arch::Amd64).ok()??;
            Some(file.checksum.unwrap_or(file.url).to_string())
        });
        let lists = pinned.packages.iter().flat_map(repository_lists);
        files.chain(lists).find(below)
    }

    /// Returns a client that asks only this address for what is below `from`.
    fn only(&self, mirrors: &Mirrors, from: &str, mirror: &str) -> Result<Http, FetchError> {
        let to = || [(from.to_owned(), vec![mirror.to_owned()])].into();
        let only = Mirrors {
            downloads: to(),
            registries: to(),
            checksums: Checksums::Mirror,
            on_demand: mirrors.on_demand.clone(),
            ca: mirrors.ca.clone(),
            ..Mirrors::default()
        };
        Http::new(only, self.http.cache().clone(), Events::silent())
    }

    async fn mirrored_text(
        &self,
        mirrors: &Mirrors,
        from: &str,
        mirror: &str,
        sample: &str,
    ) -> Result<String, String> {
        let compared = async {
            let url: url::Url = sample.parse().map_err(|error: url::ParseError| {
                FetchError::resolve(format!("{sample}: {error}"))
            })?;
            let (expected, _): (String, StatedBy) =
                self.http.published("sample", &url, LARGEST).await?;
            let client = self.only(mirrors, from, mirror)?;
            let found = client.bytes("sample", &url, LARGEST).await?;
            Ok::<_, FetchError>(found == expected.into_bytes())
        };
        match compared.await {
            Ok(true) => Ok(format!("serves {sample}")),
            Ok(false) => Err(format!("{sample} differs from the publisher's")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn mirrored_image(
        &self,
        mirrors: &Mirrors,
        from: &str,
        mirror: &str,
        image: &ImageRef,
    ) -> Result<String, String> {
        let compared = async {
            let expected = self.puller.resolve(image, &self.arches, None).await?;
            let puller = Puller::new(self.only(mirrors, from, mirror)?);
            let found = puller.resolve(image, &self.arches, None).await?;
            Ok::<(Digest, Digest), FetchError>((expected.manifest.digest, found.manifest.digest))
        };
        match compared.await {
            Ok((expected, found)) if expected == found => Ok(format!("serves {image}")),
            Ok((expected, found)) => Err(format!("{image} is {found}, not {expected}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the number of rows that failed.
    pub fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.result.is_err()).count()
    }
}

/// Whether an address is the registry itself.
fn is_of(mirror: &str, registry: &str) -> bool {
    let host = mirror.split("://").nth(1).unwrap_or(mirror);
    host == registry || (registry == "docker.io" && host == "registry-1.docker.io")
}

/// Returns the addresses of the signed lists of a set's repositories.
fn repository_lists(source: &PackageSource) -> Vec<String> {
    use kubexm_config::manifest::Repositories;
    match &source.repositories {
        Repositories::Apt(all) => all
            .iter()
            .map(|one| {
                let base = one.url.public().to_string();
                format!(
                    "{}/dists/{}/InRelease",
                    base.trim_end_matches('/'),
                    one.suite
                )
            })
            .collect(),
        Repositories::Dnf(set) => set
            .repositories
            .iter()
            .map(|one| {
                let base = one.url.public().to_string().replace("$basearch", "x86_64");
                format!("{}/repodata/repomd.xml", base.trim_end_matches('/'))
            })
            .collect(),
    }
}

/// Returns what was verified of a file.
fn describe(file: &LockedFile) -> String {
    let basis = match &file.checksum {
        ChecksumSource::Published(_) => "checksum of the publisher",
        ChecksumSource::FirstSeen => "no checksum is published",
        _ => "checksum of a mirror",
    };
    let members = match file.members.len() {
        0 => String::new(),
        count => format!(", {count} members"),
    };
    let signature = match &file.signature {
        Some(signature) => format!(", signed by {}", signature.by),
        None => String::new(),
    };
    format!("{basis}{members}{signature}")
}
