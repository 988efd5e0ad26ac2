//! What a fix refuses, and how it ends.

use std::path::PathBuf;

use super::*;
use kubexm_bundle::{Blobs, BundleError, Level, Lock, PackOptions, Placement};
use kubexm_config::example::{ROLES, text_of};
use kubexm_session::BundleAccess;
use kubexm_session::begun::{
    MoveRecord, RestoreRecord, RotationRecord, StateRecord, UpgradeRecord,
};
use kubexm_types::Digest;

struct NoBlobs;

impl Blobs for NoBlobs {
    fn open(&self, digest: &Digest) -> Result<Box<dyn std::io::Read + Send>, BundleError> {
        Err(BundleError::Missing(digest.to_string().into()))
    }
}

/// Writes a bundle without files, and returns its path.
pub(in crate::status) fn bundle(folder: &Path, name: &str) -> PathBuf {
    let lock = format!(
        "lockVersion: 1\nname: {name}\nkubernetes: [1.36.3]\narchitectures: []\nfiles: []\nimages: []\npackages: []\n\
         kubeadm: []\n"
    );
    let lock = Lock::from_yaml(&lock).unwrap();
    let path = folder.join(format!("{name}.tar.zst"));
    let (places, options) = (Placement::plain(&lock), PackOptions::new(Level::FAST, 1));
    kubexm_bundle::write(&path, &lock, &places, &NoBlobs, options, &Events::silent()).unwrap();
    path
}

/// Returns a dry run, and its state directory.
fn dry_run(folder: &Path) -> (FixOptions, PathBuf) {
    let (cluster, state) = (folder.join("cluster.yaml"), folder.join("state"));
    std::fs::write(&cluster, text_of(ROLES, "", "")).unwrap();
    std::fs::create_dir(&state).unwrap();
    let options = FixOptions {
        source: ClusterSource {
            bundles: vec![bundle(folder, "example")],
            cluster,
            access: BundleAccess::default(),
        },
        connection: Connection {
            state: Some(state.clone()),
            ..Connection::default()
        },
        unsigned: true,
        ca_encryption: None,
        dry_run: true,
    };
    (options, state)
}

#[tokio::test]
async fn dry_run_is_refused_as_the_fix_is() {
    let folder = tempfile::tempdir().unwrap();
    let (options, state) = dry_run(folder.path());
    // A stopped command connects to no host.
    let stop = Stop::new();
    stop.cancel();
    let refused = async || {
        let ended = fix(&options, &Events::silent(), &stop).await;
        ended.unwrap_err().to_string()
    };
    let stopped = refused().await;
    assert!(stopped.starts_with("stopped before any host"), "{stopped}");
    let upgrade = r#"{"from": "1.35.4", "to": "1.36.3", "archives": {}}"#;
    std::fs::write(state.join(UpgradeRecord::FILE), upgrade).unwrap();
    let upgrade = refused().await;
    let expected = "cannot run status --fix now: an upgrade from Kubernetes 1.35.4 to 1.36.3";
    assert!(upgrade.starts_with(expected), "{upgrade}");
    std::fs::remove_file(state.join(UpgradeRecord::FILE)).unwrap();
    // Each record is read.
    for record in [
        UpgradeRecord::FILE,
        RotationRecord::FILE,
        MoveRecord::FILE,
        RestoreRecord::FILE,
    ] {
        std::fs::write(state.join(record), "damaged").unwrap();
        let damaged = refused().await;
        assert!(damaged.contains(record), "{record}: {damaged}");
        std::fs::remove_file(state.join(record)).unwrap();
    }
}

#[test]
fn stop_between_rounds_does_not_say_that_no_host_was_touched() {
    let untouched = "stopped before any host was touched";
    let ended = |round, error| {
        before_round::<()>(round, Err(error))
            .unwrap_err()
            .to_string()
    };
    let stop = || CommandError::interrupted(untouched.to_owned());
    assert_eq!(ended(0, stop()), untouched);
    let later =
        "stopped after steps of the fix ran on hosts\nhint: run the same command again to go on";
    assert_eq!(ended(1, stop()), later);
    let other = || CommandError::configuration("other");
    assert_eq!(ended(1, other()), other().to_string());
}
