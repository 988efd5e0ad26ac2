//! klauspost/compress and pgzip in several releases.

use std::io::Write;
use std::num::NonZeroUsize;

use gzip_exact::{BlockSize, Encoder, Era, GoLevel, Recipe};

use crate::content::{contents, late_symbols, mixture, noise};
use crate::programs::Release;
use crate::reproduced;

/// At least one release of each era; the first and the last one of the eras with many.
const RELEASES: [(Release, Era); 5] = [
    (Release("1.15.15"), Era::V1_15_11),
    (Release("1.17.11"), Era::V1_15_11),
    (Release("1.18.0"), Era::V1_18_0),
    (Release("1.19.2"), Era::V1_18_2),
    (Release("1.20.3"), Era::V1_20_0),
];
const LEVELS: [i8; 11] = [-2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

fn level(number: i8) -> GoLevel {
    GoLevel::new(number).unwrap()
}

/// The parameters that tools use: pgzip at klauspost's default level, 5.
#[test]
fn default_parameters_of_tools_are_reproduced() {
    let contents = contents();
    let packable: Vec<&[u8]> = contents.iter().map(|(_, content)| &content[..]).collect();
    for release in [Release("1.17.11"), Release("1.20.3")] {
        let ways = ["pgzip:-1:32768", "gzip:6:32768"].map(str::to_owned);
        for ((name, content), streams) in contents.iter().zip(release.pack(&packable, &ways)) {
            for (way, packed) in ways.iter().zip(streams) {
                let again = reproduced(&packed, content).map(|(_, again)| again);
                assert!(again == Some(packed), "{name}, {release:?}, {way}");
            }
        }
    }
}

/// The content is a program of several pgzip blocks, on which the eras differ at every level.
#[test]
fn era_is_recognised() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let content = &program[..program.len().min(1_300_000)];
    for (release, era) in RELEASES {
        let ways: Vec<String> = LEVELS.map(|level| format!("pgzip:{level}:1000000")).into();
        for (number, packed) in LEVELS
            .into_iter()
            .zip(release.pack(&[content], &ways).remove(0))
        {
            let (encoder, again) = reproduced(&packed, content)
                .unwrap_or_else(|| panic!("{release:?} at level {number} is not recognised"));
            assert!(again == packed, "{release:?} at level {number} differs");
            let expected = match (number, era) {
                (..=0, _) => Era::V1_18_2,
                (4, _) => era.min(Era::V1_18_2),
                (_, Era::V1_18_0) => Era::V1_15_11,
                (7.., _) => era,
                _ => era.min(Era::V1_18_2),
            };
            let Encoder::Pgzip(found, found_level, BlockSize::DEFAULT) = encoder else {
                panic!("{release:?} at level {number} passes for {encoder}");
            };
            assert_eq!(found_level, level(number), "{release:?}");
            // On this content pgzip's blocks start alike in both eras.
            let alike = number >= 7 && era == Era::V1_18_2 && found == Era::V1_20_0;
            assert!(
                alike || found == expected,
                "{release:?} at level {number}: {encoder}"
            );
        }
    }
}

/// Both sides write the content in parts of different sizes.
#[test]
fn size_of_writes_does_not_change_output() {
    let lengths = [
        0, 1, 12, 13, 32, 33, 127, 128, 300, 16_384, 16_385, 65_535, 65_536, 65_680, 150_001,
    ];
    let mut contents: Vec<Vec<u8>> = (0..)
        .zip(lengths)
        .map(|(seed, length)| mixture(length, seed))
        .collect();
    // Repeats near the maximum distance of the searches, which differ in it.
    for (seed, reach) in (50..).zip([32_763, 32_764, 32_767, 32_768]) {
        contents.push(mixture(reach, seed).repeat(2));
    }
    contents.push(late_symbols());
    // Level 9 counts the bytes of two windows in 16 bits.
    contents.push(vec![7; 140_000]);
    let packable: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
    for (release, era) in RELEASES {
        let mut cases: Vec<(String, Encoder)> = Vec::new();
        for number in LEVELS {
            let chunk = 1 + noise(2, number as u64)[0] as usize * 257;
            cases.push((
                format!("gzip:{number}:{chunk}"),
                Encoder::Klauspost(era, level(number)),
            ));
            let size = 16_385 + 13_331 * (number + 2) as u32;
            let encoder = Encoder::Pgzip(era, level(number), BlockSize::new(size).unwrap());
            cases.push((format!("pgzip:{number}:{chunk}:{size}"), encoder));
        }
        let ways: Vec<String> = cases.iter().map(|(way, _)| way.clone()).collect();
        for (content, streams) in contents.iter().zip(release.pack(&packable, &ways)) {
            for ((way, encoder), packed) in cases.iter().zip(streams) {
                let header = packed[..10].to_vec();
                let recipe = Recipe {
                    header,
                    encoder: *encoder,
                };
                let mut again = Vec::new();
                let mut writer = recipe.writer();
                for part in content.chunks(1 + content.len() / 7) {
                    writer.write_all(part).unwrap();
                    again.append(writer.out());
                }
                again.extend(writer.finish().unwrap());
                // At these levels pgzip may store bytes of the dictionary too; such a
                // stream is not valid.
                let broken = encoder_may_break(*encoder) && !decompresses_to(&packed, content);
                assert!(
                    again == packed || broken,
                    "{} bytes, {release:?}, {way}",
                    content.len()
                );
            }
        }
    }
}

fn encoder_may_break(encoder: Encoder) -> bool {
    matches!(encoder, Encoder::Pgzip(era, level, _) if era < Era::V1_20_0 && level.number() >= 7)
}

fn decompresses_to(packed: &[u8], content: &[u8]) -> bool {
    let mut opened = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut opened).is_ok()
        && opened == content
}

#[test]
fn threads_do_not_change_output() {
    let content = mixture(900_000, 1);
    for number in [-2, 0, 1, 5, 9] {
        let size = BlockSize::new(100_000).unwrap();
        let encoder = Encoder::Pgzip(Era::V1_18_2, level(number), size);
        let recipe = Recipe {
            header: vec![0; 10],
            encoder,
        };
        // No block, less than one, exactly one and several.
        for length in [0, 99_999, 100_000, 900_000] {
            let made = |threads| {
                let mut writer = recipe.writer_on(NonZeroUsize::new(threads).unwrap());
                for part in content[..length].chunks(33_333) {
                    writer.write_all(part).unwrap();
                }
                writer.finish().unwrap()
            };
            let one = made(1);
            assert!(
                [2, 3, 16].into_iter().all(|threads| made(threads) == one),
                "{length} at {number}"
            );
        }
    }
}
