//! Paths that a reset never deletes, whatever a receipt says. `steps/directory-remove.sh` has the same list for
//! directories, because it runs where a mistake has its effect.

use kubexm_kinds::PackageManager;

/// Trees of the operating system and of users, besides those of the package managers: the path itself and everything below it.
const TREES: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc/alternatives",
    "/etc/cron.d",
    "/etc/default",
    "/etc/fstab",
    "/etc/group",
    "/etc/gshadow",
    "/etc/hostname",
    "/etc/init.d",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/machine-id",
    "/etc/netplan",
    "/etc/network",
    "/etc/pam.d",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/resolv.conf",
    "/etc/security",
    "/etc/selinux",
    "/etc/shadow",
    "/etc/ssh",
    "/etc/ssl",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/udev",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/root",
    "/run/dbus",
    "/run/lock",
    "/run/log",
    "/run/systemd",
    "/run/udev",
    "/run/user",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/dbus",
    "/var/lib/selinux",
    "/var/lib/systemd",
    "/var/log/journal",
    "/var/mail",
    "/var/spool",
];

/// Paths in a tree of [`TREES`] that belong to programs of the cluster: the path itself and everything below it.
const EXCEPTIONS: &[&str] = &[
    "/etc/default/kubelet",
    "/usr/libexec/kubernetes",
    "/usr/local",
    "/usr/share/containers",
];

/// Directories that contain directories of many programs: only the path itself.
const CONTAINERS: &[&str] = &[
    "/",
    "/etc",
    "/etc/NetworkManager",
    "/etc/NetworkManager/conf.d",
    "/etc/modules-load.d",
    "/etc/sysctl.d",
    "/etc/systemd",
    "/etc/systemd/system",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/run",
    "/srv",
    "/tmp",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/local/src",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/lock",
    "/var/log",
    "/var/run",
    "/var/tmp",
];

/// A directory of the operating system that the kubelet creates empty, where pods mount it. A reset removes it if it is
/// empty.
const MODULES: &str = "/lib/modules";

/// Returns whether no undo record may delete or replace the file at this path.
pub fn is_protected_file(path: &str) -> bool {
    CONTAINERS.contains(&path) || is_in_protected_tree(path)
}

/// Returns whether no undo record may delete the directory at this path.
pub fn is_protected_directory(path: &str) -> bool {
    if path == MODULES {
        return false;
    }
    let home = path
        .strip_prefix("/home/")
        .is_some_and(|rest| !rest.contains('/'));
    home || is_protected_file(path)
}

fn is_in_protected_tree(path: &str) -> bool {
    let in_tree = |tree: &&str| {
        path.strip_prefix(*tree)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let of_managers = PackageManager::all_properties().flat_map(|own| own.directories);
    TREES.iter().chain(of_managers).any(in_tree) && !EXCEPTIONS.iter().any(in_tree)
}
