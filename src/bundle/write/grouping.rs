//! Which blobs stand together: kin beside kin, so that what they share is stored once; programs in
//! small groups, so that a host's kubelet is had without reading layers.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::placement::{DecompressedGzips, Entry, Group, MOST_BESIDE, Placement};
use crate::lock::{FileFormat, Lock};
use kubexm_types::{Arch, Digest};

/// Blobs below this size are manifests, configurations and the like: they follow one another in one
/// group at the start.
pub const SMALL: u64 = 64 * 1024;
/// Bytes of a group of layers, as they lie in the file: what one decoder has to go through to get at
/// the last of them.
const LARGEST_GROUP: u64 = 512 * 1024 * 1024;
/// Bytes of one round of pieces: a few rounds fit the window.
const ROUND: u64 = 4 * 1024 * 1024;
/// Pieces of a group are no more than this; beyond it their headers cost more than they bring.
const ENOUGH_PIECES: u64 = 256;
/// Files are kin when their names begin with so many equal letters: kubeadm, kubectl, kubelet.
const KIN_LETTERS: usize = 4;

/// A blob that gets smaller by compression.
#[derive(Debug, Clone)]
struct Soft {
    blob: Digest,
    /// As it lies in the file.
    size: u64,
}

/// Arranges all blobs of a lock. The same lock and openings give the same arrangement.
pub fn arrange(lock: &Lock, openings: &DecompressedGzips) -> Placement {
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

    let mut layers = layers(lock, openings);
    for (arch, family, files) in families(lock, openings) {
        let kin = |(of, name): &(Arch, String)| *of == arch && family.contains(name);
        let twins = layers.iter_mut().filter(|(name, _)| kin(name));
        let twins = twins.flat_map(|(_, layers)| std::mem::take(layers));
        let members = files.into_iter().chain(twins);
        let members = members.filter(|soft| take(&soft.blob)).collect();
        groups.extend(side_by_side(members, openings));
    }
    let rest = layers.into_values().flatten();
    let rest = rest.filter(|soft| take(&soft.blob)).collect();
    groups.extend(side_by_side(rest, openings));

    // What is compressed already stands for itself.
    let alone = left.into_iter().map(|blob| {
        let opened = openings.get(&blob).cloned();
        Group {
            pieces: 1,
            entries: vec![Entry {
                blob,
                // What was opened may be an archive of somebody's programs.
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

/// Files that get smaller, by architecture and families of names; each with its components' names.
fn families(lock: &Lock, openings: &DecompressedGzips) -> Vec<(Arch, BTreeSet<String>, Vec<Soft>)> {
    let mut families: BTreeMap<(Arch, String), (BTreeSet<String>, Vec<Soft>)> = BTreeMap::new();
    for file in &lock.files {
        let opened = openings.get(&file.digest);
        if opened.is_none() && file.format == FileFormat::TarGz {
            continue;
        }
        let start: String = file.component.chars().take(KIN_LETTERS).collect();
        let (names, files) = families.entry((file.arch, start)).or_default();
        names.insert(file.component.clone());
        files.push(Soft {
            blob: file.digest,
            size: opened.map_or(file.size, |opened| opened.size),
        });
    }
    let families = families.into_iter();
    families
        .map(|((arch, _), (names, files))| (arch, names, files))
        .collect()
}

/// Layers that get smaller, by architecture and the last part of their image's name.
fn layers(lock: &Lock, openings: &DecompressedGzips) -> BTreeMap<(Arch, String), Vec<Soft>> {
    let mut layers: BTreeMap<(Arch, String), Vec<Soft>> = BTreeMap::new();
    for image in &lock.images {
        let repository = image.name.repository();
        let name = repository.rsplit('/').next().unwrap_or(repository);
        let platforms = image.platforms.iter();
        for (arch, blob) in platforms.flat_map(|p| p.blobs.iter().map(|blob| (p.arch, blob))) {
            let opened = openings.get(&blob.digest);
            if opened.is_some() || blob.media_type.ends_with(".tar") {
                layers
                    .entry((arch, name.to_owned()))
                    .or_default()
                    .push(Soft {
                        blob: blob.digest,
                        size: opened.map_or(blob.size, |opened| opened.size),
                    });
            }
        }
    }
    layers
}

/// Groups of blobs whose pieces take turns.
fn side_by_side(members: Vec<Soft>, openings: &DecompressedGzips) -> Vec<Group> {
    let mut groups: Vec<(u64, Vec<Soft>)> = Vec::new();
    for soft in members {
        match groups.last_mut() {
            Some((size, group))
                if *size + soft.size <= LARGEST_GROUP && group.len() < MOST_BESIDE =>
            {
                *size += soft.size;
                group.push(soft);
            }
            _ => groups.push((soft.size, vec![soft])),
        }
    }
    let group = |(size, members): (u64, Vec<Soft>)| Group {
        pieces: match members.len() {
            1 => 1,
            _ => (size / ROUND).clamp(1, ENOUGH_PIECES) as u32,
        },
        entries: members
            .into_iter()
            .map(|soft| Entry {
                blob: soft.blob,
                opened: openings.get(&soft.blob).cloned(),
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

    /// A blob that is told by its words.
    fn blob(words: &str) -> Descriptor {
        Descriptor {
            media_type: "application/vnd.oci.image.layer.v1.tar".to_owned(),
            digest: Digest::of(words.as_bytes()),
            size: SMALL,
        }
    }

    #[test]
    fn layers_stand_beside_programs_of_their_own_architecture() {
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
            arch,
            manifest: blob(&format!("manifest {arch}")),
            blobs: vec![blob(&format!("layer {arch}"))],
        };
        let lock = Lock {
            lock_version: Lock::VERSION,
            name: "example".to_owned(),
            kubernetes: Vec::new(),
            architectures: arches.to_vec(),
            files: arches.map(file).to_vec(),
            images: vec![LockedImage {
                name: "registry.k8s.io/kubelet:v1.36.3".parse().unwrap(),
                manifest: blob("index"),
                platforms: arches.map(platform).to_vec(),
                signature: None,
            }],
            packages: Vec::new(),
            kubeadm: Vec::new(),
            own: Vec::new(),
            index: Default::default(),
        };
        let storage = arrange(&lock, &DecompressedGzips::new());
        for arch in arches {
            let place = |words: &str| {
                let digest = Digest::of(format!("{words} {arch}").as_bytes());
                let has = |group: &Group| group.entries.iter().any(|entry| entry.blob == digest);
                storage.groups.iter().position(has).unwrap()
            };
            assert_eq!(place("kubelet"), place("layer"), "{arch}");
        }
    }
}
