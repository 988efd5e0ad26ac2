//! The members of etcd before a change, and whether enough of them remain.

use super::understated;
use kubexm_deploy::removal::Leaving;
use kubexm_etcd::{Listed, Members, Voters, peer_url};
use kubexm_session::CommandError;
use kubexm_types::HostName;

/// The members of etcd around a removal.
#[derive(Debug, Clone, Default)]
pub(super) struct Quorum {
    /// A host that stays and whose member answers; `None` if no member leaves.
    pub(super) asked: Option<HostName>,
    /// The numbers of members before and after; `None` if they stay.
    pub(super) change: Option<String>,
}

/// Fails if etcd has a member of a host that leaves, and the cluster file gives it none. `kind` is who runs etcd.
pub(super) fn check_listed(
    members: &Members,
    leaving: &[Leaving],
    kind: &str,
) -> Result<(), CommandError> {
    let has_member = |host: &&Leaving| {
        let (peer, name) = (peer_url(&host.spec), host.spec.name.as_str());
        let mut listed = members.listed.iter();
        listed.any(|member| member.name == name || member.has_peer(&peer))
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
    Err(CommandError::configuration(format!(
        "cannot remove {name}: etcd has its member, and the cluster file does not say so: the \
         member would stay"
    ))
    .hint(understated::again(name, &[group])))
}

/// Fails if etcd has the member of a host that leaves at another address than the cluster file: it would stay as a voter.
pub(super) fn check_addresses(members: &Members, leaving: &[Leaving]) -> Result<(), CommandError> {
    let elsewhere = |host: &&Leaving| {
        let (peer, name) = (peer_url(&host.spec), host.spec.name.as_str());
        let mut listed = members.listed.iter();
        let named = listed.find(|member| member.name == name);
        named.filter(|_| members.at(&peer).is_none())
    };
    let mut hosts = leaving.iter().filter(|host| host.has_member);
    let Some((name, member)) = hosts.find_map(|host| Some((&host.spec.name, elsewhere(&host)?)))
    else {
        return Ok(());
    };
    Err(CommandError::configuration(format!(
        "cannot remove {name}: etcd has its member at {}, and the cluster file has another \
         address: the member would stay",
        member.peers.join(", ")
    ))
    .hint(format!(
        "remove it with its former address in the cluster file, then write the new one and add \
         the host: kubexm node remove {name}, kubexm node add {name}"
    )))
}

/// Describes the change of the numbers if these hosts leave in their order; `None` if none of them has a member.
///
/// # Errors
/// etcd would lose its quorum, or its last member.
pub(super) fn after<'a>(
    members: &Members,
    leaving: impl IntoIterator<Item = &'a Leaving>,
) -> Result<Option<String>, CommandError> {
    let mut now = Voters::of(members);
    let before = numbers(&now);
    let mut left = Vec::new();
    for host in leaving {
        let peer = peer_url(&host.spec);
        let name = &host.spec.name;
        let remaining = now.without(|member| host.has_member && member.has_peer(&peer));
        if remaining.count() == now.count() {
            continue;
        }
        let hint = hint(&now, &peer);
        now = remaining;
        left.push(name.to_string());
        if !now.have_quorum() {
            return Err(CommandError::refused(format!(
                "cannot remove {name}: etcd would lose its quorum: now {before}; without {}, {}",
                left.join(" and "),
                numbers(&now)
            ))
            .hint(hint));
        }
    }
    let tolerated = now.healthy() - now.needed();
    let tolerated = match tolerated {
        0 => "the loss of one more member stops the cluster".to_owned(),
        1 => "it tolerates the loss of one".to_owned(),
        more => format!("it tolerates the loss of {more}"),
    };
    Ok((!left.is_empty())
        .then(|| format!("now {before}; afterwards {}: {tolerated}", numbers(&now))))
}

/// Returns the numbers of voters for people.
fn numbers(voters: &Voters<'_>) -> String {
    let members = match voters.count() {
        1 => "1 member".to_owned(),
        count => format!("{count} members"),
    };
    let healthy = match voters.healthy() {
        0 => "none is healthy".to_owned(),
        count => format!("{count} healthy ({})", named(voters.that_are(true))),
    };
    format!("{members}, {healthy}, {} needed", voters.needed())
}

fn named<'a>(members: impl Iterator<Item = &'a Listed>) -> String {
    let names: Vec<String> = members.map(Listed::label).collect();
    names.join(", ")
}

/// Returns what to do before the member with this address may leave.
fn hint(voters: &Voters<'_>, peer: &str) -> String {
    let others = voters.without(|member| member.has_peer(peer));
    let sick = named(others.that_are(false));
    if sick.is_empty() {
        "add another member first".to_owned()
    } else {
        format!("start the members that are not healthy, or remove these first: {sick}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_etcd::Status;
    use kubexm_session::example::cluster_of_four;

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
        let list = format!(r#"{{"header":{{}},"members":[{}]}}"#, listed.join(","));
        let answered = statuses.map(|status| Status::one(status.as_bytes()).unwrap());
        Members {
            listed: Listed::all(list.as_bytes()).unwrap(),
            answered: answered.collect(),
        }
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
        match super::after(members, &leaving(names)) {
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
        assert!(check_addresses(&moved, &leaving(&["node3"])).is_ok());
        let member = moved
            .listed
            .iter_mut()
            .find(|member| member.name == "node3")
            .unwrap();
        member.peers = vec!["https://192.0.2.99:2380".to_owned()];
        let refused = check_addresses(&moved, &leaving(&["node3"]))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("node3: etcd has its member at https://192.0.2.99:2380")
                && refused.contains("\nhint: "),
            "{refused}"
        );
        assert!(check_addresses(&moved, &leaving(&["node1"])).is_ok());
    }

    /// Before, such a member stayed in etcd and counted for the quorum.
    #[test]
    fn member_that_the_cluster_file_does_not_have_is_named() {
        let of_all = members(4, &[1, 2, 3, 4]);
        let refused = check_listed(&of_all, &leaving(&["node4"]), "kubeadm");
        insta::assert_snapshot!(refused.unwrap_err(), @"
        cannot remove node4: etcd has its member, and the cluster file does not say so: the member would stay
        hint: list node4 in roleGroups.control-plane again, with all its roles, then run the same command
        ");
        assert!(check_listed(&of_all, &leaving(&["node1"]), "kubeadm").is_ok());
        let of_three = members(3, &[1, 2, 3]);
        assert!(check_listed(&of_three, &leaving(&["node4"]), "kubeadm").is_ok());
    }
}
