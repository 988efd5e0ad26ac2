//! The members of etcd before a change, and whether enough of them remain.

use std::collections::BTreeSet;
use std::time::Duration;

use super::understated;
use crate::CommandError;
use crate::status::etcd;
use kubexm_deploy::removal::{Leaving, peer_url};
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_scripts::etcd::MEMBERSHIP;
use kubexm_types::HostName;

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    name: String,
    peers: Vec<String>,
    /// Whether it counts for the majority.
    is_voter: bool,
    is_healthy: bool,
}

/// The members of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members(Vec<Member>);

/// The members of etcd around a removal.
#[derive(Debug, Clone, Default)]
pub(super) struct Quorum {
    /// A host that stays and whose member answers; `None` if no member leaves.
    pub(super) asked: Option<HostName>,
    /// The numbers of members before and after; `None` if they stay.
    pub(super) change: Option<String>,
}

/// The voters of etcd at one time.
struct Voters<'a>(Vec<&'a Member>);

impl Members {
    /// Asks the member of a host, again and again for some time.
    ///
    /// # Errors
    /// It does not answer, or etcd has no quorum.
    pub(crate) async fn read(
        host: &dyn Host,
        kind: &str,
        at_most: Duration,
    ) -> Result<Self, CommandError> {
        let what = "list the members of etcd";
        let seconds = at_most.as_secs().to_string();
        let arguments = [kind, seconds.as_str()];
        let command = Command::from_script(MEMBERSHIP.verb("list"), arguments).describe(what);
        let output = host.run(command).await?;
        let failed = |cause: String| {
            CommandError::Configuration(format!(
                "{}: {cause}\nhint: more than half of the members must run; if they are lost, restore a snapshot of etcd: \
                 archive/ in the state directory has the latest ones",
                host.name()
            ))
        };
        let output =
            StepError::unless_done(what, output).map_err(|error| failed(error.to_string()))?;
        let text = output.text();
        Self::parse(&text).map_err(|cause| failed(format!("{what}: the answer {cause}")))
    }

    /// Parses a line with the list of members, and a line with the status of each one that answers.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (list, statuses) = text.split_once('\n').unwrap_or((text, ""));
        let mut healthy: BTreeSet<u64> = BTreeSet::new();
        for line in statuses.lines() {
            let members = etcd::statuses(line.as_bytes())?.into_iter();
            let members =
                members.filter(|member| member.leader.is_some() && member.errors.is_empty());
            healthy.extend(members.map(|member| member.id));
        }
        let members = etcd::list(list.as_bytes())?.into_iter();
        let members = members.map(|listed| Member {
            name: if listed.name.is_empty() {
                "one that has never started".to_owned()
            } else {
                listed.name
            },
            peers: listed.peers,
            is_voter: !listed.is_learner,
            is_healthy: healthy.contains(&listed.id),
        });
        Ok(Self(members.collect()))
    }

    /// Returns healthy voters that have none of these peer addresses.
    pub(crate) fn others(&self, peers: &BTreeSet<String>) -> Vec<&str> {
        let voters = self
            .0
            .iter()
            .filter(|member| member.is_voter && member.is_healthy);
        let others = voters.filter(|member| !member.peers.iter().any(|peer| peers.contains(peer)));
        others.map(|member| member.name.as_str()).collect()
    }

    /// Fails if etcd has a member of a host that leaves, and the cluster file gives it none. `kind` is who runs etcd.
    pub(super) fn check_listed(&self, leaving: &[Leaving], kind: &str) -> Result<(), CommandError> {
        let has_member = |host: &&Leaving| {
            let (peer, name) = (peer_url(&host.spec), host.spec.name.as_str());
            let mut members = self.0.iter();
            members.any(|member| member.name == name || member.peers.contains(&peer))
        };
        let mut unlisted = leaving.iter().filter(|host| !host.has_member);
        let Some(host) = unlisted.find(has_member) else {
            return Ok(());
        };
        let name = &host.spec.name;
        let group = match kind {
            "kubeadm" => "control-plane",
            _ => "etcd",
        };
        Err(CommandError::Configuration(format!(
            "cannot remove {name}: etcd has its member, and the cluster file does not say so: the member would stay\nhint: {}",
            understated::again(name, &[group])
        )))
    }

    /// Fails if etcd has the member of a host that leaves at another address than the cluster file: it would stay as a voter.
    pub(super) fn check_addresses(&self, leaving: &[Leaving]) -> Result<(), CommandError> {
        let elsewhere = |host: &&Leaving| {
            let (peer, name) = (peer_url(&host.spec), host.spec.name.as_str());
            let is_there = self.0.iter().any(|member| member.peers.contains(&peer));
            let named = self.0.iter().find(|member| member.name == name);
            named.filter(|_| !is_there)
        };
        let mut members = leaving.iter().filter(|host| host.has_member);
        let Some((name, member)) =
            members.find_map(|host| Some((&host.spec.name, elsewhere(&host)?)))
        else {
            return Ok(());
        };
        Err(CommandError::Configuration(format!(
            "cannot remove {name}: etcd has its member at {}, and the cluster file has another address: the member would \
             stay\nhint: remove it with its former address in the cluster file, then write the new one and add the host: kubexm \
             node remove {name}, kubexm node add {name}",
            member.peers.join(", ")
        )))
    }

    /// Describes the change of the numbers if these hosts leave in their order; `None` if none of them has a member.
    ///
    /// # Errors
    /// etcd would lose its quorum, or its last member.
    pub(super) fn after<'a>(
        &self,
        leaving: impl IntoIterator<Item = &'a Leaving>,
    ) -> Result<Option<String>, CommandError> {
        let mut now = Voters(self.0.iter().filter(|member| member.is_voter).collect());
        let before = now.numbers();
        let mut left = Vec::new();
        for host in leaving {
            let peer = peer_url(&host.spec);
            let name = &host.spec.name;
            let is_own = |member: &Member| host.has_member && member.peers.contains(&peer);
            if !now.0.iter().any(|member| is_own(member)) {
                continue;
            }
            let hint = now.hint(&peer);
            now.0.retain(|member| !is_own(member));
            left.push(name.to_string());
            if now.healthy() < now.needed() {
                return Err(CommandError::Configuration(format!(
                    "cannot remove {name}: etcd would lose its quorum: now {before}; without {}, {}\nhint: {hint}",
                    left.join(" and "),
                    now.numbers()
                )));
            }
        }
        let tolerated = now.healthy() - now.needed();
        let tolerated = match tolerated {
            0 => "the loss of one more member stops the cluster".to_owned(),
            1 => "it tolerates the loss of one".to_owned(),
            more => format!("it tolerates the loss of {more}"),
        };
        Ok((!left.is_empty())
            .then(|| format!("now {before}; afterwards {}: {tolerated}", now.numbers())))
    }
}

