//! Go's own encoder, GNU gzip and zlib.

use std::io::Write;

use gzip_exact::{Encoder, Era, GoLevel, Kind, Recognition, ZlibLevel, recognise};

use crate::content::{TEXT, contents};
use crate::programs::{gnu_gzip, go_1_27_gzip, go_gzip, zlib_gzip};
use crate::reproduced;

const LEVELS: [i8; 11] = [-2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/// The usual levels.
const USUAL: [i8; 3] = [1, 6, 9];
/// The contents that every level compresses; for the others the usual levels suffice.
const THOROUGH: [&str; 3] = ["mixed", "text", "a program"];

fn levels_for(content: &str) -> &'static [i8] {
    if THOROUGH.contains(&content) {
        &LEVELS
    } else {
        &USUAL
    }
}

#[test]
fn every_level_is_reproduced() {
    type Packer = fn(&[u8], i8, usize) -> Vec<u8>;
    type Expected = fn(GoLevel) -> Encoder;
    let new: Expected = |level| Encoder::Klauspost(Era::Go1_27, level);
    let packers: [(&str, Packer, Expected); 2] =
        [("1.26", go_gzip, Encoder::Go), ("1.27", go_1_27_gzip, new)];
    for (name, content) in contents() {
        for (version, pack, expected) in packers {
            // The tests of klauspost's releases cover most of Go 1.27.
            let alone = name == "late symbols" || THOROUGH.contains(&name);
            if version == "1.27" && !alone {
                continue;
            }
            for &level in levels_for(name) {
                let packed = pack(&content, level, 32 * 1024);
                let (encoder, again) = reproduced(&packed, &content)
                    .unwrap_or_else(|| panic!("{name}, Go {version} at level {level}: unknown"));
                assert!(
                    again == packed,
                    "{name}, Go {version} at level {level} differs"
                );
                // Levels with the same output may stand for each other.
                if name == "a program" {
                    assert_eq!(encoder, expected(GoLevel::new(level).unwrap()));
                }
            }
        }
    }
}

/// Go discards old bytes when there is no room for the next block. Level 4 depends on when it did.
#[test]
fn last_block_with_room_is_reproduced() {
    let block = 65_535;
    let text = TEXT.repeat(60);
    for rest in [20_000, 32_767, 32_768, 60_000] {
        let content = &text[..9 * block + rest];
        let packed = go_1_27_gzip(content, 4, 32 * 1024);
        let (_, again) = reproduced(&packed, content).unwrap_or_else(|| panic!("{rest}: unknown"));
        assert!(again == packed, "{rest}");
    }
}

#[test]
fn gnu_gzip_and_zlib_are_reproduced() {
    type Packer = fn(&[u8], i8) -> Vec<u8>;
    let packers: [(Kind, Packer); 2] = [(Kind::Gnu, gnu_gzip), (Kind::Zlib, zlib_gzip)];
    for (name, content) in contents() {
        for (kind, pack) in packers {
            for &level in levels_for(name).iter().filter(|level| **level > 0) {
                let packed = pack(&content, level);
                let (encoder, again) = reproduced(&packed, &content)
                    .unwrap_or_else(|| panic!("{name}, {kind:?} at level {level}: unknown"));
                assert!(again == packed, "{name}, {kind:?} at level {level} differs");
                if name == "a program" {
                    let level = ZlibLevel::new(level.unsigned_abs()).unwrap();
                    assert_eq!(encoder, Encoder::Zlib(kind, level));
                }
            }
        }
    }
}

#[test]
fn every_short_length_is_reproduced() {
    let text = include_bytes!("text.txt");
    for length in (0..300).chain([4095, 4096, 65_534]) {
        let content: Vec<u8> = text.iter().cycle().take(length).copied().collect();
        for level in [1, 6, 9] {
            let packed = go_gzip(&content, level, 32 * 1024);
            let again = reproduced(&packed, &content).map(|(_, again)| again);
            assert!(
                again.as_ref() == Some(&packed),
                "{length} bytes at level {level}"
            );
        }
    }
}

#[test]
fn size_of_writes_to_go_does_not_change_output() {
    let (_, content) = contents().pop().unwrap();
    let packed = go_gzip(&content, 6, 32 * 1024);
    for chunk in [1000, 65_536, 1 << 20] {
        assert!(go_gzip(&content, 6, chunk) == packed, "chunks of {chunk}");
    }
}

#[test]
fn damaged_and_foreign_streams_are_unknown() {
    let content = include_bytes!("text.txt");
    let packed = go_gzip(content, 6, 32 * 1024);
    let known = |bytes: &[u8]| recognise(bytes, std::io::sink()).unwrap() != Recognition::Unknown;
    assert!(known(&packed));
    assert!(!known(&packed[..packed.len() - 1]), "cut off");
    assert!(!known(&packed[..packed.len() / 2]), "cut in the middle");
    assert!(!known(&[&packed[..], &packed[..]].concat()), "two members");
    assert!(
        !known(&[&packed[..], &[0; 512]].concat()),
        "padding behind it"
    );
    for place in (10..packed.len()).step_by(7) {
        let mut flipped = packed.clone();
        flipped[place] ^= 0x10;
        assert!(!known(&flipped), "a bit flipped at {place}");
    }
    assert!(!known(b"no gzip at all"));
    assert!(!known(b""));
    // A stream of an unknown encoder with the header of Go.
    let mut zlib = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    zlib.write_all(content).unwrap();
    let mut zlib = zlib.finish().unwrap();
    assert!(!known(&zlib));
    zlib[..10].copy_from_slice(&packed[..10]);
    assert!(!known(&zlib));
}
