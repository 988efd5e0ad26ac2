//! Cached results of the gzip analysis of blobs, because the analysis takes longer than packing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Cache;
use kubexm_bundle::EncoderCache;
use kubexm_bundle::format::placement::DecompressedGzip;
use kubexm_types::{Digest, write_atomic};

/// Increased when encoders are added or changed, so that every blob is analysed again.
const ENCODERS: u32 = 3;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CachedAnalysis {
    /// The blob's digest, to detect renamed or truncated files.
    blob: Digest,
    encoders: u32,
    opened: Option<DecompressedGzip>,
    /// SHA-256 of `opened`, because builds sign what a file says.
    check: Digest,
}

/// Returns the digest of a result.
fn check(opened: Option<&DecompressedGzip>) -> Option<Digest> {
    let text = serde_json::to_vec(&opened).ok()?;
    Some(Digest::of(&text))
}

impl Cache {
    /// Returns the path of a blob's analysis result.
    pub(super) fn analysis_path(&self, blob: &Digest) -> PathBuf {
        self.analyses().join(format!("{}.json", blob.hex()))
    }
}

impl EncoderCache for Cache {
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>> {
        let text = std::fs::read(self.analysis_path(blob)).ok()?;
        let cached: CachedAnalysis = serde_json::from_slice(&text).ok()?;
        let is_known = |opened: &DecompressedGzip| opened.recipe.known().is_ok();
        let valid = cached.blob == *blob
            && cached.encoders == ENCODERS
            && check(cached.opened.as_ref()) == Some(cached.check)
            && cached.opened.as_ref().is_none_or(is_known);
        valid.then_some(cached.opened)
    }

    fn keep(&self, blob: &Digest, opened: Option<&DecompressedGzip>) {
        let Some(check) = check(opened) else { return };
        let cached = CachedAnalysis {
            blob: *blob,
            encoders: ENCODERS,
            opened: opened.cloned(),
            check,
        };
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_vec(&cached)?;
            write_atomic(&self.analysis_path(blob), &text, 0o600)
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "cannot store a gzip analysis result");
        }
    }
}
