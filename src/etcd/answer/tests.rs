use super::*;

/// As etcd 3.5 prints it: without a quota, and without the version of the storage.
const STATUS_3_5: &[u8] = br#"[{"Endpoint":"https://127.0.0.1:2379","Status":{"header":{"cluster_id":14841639068965178418,
    "member_id":10276657743932975437,"revision":9,"raft_term":2},"version":"3.5.21","dbSize":20480,
    "leader":10276657743932975437,"raftIndex":9,"raftTerm":2,"raftAppliedIndex":9,"dbSizeInUse":16384}}]"#;
/// As etcd 3.6 prints it.
const STATUS_3_6: &[u8] = br#"[{"Endpoint":"https://127.0.0.1:2379","Status":{"header":{"cluster_id":14841639068965178418,
    "member_id":10276657743932975437,"revision":9,"raft_term":2},"version":"3.6.8","dbSize":20480,
    "leader":10276657743932975437,"raftIndex":9,"raftTerm":2,"raftAppliedIndex":9,
    "errors":["memberID:10276657743932975437 alarm:NOSPACE ","etcdserver: no leader"],"dbSizeInUse":16384,
    "storageVersion":"3.6.0","dbSizeQuota":8589934592,"downgradeInfo":{}}}]"#;

#[test]
fn status_of_a_member_is_read() {
    let status = Status::one(STATUS_3_6).unwrap();
    assert!(status.is_leader() && !status.is_learner);
    assert_eq!((status.size, status.quota), (Some(20480), Some(8 << 30)));
    assert_eq!(status.version(), Some(Version::new(3, 6, 8)));
    assert_eq!(status.alarms, BTreeSet::from(["NOSPACE".to_owned()]));
    assert_eq!(status.errors, ["etcdserver: no leader"]);
    assert_eq!(status.problems(), ["NOSPACE", "etcdserver: no leader"]);
    let older = Status::one(STATUS_3_5).unwrap();
    assert_eq!(older.version(), Some(Version::new(3, 5, 21)));
    assert_eq!(
        (older.size, older.size_in_use, older.quota),
        (Some(20480), Some(16384), None)
    );
    assert_eq!((older.applied, older.problems().len()), (9, 0));
}

#[test]
fn alarm_names_the_member_whose_data_differs() {
    let json = br#"[{"Status":{"header":{"cluster_id":1,"member_id":2},"version":"3.6.8",
        "errors":["memberID:7 alarm:CORRUPT ","memberID:2 alarm:NOSPACE "]}}]"#;
    let status = Status::one(json).unwrap();
    assert_eq!(status.corrupt, BTreeSet::from([7]));
    assert_eq!(status.alarms.len(), 2);
}

#[test]
fn unknown_sizes_are_not_zero() {
    let json =
        br#"[{"Status":{"header":{"cluster_id":1,"member_id":2},"version":"3.5.21","leader":0}}]"#;
    let status = Status::one(json).unwrap();
    assert_eq!(
        (status.leader, status.size, status.quota),
        (None, None, None)
    );
}

/// A host can print any number, and a size that is wrong must not hide what else the member reports.
#[test]
fn sizes_saturate() {
    let of = |size: &str| {
        let json = format!(
            r#"[{{"Status":{{"header":{{"cluster_id":1,"member_id":2}},"version":"3.6.8","dbSize":{size},"errors":null}}}}]"#
        );
        Status::one(json.as_bytes()).map(|status| status.size)
    };
    assert_eq!(of("-1"), Ok(Some(0)));
    assert_eq!(of("18446744073709551615"), Ok(Some(u64::MAX)));
    assert_eq!(of("18446744073709551616"), Ok(Some(u64::MAX)));
    assert_eq!(of("-1e300"), Ok(Some(0)));
    assert_eq!(of("null"), Ok(None));
    assert_eq!(of("\"1\""), Err(Unreadable::Status));
}

