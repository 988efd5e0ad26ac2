//! The programs of a bundle that render charts and kustomizations.

use super::helm::{COMPONENT as HELM, Helm};
use super::kustomize::{COMPONENT as KUBECTL, Kubectl, is_kustomization};
use crate::FetchError;
use kubexm_bundle::Blobs;
use kubexm_bundle::lock::LockedFile;
use kubexm_types::artifact::{ArtifactKind, ArtifactSource};

/// The programs that render artifacts, unpacked. Those of this machine replace the ones that a bundle does not have.
#[derive(Default)]
pub struct Renderers {
    pub(super) helm: Option<Helm>,
    pub(super) kubectl: Option<Kubectl>,
}

impl Renderers {
    /// Unpacks the programs that these sources need, as far as files of a lock have them for this machine.
    ///
    /// # Errors
    /// A program is damaged, or a temporary file cannot be written.
    pub fn unpack<'a>(
        blobs: &dyn Blobs,
        files: &[LockedFile],
        sources: impl Iterator<Item = &'a ArtifactSource> + Clone,
    ) -> Result<Self, FetchError> {
        let mut renderers = Self::default();
        if Self::need(HELM, sources.clone()) {
            renderers.helm = Helm::unpack(blobs, files)?;
        }
        if Self::need(KUBECTL, sources) {
            renderers.kubectl = Kubectl::unpack(blobs, files)?;
        }
        Ok(renderers)
    }

    /// Returns whether a component renders one of these sources.
    pub fn need<'a>(
        component: &str,
        mut sources: impl Iterator<Item = &'a ArtifactSource>,
    ) -> bool {
        match component {
            HELM => sources.any(|source| source.kind == ArtifactKind::Chart),
            KUBECTL => sources.any(is_kustomization),
            _ => false,
        }
    }
}
