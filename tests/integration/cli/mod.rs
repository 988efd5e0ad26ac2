//! The command line of the real program: exit codes, messages, help, and no partial results.

mod arguments;
mod broken_off;
mod bundles;
mod cache;
mod commands;
mod documents;
mod dry_runs;
mod hostile_text;
mod input;
mod logging;
mod outdated;
mod passwords;
mod sshd;
mod warnings;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::example::{InMemory, example, write_plain};
use crate::snapshots::filters;
use kubexm_bundle::lock::{Descriptor, FileFormat, LockedFile, LockedImage};
use kubexm_bundle::{Bundle, BundleError, Level, Lock, PackOptions, Placement, write_until};
use kubexm_fetch::{Cache, FetchError};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, Version};
use wiremock::matchers::{method, path_regex};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn kubexm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_remove("KUBEXM_CACHE")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = kubexm().args(arguments).output().unwrap();
    let (out, err) = (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    );
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    (status.code(), out, err)
}

/// Returns content that does not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u64;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as u8
    };
    (0..length).map(step).collect()
}

/// Returns a lock of files that have the same content.
fn alike(files: usize, length: usize) -> (Lock, InMemory) {
    example(&vec![noise(length); files])
}

const OPTIONS: PackOptions<'_> = PackOptions::new(Level::MIN, 1);

fn bundle(folder: &Path, files: usize) -> PathBuf {
    let path = folder.join("small.tar.zst");
    let (lock, blobs) = alike(files, 5000);
    write_plain(&path, &lock, &blobs, OPTIONS).unwrap();
    path
}

/// Returns the names in a directory, hidden ones included.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    entries.map(|e| name(e).into_string().unwrap()).collect()
}
