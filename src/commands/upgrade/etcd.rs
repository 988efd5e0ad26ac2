//! Whether etcd is healthy before an upgrade, and whether its version allows the one that the upgrade brings
//! (<https://etcd.io/docs/latest/upgrades/>).

use std::collections::{BTreeMap, BTreeSet};

use super::path::Hop;
use crate::CommandError;
use crate::session::Hosts;
use crate::status::etcd::{self, Listed, Member};
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::backup::members;
use kubexm_deploy::etcd_version;
use kubexm_deploy::removal::{etcd_kind, peer_url};
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Facts};
use kubexm_preflight::Finding;
use kubexm_scripts::etcd::MEMBERSHIP;
use kubexm_types::{HostName, Untrusted, Version};

/// The first patch versions from which a member can go to the next minor version. Older ones can bring learners and removed
/// members back (<https://etcd.io/blog/2025/upgrade_from_3.5_to_3.6_issue_followup/>).
const SAFE: [(Version, &str); 2] = [
    (
        Version::new(3, 5, 26),
        "an older one can bring removed members and learners back",
    ),
    (Version::new(3, 6, 11), "etcd 3.7 requires it"),
];
/// The part of the largest size of the database, in percent, from which on a warning names it.
const FULL: u64 = 80;

/// What etcd reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    listed: Vec<Listed>,
    answered: Vec<Member>,
}

impl State {
    /// Asks the members; `None` if kubexm does not run etcd.
    ///
    /// # Errors
    /// No member answers, or etcd has no quorum.
    pub(super) async fn read(
        cluster: &Cluster,
        hosts: &Hosts,
    ) -> Result<Option<Self>, CommandError> {
        let Some(kind) = etcd_kind(cluster) else {
            return Ok(None);
        };
        let what = "ask the members of etcd";
        let mut failures = Vec::new();
        for spec in members(cluster) {
            let Some(host) = hosts.get(&spec.name) else {
                continue;
            };
            let command = Command::from_script(MEMBERSHIP.verb("list"), [kind]).describe(what);
            let output = host.run(command).await?;
            let parsed = StepError::unless_done(what, output)
                .map_err(|error| error.to_string())
                .and_then(|output| {
                    parse(&output.text()).map_err(|cause| format!("{what}: the answer {cause}"))
                });
            match parsed {
                Ok(state) => return Ok(Some(state)),
                Err(cause) => failures.push(format!("{}: {cause}", spec.name)),
            }
        }
        Err(CommandError::Configuration(format!(
            "no member of etcd answers with a quorum of the others:\n{}\nhint: repair etcd first; kubexm logs etcd shows its \
             log",
            failures.join("\n")
        )))
    }

