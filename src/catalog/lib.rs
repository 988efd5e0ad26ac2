//! The catalog: the files and images of each version of a component. It comes from `manifests/`, which the program
//! embeds.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde::Deserialize;

use kubexm_bundle::lock::{FileFormat, Lock};
use kubexm_config::Mirrors;
use kubexm_types::signature_policy::{
    Identity, NamePrefix, Rule, SignaturePolicy, SignedBy, SigningPeriod,
};
use kubexm_types::{Arch, ImageRef, UtcTime, Version};

static MANIFESTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../manifests");

/// The components that kubexm knows.
#[derive(Debug, Clone)]
pub struct Catalog {
    components: Vec<Component>,
    compatibility: Vec<Compatibility>,
    signers: Vec<KnownSigner>,
}

/// One component of the catalog.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// The name in manifests and locks.
    pub name: String,
    /// URL of the file, with `{version}` and `{arch}`, or `{machine}` for the architecture's name in the kernel.
    url: Option<String>,
    format: Option<FileFormat>,
    /// URL of the checksum file.
    checksum: Option<String>,
    /// What an earlier catalog named. A build keeps it if its lock has it.
    former: Option<Former>,
    /// Files to extract from an archive.
    #[serde(default)]
    members: Vec<String>,
    /// Where the project lists its releases. kubelet and kubectl have the releases of kubeadm.
    releases: Option<Releases>,
    /// Images of every version.
    #[serde(default)]
    images: Vec<String>,
    /// Images of versions for which an earlier catalog named no manifest, by version.
    #[serde(default)]
    former_images: BTreeMap<String, Vec<String>>,
}

/// Where a project lists its releases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Releases {
    /// Files that contain only a version.
    Stable {
        /// URL for the newest version.
        all: String,
        /// URL for the newest version of a minor, with `{major}` and `{minor}`.
        minor: String,
    },
    /// The Atom feed of the releases of a GitHub project.
    Feed(String),
}

/// A file of a version of a component.
#[derive(Debug, Clone)]
pub struct Download {
    pub component: String,
    pub version: Version,
    pub arch: Arch,
    pub url: url::Url,
    /// The last part of the URL.
    pub file_name: String,
    pub format: FileFormat,
    /// URL of the checksum file.
    pub checksum: Option<url::Url>,
    /// Files to extract from the archive.
    pub members: Vec<String>,
}

/// The file of a component in an earlier catalog. Everything else of the component is the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Former {
    url: String,
    checksum: Option<String>,
}

/// A signer in the public instance of Sigstore.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownSigner {
    identity: String,
    issuer: String,
    /// When it signed; without limits for a signer of today.
    from: Option<UtcTime>,
    until: Option<UtcTime>,
    signs: Vec<SignedNames>,
}

/// Images and files that a signer signs.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedNames {
    prefix: NamePrefix,
    /// The first version that is always signed; `None` if it is not known which ones are.
    signed_since: Option<Version>,
}

impl KnownSigner {
    fn identity(&self) -> Identity {
        Identity {
            period: SigningPeriod {
                from: self.from.clone(),
                until: self.until.clone(),
            },
            ..Identity::new(&self.identity, &self.issuer)
        }
    }

    /// Whether it signs all names below a prefix.
    fn signs_below(&self, prefix: &NamePrefix) -> bool {
        let mut names = self.signs.iter();
        names.any(|names| names.prefix.covers(prefix.as_str()))
    }
}

/// The versions of components that are compatible with a minor of Kubernetes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compatibility {
    kubernetes: String,
    components: BTreeMap<String, Ranges>,
}

/// Ranges of versions, such as one for each release line. One of them must contain the version.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Ranges {
    One(semver::VersionReq),
    Several(Vec<semver::VersionReq>),
}

impl Ranges {
    fn all(&self) -> &[semver::VersionReq] {
        match self {
            Self::One(range) => std::slice::from_ref(range),
            Self::Several(ranges) => ranges,
        }
    }

    fn contain(&self, version: &Version) -> bool {
        let mut ranges = self.all().iter();
        ranges.any(|range| range.matches(version.semver()))
    }
}

impl std::fmt::Display for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges: Vec<String> = self.all().iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(" or "))
    }
}

