//! Copies files of this machine into the cache.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::wrong;
use crate::{FetchError, Http};
use kubexm_types::{Digest, Message, ShownUrl};

/// Copies a local file into the cache.
pub(super) fn copy_in(
    http: &Http,
    path: &Path,
    expected: Option<Digest>,
) -> Result<(Digest, u64), FetchError> {
    let failed = |error: io::Error| wrong(&path.display(), error.to_string());
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let reason = Message::new("the file does not exist")
                .hint("check the path; a bundle manifest's paths are relative to the manifest");
            wrong(&path.display(), reason)
        }
        _ => failed(error),
    })?;
    if !metadata.is_file() {
        let reason = Message::new("is not a regular file")
            .hint("name a file, or the directory with the Chart.yaml of a chart");
        return Err(wrong(&path.display(), reason));
    }
    let mut file = File::open(path).map_err(failed)?;
    // The key is derived from the path, so that the next run removes what a killed run left.
    let key = Digest::of(path.as_os_str().as_encoded_bytes()).hex();
    let partial = http.cache().partial(&key)?;
    partial.restart()?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        partial.append(&buffer[..count])?;
    }
    partial
        .publish(expected.as_ref())?
        .map_err(|got| FetchError::Checksum {
            what: "a file of the user".to_owned(),
            url: ShownUrl::of_text(&path.display().to_string()),
            expected: expected.unwrap_or(got),
            got,
        })
}
