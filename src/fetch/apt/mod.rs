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

use super::http::Wanted;
use super::keyring::Keyring;
use super::packages::{Chosen, fetch_all};
use super::{FetchError, Http};
use crate::bundle::lock::{LockedPackage, PackageFormat};
use crate::spec::Arch;
use crate::spec::manifest::{AptRepository, PackageSource};

use stanza::Package;

/// Largest `InRelease`.
const LARGEST_RELEASE: usize = 8 * 1024 * 1024;

/// Chooses a set's packages and fetches them into the cache.
///
/// # Errors
/// A signature that does not hold, packages that do not exist, or what the network does.
pub(super) async fn choose(
    http: &Http,
    source: &PackageSource,
    repositories: &[AptRepository],
    arch: Arch,
) -> Result<Chosen, FetchError> {
    let mut known = Vec::new();
    for repository in repositories {
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
    Ok(Chosen {
        format: PackageFormat::Deb,
        index: stanza::index(&chosen),
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
    let keyring = Keyring::load(&repository.signed_by).map_err(wrong)?;
    let text = release::verified(&signed, &keyring).map_err(wrong)?;
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
