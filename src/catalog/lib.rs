//! What a version of a component consists of: from `manifests/`, built into the program.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde::Deserialize;

use kubexm_bundle::lock::{FileFormat, Lock};
use kubexm_config::Mirrors;
use kubexm_types::signature_policy::{Identity, NamePrefix, Rule, SignaturePolicy, SignedBy};
use kubexm_types::{Arch, ImageRef, Version};

static MANIFESTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../manifests");

/// All components that kubexm knows.
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
    /// Its name in manifests and locks.
    pub name: String,
    /// Address of the file, with `{version}` and `{arch}`, or `{machine}` for the kernel's name of it.
    url: Option<String>,
    /// How the file is packed.
    format: Option<FileFormat>,
    /// Address of the file that publishes its digest.
    checksum: Option<String>,
    /// Files to take out of an archive.
    #[serde(default)]
    members: Vec<String>,
    /// Where releases are told; those of kubelet and kubectl are kubeadm's.
    releases: Option<Releases>,
    /// Images that every version has.
    #[serde(default)]
    images: Vec<String>,
    /// Images whose tags follow no rule, by version.
    #[serde(default)]
    images_by_version: BTreeMap<String, Vec<String>>,
}

/// Where a project tells which releases there are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Releases {
    /// Texts that hold nothing but a version.
    Stable {
        /// Address for the newest of all.
        all: String,
        /// Address for the newest of a minor, with `{major}` and `{minor}`.
        minor: String,
    },
    /// A GitHub project's Atom feed of releases.
    Feed(String),
}

/// A file of a component in a version.
#[derive(Debug, Clone)]
pub struct Download {
    /// Component.
    pub component: String,
    /// Version.
    pub version: Version,
    /// Architecture.
    pub arch: Arch,
    /// Address.
    pub url: url::Url,
    /// Last part of the address.
    pub file_name: String,
    /// How it is packed.
    pub format: FileFormat,
    /// Where its digest is published.
    pub checksum: Option<url::Url>,
    /// Files to take out of it.
    pub members: Vec<String>,
}

/// Who signs what a registry serves.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownSigner {
    prefix: NamePrefix,
    identity: String,
    issuer: String,
}

/// What goes with a minor of Kubernetes, by component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compatibility {
    kubernetes: String,
    components: BTreeMap<String, semver::VersionReq>,
}

/// The catalog cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file of the catalog is wrong.
    #[error("catalog {file}: {reason}")]
    Broken {
        /// The file under `manifests/`.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no such component.
    #[error("the catalog has no component '{name}'; it has: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The component exists, not in this version.
    #[error("the catalog does not know {name} {version}; it knows: {known}")]
    UnknownVersion {
        /// Component.
        name: String,
        /// Version that was asked for.
        version: Version,
        /// What there is.
        known: String,
    },
}

/// The names of the sets of mirrors that the catalog has.
pub fn mirror_sets() -> Vec<&'static str> {
    let files = MANIFESTS
        .get_dir("mirrors")
        .into_iter()
        .flat_map(Dir::files);
    files
        .filter_map(|file| file.path().file_stem()?.to_str())
        .collect()
}

/// A named set of mirrors.
///
/// # Errors
/// There is none of this name.
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

impl Catalog {
    /// The catalog that is built into this program.
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

    /// The file of a component; `None` where it consists of images only.
    pub fn download(
        &self,
        name: &str,
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        let component = self.component(name)?;
        let (Some(url), Some(format)) = (&component.url, component.format) else {
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
        let checksum = component.checksum.as_deref().map(parse).transpose()?;
        Ok(Some(Download {
            component: name.to_owned(),
            version: version.clone(),
            arch,
            file_name: file_name.to_owned(),
            format,
            checksum,
            members: component
                .members
                .iter()
                .map(|member| fill(member))
                .collect(),
            url,
        }))
    }

    /// Whose signatures are known: those that are there must be theirs.
    pub fn signatures(&self) -> Vec<SignaturePolicy> {
        let policy = |known: &KnownSigner| SignaturePolicy {
            prefix: known.prefix.clone(),
            rule: Rule::IfPresent(SignedBy::Identity {
                identity: Identity {
                    identity: known.identity.clone(),
                    issuer: known.issuer.clone(),
                },
                trusted_root: None,
            }),
        };
        self.signers.iter().map(policy).collect()
    }

    /// Where releases of a component are told.
    pub fn releases(&self, name: &str) -> Option<&Releases> {
        self.component(name).ok()?.releases.as_ref()
    }

    /// The images of a component in a version.
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

    /// What in a lock does not fit together, in sentences; empty where all is well.
    pub fn incompatibilities(&self, lock: &Lock) -> Vec<String> {
        let mut findings = Vec::new();
        for version in &lock.kubernetes {
            let minor = format!("{}.{}", version.major(), version.minor());
            let Some(known) = self
                .compatibility
                .iter()
                .find(|entry| entry.kubernetes == minor)
            else {
                let kept: Vec<&str> = self
                    .compatibility
                    .iter()
                    .map(|e| e.kubernetes.as_str())
                    .collect();
                findings.push(format!(
                    "Kubernetes {version}: kubexm knows the minors {}",
                    kept.join(", ")
                ));
                continue;
            };
            for file in &lock.files {
                let wanted = known.components.get(&file.component);
                if let Some(wanted) = wanted.filter(|w| !w.matches(file.version.semver())) {
                    findings.push(format!(
                        "{} {} does not go with Kubernetes {version}: it wants {wanted}",
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
                        "etcd {} is too old: kubeadm {version} wants at least {minimum}",
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

/// One of the files at the top of `manifests/`.
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
    fn addresses_are_the_public_ones() {
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

    #[test]
    fn unknown_things_are_named() {
        let catalog = Catalog::embedded().unwrap();
        let error = catalog
            .images("flannel", &Version::new(0, 1, 0))
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(error, @"the catalog does not know flannel 0.1.0; it knows: 0.28.4");
        assert!(catalog.images("weave", &Version::new(2, 0, 0)).is_err());
    }
}
