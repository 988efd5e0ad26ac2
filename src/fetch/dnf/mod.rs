//! OS packages for hosts with dnf, for a release that may differ from this machine's.
//!
//! `repomd.xml` has the digests of a repository's lists, which have the digests of the packages. The manifest
//! states what is signed. Some repositories sign `repomd.xml` (`verify: metadata`). Those of the RHEL family
//! do not, but they sign every package (`verify: packages`). kubexm does not derive this from what a server
//! offers, because a mirror could omit the signature.
//!
//! Dependencies are resolved from an empty host: apart from the manifest's `base`, the set is complete down
//! to the C library. Point releases of the RHEL family update libraries, and a package of 9.6 may require a
//! newer one than a host of 9.2 has. The host's dnf ignores what it has already.

mod clauses;
mod closure;
mod evr;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod index;
mod modules;
mod package;
mod primary;
mod provider;
mod relation;
mod repomd;
mod rpm_file;
mod universe;
mod unpack;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::Arc;

use super::http::Wanted;
use super::openpgp::{OpenPgpError, OpenPgpKeyring, Validity};
use super::packages::{Chosen, StatedPackages, fetch_all};
use super::{FetchError, Http};
use kubexm_bundle::lock::{LockedPackage, PackageFormat, is_package_file};
use kubexm_config::manifest::{DnfRepository, DnfSet, PackageSource};
use kubexm_types::{Arch, Digest, ShownUrl, without_login};

use modules::Modules;
use package::Package;
use repomd::{Part, Repomd};
use rpm_file::RpmError;

pub use evr::{Evr, Range, Sense, compare};

/// Maximum size of `repomd.xml` and of its signature, in bytes.
const LARGEST_REPOMD: usize = 8 * 1024 * 1024;
/// Maximum size of a text in metadata, in bytes.
const LONGEST_TEXT: usize = 1024 * 1024;

/// A repository while a set is resolved.
struct Repository<'a> {
    source: &'a DnfRepository,
    /// The address for the architecture, without a trailing slash; it may contain a login.
    base: String,
    keyring: Arc<OpenPgpKeyring>,
    repomd: Repomd,
}

/// Selects the packages of a set and fetches them into the cache, verified.
///
/// # Errors
/// A signature is not valid, a package does not exist, or a request fails.
pub(super) async fn choose(
    http: &Http,
    source: &PackageSource,
    set: &DnfSet,
    arch: Arch,
) -> Result<Chosen, FetchError> {
    let mut repositories = Vec::new();
    let mut known = Vec::new();
    let mut modules = Modules::default();
    for repository in &set.repositories {
        let repository = open(http, repository, arch).await?;
        let at = repositories.len();
        let part = &repository.repomd.primary;
        let name = arch.machine().to_owned();
        known.extend(
            read(http, &repository, part, move |content| {
                primary::parse(content, &name, at)
            })
            .await?,
        );
        if let Some(part) = &repository.repomd.modules {
            modules = read(http, &repository, part, move |content| {
                modules.with(content)
            })
            .await?;
        }
        repositories.push(repository);
    }
    let mut known = modules.visible(known);
    let mut solved = solve(&known, source, set);
    // primary.xml lists few files; the complete list is long and is read only if it is needed.
    if solved.missed_a_file {
        learn_files(http, &repositories, &mut known).await?;
        solved = solve(&known, source, set);
    }
    let place = format!("{} {} {arch}", source.distribution, source.release);
    let chosen = solved.result.map_err(|problems| {
        FetchError::resolve(format!(
            "packages for {place}:\n  {}",
            problems.join("\n  ")
        ))
    })?;
    let packages = chosen
        .iter()
        .map(|package| locked(package, &repositories[package.repository]))
        .collect::<Result<Vec<_>, _>>()?;
    fetch_all(http, source, &packages).await?;
    for package in &chosen {
        verify(http, package, &repositories[package.repository]).await?;
    }
    Ok(Chosen {
        format: PackageFormat::Rpm,
        index: index::write(&chosen),
        packages,
    })
}

/// Returns the digests that the repositories state for packages with these names.
///
/// # Errors
/// A signature is not valid, or a request fails.
pub(super) async fn stated(
    http: &Http,
    set: &DnfSet,
    arch: Arch,
    names: &BTreeSet<&str>,
) -> Result<StatedPackages, FetchError> {
    let mut stated = StatedPackages::new();
    for (at, repository) in set.repositories.iter().enumerate() {
        let repository = open(http, repository, arch).await?;
        let machine = arch.machine().to_owned();
        let known = read(
            http,
            &repository,
            &repository.repomd.primary,
            move |content| primary::parse(content, &machine, at),
        );
        let known = known.await?.into_iter();
        for known in known.filter(|known| names.contains(known.name.as_str())) {
            let key = (known.name.clone(), known.evr.to_string());
            stated.entry(key).or_default().insert(known.digest);
        }
    }
    Ok(stated)
}