#[test]
fn other_documents_are_refused() {
    for wrong in [
        "",
        "{}",
        "null",
        r#"[{"Status":{"version":"3.6.8"}}]"#,
        r#"[{"Status":{"header":{"cluster_id":1,"member_id":-2},"version":"3.6.8"}}]"#,
        r#"[{"Status":{"header":{"cluster_id":1,"member_id":2}}}]"#,
    ] {
        assert_eq!(
            Status::one(wrong.as_bytes()),
            Err(Unreadable::Status),
            "{wrong}"
        );
    }
    assert_eq!(Status::one(b"[]"), Err(Unreadable::OneStatus));
    assert_eq!(Status::all(b"[]"), Ok(Vec::new()));
    let twice = [STATUS_3_5, STATUS_3_5].map(|one| String::from_utf8_lossy(one));
    let twice = twice.map(|one| one.trim_start_matches('[').trim_end_matches(']').to_owned());
    let twice = format!("[{}]", twice.join(","));
    assert_eq!(Status::one(twice.as_bytes()), Err(Unreadable::OneStatus));
    assert_eq!(Status::all(twice.as_bytes()).unwrap().len(), 2);
}

/// The same in etcd 3.5 and 3.6. A member that has never started has no name and no address for clients.
#[test]
fn list_of_members_is_read() {
    let json = br#"{"header":{"cluster_id":14841639068965178418,"member_id":10276657743932975437,"raft_term":2},"members":[
        {"ID":10276657743932975437,"name":"node1","peerURLs":["https://192.0.2.11:2380"],"clientURLs":["https://192.0.2.11:2379"]},
        {"ID":3474484975246189105,"peerURLs":["https://192.0.2.12:2380"],"isLearner":true}]}"#;
    let [first, second] = Listed::all(json).unwrap().try_into().unwrap();
    assert_eq!(
        (first.label(), first.clients.len(), first.is_learner),
        ("node1".to_owned(), 1, false)
    );
    assert!(first.has_peer("https://192.0.2.11:2380"));
    assert_eq!(second.label(), "one that has never started");
    assert!(second.is_learner && second.clients.is_empty());
    let hostile = "{\"members\":[{\"ID\":1,\"name\":\"a\\u001b[31m\\nb\"}]}";
    let found = Listed::all(hostile.as_bytes()).unwrap();
    assert!(
        !found[0].name.contains(['\u{1b}', '\n']),
        "{:?}",
        found[0].name
    );
    for wrong in ["", "{}", "[]", r#"{"members":[{"name":"node1"}]}"#] {
        assert_eq!(Listed::all(wrong.as_bytes()), Err(Unreadable::List));
    }
}

#[test]
fn hash_of_a_member_is_read() {
    let older = br#"[{"Endpoint":"https://127.0.0.1:2379","HashKV":{"header":{"cluster_id":1,"member_id":2,"revision":9,"raft_term":2},
        "hash":1748064894,"compact_revision":8}}]"#;
    let newer = br#"[{"Endpoint":"https://127.0.0.1:2379","HashKV":{"header":{"revision":1000000009},"hash":1748064894,
        "compact_revision":1000000008,"hash_revision":1000000008}}]"#;
    for json in [older.as_slice(), newer] {
        let hash = 1_748_064_894;
        assert_eq!(MemberHash::one(json), Ok(MemberHash { hash }));
    }
    for wrong in ["", "[]", "{}", r#"[{"HashKV":{}}]"#] {
        assert_eq!(MemberHash::one(wrong.as_bytes()), Err(Unreadable::Hash));
    }
}

#[test]
fn status_of_a_snapshot_is_read() {
    let older = r#"{"hash":4208134212,"revision":1193,"totalKey":1203,"totalSize":2265088}"#;
    let newer = r#"{"hash":4208134212,"revision":1193,"totalKey":1203,"totalSize":2265088,"version":"3.6.0"}"#;
    for json in [older, newer] {
        let found = SnapshotStatus::one(json.as_bytes()).unwrap();
        assert_eq!((found.hash, found.revision), (4_208_134_212, 1193));
    }
    let wrong = SnapshotStatus::one(br#"{"hash":1}"#);
    assert_eq!(wrong, Err(Unreadable::Snapshot));
    assert_eq!(keys("\"Revision\" : 7\n\"Count\" : 311\n"), Ok(311));
    for text in ["", "311\n", "\"Count\" : x\n"] {
        assert_eq!(keys(text), Err(Unreadable::Keys));
    }
}
