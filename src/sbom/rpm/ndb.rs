//! `Packages.db` of rpm's own backend, which SUSE uses: slots that say where each header lies (the
//! format is described in rpm's source, `lib/backend/ndb/rpmpkg.c`).

use super::{MOST_PACKAGES, little};

/// Begins the file.
pub const MAGIC: &[u8] = b"RpmP";
/// Slots are counted in pages of it.
const PAGE: usize = 4096;
/// Bytes of a slot; the file's header takes the place of the first two.
const SLOT: usize = 16;
/// Headers lie at multiples of it.
const BLOCK: usize = 16;
/// Bytes before a header.
const BEFORE: usize = 16;

/// Every header in the file.
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

/// Slots of a hostile file may all name the same bytes.
fn within(headers: Vec<Vec<u8>>, file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: usize = headers.iter().map(Vec::len).sum();
    (all <= file.len()).then_some(headers)
}
