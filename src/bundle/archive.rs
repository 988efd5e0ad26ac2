//! Reads the tar inside `.tar.gz` archives. [`super::Blobs::open_content`] returns the tar.

use std::io::{self, Read};

use super::lock::{Linking, Member};
use kubexm_types::DigestReader;

/// Returns the regular files of a tar that `wanted` accepts, with sizes and digests, by path. `linking` reads a file to
/// its end and returns what it needs of a host.
///
/// # Errors
/// The archive cannot be read.
pub fn list_members(
    archive: impl Read,
    wanted: impl Fn(&str) -> bool,
    mut linking: impl FnMut(&mut dyn Read) -> io::Result<Option<Linking>>,
) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    each_member(archive, |path, entry| {
        if wanted(path) {
            let mut hashed = DigestReader::new(entry);
            let linking = linking(&mut hashed)?;
            let (digest, size) = hashed.finish();
            members.push(Member {
                path: path.to_owned(),
                size,
                digest,
                linking,
            });
        }
        Ok(())
    })?;
    members.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(members)
}

/// Calls `take` for every regular file of a tar, in the order of the archive.
///
/// # Errors
/// The archive cannot be read, or `take` fails.
pub fn each_member(
    archive: impl Read,
    mut take: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        take(path.trim_start_matches("./"), &mut entry)?;
    }
    // Bytes after the end of the tar belong to the blob. Reading to the end verifies its digest.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}
