//! The location of a chart in a Helm repository, from `index.yaml`
//! (<https://helm.sh/docs/topics/chart_repository/#the-index-file>).

use std::collections::BTreeMap;

use serde::Deserialize;
use url::Url;

use crate::error::wrong;
use crate::http::StatedBy;
use crate::{FetchError, Http};
use kubexm_bundle::lock::ChecksumSource;
use kubexm_types::{Digest, ShownUrl};

/// Maximum size of an index, in bytes; those of public repositories have up to 25 MB.
const LARGEST_INDEX: usize = 64 * 1024 * 1024;

/// The location of a chart.
pub struct Entry {
    pub url: Url,
    /// The expected digest, if the index has it.
    pub digest: Option<Digest>,
    /// The trust basis of the digest: the index.
    pub index: ChecksumSource,
}

#[derive(Deserialize)]
struct Index {
    entries: BTreeMap<String, Vec<Listed>>,
}

#[derive(Deserialize)]
struct Listed {
    version: String,
    #[serde(default)]
    urls: Vec<String>,
    digest: Option<String>,
}

/// Finds a version of a chart.
///
/// # Errors
/// The repository cannot be reached, or does not have the chart.
pub async fn find(
    http: &Http,
    repository: &Url,
    chart: &str,
    version: &str,
) -> Result<Entry, FetchError> {
    let mut base = repository.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", repository.path()));
    }
    let join = |text: &str| {
        base.join(text)
            .map_err(|error| wrong(&ShownUrl::from(repository), error.to_string()))
    };
    let index = join("index.yaml")?;
    let label = format!("index of {}", ShownUrl::from(repository));
    let (text, by) = http.published(&label, &index, LARGEST_INDEX).await?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_anchors: 0, max_nodes: 5_000_000, max_events: 10_000_000, max_total_scalar_bytes: 64 * 1024 * 1024 },
        with_snippet: false,
    };
    let parsed: Index = serde_saphyr::from_str_with_options(&text, options).map_err(|error| {
        wrong(
            &ShownUrl::from(&index),
            format!("is not an index of charts: {error}"),
        )
    })?;
    let versions = parsed.entries.get(chart).ok_or_else(|| {
        wrong(
            &ShownUrl::from(repository),
            format!("has no chart '{chart}'"),
        )
    })?;
    let same = |listed: &&Listed| {
        listed.version.trim_start_matches('v') == version.trim_start_matches('v')
    };
    let listed = versions.iter().find(same).ok_or_else(|| {
        let known: Vec<&str> = versions
            .iter()
            .map(|v| v.version.as_str())
            .take(10)
            .collect();
        let known = known.join(", ");
        wrong(
            &ShownUrl::from(repository),
            format!("has no {chart} {version}; it has {known}"),
        )
    })?;
    let address = listed.urls.first().ok_or_else(|| {
        wrong(
            &ShownUrl::from(repository),
            format!("has no address for {chart} {version}"),
        )
    })?;
    let url = join(address)?;
    if !url.username().is_empty() || url.password().is_some() {
        let reason =
            "names an address with a user or password, which kubexm does not write into locks";
        return Err(wrong(&ShownUrl::from(&index), reason));
    }
    let digest = listed.digest.as_deref().map(Digest::parse).transpose();
    Ok(Entry {
        url,
        digest: digest.map_err(|error| wrong(&ShownUrl::from(&index), error))?,
        index: match by {
            StatedBy::Publisher => ChecksumSource::Published(index),
            StatedBy::Mirror => ChecksumSource::Mirror(index),
        },
    })
}
