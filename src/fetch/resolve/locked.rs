//! Compares the entries that a build keeps from an existing lock with what their publishers state now. A lock
//! is a file in a repository: without this comparison, an edited digest decides what runs on every host.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::stream::{self, StreamExt};

use super::{PARALLEL, Resolver};
use crate::FetchError;
use crate::oci::Puller;
use crate::packages::{self, StatedPackages};
use kubexm_bundle::Lock;
use kubexm_bundle::lock::{LockedFile, LockedImage, LockedPackages};
use kubexm_catalog::Download;
use kubexm_config::manifest::Manifest;
use kubexm_types::{Digest, Message};

/// Maximum number of dropped packages that a message names.
const NAMED: usize = 5;

/// A locked item whose publisher states another digest now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedEntry {
    /// The file or the image.
    pub item: String,
    /// The digest in the lock.
    pub locked: Digest,
    /// The digest that the publisher states.
    pub published: Digest,
}

impl fmt::Display for ChangedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            item,
            locked,
            published,
        } = self;
        write!(
            f,
            "{item}: the lock has {locked}, its publisher states {published}"
        )
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockComparison {
    /// The entries that differ.
    pub changed: Vec<ChangedEntry>,
    /// The servers and package sets that were not compared, each with the cause.
    pub not_compared: Vec<String>,
}

impl LockComparison {
    /// Adds the result of another comparison.
    pub fn add(&mut self, other: Self) {
        self.changed.extend(other.changed);
        self.not_compared.extend(other.not_compared);
    }

    /// Adds the differences between a locked package set and what its repositories state.
    fn add_packages(&mut self, place: &str, set: &LockedPackages, stated: &StatedPackages) {
        let mut dropped = Vec::new();
        for package in &set.packages {
            let (name, version) = (package.name.clone(), package.version.clone());
            let shown = format!("{name} {version}");
            let digests = stated.get(&(name, version));
            match digests.and_then(|digests| digests.first().map(|first| (digests, first))) {
                None => dropped.push(shown),
                Some((digests, _)) if digests.contains(&package.digest) => {}
                Some((_, first)) => self.changed.push(ChangedEntry {
                    item: format!("package {shown} of {place}"),
                    locked: package.digest,
                    published: *first,
                }),
            }
        }
        if !dropped.is_empty() {
            let (count, some) = (
                dropped.len(),
                dropped[..dropped.len().min(NAMED)].join(", "),
            );
            self.not_compared.push(format!(
                "{place}: its repositories no longer list {count} packages ({some})"
            ));
        }
    }
}

/// Returns the text of an error: a hint about the publisher does not help here.
fn cause(error: &FetchError) -> String {
    Message::from(error).text
}

/// An entry of the lock and its publisher.
enum Entry<'a> {
    File(&'a Download, &'a LockedFile),
    Image(&'a LockedImage),
}

impl Entry<'_> {
    /// Returns the server that states the digest.
    fn server(&self) -> &str {
        match self {
            Self::File(file, _) => {
                let url = file.checksum.as_ref().unwrap_or(&file.url);
                url.host_str().unwrap_or_default()
            }
            Self::Image(image) => image.name.registry(),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::File(file, _) => format!("{} {} {}", file.component, file.version, file.arch),
            Self::Image(image) => image.name.to_string(),
        }
    }

    fn locked(&self) -> Digest {
        match self {
            Self::File(_, locked) => locked.digest,
            Self::Image(image) => image.manifest.digest,
        }
    }
}

