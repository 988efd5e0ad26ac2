//! Packed Helm charts (<https://helm.sh/docs/topics/charts/>).

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde::Deserialize;

use kubexm_bundle::Blobs;
use kubexm_bundle::archive::each_member;
use kubexm_types::{Digest, Message};

/// Maximum size of an unpacked chart, in bytes; Helm has the same limit.
pub(super) const LARGEST_CHART: u64 = 100 * 1024 * 1024;
/// Maximum size of a file in a chart, in bytes; Helm has the same limit.
const LARGEST_FILE: u64 = 5 * 1024 * 1024;
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
}

impl Chart {
    /// Reads a packed chart.
    ///
    /// # Errors
    /// The reason why the file is not a chart. The text completes a sentence about it.
    pub fn open(blobs: &dyn Blobs, digest: &Digest) -> Result<Self, Message> {
        let no_chart = |reason: &dyn std::fmt::Display| {
            Message::new(format!("is not a packed Helm chart: {reason}"))
                .hint("pack the chart with `helm package`")
        };
        let archive = blobs.open_content(digest).map_err(|e| no_chart(&e))?;
        let mut about = None;
        let mut files = BTreeMap::new();
        each_member(archive.take(LARGEST_CHART), |path, content| {
            let is_about = path.ends_with("/Chart.yaml") && path.matches('/').count() == 1;
            if !(is_about || names_images(path)) {
                return Ok(());
            }
            let mut text = String::new();
            content.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
            if text.len() as u64 > LARGEST_FILE || files.len() > MOST_FILES {
                return Err(io::Error::other("it is larger than Helm's limit"));
            }
            if is_about {
                about = Some(text)
            } else {
                drop(files.insert(path.to_owned(), text))
            }
            Ok(())
        })
        .map_err(|e| no_chart(&e))?;
        let about = about.ok_or_else(|| no_chart(&"it has no Chart.yaml"))?;
        let options = serde_saphyr::options! { with_snippet: false };
        let about: About = serde_saphyr::from_str_with_options(&about, options)
            .map_err(|e| no_chart(&format!("its Chart.yaml: {e}")))?;
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

fn names_images(path: &str) -> bool {
    let is_yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    path.ends_with("/values.yaml") || (is_yaml && path.contains("/templates/"))
}