/// An error of the catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file of the catalog is not valid.
    #[error("catalog {file}: {reason}")]
    Broken {
        /// The file under `manifests/`.
        file: String,
        reason: String,
    },
    /// The catalog does not contain the component.
    #[error("the catalog does not contain '{name}'; it contains: {known}")]
    Unknown { name: String, known: String },
}

/// Returns the names of the sets of mirrors.
pub fn mirror_sets() -> Vec<&'static str> {
    let files = MANIFESTS
        .get_dir("mirrors")
        .into_iter()
        .flat_map(Dir::files);
    files
        .filter_map(|file| file.path().file_stem()?.to_str())
        .collect()
}

/// Returns a set of mirrors.
///
/// # Errors
/// The catalog does not contain the set.
pub fn mirrors(name: &str) -> Result<Mirrors, CatalogError> {
    let file = MANIFESTS.get_file(format!("mirrors/{name}.yaml"));
    let text = file.and_then(include_dir::File::contents_utf8);
    let text = text.ok_or_else(|| CatalogError::Unknown {
        name: format!("mirrors of {name}"),
        known: mirror_sets().join(", "),
    })?;
    kubexm_config::parse_mirrors(name, text).map_err(|problems| CatalogError::Broken {
        file: format!("mirrors/{name}.yaml"),
        reason: problems.to_string(),
    })
}

impl Component {
    /// Returns the file at a URL with a checksum file, both with placeholders; `None` for a component without files.
    fn file(
        &self,
        name: &str,
        (url, checksum): (&str, Option<&str>),
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        let Some(format) = self.format else {
            return Ok(None);
        };
        let broken = |reason: String| CatalogError::Broken {
            file: name.to_owned(),
            reason,
        };
        let fill = |template: &str| fill(template, version, arch);
        let parse = |template: &str| {
            url::Url::parse(&fill(template)).map_err(|error| broken(error.to_string()))
        };
        let url = parse(url)?;
        let file_name = url
            .path_segments()
            .and_then(|mut parts| parts.next_back())
            .unwrap_or(name);
        let checksum = checksum.map(parse).transpose()?;
        Ok(Some(Download {
            component: name.to_owned(),
            version: version.clone(),
            arch,
            file_name: file_name.to_owned(),
            format,
            checksum,
            members: self.members.iter().map(|member| fill(member)).collect(),
            url,
        }))
    }
}

impl Catalog {
    /// Reads the embedded catalog.
    ///
    /// # Errors
    /// A file of the catalog is not valid.
    pub fn embedded() -> Result<Self, CatalogError> {
        let mut components = Vec::new();
        for file in MANIFESTS
            .get_dir("catalog")
            .into_iter()
            .flat_map(Dir::files)
        {
            let mut more: Vec<Component> = read(file.path(), file.contents_utf8())?;
            components.append(&mut more);
        }
        Ok(Self {
            components,
            compatibility: read_file("compatibility.yaml")?,
            signers: read_file("signatures.yaml")?,
        })
    }

