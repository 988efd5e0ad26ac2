//! The seek table at the end of a bundle: the sizes of all zstd frames.
//!
//! The zstd seekable format
//! (<https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md>):
//! a skippable frame with a pair of sizes for each frame, and a footer. Decoders that do not know it skip
//! it. kubexm writes it without a library, because its frames must start at tar entries and the format
//! consists of two structures with three numbers each.

/// Magic number of the skippable frame.
const SKIPPABLE: u32 = 0x184D_2A5E;
/// Magic number that ends the file.
const SEEKABLE: u32 = 0x8F92_EAB1;
/// Size of the footer in bytes: number of frames, descriptor, magic number.
pub const FOOTER: usize = 9;
/// Size of a skippable frame's header in bytes.
const HEADER: usize = 8;
/// Size of an entry in bytes: compressed and decompressed size.
const ENTRY: usize = 8;

/// The sizes of a frame in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Compressed, in the file.
    pub packed: u32,
    /// Decompressed.
    pub plain: u32,
}

/// Returns the skippable frame for a list of frames.
pub fn encode(frames: &[Frame]) -> Vec<u8> {
    let length = frames.len() * ENTRY + FOOTER;
    let mut table = Vec::with_capacity(HEADER + length);
    table.extend(SKIPPABLE.to_le_bytes());
    table.extend((length as u32).to_le_bytes());
    for frame in frames {
        table.extend(frame.packed.to_le_bytes());
        table.extend(frame.plain.to_le_bytes());
    }
    table.extend((frames.len() as u32).to_le_bytes());
    table.push(0);
    table.extend(SEEKABLE.to_le_bytes());
    table
}

/// Returns the size of the table in bytes from the last [`FOOTER`] bytes of the file, or `None` if they
/// are not a footer.
pub fn table_length(footer: &[u8; FOOTER]) -> Option<u64> {
    let [a, b, c, d, descriptor, m0, m1, m2, m3] = *footer;
    if u32::from_le_bytes([m0, m1, m2, m3]) != SEEKABLE || descriptor != 0 {
        return None;
    }
    let count = u64::from(u32::from_le_bytes([a, b, c, d]));
    Some(HEADER as u64 + count * ENTRY as u64 + FOOTER as u64)
}

/// Returns the frames of a table, or `None` if it is inconsistent.
pub fn decode(table: &[u8]) -> Option<Vec<Frame>> {
    let (header, rest) = table.split_at_checked(HEADER)?;
    let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
    let length = number(&header[4..])? as usize;
    if number(&header[..4])? != SKIPPABLE || length != rest.len() {
        return None;
    }
    let entries = rest.get(..rest.len().checked_sub(FOOTER)?)?;
    entries
        .chunks_exact(ENTRY)
        .map(|entry| {
            Some(Frame {
                packed: number(&entry[..4])?,
                plain: number(&entry[4..])?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let frames = [
            Frame {
                packed: 10,
                plain: 512,
            },
            Frame {
                packed: 7,
                plain: u32::MAX,
            },
        ];
        let table = encode(&frames);
        let footer = table[table.len() - FOOTER..].try_into().unwrap();
        assert_eq!(table_length(&footer), Some(table.len() as u64));
        assert_eq!(decode(&table).unwrap(), frames);
        assert_eq!(decode(&table[1..]), None);
    }
}