impl Voters<'_> {
    fn healthy(&self) -> usize {
        self.0.iter().filter(|member| member.is_healthy).count()
    }

    /// Returns how many must be healthy. Without a member, one is missing.
    fn needed(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// Returns the numbers for people.
    fn numbers(&self) -> String {
        let names = |is_healthy: bool| {
            let members = self
                .0
                .iter()
                .filter(|member| member.is_healthy == is_healthy);
            let names: Vec<&str> = members.map(|member| member.name.as_str()).collect();
            names.join(", ")
        };
        let members = match self.0.len() {
            1 => "1 member".to_owned(),
            count => format!("{count} members"),
        };
        let healthy = match (self.healthy(), names(true)) {
            (0, _) => "none is healthy".to_owned(),
            (count, names) => format!("{count} healthy ({names})"),
        };
        format!("{members}, {healthy}, {} needed", self.needed())
    }

    /// Returns what to do before the member with this address may leave.
    fn hint(&self, peer: &str) -> String {
        let others = self.0.iter();
        let others = others.filter(|member| !member.peers.iter().any(|other| other == peer));
        let (_, sick): (Vec<&&Member>, Vec<&&Member>) =
            others.partition(|member| member.is_healthy);
        let sick: Vec<&str> = sick.iter().map(|member| member.name.as_str()).collect();
        if sick.is_empty() {
            "add another member first".to_owned()
        } else {
            format!(
                "start the members that are not healthy, or remove these first: {}",
                sick.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example::cluster_of_four;

    /// Returns members node1, node2, …, of which these are healthy.
    fn members(count: u64, healthy: &[u64]) -> Members {
        let listed = (1..=count).map(|at| {
            format!(r#"{{"ID":{at},"name":"node{at}","peerURLs":["https://192.0.2.1{at}:2380"]}}"#)
        });
        let listed: Vec<String> = listed.collect();
        let statuses = healthy.iter().map(|at| {
            format!(
                r#"[{{"Status":{{"header":{{"cluster_id":9,"member_id":{at}}},"version":"3.6.8","leader":1}}}}]"#
            )
        });
        let statuses: Vec<String> = statuses.collect();
        let list = format!(r#"{{"header":{{}},"members":[{}]}}"#, listed.join(","));
        Members::parse(&format!("{list}\n{}\n", statuses.join("\n"))).unwrap()
    }

    fn leaving(names: &[&str]) -> Vec<Leaving> {
        let cluster = cluster_of_four();
        let hosts = names.iter().map(|name| {
            let spec = cluster.host(&name.parse().unwrap()).unwrap();
            Leaving::of(&cluster, spec, false)
        });
        hosts.collect()
    }

    fn after(members: &Members, names: &[&str]) -> String {
        match members.after(&leaving(names)) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn removal_that_keeps_the_quorum_is_described() {
        insta::assert_snapshot!(after(&members(3, &[1, 2, 3]), &["node1"]), @"now 3 members, 3 healthy (node1, node2, node3), 2 needed; afterwards 2 members, 2 healthy (node2, node3), 2 needed: the loss of one more member stops the cluster");
        insta::assert_snapshot!(after(&members(3, &[1, 2]), &["node3"]), @"now 3 members, 2 healthy (node1, node2), 2 needed; afterwards 2 members, 2 healthy (node1, node2), 2 needed: the loss of one more member stops the cluster");
        insta::assert_snapshot!(after(&members(3, &[1, 2]), &["node3", "node1"]), @"now 3 members, 2 healthy (node1, node2), 2 needed; afterwards 1 member, 1 healthy (node2), 1 needed: the loss of one more member stops the cluster");
        assert_eq!(after(&members(3, &[1, 2, 3]), &["node4"]), "");
    }

    #[test]
    fn removal_that_loses_the_quorum_is_refused_with_numbers() {
        insta::assert_snapshot!(after(&members(3, &[1, 2]), &["node1"]), @"
        cannot remove node1: etcd would lose its quorum: now 3 members, 2 healthy (node1, node2), 2 needed; without node1, 2 members, 1 healthy (node2), 2 needed
        hint: start the members that are not healthy, or remove these first: node3
        ");
        insta::assert_snapshot!(after(&members(1, &[1]), &["node1"]), @"
        cannot remove node1: etcd would lose its quorum: now 1 member, 1 healthy (node1), 1 needed; without node1, 0 members, none is healthy, 1 needed
        hint: add another member first
        ");
    }

    #[test]
    fn member_at_a_former_address_is_named() {
        let mut moved = members(3, &[1, 2]);
        assert!(moved.check_addresses(&leaving(&["node3"])).is_ok());
        let member = moved
            .0
            .iter_mut()
            .find(|member| member.name == "node3")
            .unwrap();
        member.peers = vec!["https://192.0.2.99:2380".to_owned()];
        let refused = moved
            .check_addresses(&leaving(&["node3"]))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("node3: etcd has its member at https://192.0.2.99:2380")
                && refused.contains("\nhint: "),
            "{refused}"
        );
        assert!(moved.check_addresses(&leaving(&["node1"])).is_ok());
    }

    /// Before, such a member stayed in etcd and counted for the quorum.
    #[test]
    fn member_that_the_cluster_file_does_not_have_is_named() {
        let of_all = members(4, &[1, 2, 3, 4]);
        let refused = of_all.check_listed(&leaving(&["node4"]), "kubeadm");
        insta::assert_snapshot!(refused.unwrap_err(), @"
        cannot remove node4: etcd has its member, and the cluster file does not say so: the member would stay
        hint: list node4 in roleGroups.control-plane again, with all its roles, then run the same command
        ");
        assert!(of_all.check_listed(&leaving(&["node1"]), "kubeadm").is_ok());
        let of_three = members(3, &[1, 2, 3]);
        assert!(
            of_three
                .check_listed(&leaving(&["node4"]), "kubeadm")
                .is_ok()
        );
    }

    #[test]
    fn unstarted_members_and_learners_are_known() {
        let list = r#"{"members":[{"ID":1,"name":"node1","peerURLs":["https://192.0.2.11:2380"]},{"ID":2,"peerURLs":["https://192.0.2.12:2380"]},{"ID":3,"name":"node3","isLearner":true}]}"#;
        let members = Members::parse(list).unwrap();
        assert_eq!(members.0.iter().filter(|member| member.is_voter).count(), 2);
        assert_eq!(members.0[1].name, "one that has never started");
        assert!(Members::parse("").is_err());
        assert!(Members::parse(&format!("{list}\nx\n")).is_err());
    }
}
