//! What is in the storage of a registry: blobs, manifests and tags.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{SeedError, link_path, run_command, total};
use kubexm_host::{Command, Host, Input, Limit};
use kubexm_scripts::registry as scripts;
use kubexm_types::{Digest, HostPath, Untrusted};

/// The largest manifest that a registry accepts, in bytes
/// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-manifests>).
const LARGEST_MANIFEST: u64 = 4 << 20;
/// The number of bytes of small blobs that one command prints.
const BATCH: u64 = 8 << 20;

/// The blobs and links in the storage of the registry of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// Whether the directory of the repositories exists. A registry that kubexm runs always has it.
    pub exists: bool,
    /// Sizes of the blobs, in bytes.
    pub blobs: BTreeMap<Digest, u64>,
    /// The digest in each link file, by its path below the registry's root.
    pub links: BTreeMap<String, Digest>,
    /// Links without a digest, as a power failure leaves them, by the same path.
    pub damaged: BTreeSet<String>,
}

/// A repository in the storage of a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repository {
    /// The manifest of each tag.
    pub tags: BTreeMap<String, Digest>,
    /// The tags whose manifest is unknown, because their links are damaged.
    pub damaged: BTreeSet<String>,
    /// The manifests that clients can pull.
    pub manifests: BTreeSet<Digest>,
}

impl Storage {
    /// Reads names and sizes on a host. The upload has verified the digests.
    ///
    /// # Errors
    /// The connection to the host fails, the host cannot read the directory of its registry, or a link there names neither a
    /// repository nor a tag.
    pub async fn read(host: &dyn Host, data_dir: &HostPath) -> Result<Self, SeedError> {
        let command =
            Command::from_script(scripts::LIST, [data_dir.to_string()]).limit(Limit::CHANGE);
        let output = run_command(host, "list the registry's images", command).await?;
        Self::parse(&output.text()).map_err(|path| SeedError::Link {
            host: host.name().to_string(),
            path: Untrusted::one_line(path, 200),
        })
    }

    /// Does the same on a host that has a registry.
    ///
    /// # Errors
    /// As [`Self::read`], or the storage does not exist, because its disk is not mounted.
    pub async fn of_registry(host: &dyn Host, data_dir: &HostPath) -> Result<Self, SeedError> {
        let storage = Self::read(host, data_dir).await?;
        if storage.exists {
            Ok(storage)
        } else {
            Err(SeedError::NoStorage {
                host: host.name().to_string(),
                data_dir: data_dir.clone(),
            })
        }
    }

    /// Reads the lines of the script. Other hosts get links with the names of this one.
    ///
    /// # Errors
    /// A path is not a link in a registry. The error is the path.
    fn parse(text: &str) -> Result<Self, &str> {
        let mut storage = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["storage"] => storage.exists = true,
                ["blob", directory, size] => {
                    let hex = directory.rsplit('/').next();
                    let blob = hex.and_then(of_hex).zip(size.parse().ok());
                    storage.blobs.extend(blob);
                }
                ["link", path, ..] if !link_path::is_valid(path) => return Err(path),
                ["link", path, rest @ ..] => match Digest::parse(&rest.join(" ")) {
                    Ok(digest) => drop(storage.links.insert((*path).to_owned(), digest)),
                    Err(_) => drop(storage.damaged.insert((*path).to_owned())),
                },
                _ => {}
            }
        }
        Ok(storage)
    }

    /// Returns the repositories by name.
    pub fn repositories(&self) -> BTreeMap<String, Repository> {
        let mut all: BTreeMap<String, Repository> = BTreeMap::new();
        let links = self
            .links
            .iter()
            .map(|(path, digest)| (path, Some(*digest)));
        let damaged = self.damaged.iter().map(|path| (path, None));
        for (path, digest) in links.chain(damaged) {
            let rest = path.strip_prefix("repositories/");
            let Some((name, place)) = rest.and_then(|rest| rest.split_once("/_manifests/")) else {
                continue;
            };
            let place: Vec<&str> = place.split('/').collect();
            match place.as_slice() {
                ["tags", tag, "current", "link"] => {
                    let repository = all.entry(name.to_owned()).or_default();
                    match digest {
                        Some(digest) => drop(repository.tags.insert((*tag).to_owned(), digest)),
                        None => drop(repository.damaged.insert((*tag).to_owned())),
                    }
                }
                // The path has the digest, too: an empty file hides no manifest.
                ["revisions", "sha256", hex, "link"] => {
                    let named = of_hex(hex);
                    let named = named.filter(|named| digest.is_none_or(|digest| digest == *named));
                    if let Some(named) = named {
                        let repository = all.entry(name.to_owned()).or_default();
                        repository.manifests.insert(named);
                    }
                }
                _ => {}
            }
        }
        all
    }
}