/// The result of resolving a set.
struct Solved {
    result: Result<Vec<Package>, Vec<String>>,
    missed_a_file: bool,
}

fn solve(known: &[Package], source: &PackageSource, set: &DnfSet) -> Solved {
    let universe = universe::Universe::new(known);
    let result = closure::closure(&universe, &source.packages, &set.base);
    Solved {
        result: result.map(|chosen| chosen.into_iter().cloned().collect()),
        missed_a_file: universe.missed_a_file(),
    }
}

fn wrong(what: &str, base: &str, reason: String) -> FetchError {
    FetchError::Content {
        what: format!("{what} of {}", ShownUrl::of_text(base)),
        reason: reason.into(),
    }
}

fn untrusted(what: &str, base: &str, source: OpenPgpError) -> FetchError {
    FetchError::Signature {
        what: format!("{what} of {}", ShownUrl::of_text(base)),
        source,
    }
}

fn address(base: &str, path: &str) -> Result<url::Url, FetchError> {
    let parse = |text: &str| {
        url::Url::parse(text)
            .map_err(|error| FetchError::resolve(format!("{}: {error}", ShownUrl::of_text(text))))
    };
    let (root, url) = (
        parse(&format!("{base}/"))?,
        parse(&format!("{base}/{path}"))?,
    );
    // The parser of URLs resolves `%2e%2e`, too.
    if url.as_str().starts_with(root.as_str()) {
        Ok(url)
    } else {
        Err(FetchError::resolve(format!(
            "{}: its path leaves the repository",
            ShownUrl::from(&url)
        )))
    }
}

/// Reads a repository's `repomd.xml` and verifies its signature.
async fn open<'a>(
    http: &Http,
    source: &'a DnfRepository,
    arch: Arch,
) -> Result<Repository<'a>, FetchError> {
    const NAME: &str = "repodata/repomd.xml";
    let base = source.url.with_login().as_str().trim_end_matches('/');
    let base = base.replace("$basearch", arch.machine());
    let bad = |reason| wrong("repomd.xml", &base, reason);
    let untrusted = |source| untrusted("repomd.xml", &base, source);
    let keyring = OpenPgpKeyring::load(&source.signed_by).map_err(untrusted)?;
    let label = format!("repomd.xml of {}", ShownUrl::of_text(&base));
    let text = http
        .bytes(&label, &address(&base, NAME)?, LARGEST_REPOMD)
        .await?;
    if source.verify.covers_metadata() {
        let label = format!("signature of {label}");
        let place = address(&base, &format!("{NAME}.asc"))?;
        let signature = http.bytes(&label, &place, LARGEST_REPOMD).await?;
        let verified = keyring.detached(&text, &signature, Validity::Now);
        verified.map_err(untrusted)?;
    }
    let repomd = repomd::parse(&text).map_err(bad)?;
    Ok(Repository {
        source,
        base,
        keyring: Arc::new(keyring),
        repomd,
    })
}

/// Fetches a metadata file and parses it while it is unpacked.
async fn read<T: Send + 'static>(
    http: &Http,
    repository: &Repository<'_>,
    part: &Part,
    parse: impl for<'a> FnOnce(Box<dyn BufRead + Send + 'a>) -> Result<T, String> + Send + 'static,
) -> Result<T, FetchError> {
    let name = part
        .path
        .rsplit('/')
        .next()
        .unwrap_or(&part.path)
        .to_owned();
    let bad = |reason: String| wrong(&name, &repository.base, reason);
    http.download(&Wanted {
        label: name.clone(),
        url: address(&repository.base, &part.path)?,
        expected: Some(part.digest),
        size: None,
    })
    .await?;
    let (mut blob, packed_as) = (http.cache().verified(&part.digest)?, name.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let packed = std::io::BufReader::new(&mut blob);
        let parsed = parse(unpack::unpack(&packed_as, packed)?)?;
        // A parser may end before the end of the file, which compares the digest.
        blob.finish().map_err(|error| error.to_string())?;
        Ok(parsed)
    });
    let read = reading.await.map_err(|error| bad(error.to_string()))?;
    read.map_err(bad)
}

