//! Packed Helm charts (<https://helm.sh/docs/topics/charts/>).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use kubexm_bundle::Blobs;
use kubexm_bundle::archive::each_member;
use kubexm_types::{Digest, Message};

/// Maximum size of an unpacked chart, in bytes; Helm has the same limit.
pub(super) const LARGEST_CHART: u64 = 100 * 1024 * 1024;
/// Maximum size of a file in a chart, in bytes; Helm has the same limit.
const LARGEST_FILE: u64 = 5 * 1024 * 1024;
/// The file with the metadata of a chart.
const ABOUT: &str = "Chart.yaml";
/// Maximum number of files in a chart.
const MOST_FILES: usize = 5000;

/// The metadata of a chart, and its files that may name images.
#[derive(Debug)]
pub struct Chart {
    pub name: String,
    pub version: String,
    /// The version of the application that the chart installs.
    pub app_version: Option<String>,
    /// The annotations of the chart.
    pub annotations: BTreeMap<String, String>,
    /// `values.yaml` and templates by path, including those of dependencies.
    pub files: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    name: String,
    version: String,
    app_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
    dependencies: Option<Vec<Dependency>>,
}

/// The file with the dependencies of a chart of the API version `v1`.
#[derive(Deserialize)]
struct Requirements {
    dependencies: Option<Vec<Dependency>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

impl Chart {
    /// Reads a packed chart.
    ///
    /// # Errors
    /// The reason why the file is not a chart, or the dependencies that it does not have. The text completes a sentence about it.
    pub fn open(blobs: &dyn Blobs, digest: &Digest) -> Result<Self, Message> {
        let no_chart = |reason: &dyn std::fmt::Display| {
            Message::new(format!("is not a packed Helm chart: {reason}"))
                .hint("pack the chart with `helm package`")
        };
        let archive = blobs.open_content(digest).map_err(|e| no_chart(&e))?;
        let (mut about, mut requirements) = (None, None);
        let mut parts = BTreeSet::new();
        let mut files = BTreeMap::new();
        let mut archive = archive.take(LARGEST_CHART + 1);
        each_member(&mut archive, |path, content| {
            let names: Vec<&str> = path.split('/').collect();
            match names[..] {
                [_, ABOUT] => about = Some(text(content)?),
                [_, "requirements.yaml"] => requirements = Some(text(content)?),
                [_, "charts", folder, ABOUT] if is_loaded(folder) => {
                    parts.extend(name_in(&text(content)?));
                }
                [_, "charts", file] if is_loaded(file) && file.ends_with(".tgz") => {
                    parts.extend(name_of_packed(content)?);
                }
                _ if names_images(path) => drop(files.insert(path.to_owned(), text(content)?)),
                _ => {}
            }
            if files.len() > MOST_FILES {
                return Err(too_large());
            }
            Ok(())
        })
        .map_err(|e| no_chart(&e))?;
        // Only the end of the archive has verified it.
        if archive.limit() == 0 {
            return Err(no_chart(&too_large()));
        }
        let about = about.ok_or_else(|| no_chart(&"it has no Chart.yaml"))?;
        let about: About = parsed(&about).map_err(|e| no_chart(&format!("its Chart.yaml: {e}")))?;
        let requirements: Option<Requirements> = requirements
            .map(|text| parsed(&text))
            .transpose()
            .map_err(|e| no_chart(&format!("its requirements.yaml: {e}")))?;
        let earlier = requirements.and_then(|all| all.dependencies);
        let dependencies = [about.dependencies, earlier].into_iter().flatten();
        let absent: Vec<String> = dependencies
            .flatten()
            .map(|dependency| dependency.name)
            .filter(|name| !parts.contains(name))
            .collect();
        // Helm refuses the chart also if its values switch the dependency off.
        if !absent.is_empty() {
            let text = format!(
                "does not have all of its dependencies in the directory charts: {}",
                absent.join(", ")
            );
            let hint = "run `helm dependency build` in the directory of the chart; a packed chart then needs `helm package`";
            return Err(Message::new(text).hint(hint));
        }
        Ok(Self {
            name: about.name,
            version: about.version,
            app_version: about.app_version.filter(|version| !version.is_empty()),
            annotations: about.annotations.unwrap_or_default(),
            files,
        })
    }
}

impl Chart {
    /// Returns name and version, as in `shop 1.0.0`.
    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// Returns `values.yaml` of the chart itself; `None` if it has none.
    pub fn own_values(&self) -> Option<&str> {
        let mut files = self.files.iter();
        let (_, text) = files
            .find(|(path, _)| path.ends_with("/values.yaml") && path.matches('/').count() == 1)?;
        Some(text)
    }
}

/// Reads a file of a chart.
fn text(content: impl Read) -> io::Result<String> {
    let mut text = String::new();
    content.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(too_large());
    }
    Ok(text)
}

fn too_large() -> io::Error {
    io::Error::other("it is larger than Helm's limit")
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
}

/// Returns whether Helm loads an entry of the directory of dependencies.
fn is_loaded(name: &str) -> bool {
    !name.starts_with(['_', '.'])
}

/// Returns the name in the text of a `Chart.yaml`; `None` if it has none.
fn name_in(about: &str) -> Option<String> {
    let about = parsed::<Dependency>(about);
    about.ok().map(|about| about.name)
}

/// Returns the name of a packed dependency; `None` if the archive is not a chart.
fn name_of_packed(archive: impl Read) -> io::Result<Option<String>> {
    let mut name = None;
    let unpacked = GzDecoder::new(archive).take(LARGEST_CHART);
    each_member(unpacked, |path, content| {
        if let [_, ABOUT] = path.split('/').collect::<Vec<_>>()[..] {
            name = name_in(&text(content)?);
        }
        Ok(())
    })?;
    Ok(name)
}

fn names_images(path: &str) -> bool {
    let is_yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    path.ends_with("/values.yaml") || (is_yaml && path.contains("/templates/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts::directory;

    /// A directory of dependencies can have archives, as `helm dependency build` creates them.
    #[test]
    fn packed_dependencies_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), text).unwrap();
        };
        write("part/Chart.yaml", "name: part\nversion: 1.0.0\n");
        write(
            "shop/Chart.yaml",
            "name: shop\nversion: 1.0.0\ndependencies: [{name: part, version: 1.0.0}]\n",
        );
        let opened = || {
            let packed = directory::pack(&at("shop")).unwrap();
            let cache = crate::cache::Cache::open(&at("cache")).unwrap();
            let digest = cache.insert(&packed).unwrap();
            Chart::open(&cache, &digest).map_err(|error| error.to_string())
        };
        assert!(opened().unwrap_err().contains("charts: part"));
        let part = directory::pack(&at("part")).unwrap();
        std::fs::create_dir_all(at("shop/charts")).unwrap();
        std::fs::write(at("shop/charts/part-1.0.0.tgz"), &part).unwrap();
        opened().unwrap();
        // Helm leaves them out, too.
        std::fs::rename(
            at("shop/charts/part-1.0.0.tgz"),
            at("shop/charts/_part-1.0.0.tgz"),
        )
        .unwrap();
        opened().unwrap_err();
    }
}
