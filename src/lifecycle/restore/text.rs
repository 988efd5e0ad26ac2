//! The plan of a restore, for people.

use std::fmt::Write;
use std::path::Path;

use super::situation::Situation;
use kubexm_config::Cluster;
use kubexm_etcd::members;
use kubexm_safekeeping::backup::EtcdSnapshot;
use kubexm_safekeeping::backup::manifest::Manifest;
use kubexm_session::begun::{RestoreRecord, RestoreStage as Stage};
use kubexm_types::{Authority, HostName, UtcTime};

/// What a restore is going to do.
pub(super) struct Plan<'a> {
    pub(super) backup: &'a Path,
    /// Whether a run with this state directory made it.
    pub(super) is_own: bool,
    pub(super) manifest: &'a Manifest,
    pub(super) cluster: &'a Cluster,
    pub(super) situation: Situation,
    /// Hosts of the backup whose nodes are deleted.
    pub(super) gone: &'a [HostName],
    /// Authorities that a rotation after the backup has replaced.
    pub(super) replaced: &'a [Authority],
    /// The restore that this one continues.
    pub(super) begun: Option<&'a RestoreRecord>,
    /// Whether an earlier restore has stopped the cluster.
    pub(super) is_down: bool,
}

impl Plan<'_> {
    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let Self {
            manifest, cluster, ..
        } = self;
        let mut text = format!(
            "restores the cluster '{}' from {}:",
            cluster.name,
            self.backup.display()
        );
        if !self.is_own {
            text.push_str("\n  NOTHING SHOWS WHO MADE THIS BACKUP: you accept it with --accept-unknown-origin");
        }
        if !self.replaced.is_empty() {
            let _ = write!(
                text,
                "\n  ITS AUTHORITIES ARE OF BEFORE A ROTATION: the new hosts trust the former {}; you accept it with \
                 --accept-older-authorities; run {} after the restore",
                authorities(self.replaced),
                rotations(self.replaced)
            );
        }
        loss(
            &mut text,
            &manifest.created,
            &manifest.kubernetes,
            &manifest.etcd,
        );
        if !self.gone.is_empty() {
            let _ = write!(
                text,
                "\n  lost too: the nodes of {}, and their pods, because these hosts are gone",
                names(self.gone.iter().collect())
            );
        }
        if let Some(begun) = self.begun {
            let _ = write!(
                text,
                "\n  continues the restore {} {}",
                begun.id,
                place(begun.stage)
            );
        }
        if self.situation == Situation::New {
            let all: Vec<&HostName> = cluster.hosts.iter().map(|host| &host.name).collect();
            let _ = write!(
                text,
                "\nfirst, because these hosts have no cluster:\n  {}: install from the bundle, with the authorities of the backup",
                names(all)
            );
        }
        let mut steps = String::new();
        replacement(&mut steps, cluster, None);
        if self.is_down {
            steps = steps.replacen(
                WHILE_IT_RUNS,
                "while the cluster is stopped by the earlier restore",
                1,
            );
        }
        text.push_str(&steps);
        if self.situation == Situation::New {
            text.push_str("\nat the end: apply the cluster file to all hosts again");
        }
        text
    }
}

/// Adds what a snapshot is of, and what a restore of it loses.
pub fn loss(text: &mut String, created: &UtcTime, kubernetes: &str, etcd: &EtcdSnapshot) {
    let _ = write!(
        text,
        "\n  the snapshot is of {created} ({} ago), with {} keys at revision {}; Kubernetes {kubernetes}, etcd {}",
        age(created),
        etcd.keys,
        etcd.revision,
        etcd.version
    );
    if !etcd.quorum {
        text.push_str(
            "\n  etcd had no quorum at that time: the last writes before it can be missing",
        );
    }
    text.push_str(
        "\n  lost: everything that the API servers stored after that time\n  kept as it is: volumes, images, and pods that \
         run until Kubernetes compares them with its objects",
    );
}

/// When the new data of etcd is created.
const WHILE_IT_RUNS: &str = "while the cluster keeps running";

/// Adds how the data of etcd is replaced. `programs` is what happens before etcd starts again.
pub fn replacement(text: &mut String, cluster: &Cluster, programs: Option<&str>) {
    let control_planes = names(cluster.roles.control_plane.iter().collect());
    let etcd = names(
        members(cluster)
            .into_iter()
            .map(|host| &host.name)
            .collect(),
    );
    let nodes = names(cluster.nodes().into_iter().map(|host| &host.name).collect());
    let data = cluster.etcd.data_directory().unwrap_or_default();
    let replaced = match programs {
        None => format!(
            "{etcd}: stop etcd, move its data to {data}/member.before-…, and start it with the new data"
        ),
        Some(programs) => format!(
            "{etcd}: stop etcd, and move its data to {data}/member.before-…\n  {programs}\n  {etcd}: start etcd with the new data"
        ),
    };
    let _ = write!(
        text,
        "\n{WHILE_IT_RUNS}:\n  {etcd}: create the new data of etcd in {data}/restore-…\n\
         POINT OF NO RETURN: from here on, no API server answers until the new data is complete\n  \
         {control_planes}: stop kube-apiserver, kube-controller-manager and kube-scheduler\n  \
         {replaced}\n  \
         {control_planes}: start the programs, one host after another\n  \
         {nodes}: restart the kubelet, and the pods of nodes whose pod subnet changes\n  \
         all: prove that members have equal data, that API servers store objects, and that nodes are Ready"
    );
}

