//! Resolves a bundle manifest to a lock, with all its content in the cache.

mod identity;
mod images;
mod locked;
mod programs;
mod stated;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use tokio::sync::Mutex;

use super::artifacts::{ArtifactFetcher, Found, HELM, KUBECTL, Renderers};
use super::error::wrong;
use super::file_signatures::Signed;
use super::http::Wanted;
use super::kubeadm::Kubeadm;
use super::signatures::Policies;
use super::{FetchError, Http, linking, packages};
use kubexm_bundle::Blobs;
use kubexm_bundle::archive;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::lock::{ChecksumSource, FileFormat, Linking, Lock, LockedFile, LockedPackages};
use kubexm_catalog::{Catalog, CatalogError, Download};
use kubexm_config::cluster::KubernetesKind;
use kubexm_config::manifest::Manifest;
use kubexm_types::artifact::ArtifactSource;
use kubexm_types::{Arch, Digest, Message, Version, WarningKind};
use stated::{Stated, only_by_signature, only_signed};

pub use locked::{ChangedEntry, LockComparison};

/// Number of concurrent downloads of files and blobs.
const PARALLEL: usize = 16;
impl From<CatalogError> for FetchError {
    fn from(error: CatalogError) -> Self {
        Self::Resolve(error.to_string().into())
    }
}

/// The inputs of a build.
pub struct Resolver<'a> {
    pub http: &'a Http,
    pub catalog: &'a Catalog,
    /// The lock of an earlier build; its digests are kept.
    pub previous: Option<&'a Lock>,
    /// The signature policies for images and files.
    pub policies: &'a Policies,
    /// Values of the applications of a cluster, as JSON, by the names of their charts.
    pub values: BTreeMap<String, Vec<String>>,
    /// The kubeadm programs that were unpacked already, by version.
    kubeadms: Mutex<BTreeMap<Version, Arc<Kubeadm>>>,
}

/// The component with the conformance tests.
const TESTS: &str = "kubernetes-test";

/// The programs of a control plane without kubeadm, in addition to the kubelet.
const SYSTEMD_PROGRAMS: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
];

impl<'a> Resolver<'a> {
    /// Creates a resolver.
    pub fn new(
        http: &'a Http,
        catalog: &'a Catalog,
        previous: Option<&'a Lock>,
        policies: &'a Policies,
    ) -> Self {
        Self {
            http,
            catalog,
            previous,
            policies,
            values: BTreeMap::new(),
            kubeadms: Mutex::default(),
        }
    }

