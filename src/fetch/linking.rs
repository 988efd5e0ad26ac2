//! Reads from ELF programs what they need of a host: the dynamic linker, libraries, and the version of glibc.

use std::io::{self, Read, Seek, SeekFrom};

use object::elf::{DT_NEEDED, FileHeader64, PT_DYNAMIC};
use object::read::elf::{FileHeader, ProgramHeader, SectionTable};
use object::{Endianness, ReadCache, ReadRef};

use kubexm_bundle::lock::Linking;
use kubexm_types::{GlibcVersion, Line};

/// The number of bytes at the start of a file that are read to find out whether a program is static. The program headers
/// follow the header of the file.
const START: u64 = 1 << 16;
/// Maximum number of libraries of a program, and of versions of their symbols.
const MOST_NAMES: usize = 1024;

type Header = FileHeader64<Endianness>;

/// Reads a program to its end, so that a verifying reader verifies it. Returns `None` if it is static, or is not an ELF
/// program of 64 bits.
///
/// # Errors
/// The program cannot be read, a temporary file cannot be written, or an ELF program is damaged.
pub(crate) fn read(mut program: impl Read) -> io::Result<Option<Linking>> {
    let mut start = Vec::new();
    program.by_ref().take(START).read_to_end(&mut start)?;
    if !is_dynamic(&start) {
        io::copy(&mut program, &mut io::sink())?;
        return Ok(None);
    }
    // The tables are at several places of the file.
    let mut file = tempfile::tempfile()?;
    io::copy(&mut start.as_slice().chain(program), &mut file)?;
    file.seek(SeekFrom::Start(0))?;
    let cache = ReadCache::new(file);
    linking(&cache).map(Some).map_err(io::Error::other)
}

/// Whether the start of a file is that of a dynamically linked program.
fn is_dynamic(start: &[u8]) -> bool {
    let has_segment = || -> object::Result<bool> {
        let header = Header::parse(start)?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, start)?;
        Ok(segments
            .iter()
            .any(|segment| segment.p_type(endian) == PT_DYNAMIC))
    };
    has_segment().unwrap_or(false)
}

fn linking<'data>(data: impl ReadRef<'data>) -> object::Result<Linking> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let mut interpreter = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            interpreter = line(path);
        }
    }
    let sections = header.sections(endian, data)?;
    Ok(Linking {
        interpreter,
        libraries: libraries(&sections, endian, data)?,
        glibc: newest_glibc(&sections, endian, data)?,
    })
}

fn libraries<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, Header, R>,
    endian: Endianness,
    data: R,
) -> object::Result<Vec<Line>> {
    let table = sections.dynamic_table(endian, data)?;
    let needed = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let names = needed.take(MOST_NAMES).map(|entry| table.string(entry));
    let names: Vec<&[u8]> = names.collect::<object::Result<_>>()?;
    Ok(names.into_iter().filter_map(line).collect())
}

/// Returns the newest version of glibc's symbols in `.gnu.version_r`.
fn newest_glibc<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, Header, R>,
    endian: Endianness,
    data: R,
) -> object::Result<Option<GlibcVersion>> {
    let Some((needs, strings)) = sections.gnu_verneed(endian, data)? else {
        return Ok(None);
    };
    let strings = sections.strings(endian, data, strings)?;
    let mut newest = None;
    for need in needs.take(MOST_NAMES) {
        let (_, versions) = need?;
        for version in versions.take(MOST_NAMES) {
            let name = version?.name(endian, strings)?;
            let version = str::from_utf8(name).ok().and_then(GlibcVersion::of_symbol);
            newest = newest.max(version);
        }
    }
    Ok(newest)
}

/// Returns a name. The dynamic linker finds nothing under a name that is not one line of text.
fn line(name: &[u8]) -> Option<Line> {
    str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_program_names_linker_libraries_and_glibc() {
        let this = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let linking = read(this).unwrap().unwrap();
        assert!(linking.interpreter.unwrap().as_str().contains("/ld-linux"));
        assert!(linking.libraries.contains(&"libc.so.6".parse().unwrap()));
        let glibc = linking.glibc.unwrap();
        assert!(
            glibc >= GlibcVersion::parse("2.17").unwrap(),
            "the oldest version that Rust supports: {glibc}"
        );
    }

    #[test]
    fn other_files_need_nothing() {
        for content in [
            &b""[..],
            b"\x7fELF",
            b"#!/bin/sh\necho hello\n",
            &[0; 100_000],
        ] {
            assert_eq!(read(content).unwrap(), None);
        }
    }

    #[test]
    fn damaged_programs_end_in_an_error_or_in_a_result() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let start = &program[..START as usize];
        assert!(read(start).is_err(), "the sections are missing");
        for at in 0..2048 {
            let mut damaged = start.to_vec();
            damaged[at] ^= 0xff;
            let _ = read(damaged.as_slice());
        }
    }
}