fn place(stage: Stage) -> &'static str {
    match stage {
        Stage::Install => "where hosts are installed",
        Stage::Prepare => "before its point of no return",
        Stage::Replace | Stage::Etcd | Stage::ControlPlanes => "after its point of no return",
        Stage::Nodes | Stage::Reconcile => "where control planes run again",
    }
}

/// Returns the names of authorities.
pub(super) fn authorities(all: &[Authority]) -> String {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Returns the commands that replace authorities.
pub(super) fn rotations(all: &[Authority]) -> String {
    let is_key = |authority: &Authority| *authority == Authority::ServiceAccounts;
    let mut commands = Vec::new();
    if !all.iter().all(is_key) {
        commands.push("`kubexm certs rotate-ca`");
    }
    if all.iter().any(is_key) {
        commands.push("`kubexm certs rotate-sa-key`");
    }
    commands.join(" and ")
}

/// Returns names with commas between them.
pub fn names(hosts: Vec<&HostName>) -> String {
    let names: Vec<&str> = hosts.into_iter().map(HostName::as_str).collect();
    names.join(", ")
}

/// Returns how long ago a time is.
pub fn age(then: &UtcTime) -> String {
    shown((UtcTime::now().time() - then.time()).whole_minutes())
}

fn shown(minutes: i64) -> String {
    match minutes.max(0) {
        0 => "less than a minute".to_owned(),
        minutes @ ..120 => format!("{minutes} min"),
        minutes @ ..2880 => format!("{} h", minutes / 60),
        minutes => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_safekeeping::backup::Manifest;

    fn manifest() -> Manifest {
        let text = r#"{
            "format": 1,
            "cluster": {"id": "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11", "name": "example", "created": "2026-01-31T12:00:00Z"},
            "created": "2026-02-01T12:00:00Z", "kubexm": "0.1.0", "kubernetes": "1.36.3", "deployment": "kubeadm",
            "etcd": {"deployment": "kubeadm", "version": "3.6.8", "member": "node2", "quorum": true, "members": [],
                "clusterId": "1", "revision": 1234, "hash": 1, "keys": 321},
            "hosts": ["node1"], "files": []
        }"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn plan_names_what_is_lost_and_the_point_of_no_return() {
        let cluster = kubexm_session::example::cluster();
        let begun = RestoreRecord {
            id: "20260201T130000Z".to_owned(),
            ..RestoreRecord::new(kubexm_types::Digest::of(b"x"), true).reaches(Stage::Etcd)
        };
        let plan = Plan {
            backup: Path::new("backup"),
            is_own: true,
            manifest: &manifest(),
            cluster: &cluster,
            situation: Situation::New,
            gone: &["node9".parse().unwrap()],
            replaced: &[Authority::Kubernetes, Authority::ServiceAccounts],
            begun: Some(&begun),
            is_down: false,
        };
        let text = plan.text();
        let stopped = Plan {
            begun: None,
            is_down: true,
            ..plan
        };
        assert!(text.contains(WHILE_IT_RUNS) && !stopped.text().contains(WHILE_IT_RUNS));
        let (before, after) = text.split_once(" (").unwrap();
        let after = after.split_once(" ago)").unwrap().1;
        insta::assert_snapshot!(format!("{before}{after}"), @r"
        restores the cluster 'example' from backup:
          ITS AUTHORITIES ARE OF BEFORE A ROTATION: the new hosts trust the former Kubernetes CA, key of service accounts; you accept it with --accept-older-authorities; run `kubexm certs rotate-ca` and `kubexm certs rotate-sa-key` after the restore
          the snapshot is of 2026-02-01T12:00:00Z, with 321 keys at revision 1234; Kubernetes 1.36.3, etcd 3.6.8
          lost: everything that the API servers stored after that time
          kept as it is: volumes, images, and pods that run until Kubernetes compares them with its objects
          lost too: the nodes of node9, and their pods, because these hosts are gone
          continues the restore 20260201T130000Z after its point of no return
        first, because these hosts have no cluster:
          node1, node2: install from the bundle, with the authorities of the backup
        while the cluster keeps running:
          node1: create the new data of etcd in /var/lib/etcd/restore-…
        POINT OF NO RETURN: from here on, no API server answers until the new data is complete
          node1: stop kube-apiserver, kube-controller-manager and kube-scheduler
          node1: stop etcd, move its data to /var/lib/etcd/member.before-…, and start it with the new data
          node1: start the programs, one host after another
          node1, node2: restart the kubelet, and the pods of nodes whose pod subnet changes
          all: prove that members have equal data, that API servers store objects, and that nodes are Ready
        at the end: apply the cluster file to all hosts again
        ");
        let times: Vec<String> = [0, 5, 300, 4000].map(shown).into();
        assert_eq!(times, ["less than a minute", "5 min", "5 h", "2 days"]);
    }
}