impl Resolver<'_> {
    /// Compares the files in the previous lock that the manifest still requires with the checksums of their
    /// publishers. Call it before the files are downloaded, because a build runs some of them.
    ///
    /// # Errors
    /// The catalog does not know a component or a version.
    pub async fn compare_files(&self, manifest: &Manifest) -> Result<LockComparison, FetchError> {
        let mut wanted = self.wanted_files(manifest)?;
        for (plugin, version) in &manifest.network {
            for arch in &manifest.architectures {
                wanted.extend(self.catalog.download(plugin, version, *arch)?);
            }
        }
        let entries = wanted.iter().filter(|file| file.checksum.is_some());
        let entries = entries.filter_map(|file| Some(Entry::File(file, self.locked(file)?)));
        Ok(self.compare(entries.collect()).await)
    }

    /// Compares the images in a new lock whose digests come from the previous lock with their tags.
    ///
    /// # Errors
    /// Certificates or credentials cannot be read.
    pub async fn compare_images(&self, lock: &Lock) -> Result<LockComparison, FetchError> {
        let is_kept = |image: &&LockedImage| {
            let previous = self
                .previous
                .and_then(|previous| previous.image(&image.name));
            let same = previous.is_some_and(|p| p.manifest.digest == image.manifest.digest);
            same && image.name.digest().is_none()
        };
        let entries = lock.images.iter().filter(is_kept).map(Entry::Image);
        Ok(self.compare(entries.collect()).await)
    }

    /// Compares the OS packages that a build keeps from the previous lock with their repositories. Repositories
    /// drop packages when newer ones appear: these cannot be compared.
    ///
    /// # Errors
    /// No key in `signedBy` signed a repository: the manifest may name other keys than at the earlier build.
    pub async fn compare_packages(
        &self,
        manifest: &Manifest,
    ) -> Result<LockComparison, FetchError> {
        let mut all = LockComparison::default();
        for source in &manifest.packages {
            for arch in &manifest.architectures {
                let Some(set) = packages::kept(self.http, source, *arch, self.previous) else {
                    continue;
                };
                let place = format!("{} {} {arch}", set.distribution, set.release);
                let names = set.packages.iter().map(|package| package.name.as_str());
                match packages::stated(self.http, source, *arch, &names.collect()).await {
                    Ok(stated) => all.add_packages(&place, set, &stated),
                    Err(error) if error.is_of_a_signature() => return Err(error),
                    Err(error) => all.not_compared.push(format!("{place}: {}", cause(&error))),
                }
            }
        }
        Ok(all)
    }

    async fn compare(&self, entries: Vec<Entry<'_>>) -> LockComparison {
        let mut servers: BTreeMap<String, Vec<Entry<'_>>> = BTreeMap::new();
        for entry in entries {
            servers
                .entry(entry.server().to_owned())
                .or_default()
                .push(entry);
        }
        let results = stream::iter(servers)
            .map(|(server, entries)| async move { self.compare_at(&server, &entries).await })
            .buffer_unordered(PARALLEL)
            .collect::<Vec<_>>();
        let mut all = LockComparison::default();
        for result in results.await {
            all.add(result);
        }
        all.changed.sort_by(|a, b| a.item.cmp(&b.item));
        all.not_compared.sort();
        all
    }

    /// Compares the entries of one server. If the first one gets no answer, the others are not requested: a
    /// build without a connection does not wait for each of them.
    async fn compare_at(&self, server: &str, entries: &[Entry<'_>]) -> LockComparison {
        let mut all = LockComparison::default();
        let Some((first, rest)) = entries.split_first() else {
            return all;
        };
        let mut stated = vec![(first, self.stated_now(first).await)];
        if stated.iter().all(|(_, result)| result.is_ok()) {
            let results = stream::iter(rest)
                .map(|entry| async move { (entry, self.stated_now(entry).await) })
                .buffer_unordered(PARALLEL);
            stated.extend(results.collect::<Vec<_>>().await);
        }
        let mut failures = Vec::new();
        for (entry, result) in stated {
            match result {
                Ok(published) if published == entry.locked() => {}
                Ok(published) => all.changed.push(ChangedEntry {
                    item: entry.describe(),
                    locked: entry.locked(),
                    published,
                }),
                Err(error) => failures.push(error),
            }
        }
        if let Some(error) = failures.first() {
            all.not_compared.push(format!("{server}: {}", cause(error)));
        }
        all
    }

    /// Asks the publisher of an entry for its digest.
    async fn stated_now(&self, entry: &Entry<'_>) -> Result<Digest, FetchError> {
        match entry {
            Entry::File(file, locked) => match &file.checksum {
                Some(url) => Ok(self.published(file, url).await?.0),
                None => Ok(locked.digest),
            },
            Entry::Image(image) => {
                let puller = Puller::new(self.http.clone());
                let (_, digest) = puller.manifest(&image.name, None).await?;
                Ok(digest)
            }
        }
    }
}
