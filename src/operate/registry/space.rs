//! Whether images fit on the disks of the hosts that get them.

use std::collections::BTreeMap;

use kubexm_host::Facts;
use kubexm_preflight::ALMOST_FULL;
use kubexm_session::CommandError;
use kubexm_types::{HostName, HostPath};

/// Compares the bytes that each host gets with the free space of its data directory.
///
/// # Errors
/// A disk would be full, or almost full: other programs of the host write there, too.
pub(super) fn check(
    data_dir: &HostPath,
    facts: &BTreeMap<HostName, Facts>,
    sizes: &BTreeMap<HostName, u64>,
) -> Result<(), CommandError> {
    let mut short = Vec::new();
    let mut has_registry = false;
    for (name, size) in sizes.iter().filter(|(_, size)| **size > 0) {
        let Some(facts) = facts.get(name) else {
            continue;
        };
        // `df` of a host can be silent about a disk.
        let Some(disk) = facts.disks.get(data_dir.as_str()) else {
            continue;
        };
        let need = size.div_ceil(1024).saturating_add(ALMOST_FULL);
        if need > disk.free {
            has_registry |= facts.has_registry();
            short.push(format!(
                "{name}: {data_dir} needs {} MiB, of which {} MiB stay free, but {} has {} MiB free",
                need.div_ceil(1024),
                ALMOST_FULL / 1024,
                disk.mount,
                disk.free / 1024
            ));
        }
    }
    if short.is_empty() {
        return Ok(());
    }
    let disk = format!("free space on the disk, or mount a larger one at {data_dir}");
    let hint = if has_registry {
        format!("remove blobs that no image needs with kubexm registry gc, or {disk}")
    } else {
        disk
    };
    Err(CommandError::refused(format!(
        "cannot send the images, which do not fit on the disk; none was sent\n  {}",
        short.join("\n  ")
    ))
    .hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_host::facts::Disk;

    #[test]
    fn images_must_leave_space_on_the_disk() {
        let facts = |mib: u64, registry_login| Facts {
            disks: BTreeMap::from([(
                "/srv/registry".to_owned(),
                Disk {
                    free: mib * 1024,
                    size: 9999 * 1024,
                    mount: "/srv".to_owned(),
                },
            )]),
            registry_login,
            ..Facts::default()
        };
        let data_dir = "/srv/registry".parse().unwrap();
        let [one, two]: [HostName; 2] = ["node1", "node2"].map(|name| name.parse().unwrap());
        let check = |free: u64, login| {
            let facts = BTreeMap::from([
                (one.clone(), facts(9999, login)),
                (two.clone(), facts(free, login)),
            ]);
            let sizes = BTreeMap::from([(one.clone(), 100 << 20), (two.clone(), 100 << 20)]);
            let checked = super::check(&data_dir, &facts, &sizes);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(356, Some(true)), Ok(()));
        insta::assert_snapshot!(check(355, Some(true)).unwrap_err(), @"
        cannot send the images, which do not fit on the disk; none was sent
          node2: /srv/registry needs 356 MiB, of which 256 MiB stay free, but /srv has 355 MiB free
        hint: remove blobs that no image needs with kubexm registry gc, or free space on the disk, or mount a larger one at /srv/registry
        ");
        let new = check(0, None).unwrap_err();
        assert!(!new.contains("gc"), "the host has no registry yet: {new}");
        let nothing = BTreeMap::from([(two.clone(), 0)]);
        let full = BTreeMap::from([(two.clone(), facts(0, None))]);
        assert!(super::check(&data_dir, &full, &nothing).is_ok());
    }
}
