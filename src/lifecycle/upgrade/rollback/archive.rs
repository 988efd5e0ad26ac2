//! Whether an archive can bring a cluster back. It is asked before a rollback begins: afterwards, the upgrade waits for it.

use std::io;
use std::path::Path;

use crate::upgrade::former::{self, Former};
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::etcd_version;
use kubexm_session::sealed::{self, Opener};
use kubexm_session::{CommandError, FileError};
use kubexm_types::{Arch, Digest, DigestWriter, HostName, Version};

/// What a user can do if the archive is damaged.
const INSTEAD: &str = "copy the archive back from another disk; or complete the upgrade with the newer version and bundle, without \
                       --rollback";

/// A host that gets something of the archive.
pub(super) struct Target<'a> {
    pub(super) name: &'a HostName,
    pub(super) arch: Option<Arch>,
    pub(super) is_member: bool,
}

/// Checks the snapshot and the files of each host, and that the bundle has etcdutl for each member.
///
/// # Errors
/// A file is missing or damaged, or a host has an unknown architecture.
pub(super) fn check(
    archive: &Path,
    opener: &Opener,
    former: &Former,
    targets: &[Target<'_>],
    has_program: impl Fn(Arch) -> bool,
) -> Result<(), CommandError> {
    for Target {
        name,
        arch,
        is_member,
    } in targets
    {
        let files = former::files(archive, name);
        if !has_content(&files) {
            return Err(CommandError::refused(format!(
                "{name}: {} has no files of this host from before the upgrade: the file is \
                 missing or empty",
                files.display()
            ))
            .hint(INSTEAD));
        }
        if *is_member && !arch.is_some_and(&has_program) {
            return Err(no_program(name));
        }
    }
    digest(&former::snapshot(archive), opener, Some(former.snapshot)).map(|_| ())
}

/// Fails if the etcd of a bundle for units is older than the data of the snapshot.
pub(super) fn check_version(
    (cluster, lock): (&Cluster, &Lock),
    former: &Former,
    targets: &[Target<'_>],
) -> Result<(), CommandError> {
    // The former manifest of kubeadm comes back, with its own version.
    if !matches!(cluster.etcd, Etcd::Systemd { .. }) {
        return Ok(());
    }
    let Ok(saved) = former.etcd.version.parse::<Version>() else {
        return Ok(());
    };
    let to = &cluster.kubernetes.version;
    for target in targets.iter().filter(|target| target.is_member) {
        let given = target
            .arch
            .and_then(|arch| etcd_version(cluster, lock, to, arch));
        let Some(given) = given.filter(|given| kubexm_etcd::is_older(given, &saved)) else {
            continue;
        };
        let (major, minor) = saved.major_minor();
        return Err(CommandError::configuration(format!(
            "{}: the bundle brings etcd {given}, and the snapshot is of etcd {saved}: an older \
             etcd cannot read the data of a newer one",
            target.name
        ))
        .hint(format!(
            "pass a bundle of Kubernetes {to} whose etcd is {major}.{minor} or newer; or complete \
             the upgrade with the newer version and bundle, without --rollback"
        )));
    }
    Ok(())
}

fn has_content(path: &Path) -> bool {
    let stored = sealed::stored(path);
    stored.is_some_and(|path| path.metadata().is_ok_and(|found| found.len() > 0))
}

pub(super) fn no_program(name: &HostName) -> CommandError {
    CommandError::refused(format!(
        "{name}: the bundle has no etcdutl for the architecture of this host"
    ))
    .hint("pass the bundle that the cluster was installed from before the upgrade")
}

/// Returns size and digest of a file of the archive. Compares the digest, if one is known.
///
/// # Errors
/// The file cannot be read, or it has another digest.
pub(super) fn digest(
    from: &Path,
    opener: &Opener,
    wanted: Option<Digest>,
) -> Result<(u64, Digest), CommandError> {
    let mut stream = opener.open(from).map_err(|error| error.hint(INSTEAD))?;
    let mut digest = DigestWriter::new(io::sink());
    io::copy(&mut stream, &mut digest)
        .map_err(|error| FileError::io("read the archive", from, &error).hint(INSTEAD))?;
    let (_, digest, size) = digest.finish();
    if wanted.is_some_and(|wanted| wanted != digest) {
        let cause = "it is not the snapshot that was saved: the file is damaged";
        return Err(FileError::new("read the archive", from, cause)
            .hint(INSTEAD)
            .into());
    }
    Ok((size, digest))
}

#[cfg(test)]
pub(in crate::upgrade) mod tests {
    use super::*;
    use kubexm_safekeeping::backup::EtcdSnapshot;
    use kubexm_session::example::{cluster_with_etcd as cluster, lock_with_etcd as lock};

    /// Returns what the archive of an upgrade has, with a snapshot of this content.
    pub(in crate::upgrade) fn former(etcd: &str, snapshot: &[u8]) -> Former {
        Former {
            created: kubexm_types::UtcTime::parse("2026-11-26T06:59:47Z").unwrap(),
            kubernetes: "1.35.4".to_owned(),
            etcd: EtcdSnapshot {
                deployment: "systemd".to_owned(),
                version: etcd.to_owned(),
                member: "node1".parse().unwrap(),
                quorum: true,
                members: Vec::new(),
                cluster_id: "1".to_owned(),
                revision: 1,
                hash: 1,
                keys: 1,
            },
            snapshot: Digest::of(snapshot),
        }
    }

    #[test]
    fn unusable_archive_is_refused_before_a_rollback_begins() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path();
        let names: [HostName; 2] = ["node1", "node2"].map(|name| name.parse().unwrap());
        let target = |at: usize| Target {
            name: &names[at],
            arch: Some(Arch::Amd64),
            is_member: at == 0,
        };
        let targets = [target(0), target(1)];
        let saved = former("3.6.16", b"data");
        let write = |path: &Path, content: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        let opener = Opener::of(archive, None).unwrap();
        let has_program = std::cell::Cell::new(false);
        let refused = || {
            let has_program = |_| has_program.get();
            let checked = check(archive, &opener, &saved, &targets, has_program);
            checked.unwrap_err().to_string()
        };
        assert!(refused().contains("node1.tar has no files of this host"));
        write(&former::files(archive, &names[0]), "x");
        assert!(refused().starts_with("node1: the bundle has no etcdutl"));
        has_program.set(true);
        write(&former::files(archive, &names[1]), "");
        assert!(refused().contains("node2.tar has no files of this host"));
        write(&former::files(archive, &names[1]), "x");
        assert!(refused().contains("etcd-snapshot.db"));
        write(&former::snapshot(archive), "dat");
        assert!(refused().contains("the file is damaged\nhint: copy"));
        write(&former::snapshot(archive), "data");
        check(archive, &opener, &saved, &targets, |_| true).unwrap();
    }

    #[test]
    fn snapshot_of_a_newer_etcd_than_the_bundle_is_refused() {
        let name: HostName = "node1".parse().unwrap();
        let targets = [Target {
            name: &name,
            arch: Some(Arch::Amd64),
            is_member: true,
        }];
        let checked = |kind: &str, saved: &str| {
            let saved = former(saved, b"");
            check_version((&cluster(kind), &lock("3.5.33")), &saved, &targets)
        };
        let refused = checked("systemd", "3.6.16").unwrap_err().to_string();
        assert!(
            refused.starts_with(
                "node1: the bundle brings etcd 3.5.33, and the snapshot is of etcd 3.6.16"
            ),
            "{refused}"
        );
        checked("systemd", "3.5.20").unwrap();
        checked("kubeadm", "3.6.16").unwrap();
    }
}
