//! Reads the table `Packages` of `rpmdb.sqlite` (<https://www.sqlite.org/fileformat2.html>). Only table
//! leaves and overflow pages are needed for the list of headers.

use super::numbers::{MOST_PACKAGES, big};

/// The first bytes of the file.
pub const MAGIC: &[u8] = b"SQLite format 3\0";
/// Maximum depth of a table's tree.
const DEEPEST: usize = 20;

const INTERIOR: u8 = 5;
const LEAF: u8 = 13;

/// Returns all package headers in the file.
pub fn headers(file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let damaged = || "is a damaged SQLite database".to_owned();
    let database = Database::open(file).ok_or_else(damaged)?;
    let schema = database.rows(1).ok_or_else(damaged)?;
    let root = schema
        .iter()
        .find_map(|row| packages_root(row))
        .ok_or("has no table of packages")?;
    let rows = database.rows(root).ok_or_else(damaged)?;
    let blobs = rows.iter().map(|row| {
        let columns = columns(row)?;
        // The first column is the row ID, which is not stored in the row.
        Some(columns.get(1)?.1.to_vec())
    });
    blobs.collect::<Option<_>>().ok_or_else(damaged)
}

/// Returns the root page of the table, if this is its row in the schema (type, name, table, page, SQL).
fn packages_root(row: &[u8]) -> Option<usize> {
    let columns = columns(row)?;
    let (kind, name) = (columns.first()?.1, columns.get(1)?.1);
    let root = columns.get(3)?.1;
    (kind == b"table" && name == b"Packages")
        .then(|| big(root, 0, root.len()))
        .flatten()
}

struct Database<'a> {
    file: &'a [u8],
    page: usize,
    /// Number of usable bytes of a page.
    usable: usize,
}

impl<'a> Database<'a> {
    fn open(file: &'a [u8]) -> Option<Self> {
        let page = match big(file, 16, 2)? {
            1 => 65536,
            size if size >= 512 && size.is_power_of_two() => size,
            _ => return None,
        };
        let usable = page.checked_sub(big(file, 20, 1)?)?;
        (usable >= 480).then_some(Self { file, page, usable })
    }

    /// Returns a page; the first page is 1.
    fn page(&self, number: usize) -> Option<&'a [u8]> {
        let start = number.checked_sub(1)?.checked_mul(self.page)?;
        self.file.get(start..start.checked_add(self.page)?)
    }

    /// Returns the content of every row of a table.
    fn rows(&self, root: usize) -> Option<Vec<Vec<u8>>> {
        let mut rows = Vec::new();
        // A file without cycles reads every page once, and every cell once more.
        let mut left = self.file.len().saturating_mul(2);
        self.walk(root, 0, &mut left, &mut rows)?;
        Some(rows)
    }

    /// Traverses the tree below a page, and reads at most `left` bytes.
    fn walk(
        &self,
        number: usize,
        depth: usize,
        left: &mut usize,
        rows: &mut Vec<Vec<u8>>,
    ) -> Option<()> {
        *left = left.checked_sub(self.page).filter(|_| depth < DEEPEST)?;
        let page = self.page(number)?;
        // The first page starts with the header of the file.
        let start = if number == 1 { 100 } else { 0 };
        let kind = *page.get(start)?;
        let cells = big(page, start + 3, 2)?;
        let pointers = start + if kind == INTERIOR { 12 } else { 8 };
        for cell in 0..cells {
            let at = big(page, pointers + 2 * cell, 2)?;
            match kind {
                INTERIOR => self.walk(big(page, at, 4)?, depth + 1, left, rows)?,
                LEAF if rows.len() < MOST_PACKAGES => rows.push(self.row(page.get(at..)?, left)?),
                _ => return None,
            }
        }
        match kind {
            INTERIOR => self.walk(big(page, start + 8, 4)?, depth + 1, left, rows),
            LEAF => Some(()),
            _ => None,
        }
    }

    /// Returns the content of a cell with its overflow pages.
    fn row(&self, cell: &[u8], left: &mut usize) -> Option<Vec<u8>> {
        let (size, width) = varint(cell)?;
        let cell = cell.get(width..)?;
        let (_, width) = varint(cell)?;
        let cell = cell.get(width..)?;
        let local = self.local(size);
        *left = left.checked_sub(local)?;
        let mut row = cell.get(..local)?.to_vec();
        if local == size {
            return Some(row);
        }
        let mut next = big(cell, local, 4)?;
        while row.len() < size {
            *left = left.checked_sub(self.page)?;
            let page = self.page(next)?;
            next = big(page, 0, 4)?;
            let count = (size - row.len()).min(self.usable - 4);
            row.extend_from_slice(page.get(4..4 + count)?);
        }
        Some(row)
    }

    /// Returns the number of bytes of a row that its leaf contains (section "Cell Payload Overflow Pages").
    fn local(&self, size: usize) -> usize {
        let most = self.usable - 35;
        if size <= most {
            return size;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + (size - least) % (self.usable - 4);
        if fitting <= most { fitting } else { least }
    }
}

/// Returns type and bytes of each column of a row.
fn columns(row: &[u8]) -> Option<Vec<(usize, &[u8])>> {
    let (length, width) = varint(row)?;
    let (header, mut body) = row.split_at_checked(length)?;
    let mut header = header.get(width..)?;
    let mut columns = Vec::new();
    while !header.is_empty() {
        let (kind, width) = varint(header)?;
        header = &header[width..];
        let size = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            _ => kind.checked_sub(12)? / 2,
        };
        let (value, rest) = body.split_at_checked(size)?;
        columns.push((kind, value));
        body = rest;
    }
    Some(columns)
}

/// Parses a varint: groups of seven bits, the highest first; the ninth byte has eight bits.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0u64;
    for at in 0..9 {
        let byte = *bytes.get(at)?;
        if at == 8 {
            value = value << 8 | u64::from(byte);
            return Some((usize::try_from(value).ok()?, 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(value).ok()?, at + 1));
        }
    }
    None
}
