//! Reads the build information of ELF programs
//! (<https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html>). It reads them as a stream, because
//! layers are not seekable, and keeps only the headers and the section with the build information.

use std::io::{self, Read};

use super::go;
use super::rust::Crate;
use kubexm_types::{Digest, DigestReader};

/// Number of bytes that are read at a time; a multiple of the alignment of build information.
const BLOCK: usize = 1 << 16;
/// Maximum size of the section or segment table, in bytes.
const LARGEST_TABLE: u64 = 1 << 20;
/// Number of bytes before the section table that are kept, because linkers put the section names there.
const NAMES: u64 = 1 << 16;
/// Maximum size of build information, in bytes.
const LARGEST_INFO: usize = 1 << 20;
/// Maximum number of candidates for build information. A program that reads build information contains the
/// marker as a constant.
const MOST_MARKS: usize = 8;
/// `SHT_NOBITS`: a section without bytes in the file.
const NO_BITS: u64 = 8;
/// `PT_LOAD`: a segment that is mapped.
const LOAD: u64 = 1;

/// An ELF program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// SHA-256 of the file.
    pub digest: Digest,
    pub made: Made,
}

/// The build information of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// None.
    Unknown,
    /// Build information of Go.
    Go(go::BuildInfo),
    /// Pointers to the build information of Go before 1.18, which a second pass reads.
    OldGo(OldGo),
    /// The crates that cargo-auditable lists.
    Crates(Vec<Crate>),
    /// The position of the list of cargo-auditable, which a second pass reads.
    Rust(Span),
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// The position of the build information of Go 1.13 to 1.17.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldGo {
    /// Pointers to the string headers of version and modules.
    pub pointers: [u64; 2],
    /// Size of a pointer in bytes.
    pub width: usize,
    /// Whether numbers are big-endian.
    pub big: bool,
    /// The segments: address in memory, and position in the file.
    pub segments: Vec<(u64, Span)>,
}

impl OldGo {
    /// Returns the position in the file of `size` bytes at an address in memory.
    pub fn find(&self, address: u64, size: u64) -> Option<Span> {
        self.segments.iter().find_map(|(start, span)| {
            let inside = address.checked_sub(*start)?;
            let fits = inside.checked_add(size)? <= span.size;
            let offset = span.offset.checked_add(inside)?;
            fits.then_some(Span { offset, size })
        })
    }
}

/// Reads a file to its end. Returns `None` if it is not an ELF file.
///
/// # Errors
/// The file cannot be read.
pub fn look(file: impl Read) -> io::Result<Option<Program>> {
    let mut file = DigestReader::new(file);
    let mut block = vec![0; BLOCK];
    let mut scan: Option<Scan> = None;
    let mut offset = 0;
    loop {
        let count = fill(&mut file, &mut block)?;
        let bytes = &block[..count];
        if offset == 0 {
            scan = Header::parse(bytes).map(Scan::new);
        }
        let Some(scan) = &mut scan else {
            return Ok(None);
        };
        scan.block(offset, bytes);
        offset += count as u64;
        if count < BLOCK {
            break;
        }
    }
    let (digest, _) = file.finish();
    Ok(scan.map(|scan| Program {
        digest,
        made: scan.made(),
    }))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// The ELF header.
#[derive(Debug, Clone, Copy)]
struct Header {
    wide: bool,
    big: bool,
    segments: Span,
    sections: Span,
    /// Index of the section with the names of sections.
    names: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wide, big) = match bytes.get(..6)? {
            [0x7f, b'E', b'L', b'F', class @ 1..=2, data @ 1..=2] => (*class == 2, *data == 2),
            _ => return None,
        };
        let at = |offset, size| number(bytes, offset, size, big);
        let (first, second, sizes) = if wide { (32, 40, 54) } else { (28, 32, 42) };
        let width = if wide { 8 } else { 4 };
        let table = |offset, entry: u64, count: u64| Span {
            offset,
            size: (entry * count).min(LARGEST_TABLE),
        };
        Some(Self {
            wide,
            big,
            segments: table(at(first, width)?, at(sizes, 2)?, at(sizes + 2, 2)?),
            sections: table(at(second, width)?, at(sizes + 4, 2)?, at(sizes + 6, 2)?),
            names: at(sizes + 8, 2)? as usize,
        })
    }

    /// Returns address and position of every mapped segment.
    fn read_segments(&self, table: &[u8]) -> Vec<(u64, Span)> {
        let (entry, offset, address, size, width) = if self.wide {
            (56, 8, 16, 32, 8)
        } else {
            (32, 4, 8, 16, 4)
        };
        let entries = table.chunks_exact(entry).filter_map(|bytes| {
            let at = |offset, size| number(bytes, offset, size, self.big);
            let span = Span {
                offset: at(offset, width)?,
                size: at(size, width)?,
            };
            (at(0, 4)? == LOAD).then_some((at(address, width)?, span))
        });
        entries.collect()
    }

    /// Returns the name's offset and the position of every section. Sections without bytes in the file have
    /// the size 0.
    fn read_sections(&self, table: &[u8]) -> Vec<(usize, Span)> {
        let (entry, offset, size, width) = if self.wide {
            (64, 24, 32, 8)
        } else {
            (40, 16, 20, 4)
        };
        let entries = table.chunks_exact(entry).filter_map(|bytes| {
            let at = |offset, size| number(bytes, offset, size, self.big);
            let empty = at(4, 4)? == NO_BITS;
            let span = Span {
                offset: at(offset, width)?,
                size: if empty { 0 } else { at(size, width)? },
            };
            Some((at(0, 4)? as usize, span))
        });
        entries.collect()
    }
}