fn of_hex(hex: &str) -> Option<Digest> {
    Digest::parse(&format!("sha256:{hex}")).ok()
}

/// A blob that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub digest: Digest,
    /// In bytes.
    #[serde(default)]
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
}

/// A platform, as in OCI's image index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
}

/// A manifest or an index, as far as a registry needs it
/// (<https://github.com/opencontainers/image-spec/blob/main/manifest.md>).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    #[serde(default)]
    pub config: Option<Reference>,
    #[serde(default)]
    pub layers: Vec<Reference>,
    /// The manifests of an index.
    #[serde(default)]
    pub manifests: Vec<Reference>,
    #[serde(default)]
    pub subject: Option<Reference>,
    /// The size of the manifest itself, in bytes.
    #[serde(skip)]
    pub size: u64,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// The bytes are not a manifest.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let manifest: Self = serde_json::from_slice(bytes)?;
        Ok(Self {
            size: bytes.len() as u64,
            ..manifest
        })
    }

    /// Returns the configuration and the layers.
    pub fn blobs(&self) -> impl Iterator<Item = &Reference> {
        self.config.iter().chain(&self.layers)
    }
}

/// Reads small blobs of a host: manifests and configurations. A blob that the host does not have, that is larger than a
/// manifest can be, or that does not match its digest is not in the result.
///
/// # Errors
/// The connection to the host fails.
pub async fn small_blobs(
    host: &dyn Host,
    data_dir: &HostPath,
    storage: &Storage,
    wanted: &BTreeSet<Digest>,
) -> Result<BTreeMap<Digest, Vec<u8>>, SeedError> {
    let sizes = wanted
        .iter()
        .filter_map(|digest| Some((*digest, *storage.blobs.get(digest)?)));
    let mut found = BTreeMap::new();
    for batch in batches(sizes.filter(|(_, size)| *size <= LARGEST_MANIFEST)) {
        let lines: String = batch
            .iter()
            .map(|digest| format!("{}\n", digest.hex()))
            .collect();
        let command = Command::from_script(scripts::BLOBS, [data_dir.to_string()])
            .input(Input::Bytes(lines.into_bytes()))
            .limit(Limit::transfer(BATCH));
        let output = run_command(host, "read manifests of the registry", command).await?;
        found.extend(printed(&output.stdout));
    }
    Ok(found)
}

/// Divides blobs into groups that one command can print.
fn batches(blobs: impl Iterator<Item = (Digest, u64)>) -> Vec<Vec<Digest>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    for (digest, size) in blobs {
        if bytes + size > BATCH || all.is_empty() {
            all.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(last) = all.last_mut() {
            last.push(digest);
        }
    }
    all
}

/// Parses what the script prints, and compares each blob with its digest.
fn printed(mut bytes: &[u8]) -> BTreeMap<Digest, Vec<u8>> {
    let mut found = BTreeMap::new();
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let parsed = head.split_once(' ');
        let parsed = parsed.and_then(|(hex, size)| Some((of_hex(hex)?, size.parse().ok()?)));
        let Some((digest, size)) = parsed else { break };
        let rest = &bytes[end + 1..];
        let Some((content, after)) = rest.split_at_checked(size) else {
            break;
        };
        if Digest::of(content) == digest {
            found.insert(digest, content.to_owned());
        }
        bytes = after.strip_prefix(b"\n").unwrap_or(after);
    }
    found
}

/// Blobs and links that no manifest of a registry needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Sizes of the blobs, in bytes.
    pub blobs: BTreeMap<Digest, u64>,
    /// The number of links to blobs that do not exist or that nothing needs.
    pub links: usize,
}

