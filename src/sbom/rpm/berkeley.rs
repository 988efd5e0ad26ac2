//! Reads `Packages` of Berkeley DB, which Red Hat 8 and earlier use: a hash table with values on overflow
//! pages. The source of Berkeley DB describes the format (`dbinc/db_page.h`).

use super::numbers::{MOST_PACKAGES, big, little};

/// Magic number of the first page of a hash table.
const HASH: usize = 0x0006_1561;
/// Size of a page's header in bytes.
const BEFORE: usize = 26;
/// Types of pages with keys and values, unsorted and sorted.
const PAIRS: [u8; 2] = [2, 13];
/// Type of an overflow page.
const OVERFLOW: u8 = 7;
/// Type of an item that contains its value.
const BESIDE: u8 = 1;
/// Minimum size of a package header in bytes.
const SHORTEST: usize = 16;
/// Type of an item that refers to overflow pages.
const ELSEWHERE: u8 = 3;

/// Returns whether a file is a Berkeley DB hash table.
pub fn is(file: &[u8]) -> bool {
    little(file, 12) == Some(HASH) || big(file, 12, 4) == Some(HASH)
}

/// Returns all package headers in the file.
pub fn headers(file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    if little(file, 12) != Some(HASH) {
        return Err("is a big-endian Berkeley DB, which kubexm does not read".to_owned());
    }
    read(file).ok_or_else(|| "is a damaged Berkeley DB".to_owned())
}

fn read(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let size = little(file, 20).filter(|size| size.is_power_of_two() && *size >= 512)?;
    let mut headers = Vec::new();
    let (mut left, mut kept) = (file.len() / size, 0);
    for page in file.chunks_exact(size).skip(1) {
        if !PAIRS.contains(&page[25]) {
            continue;
        }
        let items = usize::from(u16::from_le_bytes([page[20], page[21]]));
        // Keys and values alternate. Items are stored from the end of the page to its start.
        let start = |item: usize| {
            let at = BEFORE + 2 * item;
            Some(usize::from(u16::from_le_bytes([
                *page.get(at)?,
                *page.get(at + 1)?,
            ])))
        };
        for value in (1..items).step_by(2) {
            let item = page.get(start(value)?..start(value - 1)?)?;
            let header = match *item.first()? {
                ELSEWHERE => {
                    let (first, length) = (little(item, 4)?, little(item, 8)?);
                    long(file, size, first, length, &mut left)?
                }
                // One of the values is the number of the last package, which is not a header.
                BESIDE if item.len() > SHORTEST => item[1..].to_vec(),
                _ => continue,
            };
            // All items of a malicious file may be at the same position.
            kept += header.len();
            if headers.len() == MOST_PACKAGES || kept > file.len() {
                return None;
            }
            headers.push(header);
        }
    }
    Some(headers)
}

/// Returns a value from its overflow pages, of which there are at most `left`.
fn long(
    file: &[u8],
    size: usize,
    first: usize,
    length: usize,
    left: &mut usize,
) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let mut next = first;
    while value.len() < length {
        *left = left.checked_sub(1)?;
        let start = next.checked_mul(size)?;
        let page = file.get(start..start.checked_add(size)?)?;
        if page[25] != OVERFLOW {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([page[22], page[23]]));
        value.extend_from_slice(page.get(BEFORE..BEFORE + count)?);
        next = little(page, 16)?;
    }
    value.truncate(length);
    Some(value)
}