    /// Resolves and fetches everything that the manifest requires.
    ///
    /// # Errors
    /// All problems that are found; independent ones are reported together.
    pub async fn build(&self, manifest: &Manifest) -> Result<Lock, FetchError> {
        self.http.events().phase("download");
        let wanted = self.wanted_files(manifest)?;
        let (first, others): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|file| ["kubeadm", TESTS, HELM, KUBECTL].contains(&file.component.as_str()));
        // Only what lists images, and renders what has them, must be present before images are resolved.
        let images = async {
            let mut files = self.files(first).await?;
            let kubeadm = self.ask_kubeadm(manifest, &files).await?;
            let artifacts = self.artifacts(manifest, &files).await?;
            let plugins = self.plugins(manifest).await?;
            let tested = self.ask_tests(manifest, &files).await?;
            let images = self
                .images(manifest, tested, &kubeadm, &artifacts, &plugins)
                .await?;
            files.extend(plugins);
            Ok((files, kubeadm, artifacts, images))
        };
        let ((mut files, kubeadm, artifacts, images), others, packages) =
            tokio::try_join!(images, self.files(others), self.packages(manifest))?;
        files.extend(others);
        let mut lock = Lock {
            // Raised below, if an entry needs more.
            lock_version: self
                .previous
                .map_or(Lock::OLDEST_VERSION, |lock| lock.lock_version),
            name: manifest.name.clone(),
            kubernetes: manifest.kubernetes.clone(),
            architectures: manifest.architectures.clone(),
            files,
            images,
            packages,
            kubeadm,
            artifacts,
            image_paths: manifest.image_paths.clone(),
            index: Default::default(),
        };
        if let Some(previous) = self.previous {
            lock.keep_unrecorded(previous);
        }
        lock.sort();
        Ok(lock)
    }

    /// Fetches the programs of a manifest that render these sources, as a build does.
    ///
    /// # Errors
    /// They cannot be fetched or verified.
    pub async fn renderers(
        &self,
        manifest: &Manifest,
        sources: &[ArtifactSource],
    ) -> Result<Renderers, FetchError> {
        let machine = Arch::of_this_machine().ok();
        let mut wanted = self.wanted_files(manifest)?;
        wanted.retain(|file| {
            let is_renderer = Renderers::need(&file.component, sources.iter());
            is_renderer && Some(file.arch) == machine
        });
        let files = self.files(wanted).await?;
        Renderers::unpack(self.http.cache(), &files, sources.iter())
    }

    fn wanted_files(&self, manifest: &Manifest) -> Result<Vec<Download>, FetchError> {
        let own = if manifest.kubernetes_kinds.contains(&KubernetesKind::Systemd) {
            SYSTEMD_PROGRAMS.as_slice()
        } else {
            &[]
        };
        let tests: &[&str] = if manifest.conformance { &[TESTS] } else { &[] };
        let programs = ["kubeadm", "kubelet", "kubectl"].iter().chain(own);
        let programs = programs.chain(tests).copied();
        let kubernetes = programs.flat_map(|name| {
            manifest
                .kubernetes
                .iter()
                .map(move |version| (name, version))
        });
        let others = manifest.components.iter().flat_map(|(name, versions)| {
            versions.iter().map(move |version| (name.as_str(), version))
        });
        let mut files = Vec::new();
        let mut errors = Vec::new();
        for (name, version) in kubernetes.chain(others) {
            for arch in &manifest.architectures {
                match self.catalog.download(name, version, *arch) {
                    Ok(Some(file)) => files.push(self.of_lock(file)?),
                    Ok(None) => {}
                    Err(error) => errors.push(error.into()),
                }
            }
        }
        FetchError::all(errors)?;
        Ok(files)
    }

    /// Returns the file that the lock of an earlier build has, if an earlier catalog named it; else the given one.
    fn of_lock(&self, file: Download) -> Result<Download, FetchError> {
        let locked = self
            .previous
            .and_then(|lock| lock.file_version(&file.component, &file.version, file.arch));
        let Some(locked) = locked else {
            return Ok(file);
        };
        let former = self
            .catalog
            .former_download(&file.component, &file.version, file.arch)?;
        Ok(former
            .filter(|former| former.url == locked.url)
            .unwrap_or(file))
    }

    async fn files(&self, mut wanted: Vec<Download>) -> Result<Vec<LockedFile>, FetchError> {
        // The largest first, if an earlier build recorded the sizes.
        let size = |file: &Download| self.locked(file).map(|locked| locked.size);
        wanted.sort_by_cached_key(|file| std::cmp::Reverse(size(file)));
        self.http.counter().expect(wanted.len());
        let results: Vec<_> = stream::iter(wanted)
            .map(|file| async move {
                let file = self.file(&file).await;
                self.http.counter().advance();
                file
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        partition(results)
    }

    /// Returns the entry of a file in the lock of an earlier build.
    fn locked(&self, file: &Download) -> Option<&LockedFile> {
        self.previous
            .and_then(|lock| lock.file_version(&file.component, &file.version, file.arch))
            .filter(|locked| locked.url == file.url)
    }

    async fn file(&self, file: &Download) -> Result<LockedFile, FetchError> {
        let locked = self.locked(file);
        let stated = match locked {
            Some(locked) => Stated::Digest(locked.digest, locked.checksum.clone()),
            None => self.stated(file).await?,
        };
        let wanted = Wanted {
            label: file.file_name.clone(),
            url: file.url.clone(),
            expected: stated.digest(),
            size: locked.map(|locked| locked.size),
        };
        let (digest, size, checksum) = match &stated {
            Stated::Digest(_, checksum) => {
                let (digest, size) = self.http.download(&wanted).await?;
                (digest, size, checksum.clone())
            }
            Stated::OnlySignature(_) => {
                let (digest, size) = self.http.download(&wanted).await?;
                (digest, size, ChecksumSource::Signed)
            }
            Stated::Nothing => self.first_seen(file, &wanted).await?,
        };
        let signed = Signed {
            url: &file.url,
            version: &file.version,
            digest,
            previous: locked.and_then(|locked| locked.signature.as_ref()),
        };
        let found = self.policies.verify_file(self.http, signed).await?;
        match (stated, &found.signature) {
            (Stated::OnlySignature(error), None) => return Err(error),
            (Stated::OnlySignature(error), Some(signature)) => {
                self.check_identity(file, digest).await?;
                let note = only_by_signature(
                    &file.file_name,
                    &signature.by,
                    "it states its version",
                    &error,
                );
                self.http.events().note(note);
            }
            (Stated::Digest(_, ChecksumSource::Signed), None) => {
                return Err(only_signed(&file.file_name));
            }
            _ => {}
        }
        let members = match (locked, file.format) {
            (Some(locked), _) => locked.members.clone(),
            (None, FileFormat::Binary | FileFormat::Manifest) => Vec::new(),
            (None, FileFormat::TarGz) => self.members(file, &digest).await?,
        };
        let linking = match (locked, file.format) {
            (Some(locked), _) => locked.linking.clone(),
            (None, FileFormat::Binary) => self.linking(file, &digest).await?,
            (None, FileFormat::TarGz | FileFormat::Manifest) => None,
        };
        Ok(LockedFile {
            component: file.component.clone(),
            version: file.version.clone(),
            arch: file.arch,
            file_name: file.file_name.clone(),
            url: file.url.clone(),
            size,
            digest,
            checksum,
            format: file.format,
            members,
            linking,
            signature: found.signature,
            unsigned: found
                .unsigned
                .filter(|_| self.records_unsigned(locked.is_some())),
        })
    }

    /// Whether to record why an item has no signature. An entry of a lock of version 1 stays as it is.
    fn records_unsigned(&self, is_locked: bool) -> bool {
        let version = self
            .previous
            .map_or(Lock::VERSION, |lock| lock.lock_version);
        !is_locked || version > Lock::OLDEST_VERSION
    }

    async fn linking(
        &self,
        file: &Download,
        digest: &Digest,
    ) -> Result<Option<Linking>, FetchError> {
        let (cache, digest) = (self.http.cache().clone(), *digest);
        let read = tokio::task::spawn_blocking(move || {
            let program = cache.open(&digest).map_err(std::io::Error::other)?;
            linking::read(program)
        });
        let wrong = |reason: String| FetchError::Content {
            what: file.file_name.clone(),
            reason: format!("the program cannot be read: {reason}").into(),
        };
        read.await
            .map_err(|error| wrong(error.to_string()))?
            .map_err(|error| wrong(error.to_string()))
    }

    async fn members(
        &self,
        file: &Download,
        digest: &Digest,
    ) -> Result<Vec<kubexm_bundle::lock::Member>, FetchError> {
        let (cache, digest) = (self.http.cache().clone(), *digest);
        let names = file.members.clone();
        let wrong = |reason: String| FetchError::Content {
            what: file.file_name.clone(),
            reason: reason.into(),
        };
        let listed = tokio::task::spawn_blocking(move || {
            let archive = cache.open_content(&digest).map_err(std::io::Error::other)?;
            let is_wanted = |path: &str| names.iter().any(|name| name == path);
            archive::list_members(archive, is_wanted, |member| linking::read(member))
        });
        let members = listed
            .await
            .map_err(|error| wrong(error.to_string()))?
            .map_err(|error| wrong(format!("the archive cannot be read: {error}")))?;
        let missing: Vec<&str> = file
            .members
            .iter()
            .filter(|name| !members.iter().any(|member| member.path == **name))
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            return Ok(members);
        }
        Err(wrong(format!(
            "the archive does not contain {}",
            missing.join(", ")
        )))
    }

    async fn packages(&self, manifest: &Manifest) -> Result<Vec<LockedPackages>, FetchError> {
        let mut sets = Vec::new();
        for source in &manifest.packages {
            for arch in &manifest.architectures {
                sets.push(packages::resolve(self.http, source, *arch, self.previous).await?);
            }
        }
        sets.sort_by(|a, b| {
            (&a.distribution, &a.release, a.arch).cmp(&(&b.distribution, &b.release, b.arch))
        });
        Ok(sets)
    }

    /// Fetches the user's artifacts and reports doubts about the images in them.
    async fn artifacts(
        &self,
        manifest: &Manifest,
        files: &[LockedFile],
    ) -> Result<Vec<LockedArtifact>, FetchError> {
        let addons = manifest.addons.iter();
        let addons = addons.map(|(addon, version)| self.catalog.addon(*addon, version));
        let addons = addons.collect::<Result<Vec<_>, _>>()?;
        let sources = manifest.artifacts.iter().chain(&addons);
        let fetcher = ArtifactFetcher {
            http: self.http,
            previous: self.previous,
            kubernetes: manifest.kubernetes.iter().max(),
            renderers: Renderers::unpack(self.http.cache(), files, sources.clone())?,
            values: &self.values,
            paths: &manifest.image_paths,
        };
        let warn = |text| self.http.events().warn(WarningKind::Images, text);
        let mut artifacts: Vec<LockedArtifact> = Vec::new();
        for source in sources {
            let fetched = fetcher.fetch(source).await?;
            let name = fetched.artifact.describe();
            let new = (fetched.artifact.kind, fetched.artifact.file_name());
            if artifacts
                .iter()
                .any(|one| (one.kind, one.file_name()) == new)
            {
                let reason = Message::new("another one has the same name").hint(
                    "rename one of them; spec.kustomizations and spec.files have `name` for this",
                );
                return Err(wrong(&name, reason));
            }
            if let Some(doubt) = fetched.doubt {
                warn(format!("{name}: {doubt}"));
            }
            let is_listed = |found: &Found| {
                let image = found.image.as_ref();
                image.is_ok_and(|image| manifest.images.contains(image))
            };
            let found = fetched.found.iter().filter(|found| found.sure().is_none());
            for found in found.filter(|found| !is_listed(found)) {
                warn(format!(
                    "{name}: not included: {found}; if its pods need the image, add it to spec.images"
                ));
            }
            artifacts.push(fetched.artifact);
        }
        Ok(artifacts)
    }

    /// Fetches the manifests of network plugins. They are the same for all architectures.
    async fn plugins(&self, manifest: &Manifest) -> Result<Vec<LockedFile>, FetchError> {
        let mut files = Vec::new();
        for (plugin, version) in &manifest.network {
            if !self.former_images(plugin, version)?.is_empty() {
                continue;
            }
            for arch in &manifest.architectures {
                if let Some(file) = self.catalog.download(plugin, version, *arch)? {
                    files.push(self.file(&file).await?);
                }
            }
        }
        Ok(files)
    }
}

/// Returns all values, or all errors.
fn partition<T>(results: Vec<Result<T, FetchError>>) -> Result<Vec<T>, FetchError> {
    let (values, errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    FetchError::all(errors.into_iter().filter_map(Result::err).collect())?;
    Ok(values.into_iter().filter_map(Result::ok).collect())
}
