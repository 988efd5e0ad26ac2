//! The releases of a component, from the text or the feed that its project publishes.

use super::{FetchError, Http};
use kubexm_catalog::Releases;
use kubexm_types::Version;

/// Maximum size of a feed or text, in bytes.
const LARGEST: usize = 4 * 1024 * 1024;
/// The prefix of a tag in the feed of a GitHub project's releases.
const TAG: &str = "/releases/tag/";

/// The newest releases, relative to one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// The newest of all.
    pub of_all: Version,
    /// The newest with the same major and minor.
    pub of_minor: Option<Version>,
}

/// Fetches the newest releases from the publisher, because a mirror may keep an old list for weeks.
///
/// # Errors
/// The request fails, the publisher of mirrored content cannot be asked, or the response does not list a release.
pub async fn newest(
    http: &Http,
    component: &str,
    releases: &Releases,
    current: &Version,
) -> Result<Newest, FetchError> {
    let label = format!("releases of {component}");
    let versions = match releases {
        Releases::Stable { all, minor } => {
            let minor = minor
                .replace("{major}", &current.major().to_string())
                .replace("{minor}", &current.minor().to_string());
            let mut versions = Vec::new();
            for address in [all, &minor] {
                let (text, _) = http.published(&label, &parse(address)?, LARGEST).await?;
                versions.extend(version(text.trim()));
            }
            versions
        }
        Releases::Feed(address) => {
            let (feed, _) = http.published(&label, &parse(address)?, LARGEST).await?;
            tags(&feed, component)
        }
    };
    choose(versions, current).ok_or_else(|| FetchError::Content {
        what: label,
        reason: "it does not list a release".to_owned().into(),
    })
}

fn parse(address: &str) -> Result<url::Url, FetchError> {
    url::Url::parse(address).map_err(|error| FetchError::resolve(format!("{address}: {error}")))
}

/// Returns the versions that an Atom feed links to. Only the links of the feed are parsed. A tag may begin
/// with the component's name, as in `docker-v29.0.0`.
fn tags(feed: &str, component: &str) -> Vec<Version> {
    let after = feed.split(TAG).skip(1);
    let tag = after.filter_map(|rest| rest.split(['"', '<', '&', '?', ' ']).next());
    let named = format!("{component}-");
    tag.filter_map(|tag| version(tag.strip_prefix(&named).unwrap_or(tag)))
        .collect()
}

/// Parses the version of a release; returns `None` for pre-releases.
fn version(tag: &str) -> Option<Version> {
    let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
    version.semver().pre.is_empty().then_some(version)
}

fn choose(versions: Vec<Version>, current: &Version) -> Option<Newest> {
    let is_same_minor = |v: &&Version| v.major() == current.major() && v.minor() == current.minor();
    Some(Newest {
        of_minor: versions.iter().filter(is_same_minor).max().cloned(),
        of_all: versions.into_iter().max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_give_releases_and_no_candidates() {
        let feed = r#"<feed><entry><link rel="alternate" href="https://github.com/c/c/releases/tag/v2.4.0"/>
            <link href="https://github.com/c/c/releases/tag/v2.5.0-rc.1"/>
            <link href="https://github.com/c/c/releases/tag/v2.3.9"/>
            <link href="https://github.com/c/c/releases/tag/api/v9.0.0"/></entry></feed>"#;
        let newest = choose(tags(feed, "containerd"), &Version::new(2, 3, 7)).unwrap();
        assert_eq!(newest.of_all, Version::new(2, 4, 0));
        assert_eq!(newest.of_minor, Some(Version::new(2, 3, 9)));
        assert_eq!(choose(tags("<html>", "x"), &Version::new(2, 3, 7)), None);
        let feed = r#"<link href="https://github.com/moby/moby/releases/tag/docker-v29.8.1"/>
            <link href="https://github.com/moby/moby/releases/tag/v2.0.0-beta.24"/>
            <link href="https://github.com/moby/moby/releases/tag/api%2Fv1.56.1"/>"#;
        assert_eq!(tags(feed, "docker"), [Version::new(29, 8, 1)]);
    }
}
