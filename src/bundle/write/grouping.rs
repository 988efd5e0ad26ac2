//! Groups blobs. Similar files are in one group, so that their common content is stored once. Programs are
//! in small groups, so that a reader extracts a kubelet without reading layers.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::placement::{DecompressedGzips, Entry, Group, MAX_INTERLEAVED, Placement};
use crate::lock::{FileFormat, Lock};
use kubexm_types::{Arch, Digest};

/// Size in bytes below which a blob goes into the first group: manifests, configurations and the like.
pub const SMALL: u64 = 64 * 1024;
/// Maximum stored size of a group of layers, in bytes. A reader of its last blob decompresses this much.
const LARGEST_GROUP: u64 = 512 * 1024 * 1024;
/// Size in bytes of one chunk of every blob of a group. The window contains several of them.
const ROUND: u64 = 4 * 1024 * 1024;
/// Maximum number of chunks that a writer chooses. The tar headers of more chunks cost more than they gain.
const ENOUGH_CHUNKS: u64 = 256;
/// Files are similar if this many first letters of their names are equal: kubeadm, kubectl, kubelet.
const EQUAL_LETTERS: usize = 4;

/// A blob that compression makes smaller.
#[derive(Debug, Clone)]
struct Compressible {
    blob: Digest,
    /// Stored size in bytes.
    size: u64,
}

/// Places all blobs of a lock in groups. The same arguments give the same placement.
pub fn arrange(lock: &Lock, decompressed: &DecompressedGzips) -> Placement {
    let all = lock.blobs();
    let mut left: BTreeSet<Digest> = all.keys().copied().collect();
    let mut take = |digest: &Digest| left.remove(digest);
    let mut groups = Vec::new();

    let small = all.iter().filter(|(_, blob)| blob.size < SMALL);
    let small: Vec<Digest> = small
        .map(|(digest, _)| *digest)
        .filter(|digest| take(digest))
        .collect();
    if !small.is_empty() {
        let entries = small.into_iter().map(Entry::kept);
        groups.push(Group {
            pieces: 1,
            entries: entries.collect(),
        });
    }

    let mut layers = layers(lock, decompressed);
    for (arch, family, files) in families(lock, decompressed) {
        let similar = |(of, name): &(Arch, String)| *of == arch && family.contains(name);
        let similar = layers.iter_mut().filter(|(name, _)| similar(name));
        let similar = similar.flat_map(|(_, layers)| std::mem::take(layers));
        let members = files.into_iter().chain(similar);
        let members = members.filter(|one| take(&one.blob)).collect();
        groups.extend(interleaved(members, decompressed));
    }
    let rest = layers.into_values().flatten();
    let rest = rest.filter(|one| take(&one.blob)).collect();
    groups.extend(interleaved(rest, decompressed));

    // Compressed blobs get their own groups.
    let alone = left.into_iter().map(|blob| {
        let opened = decompressed.get(&blob).cloned();
        Group {
            pieces: 1,
            entries: vec![Entry {
                blob,
                // A decompressed blob may be an archive of programs.
                filtered: opened.is_some(),
                opened,
            }],
        }
    });
    groups.extend(alone);
    Placement {
        storage_version: Placement::VERSION,
        groups,
        base: None,
    }
}

/// Returns compressible files by architecture and similar names, with the names of their components.
fn families(
    lock: &Lock,
    decompressed: &DecompressedGzips,
) -> Vec<(Arch, BTreeSet<String>, Vec<Compressible>)> {
    let mut families: BTreeMap<(Arch, String), (BTreeSet<String>, Vec<Compressible>)> =
        BTreeMap::new();
    for file in &lock.files {
        let opened = decompressed.get(&file.digest);
        if opened.is_none() && file.format == FileFormat::TarGz {
            continue;
        }
        let start: String = file.component.chars().take(EQUAL_LETTERS).collect();
        let (names, files) = families.entry((file.arch, start)).or_default();
        names.insert(file.component.clone());
        files.push(Compressible {
            blob: file.digest,
            size: opened.map_or(file.size, |opened| opened.size),
        });
    }
    let families = families.into_iter();
    families
        .map(|((arch, _), (names, files))| (arch, names, files))
        .collect()
}

