//! Classes of storage and of Ingresses.

use serde::Deserialize;

use super::Metadata;

/// Annotations with which a class is the default one.
const DEFAULT: [&str; 3] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
    "ingressclass.kubernetes.io/is-default-class",
];

/// A StorageClass or an IngressClass.
#[derive(Debug, Deserialize)]
pub struct Class {
    pub metadata: Metadata,
}

impl Class {
    /// Returns whether objects that name no class have this one.
    pub fn is_default(&self) -> bool {
        let annotations = &self.metadata.annotations;
        let mut keys = DEFAULT.iter().filter_map(|key| annotations.get(*key));
        keys.any(|value| value == "true")
    }
}
