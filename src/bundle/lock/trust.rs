//! Why a lock trusts each of its files, images and artifacts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use url::Url;

use crate::lock::difference::ItemKind;
use crate::lock::{ChecksumSource, Lock};
use kubexm_sigstore::Signer;
use kubexm_types::signature_policy::NamePrefix;

/// Why the digest of an item is trusted. If there are several reasons, the first of this list counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TrustBasis {
    /// A valid signature of the publisher.
    Signature,
    /// A checksum file of the publisher, or the digest of a tag in the publisher's registry.
    PublisherChecksum,
    /// A digest in the bundle manifest.
    ManifestDigest,
    /// A file of the user on the build machine.
    LocalFile,
    /// The first download from the publisher, which serves no checksum.
    FirstSeen,
    /// The checksum or the content of a mirror, because the mirror file says `checksums: mirror`.
    MirrorChecksum,
    /// An earlier version of kubexm did not record whether the publisher or a mirror stated the digest.
    NotRecorded,
}

impl fmt::Display for TrustBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signature => "signature of the publisher",
            Self::PublisherChecksum => "checksum of the publisher",
            Self::ManifestDigest => "digest in the bundle manifest",
            Self::LocalFile => "local file",
            Self::FirstSeen => "first download from the publisher",
            Self::MirrorChecksum => "checksum of a mirror",
            Self::NotRecorded => "not recorded by an earlier version of kubexm",
        })
    }
}

/// Why one item is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustRecord {
    pub kind: ItemKind,
    /// The component with version and architecture, the image, or the artifact.
    pub name: String,
    /// The signer, as the lock claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The public address of the checksum file or of the manifest of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Url>,
    /// The prefix that allows the missing signature, if the publisher signs this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<NamePrefix>,
}

/// The facts of an item from which its basis follows.
struct Facts<'a> {
    signer: Option<&'a Signer>,
    checksum: Option<&'a ChecksumSource>,
    is_local: bool,
}

