//! OS packages for Debian-like hosts, for a release that may differ from this machine's.
//!
//! The archive's `InRelease` must be signed by the given keyring. It has the digests of the package lists,
//! which have the digests of the packages (<https://wiki.debian.org/DebianRepository/Format>). The bundle
//! contains the closure of the requested packages, without packages that every host of the release has:
//! those marked `Essential` or of priority `required`, and their dependencies. The host's apt decides which
//! of the packages to install.

mod closure;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod release;
mod stanza;

use std::collections::BTreeSet;

use super::http::Wanted;
use super::openpgp::{OpenPgpError, OpenPgpKeyring, Validity};
use super::packages::{Chosen, StatedPackages, fetch_all};
use super::{FetchError, Http};
use kubexm_bundle::lock::{LockedPackage, PackageFormat, is_package_file};
use kubexm_config::manifest::{AptRepository, PackageSource};
use kubexm_types::{Arch, Message, ShownUrl};

use stanza::{List, Package};

/// Maximum size of `InRelease`, in bytes.
const LARGEST_RELEASE: usize = 8 * 1024 * 1024;

/// Selects the packages of a set and fetches them into the cache.
///
/// # Errors
/// A signature is not valid, a package does not exist, or a request fails.
pub(super) async fn choose(
    http: &Http,
    source: &PackageSource,
    repositories: &[AptRepository],
    arch: Arch,
) -> Result<Chosen, FetchError> {
    let mut lists = Vec::new();
    for repository in serving(repositories, arch) {
        lists.extend(package_lists(http, repository, arch).await?);
    }
    if lists.is_empty() {
        let message = Message::new(format!(
            "packages for {} {} {arch}: no repository has this architecture",
            source.distribution, source.release
        ));
        return Err(FetchError::Resolve(message.hint(
            "add a repository for it, or leave the architecture out of spec.architectures",
        )));
    }
    let chosen = resolved(&lists, &source.packages).map_err(|problems| {
        let place = format!("{} {} {arch}", source.distribution, source.release);
        FetchError::resolve(format!(
            "packages for {place}:\n  {}",
            problems.join("\n  ")
        ))
    })?;
    drop(lists);
    fetch_all(http, source, &chosen.packages).await?;
    Ok(chosen)
}

/// Returns the digests that the signed package lists state for packages with these names.
///
/// # Errors
/// A signature is not valid, or a request fails.
pub(super) async fn stated(
    http: &Http,
    repositories: &[AptRepository],
    arch: Arch,
    names: &BTreeSet<&str>,
) -> Result<StatedPackages, FetchError> {
    let mut stated = StatedPackages::new();
    for repository in serving(repositories, arch) {
        for list in package_lists(http, repository, arch).await? {
            let known = list.packages().filter(|known| names.contains(known.name));
            for known in known {
                let key = (known.name.to_owned(), known.version.to_owned());
                stated.entry(key).or_default().insert(known.digest);
            }
        }
    }
    Ok(stated)
}

/// Returns the repositories that have packages of an architecture.
fn serving(repositories: &[AptRepository], arch: Arch) -> impl Iterator<Item = &AptRepository> {
    repositories
        .iter()
        .filter(move |repository| repository.serves(arch))
}

/// Returns the packages that these names need, out of all lists.
///
/// # Errors
/// All missing packages.
fn resolved(lists: &[List], names: &[String]) -> Result<Chosen, Vec<String>> {
    let known: Vec<Package<'_>> = lists.iter().flat_map(List::packages).collect();
    let chosen = closure::closure(&known, names)?;
    let packages = chosen.iter().map(|package| locked_package(package));
    let packages = packages.collect::<Result<_, _>>();
    Ok(Chosen {
        format: PackageFormat::Deb,
        index: stanza::index(&chosen),
        packages: packages.map_err(|problem| vec![problem])?,
    })
}

/// Fetches the package lists of a repository for an architecture.
async fn package_lists(
    http: &Http,
    repository: &AptRepository,
    arch: Arch,
) -> Result<Vec<List>, FetchError> {
    let base = repository.url.with_login().as_str().trim_end_matches('/');
    let public = repository.url.public();
    let archive = public.as_str().trim_end_matches('/');
    let suite = format!("{base}/dists/{}", repository.suite);
    let label = format!("InRelease of {}", repository.suite);
    let parse = |text: &str| {
        url::Url::parse(text)
            .map_err(|error| FetchError::resolve(format!("{}: {error}", ShownUrl::of_text(text))))
    };
    let untrusted = |source: OpenPgpError| FetchError::Signature {
        what: label.clone(),
        source,
    };
    // Before the first request: also without a network, a missing keyring is an error.
    let keyring = OpenPgpKeyring::load(&repository.signed_by).map_err(untrusted)?;
    let signed = http
        .text(
            &label,
            &parse(&format!("{suite}/InRelease"))?,
            LARGEST_RELEASE,
        )
        .await?;
    let wrong = |reason: Message| FetchError::Content {
        what: label.clone(),
        reason,
    };
    let text = keyring.clear_signed(&signed, Validity::Now);
    let text = text.map_err(untrusted)?;
    release::check_validity(&text).map_err(wrong)?;
    release::check_suite(&text, &repository.suite).map_err(wrong)?;
    let mut lists = Vec::new();
    for component in &repository.components {
        let path = format!("{component}/binary-{arch}/Packages.gz");
        let (digest, size) = release::entry(&text, &path)
            .ok_or_else(|| wrong(format!("it does not list '{path}'").into()))?;
        // By digest, because the list under the plain name may change between two requests.
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
        lists.push(List::unpack(&packed, archive).map_err(|error| wrong(error.into()))?);
    }
    Ok(lists)
}

fn locked_package(package: &Package<'_>) -> Result<LockedPackage, String> {
    let url = package.url();
    let shown = ShownUrl::of_text(&url);
    let url = url::Url::parse(&url).map_err(|error| format!("{shown}: {error}"))?;
    // The parser of URLs resolves `%2e%2e`, too.
    if !url.as_str().starts_with(&format!("{}/", package.archive())) {
        return Err(format!("{shown}: its path leaves the archive"));
    }
    if !is_package_file(package.file_name()) {
        return Err(format!("{shown}: a package file cannot have this name"));
    }
    Ok(LockedPackage {
        name: package.name.to_owned(),
        version: package.version.to_owned(),
        file_name: package.file_name().to_owned(),
        url,
        size: package.size,
        digest: package.digest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_package_stays_in_its_archive() {
        let locked = |file: &str| {
            let digest = kubexm_types::Digest::of(b"").hex();
            let text =
                format!("Package: tool\nVersion: 1\nFilename: {file}\nSize: 1\nSHA256: {digest}\n");
            let list = List::from_text(text, "https://deb.example/debian");
            let package = list.packages().next();
            package.map(|package| locked_package(&package).map(|locked| locked.url.to_string()))
        };
        let inside = "https://deb.example/debian/pool/a%20b/c.deb".to_owned();
        assert_eq!(locked("pool/a b/c.deb"), Some(Ok(inside)));
        for refused in ["pool/a b.deb", "pool/a\0\0b.deb", "pool/-o.deb", "pool/"] {
            let error = locked(refused).unwrap().unwrap_err();
            assert!(error.contains("cannot have this name"), "{error}");
        }
        assert_eq!(locked("../a.deb"), None);
        for outside in ["%2e%2e/a.deb", "pool/%2E%2e/%2e%2E/a.deb", ".%2e/a.deb"] {
            let refused = locked(outside).unwrap();
            assert!(
                refused.unwrap_err().contains("leaves the archive"),
                "{outside}"
            );
        }
    }
}