/// Returns compressible layers by architecture and the last part of the image's name.
fn layers(
    lock: &Lock,
    decompressed: &DecompressedGzips,
) -> BTreeMap<(Arch, String), Vec<Compressible>> {
    let mut layers: BTreeMap<(Arch, String), Vec<Compressible>> = BTreeMap::new();
    for image in &lock.images {
        let repository = image.name.repository();
        let name = repository.rsplit('/').next().unwrap_or(repository);
        let platforms = image.platforms.iter();
        let of_arch = platforms.filter_map(|p| Some((p.arch?, &p.blobs)));
        for (arch, blob) in of_arch.flat_map(|(arch, blobs)| blobs.iter().map(move |b| (arch, b))) {
            let opened = decompressed.get(&blob.digest);
            if opened.is_some() || blob.media_type.ends_with(".tar") {
                layers
                    .entry((arch, name.to_owned()))
                    .or_default()
                    .push(Compressible {
                        blob: blob.digest,
                        size: opened.map_or(blob.size, |opened| opened.size),
                    });
            }
        }
    }
    layers
}

/// Returns groups of blobs whose chunks alternate.
fn interleaved(members: Vec<Compressible>, decompressed: &DecompressedGzips) -> Vec<Group> {
    let mut groups: Vec<(u64, Vec<Compressible>)> = Vec::new();
    for member in members {
        match groups.last_mut() {
            Some((size, group))
                if *size + member.size <= LARGEST_GROUP && group.len() < MAX_INTERLEAVED =>
            {
                *size += member.size;
                group.push(member);
            }
            _ => groups.push((member.size, vec![member])),
        }
    }
    let group = |(size, members): (u64, Vec<Compressible>)| Group {
        pieces: match members.len() {
            1 => 1,
            _ => (size / ROUND).clamp(1, ENOUGH_CHUNKS) as u32,
        },
        entries: members
            .into_iter()
            .map(|member| Entry {
                blob: member.blob,
                opened: decompressed.get(&member.blob).cloned(),
                filtered: true,
            })
            .collect(),
    };
    groups.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Descriptor, LockedFile, LockedImage, PlatformManifest};

    /// A blob with this content.
    fn blob(content: &str) -> Descriptor {
        Descriptor {
            media_type: "application/vnd.oci.image.layer.v1.tar".to_owned(),
            digest: Digest::of(content.as_bytes()),
            size: SMALL,
        }
    }

    #[test]
    fn layers_are_grouped_with_programs_of_their_architecture() {
        let arches = [Arch::Amd64, Arch::Arm64];
        let file = |arch: Arch| -> LockedFile {
            let digest = Digest::of(format!("kubelet {arch}").as_bytes());
            serde_saphyr::from_str(&format!(
                "{{component: kubelet, version: 1.36.3, arch: {arch}, fileName: kubelet, \
                 url: 'https://dl.example/kubelet', size: {SMALL}, digest: '{digest}', \
                 checksum: firstSeen, format: binary}}"
            ))
            .unwrap()
        };
        let platform = |arch: Arch| PlatformManifest {
            indexes: Vec::new(),
            arch: Some(arch),
            manifest: blob(&format!("manifest {arch}")),
            blobs: vec![blob(&format!("layer {arch}"))],
        };
        let lock = Lock {
            architectures: arches.to_vec(),
            files: arches.map(file).to_vec(),
            images: vec![LockedImage {
                name: "registry.k8s.io/kubelet:v1.36.3".parse().unwrap(),
                manifest: blob("index"),
                platforms: arches.map(platform).to_vec(),
                signature: None,
                unsigned: None,
                checksum: None,
            }],
            ..Lock::empty("example")
        };
        let storage = arrange(&lock, &DecompressedGzips::new());
        for arch in arches {
            let place = |name: &str| {
                let digest = Digest::of(format!("{name} {arch}").as_bytes());
                let has = |group: &Group| group.entries.iter().any(|entry| entry.blob == digest);
                storage.groups.iter().position(has).unwrap()
            };
            assert_eq!(place("kubelet"), place("layer"), "{arch}");
        }
    }
}
