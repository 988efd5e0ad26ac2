//! Entries of the tar inside a bundle.

/// The unit of a tar file in bytes.
pub(crate) const TAR_BLOCK: u64 = 512;
/// The zeros at the end of a tar file, in bytes.
pub(crate) const TRAILER: u64 = 2 * TAR_BLOCK;

/// A tar header with nothing of this machine in it.
pub(crate) fn entry_header(name: &str, size: u64) -> [u8; TAR_BLOCK as usize] {
    let mut header = tar::Header::new_gnu();
    // Names are `oci-layout`, `index.json` and `blobs/sha256/…`: always valid, always short.
    let _ = header.set_path(name);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    *header.as_bytes()
}
