//! The file system that a program sees.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, umask};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};

use crate::process::step;
use crate::run::ProgramRun;

/// Directories with programs and libraries. In many distributions most of them are links into the first.
const SYSTEM: [&str; 8] = [
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "nix/store",
];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const NONE: Option<&str> = None;

/// Replaces the root of this process's mount namespace.
pub fn build(program: &ProgramRun) -> Result<(), String> {
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NONE, "/", NONE, private, NONE).map_err(step("cannot make mounts private"))?;
    let root = &program.root;
    let empty = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let mounted = mount(
        Some("tmpfs"),
        root,
        Some("tmpfs"),
        empty,
        Some("mode=755,size=1m"),
    );
    mounted.map_err(step("cannot mount an empty root"))?;
    for name in SYSTEM {
        system(root, name).map_err(step(&format!("cannot mount /{name}")))?;
    }
    let devices = DEVICES.map(|device| Path::new("/dev").join(device));
    let own = [&program.inputs, &program.scratch];
    for path in devices.iter().chain(own).chain(&program.readable) {
        bind(root, path).map_err(step(&format!("cannot mount {}", path.display())))?;
    }
    processes(root).map_err(step("cannot mount /proc"))?;
    enter(root).map_err(step("cannot change the root"))?;
    protect(&program.scratch).map_err(step("cannot make the file system read-only"))
}

/// Mounts a directory of the system, or creates the same link.
fn system(root: &Path, name: &str) -> io::Result<()> {
    let path = Path::new("/").join(name);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_symlink() => symlink(fs::read_link(&path)?, root.join(name)),
        Ok(_) => bind(root, &path),
    }
}

/// Mounts a file or directory at the same path of the new root.
fn bind(root: &Path, path: &Path) -> io::Result<()> {
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    if path.is_dir() {
        fs::create_dir_all(&target)?;
    } else {
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        if !target.exists() {
            fs::File::create(&target)?;
        }
    }
    // In a user namespace, the kernel permits to copy a mount only with the mounts below it.
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    Ok(mount(Some(path), &target, NONE, flags, NONE)?)
}

/// Mounts `/proc` with the processes of the sandbox.
fn processes(root: &Path) -> io::Result<()> {
    let target = root.join("proc");
    fs::create_dir(&target)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some("proc"), &target, Some("proc"), flags, NONE)?)
}

/// Makes `root` the root and removes the old one (pivot_root(2), `pivot_root(".", ".")`).
fn enter(root: &Path) -> io::Result<()> {
    chdir(root)?;
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    Ok(chdir("/")?)
}

/// Makes every mount read-only except `scratch` and `/proc`, in which the kernel checks rights itself.
fn protect(scratch: &Path) -> io::Result<()> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    for place in mounts.split(|byte| *byte == b'\n').filter_map(mount_point) {
        let mut flags = kept(&place)? | MsFlags::MS_NOSUID;
        if place != scratch && place != Path::new("/proc") {
            flags |= MsFlags::MS_RDONLY;
        }
        if !place.starts_with("/dev") {
            flags |= MsFlags::MS_NODEV;
        }
        let remount = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags;
        mount(NONE, &place, NONE, remount, NONE)?;
    }
    Ok(())
}

/// Returns the flags that a mount has. In a user namespace they cannot be removed.
fn kept(place: &Path) -> io::Result<MsFlags> {
    let flags = statvfs(place)?.flags();
    let pairs = [
        (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY),
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let set = pairs
        .into_iter()
        .filter(|(there, _)| flags.contains(*there));
    Ok(set.map(|(_, flag)| flag).collect())
}

/// Returns the mount point of a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        // Blanks, tabs, line ends and backslashes are written as three octal digits.
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_mount_points_are_decoded() {
        let line = br"36 35 98:0 / /tmp/a\040b\134c rw,noatime master:1 - ext4 /dev/root rw";
        assert_eq!(mount_point(line), Some(PathBuf::from(r"/tmp/a b\c")));
        assert_eq!(mount_point(b""), None);
    }
}
