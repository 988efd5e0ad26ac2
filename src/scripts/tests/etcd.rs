//! Scripts that change etcd.

use super::machine::Machine;
use crate::etcd;

/// Puts `etcdctl` into its own directory.
const ETCDCTL: &str = "mount -t tmpfs none /usr/local/lib\nmkdir -p /usr/local/lib/kubexm\n\
                       cp /root/etcdctl /usr/local/lib/kubexm/etcdctl";

const MEMBERS: &str = "1, started, node1, https://192.0.2.1:2380, https://192.0.2.1:2379, false\n\
                       2, started, node2, https://192.0.2.2:2380, https://192.0.2.2:2379, false\n\
                       3, started, node3, https://192.0.2.3:2380, https://192.0.2.3:2379, false\n";

/// A cluster of etcd in which the members at `healthy` answer.
fn with_etcd(machine: &Machine, healthy: &str) {
    machine.fake(
        "etcdctl",
        &format!(
            "case $ETCDCTL_ENDPOINTS in {healthy}) ;; *) exit 1 ;; esac\n\
             case \"$*\" in\n\
             *'member list') cat /root/members ;;\n\
             *'member add'*) printf 'Member added\\nETCD_NAME=\"node1\"\\nETCD_INITIAL_CLUSTER=\"a=b\"\\nETCD_INITIAL_CLUSTER_STATE=\"existing\"\\n' ;;\n\
             esac"
        ),
    );
    std::fs::rename(
        machine.at("/root/fake/etcdctl"),
        machine.at("/root/etcdctl"),
    )
    .unwrap();
    machine.fake("systemctl", "");
    machine.write("/root/members", MEMBERS);
    machine.write("/srv/etcd/member/snap/db", "half");
}

const ARGUMENTS: [&str; 5] = [
    "node1",
    "https://192.0.2.1:2380",
    "/srv/etcd",
    "https://192.0.2.2:2379,https://192.0.2.3:2379",
    "node1=https://192.0.2.1:2380",
];

