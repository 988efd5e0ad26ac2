//! The result of every command that writes a bundle.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::VolumeSize;
use kubexm_bundle::Written;
use kubexm_bundle::format::volumes;
use kubexm_types::event::{Event, Events};

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBundle {
    /// The file, or the name of the volumes without their numbers.
    pub path: PathBuf,
    /// The size in bytes, of all volumes together.
    pub size: u64,
    /// The SHA-256 of the file, or of all volumes in sequence, as 64 hexadecimal digits.
    pub sha256: String,
    /// The volumes, if the bundle was split.
    pub volumes: Option<Volumes>,
}

/// The volumes of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volumes {
    /// How many there are.
    pub count: u64,
    /// The first volume.
    pub first: PathBuf,
    /// The list of their checksums.
    pub list: PathBuf,
}

impl WrittenBundle {
    /// Describes a bundle that was just written, and emits the event for it.
    pub fn announce(
        events: &Events,
        path: &Path,
        written: &Written,
        split: Option<VolumeSize>,
    ) -> Self {
        let volumes = split.map(|split| Volumes {
            count: split.count(written.size),
            first: volumes::volume_path(path, 1),
            list: volumes::list_path(path),
        });
        events.emit(Event::Written {
            path: path.display().to_string(),
            size: written.size,
            sha256: written.digest.hex(),
            volumes: volumes.as_ref().map(|volumes| volumes.count),
        });
        Self {
            path: path.to_owned(),
            size: written.size,
            sha256: written.digest.hex(),
            volumes,
        }
    }
}
