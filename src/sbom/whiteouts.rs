//! Files of lower layers that a layer hides
//! (<https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts>).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use super::layer_scanner::{Find, Layer};

/// Prefix of an entry that hides the file with the rest of the name.
const WHITEOUT: &str = ".wh.";
/// An entry that hides all files of lower layers in its directory.
const OPAQUE: &str = ".wh..wh..opq";

/// The paths that a layer hides, as hashes, because a layer may have a million of them.
#[derive(Debug, Default)]
pub struct Whiteouts {
    /// Paths that are hidden with everything below.
    whole: Vec<u64>,
    /// Paths of which everything below is hidden.
    below: Vec<u64>,
    /// Paths that are hidden alone: a directory replaces a file, and is merged with a directory.
    itself: Vec<u64>,
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(path.as_bytes());
    hasher.finish()
}

impl Whiteouts {
    /// Adds an entry of the layer.
    pub fn add(&mut self, path: &str, is_folder: bool) {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match name.strip_prefix(WHITEOUT) {
            Some(_) if name == OPAQUE => self.below.push(hash(folder)),
            Some(hidden) if folder.is_empty() => self.whole.push(hash(hidden)),
            Some(hidden) => self.whole.push(hash(&format!("{folder}/{hidden}"))),
            None if is_folder => self.itself.push(hash(path)),
            None => self.whole.push(hash(path)),
        }
    }

    /// Sorts the lists. The caller adds no entries after this.
    pub fn seal(&mut self) {
        for list in [&mut self.whole, &mut self.below, &mut self.itself] {
            list.sort_unstable();
            list.dedup();
            list.shrink_to_fit();
        }
    }

    /// Returns whether a file of a lower layer is hidden.
    fn hides(&self, path: &str) -> bool {
        let has = |list: &Vec<u64>, path: &str| list.binary_search(&hash(path)).is_ok();
        let mut above = path;
        while let Some((folder, _)) = above.rsplit_once('/') {
            if has(&self.whole, folder) || has(&self.below, folder) {
                return true;
            }
            above = folder;
        }
        has(&self.whole, path) || has(&self.itself, path) || has(&self.below, "")
    }
}

/// Returns the finds of an image with these layers, from the lowest to the highest.
pub fn stack<'a>(layers: impl Iterator<Item = &'a Layer>) -> Vec<&'a Find> {
    let mut seen: BTreeMap<&str, &Find> = BTreeMap::new();
    for layer in layers {
        seen.retain(|path, _| !layer.whiteouts.hides(path));
        seen.extend(layer.finds.iter().map(|find| (find.path.as_str(), find)));
    }
    seen.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer_scanner::Found;

    fn layer(entries: &[&str]) -> Layer {
        let mut layer = Layer::default();
        for entry in entries {
            let path = entry.trim_end_matches('/');
            layer.whiteouts.add(path, entry.ends_with('/'));
            if !entry.contains(WHITEOUT) && !entry.ends_with('/') {
                layer.finds.push(Find {
                    path: path.to_owned(),
                    what: Found::Unreadable(String::new()),
                });
            }
        }
        layer.whiteouts.seal();
        layer
    }

    fn left(layers: &[&[&str]]) -> String {
        let layers: Vec<Layer> = layers.iter().map(|entries| layer(entries)).collect();
        let finds = stack(layers.iter());
        let paths: Vec<&str> = finds.iter().map(|find| find.path.as_str()).collect();
        paths.join(" ")
    }

    #[test]
    fn whiteouts_hide_what_is_below_and_nothing_else() {
        let base: &[&str] = &["a/", "a/x", "a/y", "b/z", "c"];
        for (upper, expected) in [
            (&["a/", "n"][..], "a/x a/y b/z c n"),
            (&["a/.wh.x"], "a/y b/z c"),
            (&[".wh.a"], "b/z c"),
            (&["a/.wh..wh..opq", "a/new"], "a/new b/z c"),
            (&["a/new", "a/.wh..wh..opq"], "a/new b/z c"),
            (&[".wh..wh..opq", "n"], "n"),
            // A file in the place of a folder, and a folder in the place of a file.
            (&["a"], "a b/z c"),
            (&["c/", "c/d"], "a/x a/y b/z c/d"),
            (&["c"], "a/x a/y b/z c"),
        ] {
            assert_eq!(left(&[base, upper]), expected, "{upper:?}");
        }
    }

    #[test]
    fn what_a_layer_hides_may_come_back() {
        assert_eq!(left(&[&["a/x"], &[".wh.a"], &["a/x"]]), "a/x");
    }
}