#[test]
fn member_without_data_is_replaced_with_a_quorum_of_the_others() {
    Machine::with_each_shell(|machine| {
        with_etcd(machine, "*");
        let member = etcd::MEMBER;
        let ended = machine.run(member.verb("has-data"), &ARGUMENTS);
        assert_eq!((ended.status, ended.printed.as_str()), (1, "has no data\n"));
        let ended = machine.run_after(ETCDCTL, member.verb("join"), &ARGUMENTS, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let calls = machine.calls();
        let changes: Vec<&String> = calls
            .iter()
            .filter(|call| !call.contains("health") && !call.contains("list"))
            .collect();
        let expected = [
            "systemctl stop etcd.service",
            "etcdctl --command-timeout=10s member remove 1",
            "etcdctl --command-timeout=10s member add node1 --learner --peer-urls https://192.0.2.1:2380",
        ];
        assert_eq!(changes, expected);
        let initial = machine.read("/run/kubexm/etcd-initial.env");
        assert_eq!(
            initial,
            "ETCD_INITIAL_CLUSTER=\"a=b\"\nETCD_INITIAL_CLUSTER_STATE=\"existing\"\n"
        );
        assert!(machine.has("/srv/etcd") && !machine.has("/srv/etcd/member"));
    });
}

#[test]
fn member_of_a_new_host_is_added_and_none_is_removed() {
    Machine::with_each_shell(|machine| {
        with_etcd(machine, "*");
        let others: Vec<&str> = MEMBERS.lines().skip(1).collect();
        machine.write("/root/members", &(others.join("\n") + "\n"));
        let ended = machine.run_after(ETCDCTL, etcd::MEMBER.verb("join"), &ARGUMENTS, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let calls = machine.calls();
        let changes: Vec<&String> = calls
            .iter()
            .filter(|call| call.contains("member ") && !call.contains("list"))
            .collect();
        assert_eq!(
            changes,
            [
                "etcdctl --command-timeout=10s member add node1 --learner --peer-urls https://192.0.2.1:2380"
            ]
        );
        let initial = machine.read("/run/kubexm/etcd-initial.env");
        let expected = "ETCD_INITIAL_CLUSTER_STATE=\"existing\"\n";
        assert!(initial.ends_with(expected), "{initial}");
    });
}

#[test]
fn learner_of_a_host_that_the_cluster_does_not_have_is_removed() {
    Machine::with_each_shell(|machine| {
        with_etcd(machine, "*");
        let others: Vec<&str> = MEMBERS.lines().skip(1).collect();
        let learners =
            [(8, 8), (9, 1)].map(|(id, host)| {
                format!(
                    "{id}, started, node{host}, https://192.0.2.{host}:2380, https://192.0.2.{host}:2379, true\n"
                )
            });
        machine.write(
            "/root/members",
            &format!("{}\n{}", others.join("\n"), learners.concat()),
        );
        let all = "node1=https://192.0.2.1:2380,node2=https://192.0.2.2:2380,node3=https://192.0.2.3:2380";
        let arguments = [
            "node4",
            "https://192.0.2.4:2380",
            "/srv/etcd",
            ARGUMENTS[3],
            all,
        ];
        let ended = machine.run_after(ETCDCTL, etcd::MEMBER.verb("join"), &arguments, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let calls = machine.calls();
        let removed: Vec<&String> = calls
            .iter()
            .filter(|call| call.contains("remove"))
            .collect();
        assert_eq!(removed, ["etcdctl --command-timeout=10s member remove 8"]);
    });
}

#[test]
fn etcd_members_do_not_change_without_a_quorum() {
    Machine::with_each_shell(|machine| {
        let cases = [
            (
                "https://192.0.2.2:2379",
                ARGUMENTS[3],
                "of 3 members 1 are healthy (https://192.0.2.2:2379)",
            ),
            ("nothing", ARGUMENTS[3], "no other member is healthy"),
            ("*", "", "this is its only member"),
        ];
        for (healthy, others, words) in cases {
            with_etcd(machine, healthy);
            let mut arguments = ARGUMENTS;
            arguments[3] = others;
            let ended = machine.run_after(ETCDCTL, etcd::MEMBER.verb("join"), &arguments, "");
            assert_eq!(ended.status, 1);
            assert!(ended.complained.contains(words), "{}", ended.complained);
            let calls = machine.calls();
            let change = |call: &String| {
                call.starts_with("systemctl") || call.contains("remove") || call.contains("add")
            };
            assert!(!calls.iter().any(change), "{calls:?}");
            assert_eq!(machine.read("/srv/etcd/member/snap/db"), "half");
        }
    });
}

#[test]
fn member_does_not_restart_if_the_others_are_no_quorum() {
    Machine::with_each_shell(|machine| {
        machine.write("/etc/a.conf", "new");
        let arguments = ["etcd.service", ARGUMENTS[3], "/etc/a.conf"];
        let run = |healthy: &str, verb: &'static str| {
            with_etcd(machine, healthy);
            machine.fake("sleep", "");
            machine.run_after(ETCDCTL, etcd::QUORUM.verb(verb), &arguments, "")
        };
        let (own, second) = ("https://127.0.0.1:2379", "https://192.0.2.2:2379");
        let one = format!("{own}|{second}");
        let checked = run(&one, "check");
        let said = "etcd restarts with changed files, and of 3 members, only 1 of the others answer: the cluster would stop\n";
        assert_eq!((checked.status, checked.printed.as_str()), (1, said));
        let applied = run(&one, "apply");
        assert_eq!(applied.status, 1);
        assert!(applied.complained.starts_with(said) && applied.complained.contains("\nhint: "));
        assert_eq!(run("*", "apply").status, 0);
        // A cluster that has stopped already.
        assert_eq!(run(second, "apply").status, 0);
        // It runs with these files.
        let stamp = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
        machine.write(
            "/var/lib/kubexm/started/etcd.service",
            &format!("{stamp}\n"),
        );
        assert_eq!(run(&one, "check").status, 0);
    });
}

#[test]
fn all_members_start_together_for_the_first_time() {
    Machine::with_each_shell(|machine| {
        with_etcd(machine, "*");
        machine.done(etcd::MEMBER.verb("found"), &ARGUMENTS);
        assert!(!machine.has("/srv/etcd/member"));
        let initial = machine.read("/run/kubexm/etcd-initial.env");
        assert_eq!(
            initial,
            "ETCD_INITIAL_CLUSTER=node1=https://192.0.2.1:2380\nETCD_INITIAL_CLUSTER_STATE=new\n"
        );
        let arguments = ["/run/kubexm/etcd-initial.env"];
        assert_eq!(
            machine.run(etcd::FORMED.verb("check"), &arguments).status,
            1
        );
        machine.done(etcd::FORMED.verb("mark"), &arguments);
        machine.done(etcd::FORMED.verb("check"), &arguments);
        assert!(!machine.has("/run/kubexm/etcd-initial.env"));
    });
}

/// etcdctl fails if a setting is in its environment and in its options.
#[test]
fn etcdctl_gets_each_setting_once() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "etcdctl",
            "echo \"${ETCDCTL_ENDPOINTS:-} ${ETCDCTL_CACERT:-}\"",
        );
        machine.write(
            "/etc/kubexm/etcd-member/etcdctl.env",
            "# A comment.\nETCDCTL_ENDPOINTS=https://127.0.0.1:2379\nETCDCTL_CACERT=/etc/ca.crt\n",
        );
        std::fs::rename(
            machine.at("/root/fake/etcdctl"),
            machine.at("/root/etcdctl"),
        )
        .unwrap();
        let run = |environment: &str, arguments: &[&str]| {
            let before = format!("{ETCDCTL}\n{environment}");
            machine
                .run_after(&before, etcd::ETCDCTL, arguments, "")
                .printed
        };
        let settings = "https://127.0.0.1:2379 /etc/ca.crt\n";
        assert_eq!(run(":", &["member", "list"]), settings);
        assert_eq!(machine.calls(), ["etcdctl member list"]);
        assert_eq!(
            run(":", &["--endpoints=https://a:2379", "version"]),
            " /etc/ca.crt\n"
        );
        assert_eq!(
            run("export ETCDCTL_CACERT=/own.crt", &["version"]),
            "https://127.0.0.1:2379 /own.crt\n"
        );
    });
}

#[test]
fn etcd_directory_is_private_and_its_mode_is_restored() {
    use std::os::unix::fs::PermissionsExt;
    Machine::with_each_shell(|machine| {
        machine.write("/srv/etcd/lost+found/x", "");
        let mode = || {
            machine
                .at("/srv/etcd")
                .metadata()
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        std::fs::set_permissions(machine.at("/srv/etcd"), PermissionsExt::from_mode(0o751))
            .unwrap();
        assert_eq!(
            machine
                .run(etcd::FOLDER.verb("check"), &["/srv/etcd"])
                .status,
            1
        );
        machine.done(etcd::FOLDER.verb("apply"), &["/srv/etcd"]);
        assert_eq!(mode(), 0o700);
        machine.done(etcd::FOLDER.verb("check"), &["/srv/etcd"]);
        machine.done(etcd::FOLDER_RESTORE, &["/srv/etcd"]);
        assert_eq!(mode(), 0o751);
        machine.write("/srv/mixed/report.txt", "");
        let ended = machine.run(etcd::FOLDER.verb("apply"), &["/srv/mixed"]);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("\n/srv/mixed/report.txt\n"),
            "{}",
            ended.complained
        );
    });
}
