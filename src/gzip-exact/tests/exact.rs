//! Streams that Go's own compressor, GNU gzip and zlib made are recognised and made again, bit for bit.

// A test that fails shall panic, helper or not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use gzip_exact::{Encoder, GoLevel, Kind, Recognition, ZlibLevel, recognise};

const LEVELS: [i8; 11] = [-2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/// The levels that nearly everybody uses.
const USUAL: [i8; 3] = [1, 6, 9];
/// The contents that exercise every level; for the others the usual levels must do.
const THOROUGH: [&str; 3] = ["mixed", "text", "a program"];

fn levels_for(content: &str) -> &'static [i8] {
    match THOROUGH.contains(&content) {
        true => &LEVELS,
        false => &USUAL,
    }
}

/// The Go program beside this test, built once.
fn writer() -> &'static Path {
    static WRITER: OnceLock<PathBuf> = OnceLock::new();
    WRITER.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gzip-writer");
        let status = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go"))
            .status()
            .expect("the Go toolchain is installed");
        assert!(status.success());
        program
    })
}

fn go_gzip(content: &[u8], level: i8, chunk: usize) -> Vec<u8> {
    let arguments = [level.to_string(), chunk.to_string()];
    filtered(Command::new(writer()).args(arguments), content)
}

/// As `tar -z` calls it.
fn gnu_gzip(content: &[u8], level: i8) -> Vec<u8> {
    filtered(Command::new("gzip").arg(format!("-{level}")), content)
}

/// Python's zlib with a gzip header around it: windowBits 31.
fn zlib_gzip(content: &[u8], level: i8) -> Vec<u8> {
    let program = "import sys, zlib\n\
        c = zlib.compressobj(int(sys.argv[1]), zlib.DEFLATED, 31)\n\
        sys.stdout.buffer.write(c.compress(sys.stdin.buffer.read()) + c.flush())\n";
    let arguments = ["-c", program, &level.to_string()];
    filtered(Command::new("python3").args(arguments), content)
}

fn filtered(command: &mut Command, content: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(content).unwrap());
        let mut packed = Vec::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_end(&mut packed)
            .unwrap();
        assert!(child.wait().unwrap().success());
        packed
    })
}

/// What a stream is made again from, and the stream that this gives.
fn made_again(packed: &[u8], content: &[u8]) -> Option<(Encoder, Vec<u8>)> {
    match recognise(packed, std::io::sink()).unwrap() {
        Recognition::Known { recipe, plain } => {
            assert_eq!(plain, content.len() as u64);
            let mut writer = recipe.writer();
            for part in content.chunks(10_007) {
                writer.write_all(part).unwrap();
            }
            Some((recipe.encoder, writer.finish().unwrap()))
        }
        Recognition::Unknown => None,
    }
}

/// Numbers that look random and are the same in every run.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Content of many kinds: noise, zeros, text, few symbols, long repeats, a program.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let text = include_bytes!("../../../README.md").repeat(60);
    let few: Vec<u8> = noise(300_000, 5)
        .iter()
        .map(|byte| b"ab\ncd"[usize::from(byte % 5)])
        .collect();
    let mut mixed = noise(70_000, 7);
    mixed.extend(vec![0; 200_000]);
    mixed.extend_from_slice(&text[..90_000]);
    mixed.extend(noise(70_000, 7));
    // The same 40 000 bytes again and again: just beyond the window.
    let far = noise(40_000, 9).repeat(6);
    let near = noise(32_768, 11).repeat(6);
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let program = program[..program.len().min(1_200_000)].to_vec();
    vec![
        ("noise", noise(400_000, 3)),
        ("zeros", vec![0; 1_000_000]),
        ("text", text),
        ("few symbols", few),
        ("mixed", mixed),
        ("far repeats", far),
        ("near repeats", near),
        ("a program", program),
    ]
}

#[test]
fn every_level_is_made_again() {
    for (name, content) in contents() {
        for &level in levels_for(name) {
            let packed = go_gzip(&content, level, 32 * 1024);
            let (encoder, again) = made_again(&packed, &content)
                .unwrap_or_else(|| panic!("{name} at level {level} is not recognised"));
            assert!(again == packed, "{name} at level {level} differs");
            // Levels that give the same bytes may stand for each other.
            if name == "a program" {
                assert_eq!(encoder, Encoder::Go(GoLevel::new(level).unwrap()));
            }
        }
    }
}

#[test]
fn gnu_gzip_and_zlib_are_made_again() {
    type Packer = fn(&[u8], i8) -> Vec<u8>;
    let packers: [(Kind, Packer); 2] = [(Kind::Gnu, gnu_gzip), (Kind::Zlib, zlib_gzip)];
    for (name, content) in contents() {
        for (kind, pack) in packers {
            for &level in levels_for(name).iter().filter(|level| **level > 0) {
                let packed = pack(&content, level);
                let (encoder, again) = made_again(&packed, &content)
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
fn every_short_length_is_made_again() {
    let text = include_bytes!("../../../README.md");
    for length in (0..300).chain([4095, 4096, 65_534]) {
        let content: Vec<u8> = text.iter().cycle().take(length).copied().collect();
        for level in [1, 6, 9] {
            let packed = go_gzip(&content, level, 32 * 1024);
            let again = made_again(&packed, &content).map(|(_, again)| again);
            assert!(
                again.as_ref() == Some(&packed),
                "{length} bytes at level {level}"
            );
        }
    }
}

#[test]
fn the_size_of_writes_does_not_matter() {
    let (_, content) = contents().pop().unwrap();
    let packed = go_gzip(&content, 6, 32 * 1024);
    for chunk in [1000, 65_536, 1 << 20] {
        assert!(go_gzip(&content, 6, chunk) == packed, "chunks of {chunk}");
    }
}

#[test]
fn what_cannot_be_made_again_is_said_to_be_so() {
    let content = include_bytes!("../../../README.md");
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
    // A stream of an encoder that is not among ours, with Go's header pasted on.
    let mut zlib = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    zlib.write_all(content).unwrap();
    let mut zlib = zlib.finish().unwrap();
    assert!(!known(&zlib));
    zlib[..10].copy_from_slice(&packed[..10]);
    assert!(!known(&zlib));
}
