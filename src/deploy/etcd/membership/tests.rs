use super::super::fake_etcd::{FakeEtcd, client, learner, peer, three, voter};
use super::*;
use crate::fake_host::apply;

fn removal(host: u64) -> RemoveMembers {
    RemoveMembers {
        kind: "systemd",
        id: format!("member node{host}"),
        title: format!("Remove the member of node{host} from etcd"),
        leaves: Leaves::Host(peer(host)),
    }
}

#[tokio::test]
async fn member_is_removed_after_it_hands_over() {
    let host = FakeEtcd::new(three(), &[]);
    let step = removal(1);
    let checked = step.check(&host).await.unwrap();
    assert_eq!(checked, Check::needed("etcd has the member"));
    apply(&step, &host).await.unwrap();
    let handed_over = format!("move-leader 2 at {}", client(1));
    assert_eq!(host.calls(), [handed_over.as_str(), "remove 1"]);
    assert_eq!(step.check(&host).await.unwrap(), Check::Satisfied);
    apply(&step, &host).await.unwrap();
    assert_eq!(host.calls().len(), 2);
}

/// etcdctl prints decimal numbers as JSON, and reads hexadecimal ones.
#[tokio::test]
async fn large_ids_are_hexadecimal_in_a_change() {
    let mut members = three();
    members[2].id = 0x8e9e_05c5_2164_694d;
    let host = FakeEtcd::new(members, &[]);
    apply(&removal(3), &host).await.unwrap();
    assert_eq!(host.calls(), ["remove 8e9e05c52164694d"]);
}

/// Before, a removal whose answer was lost was tried for a minute, and failed.
#[tokio::test]
async fn removal_without_an_answer_is_found_in_the_list() {
    let mut host = FakeEtcd::new(three(), &[]);
    host.is_unreliable = true;
    apply(&removal(3), &host).await.unwrap();
    assert_eq!(host.ids(), [1, 2]);
}

#[tokio::test]
async fn member_stays_if_the_others_have_no_quorum() {
    let one_silent = FakeEtcd::new(three(), &[3]);
    assert_eq!(
        apply(&removal(1), &one_silent).await.unwrap_err(),
        "etcd would have no quorum: of the other 2 members 1 are healthy, and 2 must be\n\
         hint: start the members that do not answer"
    );
    assert!(one_silent.calls().is_empty());
    // A member that does not answer leaves a quorum of the others, and does not hand over.
    let dead = FakeEtcd::new(three(), &[1]);
    apply(&removal(1), &dead).await.unwrap();
    assert_eq!(dead.calls(), ["remove 1"]);
}

#[tokio::test]
async fn members_without_a_host_are_swept_before_a_join() {
    // A member that has never started, and learners of a host of the cluster and of another host. node2 votes, and can be a member
    // of the administrator.
    let more = [learner(4, false), learner(5, true), learner(26, true)];
    let host = FakeEtcd::new(three().into_iter().chain(more).collect(), &[]);
    let step = |joining: &[u64]| RemoveMembers {
        leaves: Leaves::WithoutHost {
            joining: joining.iter().map(|id| peer(*id)).collect(),
            all: [peer(1), peer(3), peer(5)].into(),
        },
        ..removal(1)
    };
    // node1 is a new host without data.
    let found = step(&[1]).check(&host).await.unwrap();
    let said = "etcd has members without a host: 1 4 1a";
    assert_eq!(found, Check::needed(said));
    apply(&step(&[1]), &host).await.unwrap();
    assert_eq!(host.ids(), [2, 3, 5]);
    assert_eq!(step(&[1]).check(&host).await.unwrap(), Check::Satisfied);
}

#[tokio::test(start_paused = true)]
async fn member_does_not_restart_if_the_others_are_no_quorum() {
    let step = KeepQuorum {
        unit: "etcd.service",
        files: vec!["/etc/a.conf".to_owned()],
        peer: peer(1),
        others: client(2),
    };
    let said = "etcd restarts with changed files, and of 3 members, only 1 of the others answer: the cluster would stop";
    let of = |members, silent: &[u64], is_down, script_prints| {
        let mut host = FakeEtcd::new(members, silent);
        host.is_down = is_down;
        host.script_prints = script_prints;
        host
    };
    let one = of(three(), &[3], false, "restarts\n");
    let checked = step.check(&one).await.unwrap();
    assert_eq!(checked, Check::needed(said));
    let refused = apply(&step, &one).await.unwrap_err();
    assert!(
        refused.starts_with(said) && refused.contains("\nhint: start the other members"),
        "{refused}"
    );
    let satisfied = [
        of(three(), &[], false, "restarts\n"),
        // A cluster that has stopped already.
        of(three(), &[3], true, "restarts\n"),
        // Two voters have no quorum during any restart.
        of([1, 2].map(voter).into(), &[2], false, "restarts\n"),
        // It runs with these files.
        of(three(), &[3], false, ""),
    ];
    for host in satisfied {
        assert_eq!(step.check(&host).await.unwrap(), Check::Satisfied);
    }
}
