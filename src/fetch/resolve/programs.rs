//! Programs of the bundle that kubexm runs to learn which images they require.

use std::sync::Arc;

use super::{Resolver, TESTS};
use crate::kubeadm::Kubeadm;
use crate::{FetchError, conformance};
use kubexm_bundle::lock::{KubeadmFacts, LockedFile};
use kubexm_config::manifest::Manifest;
use kubexm_types::{Arch, Digest, ImageRef, Version};

impl Resolver<'_> {
    /// Returns what kubeadm states about each version of the manifest.
    pub(super) async fn ask_kubeadm(
        &self,
        manifest: &Manifest,
        files: &[LockedFile],
    ) -> Result<Vec<KubeadmFacts>, FetchError> {
        let mut facts = Vec::new();
        for version in &manifest.kubernetes {
            facts.push(self.kubeadm(version, files).await?.facts().await?);
        }
        facts.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(facts)
    }

    /// Returns the kubeadm of a version for this machine; downloads it if the bundle is for other
    /// architectures.
    pub async fn kubeadm(
        &self,
        version: &Version,
        files: &[LockedFile],
    ) -> Result<Arc<Kubeadm>, FetchError> {
        let mut kubeadms = self.kubeadms.lock().await;
        if let Some(kubeadm) = kubeadms.get(version) {
            return Ok(Arc::clone(kubeadm));
        }
        let digest = self.for_this_machine("kubeadm", version, files).await?;
        let (cache, sandbox) = (self.http.cache().clone(), self.http.sandbox().clone());
        let unpacked = Kubeadm::unpack(cache, digest, version.clone(), sandbox).await?;
        let kubeadm = Arc::new(unpacked);
        kubeadms.insert(version.clone(), Arc::clone(&kubeadm));
        Ok(kubeadm)
    }

    /// Returns the images that conformance tests run, if the manifest includes these tests.
    pub(super) async fn ask_tests(
        &self,
        manifest: &Manifest,
        files: &[LockedFile],
    ) -> Result<Vec<ImageRef>, FetchError> {
        let mut images = Vec::new();
        if !manifest.conformance {
            return Ok(images);
        }
        for version in &manifest.kubernetes {
            let digest = self.for_this_machine(TESTS, version, files).await?;
            let (cache, sandbox) = (self.http.cache().clone(), self.http.sandbox());
            let all = conformance::images(cache, digest, version, sandbox).await?;
            let before = images.len();
            images.extend(
                all.into_iter()
                    .filter(|image| self.catalog.is_for_conformance(image)),
            );
            if images.len() == before {
                return Err(FetchError::Content {
                    what: format!("the tests of Kubernetes {version}"),
                    reason: "their list has no image of a conformance test"
                        .to_owned()
                        .into(),
                });
            }
        }
        Ok(images)
    }

    /// Returns the digest of a component's file for this machine; downloads it if the bundle is for other
    /// architectures.
    async fn for_this_machine(
        &self,
        component: &str,
        version: &Version,
        files: &[LockedFile],
    ) -> Result<Digest, FetchError> {
        let here =
            Arch::of_this_machine().map_err(|error| FetchError::resolve(error.to_string()))?;
        let mut bundled = files.iter();
        let bundled =
            bundled.find(|f| f.component == component && f.version == *version && f.arch == here);
        match bundled {
            Some(file) => Ok(file.digest),
            None => {
                let file = self.catalog.download(component, version, here)?;
                let file = file.ok_or_else(|| {
                    FetchError::resolve(format!("the catalog has no file of {component}"))
                })?;
                Ok(self.file(&file).await?.digest)
            }
        }
    }
}
