//! File systems that paths are on, or would be on.

use super::{Disk, Inodes};

/// A path with facts about its file system.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) exists: bool,
    /// Whether root may write there, by the mode of the file.
    pub(super) is_writable: bool,
    /// Free blocks, all blocks, bytes of a block, free inodes, all inodes.
    pub(super) space: Option<[i64; 5]>,
    pub(super) mount: Option<Mount>,
    /// The path without links; empty if it is not known.
    pub(super) resolved: String,
}

/// A line of `/proc/self/mountinfo`. <https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html>
#[derive(Debug)]
pub(super) struct Mount {
    /// The mount point, with octal sequences for special characters, as in fstab.
    point: String,
    is_read_only: bool,
}

impl Mount {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(4);
        let (point, flags) = (words.next()?, words.next()?);
        let all = flags
            .split(',')
            .chain(file_system.rsplit(' ').next()?.split(','));
        Some(Self {
            point: point.to_owned(),
            is_read_only: all.into_iter().any(|flag| flag == "ro"),
        })
    }
}

impl Place {
    pub(super) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the numbers that the host printed; `None` inside for a file system without numbers.
    pub(super) fn parse_space(value: &str) -> Option<Option<[i64; 5]>> {
        if value.is_empty() {
            return Some(None);
        }
        let numbers: Result<Vec<i64>, _> = value.split(' ').map(str::parse).collect();
        numbers.ok()?.try_into().ok().map(Some)
    }

    pub(super) fn is_read_only(&self) -> bool {
        !self.is_writable || self.mount.as_ref().is_some_and(|mount| mount.is_read_only)
    }

    /// Returns the space. A process in a chroot does not see the mount of its root.
    pub(super) fn disk(&self) -> Option<Disk> {
        let [free, total, block, ..] = self.space?;
        let kib = |blocks: i64| {
            let bytes = u128::try_from(blocks).ok()? * u128::try_from(block).ok()?;
            u64::try_from(bytes / 1024).ok()
        };
        Some(Disk {
            // A file system that uses what it reserves for root has less than nothing.
            free: kib(free.max(0))?,
            size: kib(total)?,
            mount: self
                .mount
                .as_ref()
                .map_or_else(|| "/".to_owned(), |mount| without_octal(&mount.point)),
        })
    }

    /// Returns the inodes. Some file systems, as btrfs, have no limit, and report 0.
    pub(super) fn inodes(&self) -> Option<Inodes> {
        let [_, _, _, free, total] = self.space?;
        let (free, total) = (u64::try_from(free).ok()?, u64::try_from(total).ok()?);
        (total > 0).then_some(Inodes { free, total })
    }

    /// Returns the first of these mount points that the path would be below if it were mounted: it is nearer than the mount that
    /// the path is on.
    pub(super) fn unmounted(&self, points: &[String]) -> Option<String> {
        let deepest = self
            .mount
            .as_ref()
            .map_or("/", |mount| &mount.point)
            .trim_end_matches('/');
        let is_above = |point: &str| {
            let below = self.resolved.strip_prefix(point);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let points = points.iter().map(|point| point.trim_end_matches('/'));
        let mut missing =
            points.filter(|point| point.starts_with('/') && point.len() > deepest.len());
        missing.find(|point| is_above(point)).map(str::to_owned)
    }
}

/// Returns a path without the octal sequences for blank, tab, line end and backslash.
fn without_octal(path: &str) -> String {
    let codes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    codes
        .into_iter()
        .fold(path.to_owned(), |path, (code, letter)| {
            path.replace(code, letter)
        })
}
