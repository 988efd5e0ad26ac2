//! File systems of paths.

use super::parsed;
use crate::facts::Disk;

/// Returns what a host prints about a path and the mount that it is on.
fn path(path: &str, resolved: &str, mount: &str) -> String {
    let mount = format!("27 1 254:0 / {mount}");
    format!(
        "path={path}\nwritable=yes\nspace=1 2 4096 3 4\nmount={mount}\nexists=no\nresolved={resolved}\n"
    )
}

#[test]
fn flags_of_a_mount_make_its_paths_read_only() {
    let read_only = |writable: &str, mount: &str| {
        let text = format!("folder=/etc\nwritable={writable}\nspace=\nmount={mount}\nclock=1\n");
        let facts = parsed(&text);
        assert!(facts.read_only_disks.is_empty() && facts.disks.is_empty());
        !facts.read_only.is_empty()
    };
    let (writable, own, of_all) = (
        "27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,errors=remount-ro",
        "27 1 254:0 / / ro,relatime - ext4 /dev/vda rw",
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,ro",
    );
    assert!(!read_only("yes", writable) && !read_only("yes", ""));
    assert!(read_only("no", writable) && read_only("yes", own) && read_only("yes", of_all));
    let text = path("/a", "/a", "/ ro - ext4 /dev/vda rw") + "clock=1\n";
    let facts = parsed(&text);
    assert!(facts.read_only.is_empty());
    assert_eq!(facts.read_only_disks, ["/a".to_owned()].into());
}

#[test]
fn space_is_in_kib_and_a_mount_point_can_have_blanks() {
    let text = path("/a", "/a", "/mnt/a\\040b\\134 rw - ext4 /dev/a\\040b rw") + "clock=1\n";
    let expected = Disk {
        free: 4,
        size: 8,
        mount: "/mnt/a b\\".to_owned(),
    };
    assert_eq!(parsed(&text).disks["/a"], expected);
}

#[test]
fn space_that_no_file_system_has_is_no_error() {
    let facts = |space: &str| parsed(&format!("path=/a\nspace={space}\nclock=1\n"));
    // A file system can use blocks that it reserves for root.
    let full = facts("-9 8 1024 0 0");
    assert_eq!((full.disks["/a"].free, full.disks["/a"].size), (0, 8));
    // Some have no limit of inodes.
    assert!(full.inodes.is_empty());
    let largest = format!("{0} {0} {0} {0} {0}", i64::MAX);
    for space in ["", "1 -2 -3 -4 -5", largest.as_str()] {
        assert!(facts(space).disks.is_empty(), "{space}");
    }
}

#[test]
fn file_systems_of_fstab_that_are_not_mounted_are_facts() {
    let points = [
        "/",
        "none",
        "/srv/data/",
        "/srv/mounted",
        "/srv/gone",
        "/srv/data/deep",
    ];
    let points: String = points
        .iter()
        .map(|point| format!("fstab={point}\n"))
        .collect();
    let unmounted = |resolved: &str, mount: &str| {
        let mount = format!("{mount} rw - ext4 /dev/vda rw");
        let text = format!("{points}{}clock=1\n", path("/asked", resolved, &mount));
        parsed(&text).unmounted.remove("/asked")
    };
    let some = |point: &str| Some(point.to_owned());
    for (resolved, mount, expected) in [
        ("/srv/data", "/", some("/srv/data")),
        ("/srv/data/a b", "/", some("/srv/data")),
        ("/srv/database", "/", None),
        ("/srv/mounted/a", "/srv/mounted", None),
        // The first in the file, and only below what is mounted.
        ("/srv/data/deep/a", "/", some("/srv/data")),
        ("/srv/data/deep/a", "/srv/data", some("/srv/data/deep")),
        ("/srv/gone/below/a", "/srv/gone/below", None),
        ("/other", "/", None),
        ("", "/", None),
    ] {
        assert_eq!(
            unmounted(resolved, mount),
            expected,
            "{resolved} on {mount}"
        );
    }
}
