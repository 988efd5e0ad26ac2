//! The images of several registries that should be equal: what each of them has, and what each of them should have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::image::Image;
use futures_util::future::join_all;
use kubexm_config::Cluster;
use kubexm_engine::plan::StepError;
use kubexm_engine::seed::{Manifest, Platform, RegistryContent, SeedError, Storage, small_blobs};
use kubexm_host::Host;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostName, WarningKind};

/// What is in the registries of a cluster.
pub(super) struct Catalog {
    /// The registries that answered, in the order of the cluster file.
    pub(super) registries: Vec<Registry>,
    /// Every manifest that a registry has.
    manifests: BTreeMap<Digest, Manifest>,
    /// The platforms of configurations.
    platforms: BTreeMap<Digest, Platform>,
    repositories: BTreeMap<String, Merged>,
}

/// The registry of a host.
pub(super) struct Registry {
    pub(super) name: HostName,
    pub(super) host: Arc<dyn Host>,
    pub(super) storage: Storage,
}

/// A repository in all registries together.
#[derive(Default)]
struct Merged {
    /// The manifests of each tag, with the number of registries where the tag names it.
    tags: BTreeMap<String, BTreeMap<Digest, usize>>,
    /// The first registry in which a tag is damaged, by tag.
    damaged: BTreeMap<String, HostName>,
    manifests: BTreeSet<Digest>,
}

/// The configuration of an image, as far as it names the platform.
#[derive(Deserialize)]
struct Configuration {
    #[serde(flatten)]
    platform: Platform,
}

pub(super) fn failed(error: SeedError) -> CommandError {
    StepError::from(error).into()
}

impl Catalog {
    /// Reads the registries of the hosts with a connection.
    ///
    /// # Errors
    /// A host was lost, or cannot read its registry, or has none.
    pub(super) async fn read(cluster: &Cluster, hosts: &Hosts) -> Result<Self, CommandError> {
        let data_dir = &cluster.registry.data_dir;
        let names = cluster.roles.registry.iter();
        let reads = names.filter_map(|name| Some((name, hosts.get(name)?)));
        let reads = reads.map(async |(name, host)| {
            let storage = Storage::of_registry(host.as_ref(), data_dir).await?;
            Ok::<_, SeedError>(Registry {
                name: name.clone(),
                host: Arc::clone(host),
                storage,
            })
        });
        let registries: Result<Vec<_>, _> = join_all(reads).await.into_iter().collect();
        let mut catalog = Self {
            registries: registries.map_err(failed)?,
            manifests: BTreeMap::new(),
            platforms: BTreeMap::new(),
            repositories: BTreeMap::new(),
        };
        catalog.merge();
        let wanted = catalog.repositories.values();
        let wanted = wanted.flat_map(|repository| {
            let tags = repository.tags.values().flat_map(BTreeMap::keys);
            repository.manifests.iter().chain(tags).copied()
        });
        let found = catalog.small(cluster, wanted.collect()).await?;
        let parsed = found
            .iter()
            .filter_map(|(digest, bytes)| Some((*digest, Manifest::parse(bytes).ok()?)));
        catalog.manifests = parsed.collect();
        let configurations = catalog.manifests.values();
        let configurations = configurations.filter_map(|manifest| manifest.config.as_ref());
        let configurations = configurations.map(|blob| blob.digest).collect();
        let found = catalog.small(cluster, configurations).await?;
        let parsed = found.iter().filter_map(|(digest, bytes)| {
            let read: Configuration = serde_json::from_slice(bytes).ok()?;
            Some((*digest, read.platform))
        });
        catalog.platforms = parsed.collect();
        Ok(catalog)
    }

