//! The members of etcd at the time of a backup, for its manifest and for people.

use super::manifest::{EtcdMember, EtcdSnapshot};
use kubexm_etcd::{Content, Disagreement, Survey};
use kubexm_session::CommandError;
use kubexm_types::HostName;

/// Returns what the manifest states about the snapshot of a member.
///
/// # Errors
/// The member has not answered.
pub(super) fn describe(
    survey: &Survey,
    host: &HostName,
    deployment: &str,
    content: Content,
) -> Result<EtcdSnapshot, String> {
    let status = survey.status(host).ok_or("the member does not answer")?;
    let statuses = survey.statuses().iter();
    let members = statuses.map(|(host, status)| EtcdMember {
        host: host.clone(),
        id: format!("{:x}", status.id),
        version: status.version.clone(),
        leader: status.is_leader(),
    });
    Ok(EtcdSnapshot {
        deployment: deployment.to_owned(),
        version: status.version.clone(),
        member: host.clone(),
        quorum: status.leader.is_some(),
        members: members.collect(),
        cluster_id: format!("{:x}", status.cluster),
        revision: content.status.revision,
        hash: content.status.hash,
        keys: content.keys,
    })
}

/// Returns the error of members that cannot be backed up. `silent` states why members do not answer.
pub(super) fn refused(disagreement: Disagreement, silent: &[String]) -> CommandError {
    let (what, hint) = match disagreement {
        Disagreement::Data(hosts) => {
            let hosts: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
            (
                format!(
                    "{}: etcd has the alarm CORRUPT: members have different data",
                    hosts.join(", ")
                ),
                "find the member with the wrong data with `etcdctl endpoint hashkv --cluster`, remove it, and let it join \
                 again; https://etcd.io/docs/latest/op-guide/data_corruption/",
            )
        }
        Disagreement::Clusters(parts) => {
            let lines = parts.iter().map(|part| {
                let hosts: Vec<&str> = part.hosts.iter().map(HostName::as_str).collect();
                let leader = if part.has_leader {
                    "with a leader"
                } else {
                    "without a leader"
                };
                format!("  {}: ID {:x}, {leader}", hosts.join(", "), part.cluster)
            });
            (
                format!(
                    "members belong to different clusters of etcd:\n{}",
                    lines.collect::<Vec<_>>().join("\n")
                ),
                "a host that was off during a restore comes back with former data: reset it with `kubexm node remove HOST`, or \
                 stop its etcd and run the same command again; `kubexm backup restore` gives all members the same data",
            )
        }
        Disagreement::Silence => {
            let silent = if silent.is_empty() {
                String::new()
            } else {
                format!(":\n  {}", silent.join("\n  "))
            };
            (
                format!("no member answers{silent}"),
                "start etcd on one of these hosts, then run the same command again",
            )
        }
    };
    CommandError::refused(format!("cannot back up etcd: {what}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_etcd::{Part, SnapshotStatus, Status};

    #[test]
    fn refusals_name_the_members_and_what_helps() {
        let [node1, node2, node3] = ["node1", "node2", "node3"].map(|name| name.parse().unwrap());
        let part = |cluster, hosts, has_leader| Part {
            cluster,
            hosts,
            has_leader,
        };
        let clusters = Disagreement::Clusters(vec![
            part(0xabc, vec![node3], false),
            part(0xef37_ad9d_c622_a7c4, vec![node1, node2], true),
        ]);
        insta::assert_snapshot!(refused(clusters, &[]), @"
        cannot back up etcd: members belong to different clusters of etcd:
          node3: ID abc, without a leader
          node1, node2: ID ef37ad9dc622a7c4, with a leader
        hint: a host that was off during a restore comes back with former data: reset it with `kubexm node remove HOST`, or stop its etcd and run the same command again; `kubexm backup restore` gives all members the same data
        ");
        let corrupt = Disagreement::Data(vec!["node2".parse().unwrap()]);
        let corrupt = refused(corrupt, &[]).to_string();
        assert!(
            corrupt.starts_with("cannot back up etcd: node2: etcd has the alarm CORRUPT"),
            "{corrupt}"
        );
        let silent = refused(Disagreement::Silence, &["node3: no answer".to_owned()]);
        let silent = silent.to_string();
        assert!(
            silent.contains("no member answers:\n  node3: no answer\nhint: "),
            "{silent}"
        );
    }

    #[test]
    fn snapshot_is_described_by_its_revision_hash_and_keys() {
        let status = br#"[{"Status":{"header":{"cluster_id":9,"member_id":17},"version":"3.6.8","leader":17}}]"#;
        let host: HostName = "node1".parse().unwrap();
        let survey = Survey::new(vec![(host.clone(), Status::one(status).unwrap())]).unwrap();
        let (hash, revision, keys) = (4_208_134_212, 1193, 311);
        let status = SnapshotStatus { hash, revision };
        let content = Content { status, keys };
        let found = describe(&survey, &host, "kubeadm", content).unwrap();
        assert_eq!(
            (found.revision, found.hash, found.keys),
            (revision, hash, keys)
        );
        assert!(found.quorum && found.members[0].leader && found.members[0].id == "11");
        describe(&survey, &"node2".parse().unwrap(), "kubeadm", content).unwrap_err();
    }
}
