//! An image in the registries of a cluster.

use kubexm_engine::seed::source;
use kubexm_types::{Digest, ImageRef};

/// An image of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Image {
    /// The repository in the registries.
    pub(super) repository: String,
    /// `None` for a manifest without a tag.
    pub(super) tag: Option<String>,
    /// The manifest: of a tag that differs, the one that most registries have.
    pub(super) digest: Digest,
}

impl Image {
    /// Returns the name as pods have it.
    pub(super) fn name(&self) -> String {
        let (prefix, rest) = self
            .repository
            .split_once('/')
            .unwrap_or(("", &self.repository));
        let source = source(prefix).unwrap_or_else(|| prefix.to_owned());
        match &self.tag {
            Some(tag) => format!("{source}/{rest}:{tag}"),
            None => format!("{source}/{rest}@{}", self.digest),
        }
    }

    /// Returns whether a user or a pod means this image by a name.
    pub(super) fn is_named(&self, name: &ImageRef) -> bool {
        let is_here = kubexm_engine::seed::repository(name) == self.repository;
        let is_this = match (name.digest(), name.tag()) {
            (Some(digest), _) => digest == self.digest,
            (None, tag) => tag == self.tag.as_deref(),
        };
        is_here && is_this
    }
}