    /// Reads small blobs, each from the first registry that has it undamaged.
    async fn small(
        &self,
        cluster: &Cluster,
        mut wanted: BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, Vec<u8>>, CommandError> {
        let mut found = BTreeMap::new();
        for registry in &self.registries {
            let (host, storage) = (registry.host.as_ref(), &registry.storage);
            let read = small_blobs(host, &cluster.registry.data_dir, storage, &wanted).await;
            let read = read.map_err(failed)?;
            wanted.retain(|digest| !read.contains_key(digest));
            found.extend(read);
        }
        Ok(found)
    }

    fn merge(&mut self) {
        for registry in &self.registries {
            for (name, repository) in registry.storage.repositories() {
                let merged = self.repositories.entry(name).or_default();
                for (tag, digest) in repository.tags {
                    let manifests = merged.tags.entry(tag).or_default();
                    *manifests.entry(digest).or_default() += 1;
                }
                for tag in repository.damaged {
                    let first = registry.name.clone();
                    merged.damaged.entry(tag).or_insert(first);
                }
                merged.manifests.extend(repository.manifests);
            }
        }
    }

    /// Fails if no registry knows what a tag means, because a power failure left its file empty. If one does,
    /// `kubexm registry sync` repairs the others.
    pub(super) fn check_tags(&self, cluster: &Cluster) -> Result<(), CommandError> {
        let mut damaged = Vec::new();
        for (name, repository) in &self.repositories {
            let tags = repository.damaged.iter();
            let lost = tags.filter(|(tag, _)| !repository.tags.contains_key(*tag));
            damaged.extend(lost.map(|(tag, host)| {
                let directory = format!("{}/docker/registry/v2", cluster.registry.data_dir);
                format!("{host}: {directory}/{}", tag_link(name, tag))
            }));
        }
        if damaged.is_empty() {
            Ok(())
        } else {
            Err(CommandError::refused(format!(
                "these tags name no image, because their files are damaged; no other registry has \
                 them\n  {}",
                damaged.join("\n  ")
            ))
            .hint(
                "add the images again from a bundle that contains them: kubexm registry add; if \
                 nothing needs a tag, remove its directory on the host",
            ))
        }
    }

    /// Warns where [`Self::check_tags`] fails.
    pub(super) fn warn_of_tags(&self, cluster: &Cluster, events: &Events) {
        if let Err(error) = self.check_tags(cluster) {
            events.warn(WarningKind::Registry, &error);
        }
    }

    /// Returns all images, in the order of their names.
    pub(super) fn images(&self) -> Vec<Image> {
        let mut images = Vec::new();
        for (name, repository) in &self.repositories {
            let mut below = BTreeSet::new();
            for (tag, manifests) in &repository.tags {
                for digest in manifests.keys() {
                    below.extend(self.closure(name, *digest));
                }
                let chosen = self.usual(name, tag, manifests);
                if let Some(digest) = chosen.filter(|_| !is_of_manifest(tag)) {
                    images.push(Image {
                        repository: name.clone(),
                        tag: Some(tag.clone()),
                        digest,
                    });
                }
            }
            // Manifests that others contain, and referrers, are not images of their own.
            let all = repository.manifests.iter().filter_map(|digest| {
                let manifest = self.manifests.get(digest)?;
                Some((digest, manifest))
            });
            for (_, manifest) in all.clone() {
                below.extend(manifest.manifests.iter().map(|child| child.digest));
            }
            let others = all.filter(|(digest, manifest)| {
                !below.contains(*digest) && manifest.subject.is_none()
            });
            images.extend(others.map(|(digest, _)| Image {
                repository: name.clone(),
                tag: None,
                digest: *digest,
            }));
        }
        images
    }

    /// Returns the tags of signatures and referrers, as images: the registries must agree on them, too.
    pub(super) fn tags_of_manifests(&self) -> Vec<Image> {
        let mut found = Vec::new();
        for (name, repository) in &self.repositories {
            let tags = repository.tags.iter();
            for (tag, manifests) in tags.filter(|(tag, _)| is_of_manifest(tag)) {
                found.extend(self.usual(name, tag, manifests).map(|digest| Image {
                    repository: name.clone(),
                    tag: Some(tag.clone()),
                    digest,
                }));
            }
        }
        found
    }

    /// Returns the manifest that most registries mean with a tag, and of several such the one of the first registry.
    fn usual(
        &self,
        repository: &str,
        tag: &str,
        manifests: &BTreeMap<Digest, usize>,
    ) -> Option<Digest> {
        let chosen = manifests
            .iter()
            .max_by_key(|(digest, count)| (**count, self.is_first(repository, tag, digest)));
        chosen.map(|(digest, _)| *digest)
    }

    /// Returns whether the first registry that has the tag means this manifest.
    fn is_first(&self, repository: &str, tag: &str, digest: &Digest) -> bool {
        let mut tags = self.registries.iter().filter_map(|registry| {
            let path = tag_link(repository, tag);
            registry.storage.links.get(&path)
        });
        tags.next() == Some(digest)
    }

    /// Returns a manifest and those that it contains and a registry has, with their signatures and other referrers.
    pub(super) fn closure(&self, repository: &str, digest: Digest) -> BTreeSet<Digest> {
        let mut found = BTreeSet::new();
        let mut next = vec![digest];
        let Some(merged) = self.repositories.get(repository) else {
            return found;
        };
        while let Some(digest) = next.pop() {
            if !found.insert(digest) {
                continue;
            }
            let manifest = self.manifests.get(&digest);
            let below = manifest
                .into_iter()
                .flat_map(|manifest| &manifest.manifests);
            let below = below.map(|child| child.digest);
            next.extend(below.filter(|child| merged.manifests.contains(child)));
            for tag in self.tags_of_manifest(repository, digest) {
                next.extend(merged.tags[tag].keys());
            }
            let referrers = merged.manifests.iter().filter(|other| {
                let subject = self
                    .manifests
                    .get(other)
                    .and_then(|other| other.subject.as_ref());
                subject.is_some_and(|subject| subject.digest == digest)
            });
            next.extend(referrers);
        }
        found
    }

    /// Returns the tags of signatures and referrers of a manifest.
    pub(super) fn tags_of_manifest(&self, repository: &str, digest: Digest) -> Vec<&str> {
        let prefix = format!("sha256-{}", digest.hex());
        let tags = self.repositories.get(repository).map(|merged| &merged.tags);
        let tags = tags.into_iter().flat_map(BTreeMap::keys);
        tags.filter(|tag| tag.starts_with(&prefix))
            .map(String::as_str)
            .collect()
    }

    /// Returns the manifests of an image, in all versions that its tag has in the registries.
    pub(super) fn versions(&self, image: &Image) -> BTreeSet<Digest> {
        let registries = self.registries.iter();
        let digests = registries.filter_map(|registry| self.digest_in(image, registry));
        let digests = digests.chain([image.digest]);
        digests
            .flat_map(|digest| self.closure(&image.repository, digest))
            .collect()
    }

    /// Returns what a registry with an image contains.
    pub(super) fn content(&self, image: &Image) -> RegistryContent {
        self.content_by(image, None)
    }

    /// Returns what a registry with an image contains, if the registry `from` decides what tags of signatures mean.
    pub(super) fn content_by(&self, image: &Image, from: Option<&Registry>) -> RegistryContent {
        let mut content = RegistryContent::empty();
        let repository = &image.repository;
        for digest in self.closure(repository, image.digest) {
            // The size of a manifest that no registry can read is unknown. With one byte, which no manifest has, it is missing
            // everywhere, also where its file is empty.
            let unknown = Manifest {
                size: 1,
                ..Manifest::default()
            };
            let manifest = self.manifests.get(&digest).unwrap_or(&unknown);
            content.add_manifest(repository, digest, manifest);
            for tag in self.tags_of_manifest(repository, digest) {
                let manifests = &self.repositories[repository].tags[tag];
                let decided = from.and_then(|from| {
                    let path = tag_link(repository, tag);
                    from.storage.links.get(&path).copied()
                });
                let digest = decided.or_else(|| self.usual(repository, tag, manifests));
                if let Some(digest) = digest {
                    content.add_tag(repository, tag, digest);
                }
            }
        }
        if let Some(tag) = &image.tag {
            content.add_tag(repository, tag, image.digest);
        }
        content
    }

    /// Returns the platforms of an image, as in `amd64`.
    pub(super) fn platforms(&self, image: &Image) -> Vec<String> {
        let mut found = BTreeSet::new();
        for digest in self.closure(&image.repository, image.digest) {
            let manifest = self.manifests.get(&digest);
            let manifest = manifest.filter(|manifest| manifest.subject.is_none());
            let config = manifest.and_then(|manifest| manifest.config.as_ref());
            let platform = config.and_then(|config| self.platforms.get(&config.digest));
            let known = platform.filter(|platform| !platform.architecture.is_empty());
            found.extend(known.map(|platform| platform.architecture.clone()));
        }
        found.into_iter().collect()
    }

    /// Returns the manifest that the tag of an image names in a registry; without a tag, the manifest itself.
    pub(super) fn digest_in(&self, image: &Image, registry: &Registry) -> Option<Digest> {
        let (repository, hex) = (&image.repository, image.digest.hex());
        let path = match &image.tag {
            Some(tag) => tag_link(repository, tag),
            None => format!("{}/link", revision(repository, &hex)),
        };
        registry.storage.links.get(&path).copied()
    }
}

/// Returns whether a tag names the signature or the referrers of a manifest
/// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#referrers-tag-schema>).
fn is_of_manifest(tag: &str) -> bool {
    let hex = tag.strip_prefix("sha256-").and_then(|rest| rest.get(..64));
    hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the directory of a tag.
pub(super) fn tag_directory(repository: &str, tag: &str) -> String {
    format!("repositories/{repository}/_manifests/tags/{tag}")
}

fn tag_link(repository: &str, tag: &str) -> String {
    format!("{}/current/link", tag_directory(repository, tag))
}

/// Returns the directory of a manifest.
pub(super) fn revision(repository: &str, hex: &str) -> String {
    format!("repositories/{repository}/_manifests/revisions/sha256/{hex}")
}