/// Returns an unsigned integer, or `None` if there are too few bytes.
pub fn number(bytes: &[u8], offset: usize, size: usize, big: bool) -> Option<u64> {
    let bytes = bytes.get(offset..offset.checked_add(size)?)?;
    let add = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
    Some(if big {
        bytes.iter().fold(0, add)
    } else {
        bytes.iter().rev().fold(0, add)
    })
}

/// A part of the file that is kept.
#[derive(Debug)]
struct Kept {
    span: Span,
    bytes: Vec<u8>,
}

impl Kept {
    fn new(span: Span) -> Self {
        Self {
            span,
            bytes: Vec::new(),
        }
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) {
        let next = self.span.offset.saturating_add(self.bytes.len() as u64);
        let end = self.span.offset.saturating_add(self.span.size);
        let to = end.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if let Ok(from) = usize::try_from(next.saturating_sub(offset))
            && next >= offset
            && from < to
        {
            self.bytes.extend_from_slice(&bytes[from..to]);
        }
    }
}

/// The state of the scan of a program.
#[derive(Debug)]
struct Scan {
    header: Header,
    segments: Kept,
    sections: Kept,
    /// The bytes before the section table.
    before: Kept,
    marks: Vec<Kept>,
}

impl Scan {
    fn new(header: Header) -> Self {
        let size = header.sections.offset.min(NAMES);
        let before = Span {
            offset: header.sections.offset - size,
            size,
        };
        Self {
            header,
            segments: Kept::new(header.segments),
            sections: Kept::new(header.sections),
            before: Kept::new(before),
            marks: Vec::new(),
        }
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) {
        self.segments.block(offset, bytes);
        self.sections.block(offset, bytes);
        self.before.block(offset, bytes);
        for (number, chunk) in bytes.chunks_exact(go::ALIGN).enumerate() {
            if chunk[0] == go::MARK[0]
                && chunk.starts_with(go::MARK)
                && self.marks.len() < MOST_MARKS
            {
                let offset = offset + (number * go::ALIGN) as u64;
                let size = go::HEADER as u64;
                self.marks.push(Kept::new(Span { offset, size }));
            }
        }
        for mark in &mut self.marks {
            mark.block(offset, bytes);
            // The size depends on the content that was read so far.
            while mark.bytes.len() as u64 == mark.span.size
                && let Some(more) = go::length(&mark.bytes).filter(|more| *more <= LARGEST_INFO)
                && more as u64 > mark.span.size
            {
                mark.span.size = more as u64;
                mark.block(offset, bytes);
            }
        }
    }

    fn made(&self) -> Made {
        let sections = self.header.read_sections(&self.sections.bytes);
        let segments = self.header.read_segments(&self.segments.bytes);
        // A program may contain the marker as a constant. The linker puts build information at the start of
        // a section. Without a section table every candidate is accepted.
        let stripped = self.header.sections.size == 0;
        let begins = |mark: &&Kept| {
            let start = mark.span.offset;
            stripped || sections.iter().any(|(_, section)| section.offset == start)
        };
        for mark in self.marks.iter().filter(begins) {
            if let Some(info) = go::inline(&mark.bytes) {
                return Made::Go(info);
            }
            if let Some((pointers, width, big)) = go::pointers(&mark.bytes) {
                return Made::OldGo(OldGo {
                    pointers,
                    width,
                    big,
                    segments,
                });
            }
        }
        let named = sections.iter().find(|(name, _)| {
            let text = self.name(&sections, *name);
            text.is_some_and(|text| text.starts_with(b".dep-v0\0"))
        });
        named.map_or(Made::Unknown, |(_, span)| Made::Rust(*span))
    }

    /// Returns the name of a section and the bytes after it.
    fn name(&self, sections: &[(usize, Span)], name: usize) -> Option<&[u8]> {
        let (_, names) = sections.get(self.header.names)?;
        let start = names.offset.checked_sub(self.before.span.offset)?;
        let start = usize::try_from(start).ok()?.checked_add(name)?;
        self.before.bytes.get(start..)
    }
}