impl Lock {
    /// Returns why each file, image and artifact is trusted, by basis. Signatures are only claims of the lock.
    pub fn trust(&self) -> BTreeMap<TrustBasis, Vec<TrustRecord>> {
        let mut records: BTreeMap<TrustBasis, Vec<TrustRecord>> = BTreeMap::new();
        let mut add = |kind, name: String, facts: Facts<'_>, unsigned: Option<&NamePrefix>| {
            let record = TrustRecord {
                kind,
                name,
                signer: facts.signer.map(ToString::to_string),
                source: facts.checksum.and_then(ChecksumSource::url).cloned(),
                unsigned: unsigned.cloned(),
            };
            records.entry(self.basis(&facts)).or_default().push(record);
        };
        for file in &self.files {
            let facts = Facts {
                signer: file.signature.as_ref().map(|signature| &signature.by),
                checksum: Some(&file.checksum),
                is_local: false,
            };
            let name = format!("{} {} {}", file.component, file.version, file.arch);
            add(ItemKind::File, name, facts, file.unsigned.as_ref());
        }
        for image in &self.images {
            let facts = Facts {
                signer: image.signature.as_ref().map(|signature| &signature.by),
                checksum: image.checksum.as_ref(),
                is_local: false,
            };
            let kind = if image.is_artifact() {
                ItemKind::OciArtifact
            } else {
                ItemKind::Image
            };
            add(kind, image.name.to_string(), facts, image.unsigned.as_ref());
        }
        for artifact in &self.artifacts {
            let facts = Facts {
                signer: None,
                checksum: Some(&artifact.checksum),
                is_local: artifact.url.is_none(),
            };
            add(ItemKind::Artifact, artifact.describe(), facts, None);
        }
        records
    }

    fn basis(&self, facts: &Facts<'_>) -> TrustBasis {
        // In version 1, `published` and `firstSeen` include what a mirror said.
        let is_certain = self.lock_version > 1;
        match facts.checksum {
            _ if facts.signer.is_some() => TrustBasis::Signature,
            Some(ChecksumSource::Signed) => TrustBasis::Signature,
            Some(ChecksumSource::Pinned) => TrustBasis::ManifestDigest,
            _ if facts.is_local => TrustBasis::LocalFile,
            Some(ChecksumSource::Mirror(_)) => TrustBasis::MirrorChecksum,
            Some(ChecksumSource::Published(_)) if is_certain => TrustBasis::PublisherChecksum,
            Some(ChecksumSource::FirstSeen) if is_certain => TrustBasis::FirstSeen,
            Some(
                ChecksumSource::Published(_)
                | ChecksumSource::FirstSeen
                | ChecksumSource::NotRecorded,
            )
            | None => TrustBasis::NotRecorded,
        }
    }

    /// If a new entry raises the version of this lock, marks the entries that it keeps from a lock of version 1:
    /// their trust basis is not recorded there.
    pub fn keep_unrecorded(&mut self, previous: &Self) {
        if previous.lock_version > Self::OLDEST_VERSION
            || self.required_version() == Self::OLDEST_VERSION
        {
            return;
        }
        for file in &mut self.files {
            let old = previous.file_version(&file.component, &file.version, file.arch);
            if old.is_some_and(|old| old.digest == file.digest) {
                file.checksum.forget();
            }
        }
        for artifact in &mut self.artifacts {
            let mut old = previous.artifacts.iter();
            let is_kept = old.any(|old| old.url == artifact.url && old.digest == artifact.digest);
            // The index of a chart repository was asked in this run.
            if is_kept && artifact.url.is_some() && artifact.checksum == ChecksumSource::FirstSeen {
                artifact.checksum.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "lockVersion: 1
name: x
kubernetes: []
architectures: [amd64]
files:
- component: containerd
  version: 2.3.7
  arch: amd64
  fileName: containerd
  url: https://dl.example/containerd
  size: 1
  digest: sha256:0000000000000000000000000000000000000000000000000000000000000001
  checksum:
    published: https://dl.example/containerd.sha256
  format: binary
- component: cri-dockerd
  version: 0.4.0
  arch: amd64
  fileName: cri-dockerd
  url: https://dl.example/cri-dockerd
  size: 1
  digest: sha256:0000000000000000000000000000000000000000000000000000000000000002
  checksum: firstSeen
  format: binary
images: []
packages: []
kubeadm: []
";

    fn names(lock: &Lock, basis: TrustBasis) -> Vec<String> {
        let mut trust = lock.trust();
        let records = trust.remove(&basis).unwrap_or_default().into_iter();
        records.map(|record| record.name).collect()
    }

    #[test]
    fn entries_of_version_1_stay_unrecorded_when_the_version_rises() {
        let first = Lock::from_yaml(FIRST).unwrap();
        let both = ["containerd 2.3.7 amd64", "cri-dockerd 0.4.0 amd64"];
        assert_eq!(names(&first, TrustBasis::NotRecorded), both);

        let mut same = first.clone();
        same.keep_unrecorded(&first);
        same.sort();
        assert_eq!(same, first);

        let mut next = first.clone();
        let mut added = first.files[0].clone();
        added.component = "runc".to_owned();
        added.checksum =
            ChecksumSource::Published("https://dl.example/runc.sha256".parse().unwrap());
        next.files.push(added);
        next.files.push(crate::lock::LockedFile {
            component: "socat".to_owned(),
            checksum: ChecksumSource::Mirror("https://dl.example/socat.sha256".parse().unwrap()),
            ..first.files[0].clone()
        });
        next.keep_unrecorded(&first);
        next.sort();
        assert_eq!(next.lock_version, 2);
        assert_eq!(names(&next, TrustBasis::NotRecorded), both);
        assert_eq!(
            names(&next, TrustBasis::PublisherChecksum),
            ["runc 2.3.7 amd64"]
        );
        // It stays so in the next lock, and in the file.
        let text = serde_saphyr::to_string(&next).unwrap();
        let read = Lock::from_yaml(&text).unwrap();
        let mut later = read.clone();
        later.keep_unrecorded(&read);
        assert_eq!(names(&later, TrustBasis::NotRecorded), both);
        assert!(Lock::from_yaml(&text.replace("lockVersion: 2", "lockVersion: 1")).is_err());
    }

    #[test]
    fn logins_in_the_urls_of_a_lock_are_removed() {
        let text = FIRST.replace("https://dl.example", "https://bob:CANARY@dl.example");
        let lock = Lock::from_yaml(&text).unwrap();
        assert_eq!(lock, Lock::from_yaml(FIRST).unwrap());
        assert!(!format!("{lock:?}").contains("CANARY"));
    }
}
