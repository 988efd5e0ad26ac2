//! The catalog: the files and images of each version of a component. It comes from `manifests/`, which the program
//! embeds.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde::Deserialize;

use kubexm_bundle::lock::{FileFormat, Lock};
use kubexm_config::Mirrors;
use kubexm_types::signature_policy::{Identity, NamePrefix, Rule, SignaturePolicy, SignedBy};
use kubexm_types::{Arch, ImageRef, Version};

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
    /// Images whose tags do not depend on the version by a rule, by version.
    #[serde(default)]
    images_by_version: BTreeMap<String, Vec<String>>,
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

/// The versions of components that are compatible with a minor of Kubernetes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compatibility {
    kubernetes: String,
    components: BTreeMap<String, semver::VersionReq>,
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
    /// The catalog does not contain this version of the component.
    #[error("the catalog does not contain {name} {version}; it contains: {known}")]
    UnknownVersion {
        name: String,
        version: Version,
        known: String,
    },
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

    /// Returns the policies for publishers whose signer is known. A signature is required from the first version
    /// on that the publisher signs. If a signature exists, it must be valid.
    pub fn signatures(&self) -> Vec<SignaturePolicy> {
        let policy = |signer: &KnownSigner, names: &SignedNames| {
            let by = SignedBy::Identity {
                identity: Identity {
                    identity: signer.identity.clone(),
                    issuer: signer.issuer.clone(),
                },
                trusted_root: None,
            };
            SignaturePolicy {
                prefix: names.prefix.clone(),
                rule: match &names.signed_since {
                    Some(version) => Rule::RequireSince(by, version.clone()),
                    None => Rule::IfPresent(by),
                },
            }
        };
        let signers = self.signers.iter();
        let policies =
            signers.flat_map(|signer| signer.signs.iter().map(move |n| policy(signer, n)));
        policies.collect()
    }

    /// Returns where the project of a component lists its releases.
    pub fn releases(&self, name: &str) -> Option<&Releases> {
        self.component(name).ok()?.releases.as_ref()
    }

    /// Returns the images of a version of a component.
    ///
    /// # Errors
    /// The catalog does not contain the component or the version.
    pub fn images(&self, name: &str, version: &Version) -> Result<Vec<ImageRef>, CatalogError> {
        let component = self.component(name)?;
        let by_version = &component.images_by_version;
        let special = by_version.get(&version.to_string());
        if special.is_none() && !by_version.is_empty() {
            let known: Vec<&str> = by_version.keys().map(String::as_str).collect();
            return Err(CatalogError::UnknownVersion {
                name: name.to_owned(),
                version: version.clone(),
                known: known.join(", "),
            });
        }
        let texts = component.images.iter().chain(special.into_iter().flatten());
        texts
            .map(|text| {
                ImageRef::parse(&fill(text, version, Arch::Amd64)).map_err(|error| {
                    CatalogError::Broken {
                        file: name.to_owned(),
                        reason: error.to_string(),
                    }
                })
            })
            .collect()
    }

    /// Returns one sentence for each pair of components in a lock that are not compatible.
    pub fn incompatibilities(&self, lock: &Lock) -> Vec<String> {
        let mut findings = Vec::new();
        for version in &lock.kubernetes {
            let minor = format!("{}.{}", version.major(), version.minor());
            let Some(known) = self
                .compatibility
                .iter()
                .find(|entry| entry.kubernetes == minor)
            else {
                let supported: Vec<&str> = self
                    .compatibility
                    .iter()
                    .map(|e| e.kubernetes.as_str())
                    .collect();
                findings.push(format!(
                    "Kubernetes {version} is not supported; kubexm supports the minors {}",
                    supported.join(", ")
                ));
                continue;
            };
            for file in &lock.files {
                let expected = known.components.get(&file.component);
                if let Some(expected) =
                    expected.filter(|range| !range.matches(file.version.semver()))
                {
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

    #[test]
    fn unknown_versions_and_components_are_refused() {
        let catalog = Catalog::embedded().unwrap();
        let error = catalog
            .images("flannel", &Version::new(0, 1, 0))
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(error, @"the catalog does not contain flannel 0.1.0; it contains: 0.28.4");
        assert!(catalog.images("weave", &Version::new(2, 0, 0)).is_err());
    }
}
