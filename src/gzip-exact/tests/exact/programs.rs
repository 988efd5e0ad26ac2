//! Runs the original programs.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Builds the Go program in a directory next to this test.
fn built(name: &str, folder: &str, configure: impl FnOnce(&mut Command)) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/go")
        .join(folder);
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).current_dir(folder);
    configure(&mut go);
    let status = go.status().expect("the Go toolchain is installed");
    assert!(status.success(), "{name} is not built");
    program
}

/// Compresses with the installed Go.
pub fn go_gzip(content: &[u8], level: i8, chunk: usize) -> Vec<u8> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| built("gzip-writer", "gzip", |_| {}));
    let arguments = [level.to_string(), chunk.to_string()];
    filtered(Command::new(program).args(arguments), content)
}

/// Compresses with Go 1.27, which the Go command downloads from the module proxy.
pub fn go_1_27_gzip(content: &[u8], level: i8, chunk: usize) -> Vec<u8> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        built("gzip-writer-1.27", "gzip", |go| {
            go.env("GOTOOLCHAIN", "go1.27.4");
        })
    });
    let arguments = [level.to_string(), chunk.to_string()];
    filtered(Command::new(program).args(arguments), content)
}

/// A release of klauspost/compress with the pgzip of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release(pub &'static str);

impl Release {
    /// Returns the streams of each content, in the ways that `tests/go/klauspost/main.go`
    /// implements.
    pub fn pack(self, contents: &[&[u8]], ways: &[String]) -> Vec<Vec<Vec<u8>>> {
        let module = format!("-modfile={}.mod", self.0);
        let program = built(&format!("klauspost-{}", self.0), "klauspost", |go| {
            go.arg(module);
        });
        let mut input = Vec::new();
        for content in contents {
            input.extend((content.len() as u32).to_le_bytes());
            input.extend_from_slice(content);
        }
        let output = filtered(Command::new(program).args(ways), &input);
        let mut rest = &output[..];
        let mut next = || {
            let (length, behind) = rest.split_first_chunk().unwrap();
            let (packed, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
            rest = behind;
            packed.to_vec()
        };
        contents
            .iter()
            .map(|_| ways.iter().map(|_| next()).collect())
            .collect()
    }
}

/// Compresses as `tar -z` does.
pub fn gnu_gzip(content: &[u8], level: i8) -> Vec<u8> {
    filtered(Command::new("gzip").arg(format!("-{level}")), content)
}

/// Compresses with Python's zlib; windowBits 31 adds a gzip header.
pub fn zlib_gzip(content: &[u8], level: i8) -> Vec<u8> {
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
