//! Examples of documents about backups.

use kubexm_safekeeping::backup::{
    BackedUpFile, BackupList, EtcdMember, EtcdSnapshot, ListedBackup, Manifest, StoredBackup,
    Trial, VerifyReport,
};
use kubexm_types::{ClusterId, ClusterIdentity, Digest, HostName, UtcTime};

const PATH: &str = "/srv/backups/example-20260131T120000Z-0b7c4c4e.tar.zst.age";

fn manifest() -> Manifest {
    let host = |name: &str| HostName::parse(name).unwrap();
    let member = |name: &str, id: &str, leader| EtcdMember {
        host: host(name),
        id: id.to_owned(),
        version: "3.6.8".to_owned(),
        leader,
    };
    Manifest {
        format: 1,
        cluster: ClusterIdentity {
            id: ClusterId::parse("0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11").unwrap(),
            name: host("example"),
            created: UtcTime::parse("2026-01-01T12:00:00Z").unwrap(),
        },
        created: UtcTime::parse("2026-01-31T12:00:00Z").unwrap(),
        kubexm: "0.1.0".to_owned(),
        kubernetes: "1.36.3".to_owned(),
        deployment: "kubeadm".to_owned(),
        etcd: EtcdSnapshot {
            deployment: "kubeadm".to_owned(),
            version: "3.6.8".to_owned(),
            member: host("node2"),
            quorum: true,
            members: vec![
                member("node1", "8e9e05c52164694d", true),
                member("node2", "91bc3c398fb3c146", false),
            ],
            cluster_id: "cdf818194e3a8c32".to_owned(),
            revision: 81_244,
            hash: 2_058_119_001,
            keys: 1208,
        },
        hosts: vec![host("node1"), host("node2")],
        control_planes: Some(vec![host("node1"), host("node2")]),
        files: vec![BackedUpFile {
            path: "etcd/snapshot.db".to_owned(),
            size: 12_345_376,
            digest: Digest::of(b"snapshot"),
        }],
    }
}

pub(super) fn list() -> BackupList {
    BackupList {
        backups: vec![ListedBackup {
            file: StoredBackup {
                path: PATH.into(),
                cluster: "example".to_owned(),
                cluster_id: Some("0b7c4c4e".to_owned()),
                created: UtcTime::parse("2026-01-31T12:00:00Z").unwrap(),
                size: 9_433_088,
                is_incomplete: false,
            },
            manifest: Some(manifest()),
            problem: None,
        }],
    }
}

pub(super) fn verification() -> VerifyReport {
    VerifyReport {
        backup: PATH.into(),
        manifest: manifest(),
        is_origin_verified: true,
        trial: Some(Trial {
            revision: 81_244,
            hash: 2_058_119_001,
        }),
    }
}
