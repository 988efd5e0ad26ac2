//! Locks on files, as the kernel lists them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns whether a process holds a lock of flock(2) on a file.
pub fn is_held(path: &Path) -> bool {
    listed(path, false)
}

/// Returns whether a process or thread waits for a lock of flock(2) on a file.
pub fn is_awaited(path: &Path) -> bool {
    listed(path, true)
}

/// `/proc/locks`, see proc(5): a lock that is not granted yet has an arrow before its kind.
fn listed(path: &Path, awaited: bool) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    let inode = format!(":{} ", metadata.ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        line.contains("FLOCK") && line.contains(&inode) && line.contains(" -> ") == awaited
    })
}
