//! Which releases of a component there are: by the text or the feed that its project publishes.

use super::{FetchError, Http};
use kubexm_catalog::Releases;
use kubexm_types::Version;

/// A feed or text larger than this is none.
const LARGEST: usize = 4 * 1024 * 1024;
/// What stands before a tag in the feed of a GitHub project's releases.
const TAG: &str = "/releases/tag/";

/// The newest releases, as seen from one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Of all.
    pub of_all: Version,
    /// Of those with the same major and minor.
    pub of_minor: Option<Version>,
}

/// Asks for the newest releases.
///
/// # Errors
/// The address does not answer, or with something else.
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
                let text = http.text(&label, &parse(address)?, LARGEST).await?;
                versions.extend(version(text.trim()));
            }
            versions
        }
        Releases::Feed(address) => {
            let feed = http.text(&label, &parse(address)?, LARGEST).await?;
            tags(&feed, component)
        }
    };
    choose(versions, current).ok_or_else(|| FetchError::Content {
        what: label,
        reason: "no release is named there".to_owned(),
    })
}

fn parse(address: &str) -> Result<url::Url, FetchError> {
    url::Url::parse(address).map_err(|error| FetchError::Resolve(format!("{address}: {error}")))
}

/// The released versions that an Atom feed links to. A feed is not parsed any further: links are all
/// that it is asked for. A tag may begin with the component's name, as in `docker-v29.0.0`.
fn tags(feed: &str, component: &str) -> Vec<Version> {
    let after = feed.split(TAG).skip(1);
    let tag = after.filter_map(|rest| rest.split(['"', '<', '&', '?', ' ']).next());
    let named = format!("{component}-");
    tag.filter_map(|tag| version(tag.strip_prefix(&named).unwrap_or(tag)))
        .collect()
}

/// A release's version; pre-releases are none.
fn version(tag: &str) -> Option<Version> {
    let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
    version.semver().pre.is_empty().then_some(version)
}

fn choose(versions: Vec<Version>, current: &Version) -> Option<Newest> {
    let is_kin = |v: &&Version| v.major() == current.major() && v.minor() == current.minor();
    Some(Newest {
        of_minor: versions.iter().filter(is_kin).max().cloned(),
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
