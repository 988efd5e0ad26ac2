//! Whether etcd is healthy before an upgrade.

use std::collections::BTreeSet;

use kubexm_config::Cluster;
use kubexm_etcd::{Client, ClientError, Listed, Members, kind, members, peer_url};
use kubexm_preflight::Finding;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::{FindingKind, HostName, Untrusted};

/// The part of the largest size of the database, in percent, from which on a warning names it.
const FULL: u64 = 80;

/// Asks the members; `None` if kubexm does not run etcd.
///
/// # Errors
/// No member answers, or etcd has no quorum.
pub(super) async fn read(
    cluster: &Cluster,
    hosts: &Hosts,
) -> Result<Option<Members>, CommandError> {
    let Some(kind) = kind(cluster) else {
        return Ok(None);
    };
    let mut failures = Vec::new();
    for spec in members(cluster) {
        let Some(host) = hosts.get(&spec.name) else {
            continue;
        };
        match Client::new(host.as_ref(), kind, "ask the members of etcd")
            .members(None)
            .await
        {
            Ok(found) => return Ok(Some(found)),
            Err(ClientError::Host(error)) => return Err(error.into()),
            Err(cause) => failures.push(format!("{}: {cause}", spec.name)),
        }
    }
    Err(CommandError::refused(format!(
        "no member of etcd answers with a quorum of the others:\n{}",
        failures.join("\n")
    ))
    .hint("repair etcd first; kubexm logs etcd shows its log"))
}

/// Returns what prevents an upgrade, and warnings. Because of an upgrade that `continues`, a member may not answer.
pub(super) fn findings(
    etcd: &Members,
    cluster: &Cluster,
    first: &HostName,
    continues: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    for spec in members(cluster) {
        let (name, peer) = (&spec.name, peer_url(spec));
        let mut add = |fatal: bool, what: String, hint: &str| {
            findings.push(Finding::new(FindingKind::Etcd, name, fatal, what, hint));
        };
        let Some(listed) = etcd.at(&peer) else {
            add(
                true,
                format!("etcd has no member with the address {peer} of this host"),
                "let the member join with kubexm install first",
            );
            continue;
        };
        known.insert(listed.id);
        if listed.name.is_empty() || listed.is_learner {
            add(
                true,
                "the member of etcd on this host is not a voter that has started".to_owned(),
                "kubexm install promotes a learner; etcdctl member list shows all members",
            );
        }
        let Some(member) = etcd.status(listed) else {
            add(
                !continues,
                "the member of etcd on this host does not answer".to_owned(),
                "repair it first: kubexm logs etcd shows its log",
            );
            continue;
        };
        let problems = member.problems();
        if !problems.is_empty() {
            add(
                true,
                format!(
                    "the member of etcd on this host reports: {}",
                    problems.join(", ")
                ),
                "correct the cause first: kubexm doctor names it",
            );
        }
        if let (Some(size), Some(quota)) = (member.size, member.quota)
            && quota > 0
            && size >= quota / 100 * FULL
        {
            add(
                false,
                format!(
                    "the database of etcd has {} MiB of {} MiB",
                    size >> 20,
                    quota >> 20
                ),
                "compact and defragment it, or raise --quota-backend-bytes",
            );
        }
    }
    let others = etcd.listed.iter().filter(|one| !known.contains(&one.id));
    let others: Vec<String> = others.map(shown).collect();
    if !others.is_empty() {
        findings.push(Finding::new(
            FindingKind::Etcd,
            first,
            true,
            format!(
                "etcd has members that the cluster file does not have: {}",
                others.join(", ")
            ),
            "remove them with etcdctl member remove, or add their hosts to the cluster file",
        ));
    }
    findings
}

fn shown(member: &Listed) -> String {
    let text = format!("{} ({})", member.label(), member.peers.join(" "));
    Untrusted::one_line(&text, 200).to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use kubexm_etcd::Status;

    pub(in super::super) fn cluster() -> Cluster {
        kubexm_session::example::cluster_with_etcd("systemd")
    }

    /// Returns what etcd answers: the list of members, and the status of each one that answers.
    pub(in super::super) fn state(answers: &[String]) -> Members {
        let (list, statuses) = answers.split_first().unwrap();
        let answered = statuses.iter();
        Members {
            listed: Listed::all(list.as_bytes()).unwrap(),
            answered: answered
                .map(|status| Status::one(status.as_bytes()).unwrap())
                .collect(),
        }
    }

    fn found(text: &str, continues: bool) -> Vec<String> {
        let answers: Vec<String> = text.lines().map(str::to_owned).collect();
        let state = state(&answers);
        let findings = super::findings(&state, &cluster(), &"node1".parse().unwrap(), continues);
        let findings = findings.iter();
        findings
            .map(|found| format!("{} {} {}", found.host, found.fatal, found.what))
            .collect()
    }

    pub(in super::super) fn list(more: &str) -> String {
        format!(
            r#"{{"members":[{{"ID":1,"name":"node1","peerURLs":["https://192.0.2.11:2380"]}},{{"ID":2,"name":"node2","peerURLs":["https://192.0.2.12:2380"]}},{{"ID":3,"name":"node3","peerURLs":["https://192.0.2.13:2380"]{more}}}]}}"#
        )
    }

    pub(in super::super) fn status(id: u64, more: &str) -> String {
        format!(
            r#"[{{"Status":{{"header":{{"cluster_id":9,"member_id":{id}}},"version":"3.6.8","dbSize":1000,"dbSizeQuota":2000,"leader":1{more}}}}}]"#
        )
    }

    #[test]
    fn members_must_be_voters_that_answer() {
        let healthy = [list(""), status(1, ""), status(2, ""), status(3, "")].join("\n");
        assert_eq!(found(&healthy, false), [""; 0]);
        let silent = [list(""), status(1, ""), status(2, "")].join("\n");
        let said = "the member of etcd on this host does not answer";
        assert_eq!(found(&silent, false), [format!("node3 true {said}")]);
        assert_eq!(found(&silent, true), [format!("node3 false {said}")]);
        let alarm = status(3, r#","errors":["memberID:3 alarm:NOSPACE "]"#);
        let alarmed = [
            list(r#","isLearner":true"#),
            status(1, ""),
            status(2, ""),
            alarm,
        ]
        .join("\n");
        let all = found(&alarmed, false);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(
            all[0].contains("not a voter") && all[1].ends_with("reports: NOSPACE"),
            "{all:?}"
        );
        let full = status(1, "").replace("1000", "1900");
        let full = [list(""), full, status(2, ""), status(3, "")].join("\n");
        assert!(found(&full, false)[0].starts_with("node1 false the database"));
        let other = list(r#"},{"ID":4,"peerURLs":["https://192.0.2.14:2380"]"#);
        let other = [other, status(1, ""), status(2, ""), status(3, "")].join("\n");
        let all = found(&other, false);
        assert!(
            all[0].contains("one that has never started (https://192.0.2.14:2380)"),
            "{all:?}"
        );
    }
}
