//! The frames of a bundle: the seek table, the header frame, and the frames of each group (`FORMAT.md`, section 3).

use std::io;
use std::sync::Arc;

use super::LocatedGroup;
use super::group::{self, FrameRange};
use crate::format::chunks::GroupLayout;
use crate::format::header::{self, BundleHeader, HeaderError};
use crate::format::seek_table::{self, FOOTER, Frame};
use crate::format::tar_entry::TRAILER;
use crate::format::volumes::VolumeSet;
use crate::write::LARGEST_FRAME;
use kubexm_types::{Message, PublicKey};

/// Maximum size of the header frame's content, in bytes.
const LARGEST_HEADER: u64 = 64 * 1024 * 1024;
/// Maximum size of the seek table, in bytes.
const LARGEST_TABLE: u64 = 16 * 1024 * 1024;

/// Returns the frames of a bundle, or the reason why the file is not a bundle.
pub fn read_seek_table(volumes: &VolumeSet) -> io::Result<Result<Vec<Frame>, Message>> {
    let size = volumes.size();
    let truncated = || match volumes.perhaps_not_last() {
        Some(last) => Message::new(format!(
            "the bundle ends too early, after {}",
            last.display()
        ))
        .hint("copy the volumes that follow, and their list, beside it"),
        None => Message::new("is truncated or is not a kubexm bundle")
            .hint("copy the bundle again, and compare its size")
            .to_owned(),
    };
    let mut magic = [0u8; 4];
    if size == 0 {
        return Ok(Err(Message::new("is empty")
            .hint("copy the bundle again")
            .to_owned()));
    }
    if size < 64 {
        return Ok(Err(truncated()));
    }
    volumes.read_exact_at(&mut magic, 0)?;
    if magic != [0x28, 0xb5, 0x2f, 0xfd] {
        return Ok(Err(Message::new(
            "is not a kubexm bundle: it is not compressed with zstd",
        )
        .hint("give a file that `kubexm bundle build` wrote")
        .to_owned()));
    }
    let mut footer = [0u8; FOOTER];
    volumes.read_exact_at(&mut footer, size - FOOTER as u64)?;
    let Some(length) =
        seek_table::table_length(&footer).filter(|l| *l <= LARGEST_TABLE && *l < size)
    else {
        return Ok(Err(truncated()));
    };
    let mut table = vec![0u8; length as usize];
    volumes.read_exact_at(&mut table, size - length)?;
    let frames = seek_table::decode(&table)
        .filter(|frames| frames.iter().map(|f| u64::from(f.packed)).sum::<u64>() == size - length);
    Ok(frames.ok_or_else(|| {
        Message::new("its seek table does not match the size of the file")
            .hint("copy the bundle again")
            .to_owned()
    }))
}

/// Reads the header frame.
pub fn read_header(
    volumes: &VolumeSet,
    frames: &[Frame],
    trust: &[PublicKey],
) -> Result<BundleHeader, HeaderError> {
    let frame = frames.first().ok_or("its seek table is empty")?;
    let plain = u64::from(frame.plain);
    if plain > LARGEST_HEADER {
        return Err(Message::new("its header is larger than 64 MiB")
            .hint("copy the bundle again")
            .into());
    }
    let range = FrameRange {
        offset: 0,
        packed: u64::from(frame.packed),
    };
    let decoder = group::decoder(volumes, range).map_err(|_| {
        Message::new("its header cannot be decompressed").hint("copy the bundle again")
    })?;
    header::read(decoder, plain, trust)
}

/// Assigns the frames of the seek table to the groups of the placement document, in order.
pub fn locate(header: &BundleHeader, frames: &[Frame]) -> Result<Vec<LocatedGroup>, Message> {
    let mismatch = || {
        Message::new("its seek table does not match its placement document")
            .hint("copy the bundle again")
            .to_owned()
    };
    let sizes = header.lock.blobs();
    let mut offset = u64::from(frames.first().ok_or_else(mismatch)?.packed);
    let mut rest = frames.iter().enumerate().skip(1);
    let mut end = 1;
    let mut groups = Vec::new();
    for group in &header.storage.groups {
        let layout = GroupLayout::new(group, |digest| sizes.get(digest).map(|blob| blob.size))
            .ok_or_else(mismatch)?;
        let mut left = layout.plain().ok_or_else(mismatch)?;
        let (start, first) = (offset, end);
        while left > 0 {
            let (index, frame) = rest.next().ok_or_else(mismatch)?;
            end = index + 1;
            if u64::from(frame.plain) != left.min(LARGEST_FRAME) {
                return Err(mismatch());
            }
            left -= u64::from(frame.plain);
            offset += u64::from(frame.packed);
        }
        groups.push(LocatedGroup {
            frames: FrameRange {
                offset: start,
                packed: offset - start,
            },
            indexes: first..end,
            layout: Arc::new(layout),
        });
    }
    match (rest.next(), rest.next()) {
        (Some((_, trailer)), None) if u64::from(trailer.plain) == TRAILER => Ok(groups),
        _ => Err(mismatch()),
    }
}