/// Finds the owners of files that packages require and `primary.xml` does not list.
async fn learn_files(
    http: &Http,
    repositories: &[Repository<'_>],
    known: &mut [Package],
) -> Result<(), FetchError> {
    let unknown = Arc::new(universe::Universe::new(known).unknown_files());
    let mut owners: BTreeMap<Digest, Vec<String>> = BTreeMap::new();
    for repository in repositories {
        if let Some(part) = &repository.repomd.filelists {
            let unknown = Arc::clone(&unknown);
            let found = read(http, repository, part, move |content| {
                primary::owners(content, &unknown)
            });
            owners.extend(found.await?);
        }
    }
    for package in known {
        package
            .files
            .extend(owners.get(&package.digest).into_iter().flatten().cloned());
    }
    Ok(())
}

fn locked(package: &Package, repository: &Repository<'_>) -> Result<LockedPackage, FetchError> {
    locked_at(package, &repository.base)
}

fn locked_at(package: &Package, base: &str) -> Result<LockedPackage, FetchError> {
    if !is_package_file(package.file_name()) {
        return Err(FetchError::Content {
            what: package.name.clone(),
            reason: format!(
                "a package file cannot have the name {:?}",
                package.file_name()
            )
            .into(),
        });
    }
    Ok(LockedPackage {
        name: package.name.clone(),
        version: package.evr.to_string(),
        file_name: package.file_name().to_owned(),
        url: without_login(&address(base, &package.path)?),
        size: package.size,
        digest: package.digest,
    })
}

/// Verifies a package's own signature, unless the repository's metadata are signed.
async fn verify(
    http: &Http,
    package: &Package,
    repository: &Repository<'_>,
) -> Result<(), FetchError> {
    if !repository.source.verify.covers_packages() {
        return Ok(());
    }
    let mut blob = http.cache().verified(&package.digest)?;
    let (keyring, package) = (Arc::clone(&repository.keyring), package.clone());
    let name = package.file_name().to_owned();
    let checking = tokio::task::spawn_blocking(move || {
        rpm_file::verify(std::io::BufReader::new(&mut blob), &package, &keyring)?;
        blob.finish().map_err(|error| error.to_string())?;
        Ok::<_, RpmError>(())
    });
    let checked = checking
        .await
        .map_err(|error| wrong(&name, &repository.base, error.to_string()))?;
    checked.map_err(|error| match error {
        RpmError::Content(reason) => wrong(&name, &repository.base, reason),
        RpmError::Signature(source) => untrusted(&name, &repository.base, source),
    })
}

/// Creates a package for tests: `name version`, its requirements, and what it provides besides itself.
#[cfg(test)]
fn package_example(text: &str, requires: &[&str], provides: &[&str]) -> Package {
    use relation::Relation;
    let (name, evr) = text.split_once(' ').unwrap();
    let capability = |text: &str| match Relation::parse(&format!("({text})")).unwrap() {
        Relation::Plain(capability) => capability,
        other => panic!("{other}"),
    };
    let own = format!("{name} = {evr}");
    let given = std::iter::once(own.as_str()).chain(provides.iter().copied());
    let needed = requires.iter().map(|text| {
        if text.starts_with('(') {
            Relation::parse(text).unwrap()
        } else {
            Relation::Plain(capability(text))
        }
    });
    Package {
        name: name.to_owned(),
        arch: "noarch".to_owned(),
        evr: Evr::parse(evr),
        repository: 0,
        path: format!("p/{name}.rpm"),
        size: 1,
        installed: 1,
        digest: Digest::of(text.as_bytes()),
        summary: String::new(),
        provides: given.map(capability).collect(),
        requires: needed.collect(),
        conflicts: Vec::new(),
        obsoletes: Vec::new(),
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_file_stays_in_its_repository() {
        let of = |path: &str| address("https://bob:CANARY@rpm.example/el9", path);
        let inside = of("Packages/a b.rpm").unwrap();
        assert!(
            inside
                .as_str()
                .ends_with("@rpm.example/el9/Packages/a%20b.rpm")
        );
        for outside in ["%2e%2e/a.rpm", "a/%2E%2e/%2e%2E/b.rpm", ".%2e/a.rpm"] {
            let refused = of(outside).unwrap_err().to_string();
            assert!(refused.contains("leaves the repository"), "{refused}");
            assert!(!refused.contains("CANARY"), "{refused}");
        }
    }
}
