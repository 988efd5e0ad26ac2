//! The files of `manifests/`, which the program embeds.

use std::path::Path;

use include_dir::{Dir, File, include_dir};
use serde::de::DeserializeOwned;

use crate::error::CatalogError;

static MANIFESTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../manifests");

/// Returns the files of a directory.
pub(crate) fn files(folder: &str) -> impl Iterator<Item = &'static File<'static>> {
    let folder = MANIFESTS.get_dir(folder);
    folder.into_iter().flat_map(Dir::files)
}

/// Returns the text of a file; `None` if the file does not exist.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    MANIFESTS.get_file(name)?.contents_utf8()
}

/// Parses a file.
///
/// # Errors
/// The file does not exist, or it is not valid.
pub(crate) fn read<T: DeserializeOwned>(name: &str) -> Result<T, CatalogError> {
    parse(Path::new(name), text(name))
}

/// Parses the text of a file.
///
/// # Errors
/// The text is missing or not valid.
pub(crate) fn parse<T: DeserializeOwned>(
    path: &Path,
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
