//! Errors of the catalog.

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