    /// Returns what prevents an upgrade, and warnings. Because of an upgrade that `continues`, a member may not answer.
    pub(super) fn findings(
        &self,
        cluster: &Cluster,
        first: &HostName,
        continues: bool,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut known = BTreeSet::new();
        for spec in members(cluster) {
            let (name, peer) = (&spec.name, peer_url(spec));
            let mut add = |fatal: bool, what: String, hint: &str| {
                findings.push(Finding::new(name, fatal, what, hint));
            };
            let Some(listed) = self.listed.iter().find(|one| one.peers.contains(&peer)) else {
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
            let Some(member) = self.answered.iter().find(|one| one.id == listed.id) else {
                add(
                    !continues,
                    "the member of etcd on this host does not answer".to_owned(),
                    "repair it first: kubexm logs etcd shows its log",
                );
                continue;
            };
            if !member.alarms.is_empty() || !member.errors.is_empty() {
                let all: Vec<String> = member
                    .alarms
                    .iter()
                    .chain(&member.errors)
                    .cloned()
                    .collect();
                add(
                    true,
                    format!(
                        "the member of etcd on this host reports: {}",
                        all.join(", ")
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
        let others = self.listed.iter().filter(|one| !known.contains(&one.id));
        let others: Vec<String> = others.map(shown).collect();
        if !others.is_empty() {
            findings.push(Finding::new(
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

    /// Returns how the hops change the version of each member that answers, in the order of the hops for each of them.
    pub(super) fn changes(
        &self,
        cluster: &Cluster,
        (lock, facts): (&Lock, &BTreeMap<HostName, Facts>),
        hops: &[Hop],
    ) -> Vec<Change> {
        // kubeadm keeps a newer etcd. As units, kubexm would replace it.
        let keeps_newer = matches!(cluster.etcd, Etcd::Kubeadm { .. });
        let mut changes = Vec::new();
        for spec in members(cluster) {
            let peer = peer_url(spec);
            let listed = self.listed.iter().find(|one| one.peers.contains(&peer));
            let member =
                listed.and_then(|listed| self.answered.iter().find(|one| one.id == listed.id));
            let mut present = member.and_then(|member| member.version.clone());
            let arch = facts.get(&spec.name).and_then(Facts::arch);
            for hop in hops {
                let (Some(from), Some(arch)) = (present.clone(), arch) else {
                    break;
                };
                let Some(to) = etcd_version(cluster, lock, &hop.version, arch) else {
                    continue;
                };
                present = Some(from.clone().max(to.clone()));
                if to == from || keeps_newer && to < from {
                    continue;
                }
                changes.push(Change {
                    host: spec.name.clone(),
                    kubernetes: hop.version.clone(),
                    from,
                    to,
                });
            }
        }
        changes
    }
}

/// Another version of a member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub host: HostName,
    /// The version of the hop that brings it.
    pub kubernetes: Version,
    pub from: Version,
    pub to: Version,
}

impl Change {
    /// Returns whether an older etcd cannot read the data afterwards.
    pub(super) fn is_minor(&self) -> bool {
        self.from.major_minor() != self.to.major_minor()
    }
}

/// Returns which changes of versions are not possible: the first one of each member.
pub(super) fn refused(changes: &[Change]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for change in changes {
        let Some((cause, hint)) = refusal(&change.from, &change.to) else {
            continue;
        };
        if seen.insert(&change.host) {
            findings.push(Finding::new(
                &change.host,
                true,
                format!(
                    "Kubernetes {} brings etcd {}, and this member has {}: {cause}",
                    change.kubernetes, change.to, change.from
                ),
                &hint,
            ));
        }
    }
    findings
}

/// Returns why a member cannot go from one version to another, and what helps.
fn refusal(from: &Version, to: &Version) -> Option<(String, String)> {
    let minor = Version::major_minor;
    if minor(to) < minor(from) {
        return Some((
            "an older etcd cannot read the data of a newer one".to_owned(),
            format!("build the bundle with etcd {from} or a newer one"),
        ));
    }
    if minor(to) == minor(from) {
        return None;
    }
    if from.major() != to.major() || to.minor() > from.minor() + 1 {
        return Some((
            "etcd goes through each minor version".to_owned(),
            "add the versions of Kubernetes in between to the bundle".to_owned(),
        ));
    }
    let (safe, why) = SAFE
        .into_iter()
        .find(|(safe, _)| minor(safe) == minor(from))?;
    (*from < safe).then(|| {
        (
            format!("the way begins at {safe}: {why}"),
            format!(
                "first bring all members to {safe} or a newer patch version: with a patch upgrade of Kubernetes whose bundle \
                 has it, or with etcd.local.imageTag of kubeadm"
            ),
        )
    })
}

fn shown(member: &Listed) -> String {
    let name = match member.name.is_empty() {
        true => "one that has never started",
        false => &member.name,
    };
    let text = format!("{name} ({})", member.peers.join(" "));
    Untrusted::one_line(&text, 200).to_string()
}

/// Parses a line with the list of members, and a line with the status of each one that answers.
fn parse(text: &str) -> Result<State, &'static str> {
    let (list, statuses) = text.split_once('\n').unwrap_or((text, ""));
    let mut state = State {
        listed: etcd::list(list.as_bytes())?,
        answered: Vec::new(),
    };
    for line in statuses.lines().filter(|line| !line.trim().is_empty()) {
        state.answered.extend(etcd::statuses(line.as_bytes())?);
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(from: &str, to: &str) -> String {
        let found = refusal(&from.parse().unwrap(), &to.parse().unwrap());
        found.map(|(cause, _)| cause).unwrap_or_default()
    }

    #[test]
    fn next_minor_version_begins_at_a_safe_patch_version() {
        assert_eq!(cause("3.5.26", "3.6.8"), "");
        assert!(cause("3.5.21", "3.6.8").starts_with("the way begins at 3.5.26"));
        assert!(cause("3.6.8", "3.7.1").starts_with("the way begins at 3.6.11"));
        assert_eq!(cause("3.6.11", "3.7.1"), "");
        assert_eq!(cause("3.6.5", "3.6.8"), "");
        assert!(cause("3.5.33", "3.7.1").contains("each minor version"));
        assert!(cause("3.6.8", "3.5.33").contains("cannot read"));
    }

    fn cluster() -> Cluster {
        let text = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts: [{name: node1, address: 192.0.2.11}, {name: node2, address: 192.0.2.12}, {name: node3, address: 192.0.2.13}]
  roleGroups: {control-plane: [node1], worker: [node2], etcd: [node1, node2, node3]}
  kubernetes: {version: 1.36.3}
  etcd: {type: systemd}
";
        kubexm_config::parse_cluster("example", text).unwrap()
    }

    fn found(text: &str, continues: bool) -> Vec<String> {
        let state = parse(text).unwrap();
        let findings = state.findings(&cluster(), &"node1".parse().unwrap(), continues);
        let findings = findings.iter();
        findings
            .map(|found| format!("{} {} {}", found.host, found.fatal, found.what))
            .collect()
    }

    fn list(more: &str) -> String {
        format!(
            r#"{{"members":[{{"ID":1,"name":"node1","peerURLs":["https://192.0.2.11:2380"]}},{{"ID":2,"name":"node2","peerURLs":["https://192.0.2.12:2380"]}},{{"ID":3,"name":"node3","peerURLs":["https://192.0.2.13:2380"]{more}}}]}}"#
        )
    }

    fn status(id: u64, more: &str) -> String {
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

    /// Returns how a member of 3.6.8 changes with a bundle that has this version of etcd, as a unit or as a static pod.
    fn changed(version: &str, cluster: &Cluster) -> Vec<String> {
        let lock = format!(
            "lockVersion: 1\nname: x\nkubernetes: [1.36.3]\narchitectures: [amd64]\nfiles:\n- {{component: etcd, version: {version}, \
             arch: amd64, fileName: e, url: 'https://example.org/e', size: 1, digest: 'sha256:{}', checksum: pinned, format: tar-gz}}\n\
             images: []\npackages: []\nkubeadm:\n- {{version: 1.36.3, images: ['registry.k8s.io/etcd:{version}-0']}}\n",
            "0".repeat(64)
        );
        let lock: Lock = serde_saphyr::from_str(&lock).unwrap();
        let facts = Facts {
            machine: "x86_64".to_owned(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let hop = Hop {
            version: Version::new(1, 36, 3),
            workers: BTreeSet::new(),
        };
        let state = parse(&[list(""), status(1, "")].join("\n")).unwrap();
        let changes = state.changes(cluster, (&lock, &facts), &[hop]);
        let refused = refused(&changes);
        let refused = refused.iter().map(|finding| finding.what.clone());
        let changes = changes
            .iter()
            .map(|change| format!("{} {} -> {}", change.host, change.from, change.to));
        changes.chain(refused).collect()
    }

    #[test]
    fn versions_of_members_change_with_the_bundle() {
        let units = cluster();
        assert_eq!(changed("3.6.16", &units), ["node1 3.6.8 -> 3.6.16"]);
        assert_eq!(changed("3.6.8", &units), [""; 0]);
        let all = changed("3.5.33", &units);
        assert!(
            all[1].starts_with("Kubernetes 1.36.3 brings etcd 3.5.33, and this member has 3.6.8"),
            "{all:?}"
        );
        let mut pods = cluster();
        pods.etcd = Etcd::Kubeadm {
            extra_args: BTreeMap::new(),
            data_dir: "/var/lib/etcd".parse().unwrap(),
            cert_sans: Vec::new(),
        };
        assert_eq!(changed("3.6.16", &pods), ["node1 3.6.8 -> 3.6.16"]);
        assert_eq!(changed("3.5.33", &pods), [""; 0]);
    }
}