impl Garbage {
    /// Looks for garbage in the registry of a host.
    ///
    /// # Errors
    /// The connection to the host fails, or the host cannot read the directory of its registry.
    pub async fn read(host: &dyn Host, data_dir: &HostPath) -> Result<Self, SeedError> {
        let command = Command::from_script(scripts::GARBAGE.verb("list"), [data_dir.to_string()])
            .limit(Limit::CHANGE);
        let output = run_command(host, "look for blobs that no image needs", command).await?;
        let text = output.text();
        let mut garbage = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["blob", hex, size] => garbage.blobs.extend(of_hex(hex).zip(size.parse().ok())),
                ["link", _] => garbage.links += 1,
                _ => {
                    return Err(SeedError::Answer {
                        host: host.name().to_string(),
                        line: Untrusted::one_line(line, 200),
                    });
                }
            }
        }
        Ok(garbage)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.links == 0
    }

    /// Returns the size of all blobs, in bytes.
    pub fn bytes(&self) -> u64 {
        total(self.blobs.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum panicked.
    #[test]
    fn sizes_that_no_disk_has_are_the_largest_one_in_all() {
        let blobs = [(Digest::of(b"1"), u64::MAX), (Digest::of(b"2"), 1)];
        let garbage = Garbage {
            blobs: BTreeMap::from(blobs),
            ..Garbage::default()
        };
        assert_eq!(garbage.bytes(), u64::MAX);
    }

    #[test]
    fn repositories_have_tags_and_manifests() {
        let [one, two, three] = [b"1", b"2", b"3"].map(|text| Digest::of(text));
        let text = format!(
            "storage\nblob blobs/sha256/00/{} 7\nblob x 7\nlink repositories/r.io/a/b/_manifests/tags/v1/current/link {one}\n\
             link repositories/r.io/a/b/_manifests/tags/v1/index/sha256/{}/link {two}\n\
             link repositories/r.io/a/b/_manifests/revisions/sha256/{}/link {one}\n\
             link repositories/r.io/a/b/_manifests/revisions/sha256/{}/link {one}\n\
             link repositories/r.io/a/b/_layers/sha256/{}/link {two}\n\
             link repositories/r.io/a/b/_manifests/revisions/sha256/{}/link \n\
             link repositories/r.io/a/b/_manifests/tags/v2/current/link sha256:1\n",
            one.hex(),
            two.hex(),
            one.hex(),
            two.hex(),
            two.hex(),
            three.hex(),
        );
        let storage = Storage::parse(&text).unwrap();
        assert!(storage.exists && !Storage::parse("").unwrap().exists);
        assert_eq!(storage.blobs, BTreeMap::from([(one, 7)]));
        assert_eq!(storage.links.len(), 5);
        let expected = Repository {
            tags: BTreeMap::from([("v1".to_owned(), one)]),
            damaged: BTreeSet::from(["v2".to_owned()]),
            manifests: BTreeSet::from([one, three]),
        };
        assert_eq!(
            storage.repositories(),
            BTreeMap::from([("r.io/a/b".to_owned(), expected)])
        );
    }

    #[test]
    fn link_of_a_hostile_host_is_refused_with_or_without_a_digest() {
        let path = "repositories/../../x/_manifests/tags/v1/current/link";
        for digest in [Digest::of(b"").to_string(), String::new()] {
            let text = format!("storage\nlink {path} {digest}\n");
            assert_eq!(Storage::parse(&text), Err(path));
        }
    }

    #[test]
    fn small_blobs_are_compared_with_their_digests() {
        let text = |content: &str, digest: Digest| {
            format!("{} {}\n{content}\n", digest.hex(), content.len())
        };
        let [a, b] = [Digest::of(b"a\n1"), Digest::of(b"b")];
        let all = text("a\n1", a) + &text("damaged", Digest::of(b"x")) + &text("b", b);
        let found = printed(all.as_bytes());
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), {
            let mut keys = [a, b];
            keys.sort();
            keys
        });
        assert!(printed(b"what\n").is_empty());
        assert!(printed(format!("{} 999\nshort\n", a.hex()).as_bytes()).is_empty());
    }

    #[test]
    fn small_blobs_are_read_in_several_commands() {
        let blobs = (0..5u8).map(|at| (Digest::of(&[at]), 3 << 20));
        let sizes: Vec<usize> = batches(blobs).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1]);
    }
}
