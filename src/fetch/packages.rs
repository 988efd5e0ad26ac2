//! OS packages of a release, from repositories of any type.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};
use url::Url;

use super::http::Wanted;
use super::{FetchError, Http, apt, dnf};
use kubexm_bundle::lock::{Descriptor, Lock, LockedPackage, LockedPackages, PackageFormat};
use kubexm_config::manifest::{PackageSource, Repositories};
use kubexm_types::{Arch, Digest, LoginUrl};

/// Number of concurrent downloads.
const PARALLEL: usize = 6;

/// The result of resolving a package set: all of its packages are in the cache.
pub(super) struct Chosen {
    pub format: PackageFormat,
    /// The text of an index over exactly these packages.
    pub index: String,
    /// The packages, sorted by name.
    pub packages: Vec<LockedPackage>,
}

/// Resolves one package set and fetches its packages and its index into the cache.
///
/// # Errors
/// A signature is not valid, a package does not exist, or a request fails.
pub async fn resolve(
    http: &Http,
    source: &PackageSource,
    arch: Arch,
    previous: Option<&Lock>,
) -> Result<LockedPackages, FetchError> {
    if let Some(set) = kept(http, source, arch, previous) {
        fetch_all(http, source, &set.packages).await?;
        return Ok(set.clone());
    }
    let chosen = match &source.repositories {
        Repositories::Apt(repositories) => apt::choose(http, source, repositories, arch).await?,
        Repositories::Dnf(set) => dnf::choose(http, source, set, arch).await?,
    };
    let index = chosen.index.into_bytes();
    let digest = http.cache().insert(&index)?;
    Ok(LockedPackages {
        distribution: source.distribution.clone(),
        release: source.release.clone(),
        arch,
        requested: source.packages.clone(),
        format: chosen.format,
        index: Descriptor {
            media_type: chosen.format.index_type().to_owned(),
            digest,
            size: index.len() as u64,
        },
        packages: chosen.packages,
    })
}

/// Returns the set in the lock of an earlier build, if it is for the same request and its index is in the cache.
pub(super) fn kept<'a>(
    http: &Http,
    source: &PackageSource,
    arch: Arch,
    previous: Option<&'a Lock>,
) -> Option<&'a LockedPackages> {
    let format = match &source.repositories {
        Repositories::Apt(_) => PackageFormat::Deb,
        Repositories::Dnf(_) => PackageFormat::Rpm,
    };
    previous
        .and_then(|lock| lock.package_set(&source.distribution, &source.release, arch))
        .filter(|set| set.requested == source.packages && set.format == format)
        .filter(|set| http.cache().size(&set.index.digest).is_some())
}

/// Digests of packages by name and version. Repositories can have several packages of one version.
pub(super) type StatedPackages = BTreeMap<(String, String), BTreeSet<Digest>>;

/// Returns the digests that the repositories of a set state now for packages with these names.
///
/// # Errors
/// A signature is not valid, or a request fails.
pub(super) async fn stated(
    http: &Http,
    source: &PackageSource,
    arch: Arch,
    names: &BTreeSet<&str>,
) -> Result<StatedPackages, FetchError> {
    match &source.repositories {
        Repositories::Apt(repositories) => apt::stated(http, repositories, arch, names).await,
        Repositories::Dnf(set) => dnf::stated(http, set, arch, names).await,
    }
}

/// Returns the address of a package with the login of the repository that contains it, because the lock has no
/// logins.
fn for_request(source: &PackageSource, url: &Url) -> Url {
    let logins: Vec<&LoginUrl> = match &source.repositories {
        Repositories::Apt(all) => all.iter().map(|repository| &repository.url).collect(),
        Repositories::Dnf(set) => set.repositories.iter().map(|one| &one.url).collect(),
    };
    // `$basearch` stands for the architecture.
    let prefix = |login: &LoginUrl| {
        let public = login.public();
        let prefix = public.as_str().split('$').next().unwrap_or_default();
        prefix.trim_end_matches('/').to_owned()
    };
    let containing = logins.into_iter().filter_map(|login| {
        let prefix = prefix(login);
        let rest = url.as_str().strip_prefix(&prefix)?;
        rest.starts_with('/').then_some((prefix.len(), login))
    });
    match containing.max_by_key(|(length, _)| *length) {
        Some((_, login)) => login.add_login(url),
        None => url.clone(),
    }
}

/// Fetches packages of a source into the cache.
pub(super) async fn fetch_all(
    http: &Http,
    source: &PackageSource,
    packages: &[LockedPackage],
) -> Result<(), FetchError> {
    http.counter().expect(packages.len());
    let results: Vec<_> = stream::iter(packages)
        .map(|package| async move {
            let wanted = Wanted {
                label: package.file_name.clone(),
                url: for_request(source, &package.url),
                expected: Some(package.digest),
                size: Some(package.size),
            };
            let downloaded = http.download(&wanted).await;
            http.counter().advance();
            downloaded
        })
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    FetchError::all(results.into_iter().filter_map(Result::err).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::manifest::{AptRepository, DnfRepository, DnfSet, Verify};

    fn request(repositories: Repositories, url: &str) -> String {
        let source = PackageSource {
            distribution: "debian".to_owned(),
            release: "trixie".to_owned(),
            repositories,
            packages: Vec::new(),
        };
        for_request(&source, &Url::parse(url).unwrap()).to_string()
    }

    #[test]
    fn packages_of_a_lock_are_requested_with_the_login_of_their_repository() {
        let apt = |url: &str| AptRepository {
            url: url.parse().unwrap(),
            suite: "trixie".to_owned(),
            components: Vec::new(),
            architectures: Vec::new(),
            signed_by: Vec::new(),
        };
        let all = Repositories::Apt(vec![
            apt("https://deb.example/debian"),
            apt("https://bob:secret@deb.example/debian/own/"),
        ]);
        for (url, expected) in [
            (
                "https://deb.example/debian/pool/a",
                "https://deb.example/debian/pool/a",
            ),
            (
                "https://deb.example/debian/own/pool/a",
                "https://bob:secret@deb.example/debian/own/pool/a",
            ),
            (
                "https://deb.example/debian/owned/a",
                "https://deb.example/debian/owned/a",
            ),
            // Another scheme or server never receives the login.
            (
                "http://deb.example/debian/own/a",
                "http://deb.example/debian/own/a",
            ),
            (
                "https://other.example/debian/own/a",
                "https://other.example/debian/own/a",
            ),
        ] {
            assert_eq!(request(all.clone(), url), expected);
        }
        let dnf = Repositories::Dnf(DnfSet {
            repositories: vec![DnfRepository {
                url: "https://bob:secret@rpm.example/el9/$basearch/"
                    .parse()
                    .unwrap(),
                signed_by: Vec::new(),
                verify: Verify::Packages,
            }],
            base: Vec::new(),
        });
        assert_eq!(
            request(dnf, "https://rpm.example/el9/x86_64/Packages/a.rpm"),
            "https://bob:secret@rpm.example/el9/x86_64/Packages/a.rpm"
        );
    }
}