    /// Returns the names of all components.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.components
            .iter()
            .map(|component| component.name.as_str())
    }

    fn component(&self, name: &str) -> Result<&Component, CatalogError> {
        self.components
            .iter()
            .find(|component| component.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = self.components.iter().map(|c| c.name.as_str()).collect();
                CatalogError::Unknown {
                    name: name.to_owned(),
                    known: known.join(", "),
                }
            })
    }

    /// Returns the file of a version of a component; `None` if the component consists of images only.
    ///
    /// # Errors
    /// The catalog does not contain the component.
    pub fn download(
        &self,
        name: &str,
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        let component = self.component(name)?;
        match &component.url {
            Some(url) => {
                let source = (url.as_str(), component.checksum.as_deref());
                component.file(name, source, version, arch)
            }
            None => Ok(None),
        }
    }

    /// Returns the file of a component that an earlier catalog named; `None` if it named the same as this one. An
    /// earlier lock can have it.
    ///
    /// # Errors
    /// As for [`Catalog::download`].
    pub fn former_download(
        &self,
        name: &str,
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        let component = self.component(name)?;
        match &component.former {
            Some(former) => {
                let source = (former.url.as_str(), former.checksum.as_deref());
                component.file(name, source, version, arch)
            }
            None => Ok(None),
        }
    }

    /// Returns the policies for publishers whose signers are known. Names below a prefix may be signed by each signer
    /// of the prefix and of the prefixes above it. A signature is required from the first version on that the
    /// publisher always signs. If a signature exists, it must be valid.
    pub fn signatures(&self) -> Vec<SignaturePolicy> {
        let mut since: BTreeMap<&NamePrefix, Option<&Version>> = BTreeMap::new();
        for names in self.signers.iter().flat_map(|signer| &signer.signs) {
            let first = since.entry(&names.prefix).or_default();
            *first = first.or(names.signed_since.as_ref());
        }
        let policy = |(prefix, since): (&NamePrefix, Option<&Version>)| {
            let signers = self.signers.iter();
            let signers = signers.filter(|signer| signer.signs_below(prefix));
            let by = SignedBy::Identities {
                identities: signers.map(KnownSigner::identity).collect(),
                trusted_root: None,
            };
            SignaturePolicy {
                prefix: prefix.clone(),
                rule: match since {
                    Some(version) => Rule::RequireSince(by, version.clone()),
                    None => Rule::IfPresent(by),
                },
            }
        };
        since.into_iter().map(policy).collect()
    }

    /// Returns where the project of a component lists its releases.
    pub fn releases(&self, name: &str) -> Option<&Releases> {
        self.component(name).ok()?.releases.as_ref()
    }

    /// Returns the images of a version of a component, without those that its manifest names.
    ///
    /// # Errors
    /// The catalog does not contain the component.
    pub fn images(&self, name: &str, version: &Version) -> Result<Vec<ImageRef>, CatalogError> {
        filled(name, &self.component(name)?.images, version)
    }

    /// Returns all images of a version of a component for which an earlier catalog named no manifest; none for other
    /// versions. An earlier lock can have them without the manifest.
    ///
    /// # Errors
    /// The catalog does not contain the component.
    pub fn former_images(
        &self,
        name: &str,
        version: &Version,
    ) -> Result<Vec<ImageRef>, CatalogError> {
        let former = &self.component(name)?.former_images;
        let images = former.get(&version.to_string());
        filled(name, images.map_or(&[], Vec::as_slice), version)
    }

    /// Returns a warning about the Kubernetes versions of a lock that are newer than the compatibility table, if there
    /// are any.
    pub fn unknown_kubernetes(&self, lock: &Lock) -> Option<String> {
        let newest = self.minors().max()?;
        let unknown = lock.kubernetes.iter();
        let unknown = unknown.filter(|version| (version.major(), version.minor()) > newest);
        let unknown: Vec<String> = unknown.map(Version::to_string).collect();
        (!unknown.is_empty()).then(|| {
            format!(
                "this kubexm knows Kubernetes up to {}.{}, so it does not know which versions of other components are \
                 compatible with {}; a newer kubexm may know it",
                newest.0,
                newest.1,
                unknown.join(" and ")
            )
        })
    }

    /// Returns the minors of Kubernetes in the compatibility table.
    fn minors(&self) -> impl Iterator<Item = (u64, u64)> {
        self.compatibility.iter().filter_map(|entry| {
            let (major, minor) = entry.kubernetes.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
    }

    /// Returns one sentence for each pair of components in a lock that are not compatible.
    pub fn incompatibilities(&self, lock: &Lock) -> Vec<String> {
        let mut findings = Vec::new();
        for version in &lock.kubernetes {
            let minor = format!("{}.{}", version.major(), version.minor());
            let mut known = self.compatibility.iter();
            let known = known.find(|entry| entry.kubernetes == minor);
            let oldest = self.minors().min();
            if oldest.is_some_and(|oldest| (version.major(), version.minor()) < oldest) {
                let (major, minor) = oldest.unwrap_or_default();
                findings.push(format!(
                    "Kubernetes {version} is not supported; kubexm supports {major}.{minor} and newer"
                ));
                continue;
            }
            for file in &lock.files {
                let expected = known.and_then(|known| known.components.get(&file.component));
                if let Some(expected) = expected.filter(|ranges| !ranges.contain(&file.version)) {
                    findings.push(format!(
                        "{} {} is not compatible with Kubernetes {version}, which requires {expected}",
                        file.component, file.version
                    ));
                }
            }
            let minimum = lock
                .kubeadm(version)
                .and_then(|facts| facts.minimum_etcd.as_ref());
            for file in lock.files.iter().filter(|file| file.component == "etcd") {
                if minimum.is_some_and(|minimum| file.version < *minimum) {
                    let minimum = minimum.map(ToString::to_string).unwrap_or_default();
                    findings.push(format!(
                        "etcd {} is too old: kubeadm {version} requires at least {minimum}",
                        file.version
                    ));
                }
            }
        }
        findings.sort();
        findings.dedup();
        findings
    }
}

/// Returns images from their names with placeholders.
fn filled(
    component: &str,
    texts: &[String],
    version: &Version,
) -> Result<Vec<ImageRef>, CatalogError> {
    let image = |text: &String| {
        ImageRef::parse(&fill(text, version, Arch::Amd64)).map_err(|error| CatalogError::Broken {
            file: component.to_owned(),
            reason: error.to_string(),
        })
    };
    texts.iter().map(image).collect()
}

fn fill(template: &str, version: &Version, arch: Arch) -> String {
    template
        .replace("{version}", &version.to_string())
        .replace("{arch}", arch.name())
        .replace("{machine}", arch.machine())
}

/// Reads a file of `manifests/`.
fn read_file<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, CatalogError> {
    let file = MANIFESTS.get_file(name);
    let text = file.and_then(include_dir::File::contents_utf8);
    read(std::path::Path::new(name), text)
}

fn read<T: serde::de::DeserializeOwned>(
    path: &std::path::Path,
    text: Option<&str>,
) -> Result<T, CatalogError> {
    let file = path.display().to_string();
    let text = text.ok_or_else(|| CatalogError::Broken {
        file: file.clone(),
        reason: "is missing".into(),
    })?;
    serde_saphyr::from_str(text).map_err(|error| CatalogError::Broken {
        file,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_the_public_ones() {
        let catalog = Catalog::embedded().unwrap();
        let etcd = catalog
            .download("etcd", &Version::new(3, 6, 8), Arch::Arm64)
            .unwrap()
            .unwrap();
        assert_eq!(
            etcd.url.as_str(),
            "https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-arm64.tar.gz"
        );
        assert_eq!(etcd.file_name, "etcd-v3.6.8-linux-arm64.tar.gz");
        assert!(
            etcd.members
                .contains(&"etcd-v3.6.8-linux-arm64/etcdctl".to_owned())
        );
    }

    /// Earlier locks have the archive of containerd that is linked against glibc.
    #[test]
    fn former_files_are_known() {
        let catalog = Catalog::embedded().unwrap();
        let version = Version::new(2, 3, 7);
        let of = |file: Result<Option<Download>, CatalogError>| file.unwrap().unwrap();
        let now = of(catalog.download("containerd", &version, Arch::Amd64));
        let former = of(catalog.former_download("containerd", &version, Arch::Amd64));
        assert_eq!(now.file_name, "containerd-static-2.3.7-linux-amd64.tar.gz");
        assert_eq!(former.file_name, "containerd-2.3.7-linux-amd64.tar.gz");
        assert_eq!(now.members, former.members);
        let other = catalog.former_download("runc", &version, Arch::Amd64);
        assert!(other.unwrap().is_none());
    }

    /// Any release of flannel has a manifest; earlier locks have the images of one without it.
    #[test]
    fn flannel_has_a_manifest_for_each_release() {
        let catalog = Catalog::embedded().unwrap();
        for (version, former) in [(Version::new(0, 28, 4), 2), (Version::new(0, 28, 10), 0)] {
            let file = catalog.download("flannel", &version, Arch::Arm64);
            let file = file.unwrap().unwrap();
            assert_eq!(
                file.url.as_str(),
                format!(
                    "https://github.com/flannel-io/flannel/releases/download/v{version}/kube-flannel.yml"
                )
            );
            assert_eq!(catalog.images("flannel", &version).unwrap(), []);
            let images = catalog.former_images("flannel", &version).unwrap();
            assert_eq!(images.len(), former);
        }
        assert!(catalog.images("weave", &Version::new(2, 0, 0)).is_err());
    }
}
