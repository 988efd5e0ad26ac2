use super::super::fake_etcd::{Fake, FakeEtcd, client, learner, peer, three, voter};
use super::*;
use crate::fake_host::apply;

fn joining(host: u64, others: &[u64]) -> Joining {
    Joining {
        name: format!("node{host}"),
        peer: peer(host),
        data: "/srv/etcd".to_owned(),
        others: others.iter().map(|other| client(*other)).collect(),
        all: [1, 2, 3, 4].map(peer).into(),
    }
}

fn replacement(host: u64, others: &[u64]) -> ReplaceMember {
    ReplaceMember {
        member: joining(host, others),
        has_data: RunScript::new("etcd member", "Replace a member", "has-data", "begin"),
    }
}

/// The calls of the script that surround changes of the members.
fn begins(members: &str) -> String {
    format!("begin data=/srv/etcd state=existing members={members}")
}

const STOP: &str = "stop data=/srv/etcd state=existing";

#[tokio::test]
async fn member_without_data_is_replaced_with_a_quorum_of_the_others() {
    // The member of the host has lost its data, so that it does not answer.
    let host = FakeEtcd::new(three(), &[1]);
    apply(&replacement(1, &[2, 3]), &host).await.unwrap();
    let members =
        "node2=https://192.0.2.2:2380,node3=https://192.0.2.3:2380,node1=https://192.0.2.1:2380";
    let add = "add node1 --learner --peer-urls https://192.0.2.1:2380";
    let expected = [STOP, "remove 1", add, &begins(members)];
    assert_eq!(host.calls(), expected);
    // After an interruption, the member that has never started leaves.
    apply(&replacement(1, &[2, 3]), &host).await.unwrap();
    assert_eq!(
        host.calls()[4..],
        [STOP, "remove abc", add, &begins(members)]
    );
    assert_eq!(host.ids(), [2, 3, 0xabc]);
}

/// Before, a member whose addition had no answer was added again for a minute, and the step failed.
#[tokio::test]
async fn addition_without_an_answer_is_found_in_the_list() {
    let mut host = FakeEtcd::new(three(), &[1]);
    host.is_unreliable = true;
    apply(&replacement(1, &[2, 3]), &host).await.unwrap();
    assert_eq!(host.ids(), [2, 3, 0xabc]);
}

#[tokio::test]
async fn learner_of_a_host_that_the_cluster_does_not_have_is_removed() {
    // node4 is new. A learner of a host of the cluster stays.
    let mut members: Vec<Fake> = [1, 2, 3].map(voter).into();
    members[0].is_learner = true;
    members.push(learner(8, true));
    let host = FakeEtcd::new(members, &[]);
    apply(&replacement(4, &[1, 2, 3]), &host).await.unwrap();
    assert_eq!(host.ids(), [1, 2, 3, 0xabc]);
}

#[tokio::test(start_paused = true)]
async fn etcd_members_do_not_change_without_a_quorum() {
    let lost = "etcd has no data in /srv/etcd of this host, and";
    let backup = "restore a backup (kubexm backup restore), or begin again with kubexm reset";
    let (second, third) = (client(2), client(3));
    let cases: [(&[u64], bool, &[u64], String); 4] = [
        (
            &[1, 3],
            false,
            &[2, 3],
            format!(
                "{lost} the others have no quorum: of 3 members 1 are healthy ({second})\nhint: start one more member, {backup}"
            ),
        ),
        (
            &[1, 2, 3],
            false,
            &[2, 3],
            format!(
                "{lost} no other member is healthy: {second},{third}\nhint: start them, {backup}"
            ),
        ),
        // Members answer, and have no leader.
        (
            &[1],
            true,
            &[2, 3],
            format!(
                "{lost} no other member is healthy: {second},{third}\nhint: start them, {backup}"
            ),
        ),
        (
            &[1],
            false,
            &[],
            format!("{lost} this is its only member\nhint: restore the data, {backup}"),
        ),
    ];
    for (silent, is_down, others, error) in cases {
        let mut host = FakeEtcd::new(three(), silent);
        host.is_down = is_down;
        let applied = apply(&replacement(1, others), &host).await;
        assert_eq!(applied, Err(error));
        assert!(host.calls().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn learner_is_promoted_by_the_others() {
    let step = PromoteMember {
        member: joining(1, &[2, 3]),
        answers: RunScript::new("etcd voter", "Promote", "answers", "answers"),
    };
    let mut members = three();
    members[0].is_learner = true;
    for is_unreliable in [false, true] {
        let mut host = FakeEtcd::new(members.clone(), &[]);
        host.is_unreliable = is_unreliable;
        apply(&step, &host).await.unwrap();
        assert_eq!(host.calls(), ["promote 1"]);
    }
    let voters = FakeEtcd::new(three(), &[]);
    apply(&step, &voters).await.unwrap();
    assert!(voters.calls().is_empty());
    let mut down = FakeEtcd::new(members, &[]);
    down.is_down = true;
    assert_eq!(
        apply(&step, &down).await.unwrap_err(),
        "no other member answers (https://192.0.2.2:2379,https://192.0.2.3:2379), and this one has no quorum\n\
         hint: start them; if more than half have lost their data, restore a backup (kubexm backup restore)"
    );
}
