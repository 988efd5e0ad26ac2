//! OS packages for Debian-like hosts, resolved for a release that need not be this machine's.
//!
//! The archive's `InRelease` must be signed by the given keyring; it names the digests of the
//! package lists, and they name the packages' (<https://wiki.debian.org/DebianRepository/Format>).
//! The closure of what is asked for is carried except for packages that every host of the release
//! has: those marked `Essential` or of priority `required`, with what they depend on. The host's
//! own apt decides in the end which of the carried packages it lacks.

mod closure;
mod release;
mod stanza;

use futures_util::stream::{self, StreamExt};

use super::http::Wanted;
use super::{FetchError, Http};
use crate::bundle::lock::{Descriptor, Lock, LockedPackage, LockedPackages};
use crate::spec::Arch;
use crate::spec::manifest::{AptRepository, PackageSource};

use stanza::Package;

/// Largest `InRelease`.
const LARGEST_RELEASE: usize = 8 * 1024 * 1024;
/// Packages on their way at once.
const PARALLEL: usize = 16;

/// Resolves one package set and fetches its packages and its index into the cache.
///
/// # Errors
/// A signature that does not hold, packages that do not exist, or what the network does.
pub async fn resolve(
    http: &Http,
    source: &PackageSource,
    arch: Arch,
    previous: Option<&Lock>,
) -> Result<LockedPackages, FetchError> {
    let locked = previous
        .and_then(|lock| lock.package_set(&source.distribution, &source.release, arch))
        .filter(|set| set.requested == source.packages);
    if let Some(set) = locked
        && http.cache().size(&set.index.digest).is_some()
    {
        fetch_all(http, &set.packages).await?;
        return Ok(set.clone());
    }
    let mut known = Vec::new();
    for repository in &source.repositories {
        known.extend(package_lists(http, repository, arch).await?);
    }
    let place = format!("{} {} {arch}", source.distribution, source.release);
    let chosen = closure::closure(&known, &source.packages).map_err(|problems| {
        FetchError::Resolve(format!(
            "packages for {place}:\n  {}",
            problems.join("\n  ")
        ))
    })?;
    let packages = chosen
        .iter()
        .map(|package| locked_package(package))
        .collect::<Result<Vec<_>, _>>()?;
    fetch_all(http, &packages).await?;
    let index = stanza::index(&chosen).into_bytes();
    let digest = http.cache().insert(&index)?;
    Ok(LockedPackages {
        distribution: source.distribution.clone(),
        release: source.release.clone(),
        arch,
        requested: source.packages.clone(),
        index: Descriptor {
            media_type: "application/vnd.debian.packages-index".to_owned(),
            digest,
            size: index.len() as u64,
        },
        packages,
    })
}

/// All packages of a repository for an architecture.
async fn package_lists(
    http: &Http,
    repository: &AptRepository,
    arch: Arch,
) -> Result<Vec<Package>, FetchError> {
    let base = repository.url.as_str().trim_end_matches('/');
    let suite = format!("{base}/dists/{}", repository.suite);
    let label = format!("InRelease of {}", repository.suite);
    let parse = |text: &str| {
        url::Url::parse(text).map_err(|error| FetchError::Resolve(format!("{text}: {error}")))
    };
    let signed = http
        .text(
            &label,
            &parse(&format!("{suite}/InRelease"))?,
            LARGEST_RELEASE,
        )
        .await?;
    let wrong = |reason: String| FetchError::Content {
        what: label.clone(),
        reason,
    };
    let text = release::verified(&signed, &repository.signed_by).map_err(wrong)?;
    let mut packages = Vec::new();
    for component in &repository.components {
        let path = format!("{component}/binary-{arch}/Packages.gz");
        let (digest, size) = release::entry(&text, &path)
            .ok_or_else(|| wrong(format!("it does not list {path}")))?;
        // By its digest: the plain name may change between two requests.
        let folder = format!("{suite}/{component}/binary-{arch}");
        let url = parse(&format!("{folder}/by-hash/SHA256/{}", digest.hex()))?;
        let label = format!("package list of {} {component}", repository.suite);
        http.download(&Wanted {
            label,
            url,
            expected: Some(digest),
            size: Some(size),
        })
        .await?;
        let packed = http.cache().read(&digest)?;
        packages.extend(stanza::parse(&packed, base).map_err(wrong)?);
    }
    Ok(packages)
}

fn locked_package(package: &Package) -> Result<LockedPackage, FetchError> {
    let url = url::Url::parse(&package.url)
        .map_err(|error| FetchError::Resolve(format!("{}: {error}", package.url)))?;
    Ok(LockedPackage {
        name: package.name.clone(),
        version: package.version.clone(),
        file_name: package.file_name(),
        url,
        size: package.size,
        digest: package.digest,
    })
}

async fn fetch_all(http: &Http, packages: &[LockedPackage]) -> Result<(), FetchError> {
    let mut packages: Vec<&LockedPackage> = packages.iter().collect();
    packages.sort_by_key(|package| std::cmp::Reverse(package.size));
    let results: Vec<_> = stream::iter(packages)
        .map(|package| async move {
            let label = package.file_name.clone();
            let expected = Some(package.digest);
            http.download(&Wanted {
                label,
                url: package.url.clone(),
                expected,
                size: Some(package.size),
            })
            .await
        })
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    FetchError::all(results.into_iter().filter_map(Result::err).collect())
}
