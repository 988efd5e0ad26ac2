//! OS packages of a release, from repositories of any type.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};

use super::http::Wanted;
use super::{FetchError, Http, apt, dnf};
use kubexm_bundle::lock::{Descriptor, Lock, LockedPackage, LockedPackages, PackageFormat};
use kubexm_config::manifest::{PackageSource, Repositories};
use kubexm_types::{Arch, Digest};

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
        fetch_all(http, &set.packages).await?;
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

/// Fetches packages into the cache.
pub(super) async fn fetch_all(http: &Http, packages: &[LockedPackage]) -> Result<(), FetchError> {
    http.counter().expect(packages.len());
    let results: Vec<_> = stream::iter(packages)
        .map(|package| async move {
            let wanted = Wanted {
                label: package.file_name.clone(),
                url: package.url.clone(),
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
