//! Filters a lock by architecture.

use std::collections::BTreeSet;

use crate::BundleError;
use crate::lock::Lock;
use kubexm_types::Arch;

impl Lock {
    /// Returns the lock of a build for only these architectures. Indexes of images stay as published.
    #[must_use]
    pub fn only(&self, arches: &BTreeSet<Arch>) -> Self {
        let mut lock = self.clone();
        lock.architectures.retain(|arch| arches.contains(arch));
        lock.files.retain(|file| arches.contains(&file.arch));
        lock.packages.retain(|set| arches.contains(&set.arch));
        for image in &mut lock.images {
            image
                .platforms
                .retain(|p| p.arch.is_none_or(|arch| arches.contains(&arch)));
        }
        lock.images.retain(|image| !image.platforms.is_empty());
        lock
    }

    /// Returns the lock of a build for only this architecture.
    ///
    /// # Errors
    /// The bundle has no content for it; the error lists its architectures.
    pub fn only_for(&self, arch: Arch) -> Result<Self, BundleError> {
        if self.architectures.contains(&arch) {
            return Ok(self.only(&BTreeSet::from([arch])));
        }
        let there: Vec<&str> = self.architectures.iter().map(|a| a.name()).collect();
        let there = there.join(" and ");
        let missing = format!("content for {arch}, only for {there}");
        Err(BundleError::Missing(missing.into()))
    }
}
