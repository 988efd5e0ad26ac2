//! Reads `Packages.db` of the ndb backend, which SUSE uses. Slots contain the position of each header. The
//! source of rpm describes the format (`lib/backend/ndb/rpmpkg.c`).

use super::numbers::{MOST_PACKAGES, little};

/// The first bytes of the file.
pub const MAGIC: &[u8] = b"RpmP";
/// Size of a page of slots in bytes.
const PAGE: usize = 4096;
/// Size of a slot in bytes. The header of the file takes the place of the first two slots.
const SLOT: usize = 16;
/// Alignment of headers in bytes.
const BLOCK: usize = 16;
/// Number of bytes before a header.
const BEFORE: usize = 16;

/// Returns all package headers in the file.
pub fn headers(file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    read(file).ok_or_else(|| "is a damaged ndb database of rpm".to_owned())
}

fn read(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let slots = file.get(2 * SLOT..little(file, 12)?.checked_mul(PAGE)?)?;
    let mut headers = Vec::new();
    for slot in slots.chunks_exact(SLOT) {
        let (number, offset) = (little(slot, 4)?, little(slot, 8)?);
        if !slot.starts_with(b"Slot") || number == 0 || offset == 0 {
            continue;
        }
        let blob = file.get(offset.checked_mul(BLOCK)?..)?;
        let right = blob.starts_with(b"BlbS") && little(blob, 4)? == number;
        if !right || headers.len() == MOST_PACKAGES {
            return None;
        }
        let length = little(blob, 12)?;
        headers.push(blob.get(BEFORE..)?.get(..length)?.to_vec());
    }
    within(headers, file)
}

/// Limits the total size, because all slots of a malicious file may refer to the same bytes.
fn within(headers: Vec<Vec<u8>>, file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: usize = headers.iter().map(Vec::len).sum();
    (all <= file.len()).then_some(headers)
}
