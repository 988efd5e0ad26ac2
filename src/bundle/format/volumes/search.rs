//! Finds bundles and volumes in directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::paths::without_suffix;
use crate::BundleError;
use kubexm_types::Message;

/// The end of the file name of a bundle.
const EXTENSION: &str = ".tar.zst";

/// Returns the path of the only bundle in a directory, such as a USB stick.
pub(super) fn only_bundle(folder: &Path) -> Result<PathBuf, BundleError> {
    let failed = |source| BundleError::io(folder, source);
    let mut bundles = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            continue;
        }
        let name = without_suffix(&path).unwrap_or(path);
        let text = name.file_name().and_then(|name| name.to_str());
        // macOS writes files such as `._B.tar.zst` on sticks.
        if text.is_some_and(|text| text.ends_with(EXTENSION) && !text.starts_with('.')) {
            bundles.insert(name);
        }
    }
    let names = bundles.iter().filter_map(|path| path.file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let names = names.join(", ");
    match (bundles.pop_first(), bundles.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(BundleError::damaged(
            folder,
            Message::new("this directory does not contain a bundle (a file that ends with .tar.zst, or its volumes)").hint("give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst"),
        )),
        (Some(_), false) => Err(BundleError::damaged(
            folder,
            Message::new(format!("this directory contains several bundles: {names}")).hint("give the path of one of them"),
        )),
    }
}

/// Returns the first regular file with this name, here or in one of the folders.
pub(super) fn locate(path: &Path, folders: &[PathBuf]) -> Option<(PathBuf, u64)> {
    let file_name = path.file_name()?;
    let elsewhere = folders.iter().map(|folder| folder.join(file_name));
    std::iter::once(path.to_owned())
        .chain(elsewhere)
        .find_map(|path| {
            let found = std::fs::metadata(&path).ok().filter(|m| m.is_file())?;
            Some((path, found.len()))
        })
}
