//! The catalog: the files and images of each version of a component. It comes from `manifests/`, which the program
//! embeds.

mod compatibility;
mod component;
mod error;
mod manifests;
mod mirrors;
mod signers;

use compatibility::Compatibility;
use component::Component;
pub use component::{Download, Releases};
pub use error::CatalogError;
pub use mirrors::{mirror_sets, mirrors};
use signers::KnownSigner;

use kubexm_bundle::Lock;
use kubexm_config::cluster::Addon;
use kubexm_types::artifact::ArtifactSource;
use kubexm_types::signature_policy::SignaturePolicy;
use kubexm_types::{Arch, ImageRef, Version};

/// The components that kubexm knows.
#[derive(Debug, Clone)]
pub struct Catalog {
    components: Vec<Component>,
    compatibility: Compatibility,
    signers: Vec<KnownSigner>,
    /// Repositories of the images that conformance tests run.
    conformance: Vec<String>,
}

impl Catalog {
    /// Reads the embedded catalog.
    ///
    /// # Errors
    /// A file of the catalog is not valid.
    pub fn embedded() -> Result<Self, CatalogError> {
        let mut components = Vec::new();
        for file in manifests::files("catalog") {
            let mut more: Vec<Component> = manifests::parse(file.path(), file.contents_utf8())?;
            components.append(&mut more);
        }
        Ok(Self {
            components,
            compatibility: manifests::read("compatibility.yaml")?,
            signers: manifests::read("signatures.yaml")?,
            conformance: manifests::read("conformance.yaml")?,
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
        self.component(name)?.download(version, arch)
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
        self.component(name)?.former_download(version, arch)
    }

    /// Returns the policies for publishers whose signers are known. Names below a prefix may be signed by each signer
    /// of the prefix and of the prefixes above it. A signature is required from the first version on that the
    /// publisher always signs. If a signature exists, it must be valid.
    pub fn signatures(&self) -> Vec<SignaturePolicy> {
        signers::policies(&self.signers)
    }

    /// Returns whether conformance tests of Kubernetes run an image.
    pub fn is_for_conformance(&self, image: &ImageRef) -> bool {
        let name = format!("{}/{}", image.registry(), image.repository());
        self.conformance.contains(&name)
    }

    /// Returns where the project of a component lists its releases.
    pub fn releases(&self, name: &str) -> Option<&Releases> {
        self.component(name).ok()?.releases.as_ref()
    }

    /// Returns the chart or the manifest of a version of an add-on, and what kubexm knows of it.
    ///
    /// # Errors
    /// The catalog does not contain the add-on.
    pub fn addon(&self, addon: Addon, version: &Version) -> Result<ArtifactSource, CatalogError> {
        self.component(addon.name())?.addon(addon, version)
    }

    /// Returns the images of a version of a component, without those that its manifest names.
    ///
    /// # Errors
    /// The catalog does not contain the component.
    pub fn images(&self, name: &str, version: &Version) -> Result<Vec<ImageRef>, CatalogError> {
        self.component(name)?.images(version)
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
        self.component(name)?.former_images(version)
    }

    /// Returns a warning about the Kubernetes versions of a lock that are newer than the compatibility table, if there
    /// are any.
    pub fn unknown_kubernetes(&self, lock: &Lock) -> Option<String> {
        self.compatibility.unknown_kubernetes(lock)
    }

    /// Returns one sentence for each pair of components in a lock that are not compatible.
    pub fn incompatibilities(&self, lock: &Lock) -> Vec<String> {
        self.compatibility.incompatibilities(lock)
    }
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
    fn addons_have_a_public_address() {
        let catalog = Catalog::embedded().unwrap();
        let version = Version::new(1, 2, 3);
        let sources = Addon::ALL.iter().map(|addon| {
            let source = catalog.addon(*addon, &version).unwrap();
            let images = source.addon.unwrap().images;
            let images = images.iter().map(|image| format!("\n  {image}"));
            format!("{}{}", source.location, images.collect::<String>())
        });
        insta::assert_snapshot!(sources.collect::<Vec<_>>().join("\n"), @"
        https://raw.githubusercontent.com/rancher/local-path-provisioner/v1.2.3/deploy/local-path-storage.yaml
          docker.io/library/busybox:1.37.0
        metrics-server 1.2.3 of https://kubernetes-sigs.github.io/metrics-server
        traefik 1.2.3 of https://traefik.github.io/charts
        metallb 1.2.3 of https://metallb.github.io/metallb
        cert-manager 1.2.3 of https://charts.jetstack.io/
          quay.io/jetstack/cert-manager-acmesolver:v1.2.3
        ");
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
