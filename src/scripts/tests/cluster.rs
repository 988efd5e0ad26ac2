//! Scripts that change a cluster, etcd or systemd.

use super::machine::Machine;
use crate::{dns, etcd, kubernetes, runtime, systemd};

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

#[test]
fn unit_restarts_if_its_files_changed() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "systemctl",
            "[ \"$1\" != restart ] || [ ! -e /root/broken ]",
        );
        machine.fake("journalctl", "echo 'bind: address in use'");
        machine.write("/etc/a.conf", "1");
        let arguments = ["a.service", "yes", "/etc/a.conf"];
        let says = |words: &str| {
            let ended = machine.run(systemd::UNIT.verb("check"), &arguments);
            assert_eq!((ended.status, ended.printed.as_str()), (1, words));
        };
        says("runs with older files\n");
        machine.write("/root/broken", "");
        let ended = machine.run(systemd::UNIT.verb("apply"), &arguments);
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (1, "bind: address in use\n")
        );
        says("runs with older files\n");
        std::fs::remove_file(machine.at("/root/broken")).unwrap();
        machine.done(systemd::UNIT.verb("apply"), &arguments);
        machine.done(systemd::UNIT.verb("check"), &arguments);
        machine.write("/etc/a.conf", "2");
        says("runs with older files\n");
        machine.calls();
        machine.done(systemd::UNIT.verb("apply"), &["a.service", "no"]);
        assert_eq!(
            machine.calls(),
            [
                "systemctl daemon-reload",
                "systemctl enable --quiet a.service"
            ]
        );
    });
}

#[test]
fn units_that_restart_and_programs_that_do_not_answer_are_found_with_their_logs() {
    Machine::with_each_shell(|machine| {
        machine.write("/root/since", "100");
        machine.fake(
            "systemctl",
            "case $1 in\n\
             cat) case $2 in kube-scheduler.service | a.service) ;; *) exit 1 ;; esac ;;\n\
             show) printf 'Id=a.service\\nActiveState=active\\nSubState=running\\nNRestarts=0\\n\\n'\n\
             printf 'NRestarts=7\\nSubState=running\\nActiveState=active\\nId=kube-scheduler.service\\n'\n\
             echo \"ActiveEnterTimestampMonotonic=$(cat /root/since)\" ;;\n\
             esac",
        );
        machine.fake("sleep", "[ ! -e /root/loops ] || echo 200 >/root/since");
        machine.fake("journalctl", "echo \"log of $2\"");
        machine.fake(
            "kubectl",
            "[ ! -e /root/down ] || { echo a >&2; echo refused >&2; exit 1; }",
        );
        machine.write(
            "/var/log/pods/kube-system_kube-proxy-x1_1/kube-proxy/0.log",
            "the cause\n",
        );
        let url = "kube-proxy=http://127.0.0.1:10256/healthz";
        let arguments = ["a.service", "kube-scheduler.service", url];
        machine.done(systemd::HEALTHY.verb("check"), &arguments);
        let calls = machine.calls();
        let asked = "kubectl --kubeconfig /dev/null --cache-dir /run/kubexm/kubectl --server http://127.0.0.1:10256 \
                     --insecure-skip-tls-verify --request-timeout=5s get --raw /healthz";
        assert!(calls.contains(&asked.to_owned()), "{calls:?}");
        machine.write("/root/loops", "");
        machine.write("/root/down", "");
        let found = machine.run(systemd::HEALTHY.verb("check"), &arguments);
        let restarts = "kube-scheduler.service: ends soon after each start, restarts: 7\n";
        let silent = "kube-proxy: does not answer at http://127.0.0.1:10256/healthz: refused\n";
        assert_eq!(
            (found.status, found.printed),
            (1, format!("{restarts}{silent}"))
        );
        machine.write("/root/since", "100");
        let printed = machine.done(systemd::HEALTHY.verb("diagnose"), &arguments);
        let log = "log of kube-scheduler.service\n";
        assert_eq!(printed, format!("{restarts}{log}{silent}the cause\n"));
    });
}

#[test]
fn join_secrets_are_removed_only_if_the_api_server_answers() {
    Machine::with_each_shell(|machine| {
        // `kubexm install` and another description, in base64.
        machine.fake(
            "kubectl",
            "[ ! -e /root/down ] || { echo refused >&2; exit 1; }\n\
             case $* in\n\
             *'get secrets'*) printf 'bootstrap-token-a a3ViZXhtIGluc3RhbGw=\\nbootstrap-token-b dGhlaXJz\\n' ;;\n\
             *'get secret kubeadm-certs'*) printf kubeadm-certs ;;\n\
             esac",
        );
        assert_eq!(
            machine
                .run(kubernetes::JOIN_SECRETS.verb("check"), &[])
                .status,
            1
        );
        machine.calls();
        machine.done(kubernetes::JOIN_SECRETS.verb("remove"), &[]);
        let calls = machine.calls();
        let deleted = calls
            .iter()
            .filter_map(|call| call.split_once("--ignore-not-found "));
        let deleted: Vec<&str> = deleted
            .map(|(_, name)| name)
            .filter(|name| !name.starts_with('-'))
            .collect();
        assert_eq!(deleted, ["bootstrap-token-a", "kubeadm-certs"]);
        machine.write("/root/down", "");
        let ended = machine.run(kubernetes::JOIN_SECRETS.verb("check"), &[]);
        assert_eq!((ended.status, ended.complained.as_str()), (1, "refused\n"));
        machine.fake("kubectl", "");
        machine.done(kubernetes::JOIN_SECRETS.verb("check"), &[]);
    });
}

#[test]
fn nodes_get_each_label_and_taint() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "");
        let labels = ["label", "node1", "a=1 b/c= d-"];
        let taints = ["taint", "node2", "gpu=yes:NoSchedule"];
        let arguments = [labels, taints].concat();
        machine.done(kubernetes::NODE_METADATA.verb("apply"), &arguments);
        let calls = machine.calls();
        assert!(calls[0].ends_with("label --overwrite node node1 a=1 b/c= d-"));
        assert!(calls[1].ends_with("taint --overwrite node node2 gpu=yes:NoSchedule"));
        assert_eq!(calls.len(), 2, "{calls:?}");
        machine.fake("kubectl", "echo refused >&2; exit 1");
        let ended = machine.run(kubernetes::NODE_METADATA.verb("apply"), &arguments);
        assert_eq!((ended.status, ended.complained.as_str()), (1, "refused\n"));
        assert_eq!(machine.calls().len(), 1, "goes on after a failure");
    });
}

#[test]
fn default_accounts_give_no_tokens_unless_a_user_wants_them() {
    Machine::with_each_shell(|machine| {
        // The account of a namespace appears after the first look.
        machine.fake(
            "kubectl",
            "shift 5; dir=/root/api/$2\n\
             case $* in\n\
             'get namespace '*) [ ! -d \"/root/api/$3\" ] || echo \"namespace/$3\" ;;\n\
             *' get '*) if [ -e \"$dir/account\" ]; then cat \"$dir/account\"; else printf 'default ' >\"$dir/account\"; fi ;;\n\
             *' patch '*) printf 'default false' >\"$dir/account\" ;;\n\
             esac",
        );
        machine.fake("sleep", "");
        machine.write("/root/api/default/account", "default ");
        machine.write("/root/api/site/account", "default true");
        machine.write("/root/api/young/object", "");
        let arguments = ["default", "site", "absent", "young"];
        let script = kubernetes::DEFAULT_ACCOUNTS;
        let ended = machine.run(script.verb("check"), &arguments);
        let words = "the default service account of default gives its token to pods\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, words));
        machine.done(script.verb("apply"), &arguments);
        assert_eq!(machine.read("/root/api/default/account"), "default false");
        assert_eq!(machine.read("/root/api/young/account"), "default false");
        assert_eq!(machine.read("/root/api/site/account"), "default true");
        machine.done(script.verb("check"), &arguments);
        assert!(!machine.has("/root/api/absent"));
    });
}

#[test]
fn unreachable_kubelets_are_listed() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in *node2/*) printf 'warning\\nremote error: tls & \\\\1\\n' >&2; exit 1 ;; *csr*) echo '{}' ;; esac",
        );
        let printed = machine.done(kubernetes::SERVING_LOOK, &["node1", "node2"]);
        let mut lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.split_off(2), ["requests", "{}"]);
        lines.sort_unstable();
        assert_eq!(
            lines,
            ["missed node2 remote error: tls & \\1", "reached node1"]
        );
    });
}

#[test]
fn corefile_that_kubexm_did_not_write_is_kept() {
    Machine::with_each_shell(|machine| {
        let check = || {
            machine
                .run(dns::COREFILE_CHECK, &["/etc/kubexm/corefile.yaml"])
                .status
        };
        machine.fake(
            "kubectl",
            "case $* in *get*) printf \"$(cat /root/owner)\" ;; *diff*) exit 1 ;; esac",
        );
        machine.write("/root/owner", "");
        assert_eq!(check(), 0);
        machine.write("/root/owner", "kubexm");
        assert_eq!(check(), 1);
        // No answer is not the answer that the Corefile is someone else's.
        machine.fake("kubectl", "exit 1");
        assert_eq!(check(), 1);
    });
}

#[test]
fn dns_error_is_not_an_answer() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "printf 1");
        let answers = |bytes: &str| {
            machine.fake("timeout", &format!("echo ' {bytes}'"));
            machine
                .run(dns::ANSWERS, &["10.96.0.10", "cluster.local"])
                .status
        };
        assert_eq!(answers("00 2a 12 34 81 80 00 01"), 0);
        assert_eq!(answers("00 2a 12 34 81 83 00 01"), 1);
        assert_eq!(answers("00 2a 12 34 01 80 00 01"), 1);
        assert_eq!(answers("00 2a 12"), 1);
        machine.fake("kubectl", "");
        assert_eq!(answers("00 2a 12 34 81 80 00 01"), 1);
    });
}

#[test]
fn all_pods_are_stopped() {
    Machine::with_each_shell(|machine| {
        machine.fake("crictl", "[ \"$1\" != pods ] || printf 'a1\\nb2\\n'");
        machine.done(runtime::STOP_PODS, &[]);
        assert_eq!(machine.calls(), ["crictl pods -q", "crictl rmp -f a1 b2"]);
        machine.fake("crictl", "exit 1");
        machine.done(runtime::STOP_PODS, &[]);
        assert_eq!(machine.calls(), ["crictl pods -q"]);
    });
}

#[test]
fn failed_pull_is_an_error() {
    Machine::with_each_shell(|machine| {
        machine.fake("crictl", "[ \"$2\" != broken ]");
        machine.fake("ctr", "");
        machine.fake("sleep", "");
        let pull = runtime::CONTAINERD_IMAGES.verb("pull");
        assert_ne!(
            machine
                .run(pull, &["registry:5000", "good", "broken", "fine"])
                .status,
            0
        );
        assert!(!machine.calls().iter().any(|call| call.starts_with("ctr")));
        machine.done(pull, &["registry:5000", "good"]);
        let pinned = "ctr -n k8s.io images label good io.cri-containerd.pinned=pinned";
        assert_eq!(machine.calls(), ["crictl pull good", pinned]);
    });
}

/// Nodes failed that pulled images while systemd started a killed registry again.
#[test]
fn registry_that_starts_again_is_waited_for() {
    Machine::with_each_shell(|machine| {
        machine.fake("ctr", "");
        machine.fake("sleep", "");
        for script in [runtime::CONTAINERD_IMAGES, runtime::CRI_IMAGES] {
            let pull = script.verb("pull");
            let pulls = || {
                let calls = machine.calls();
                let pulls = calls.iter().filter(|call| call.starts_with("crictl pull"));
                pulls.count()
            };
            machine.write("/root/refused", "2");
            machine.fake(
                "crictl",
                "left=$(cat /root/refused)\n[ \"$left\" != 0 ] || exit 0\necho $((left - 1)) >/root/refused\n\
                 echo 'dial tcp 192.0.2.11:5000: connect: connection refused' >&2\nexit 1",
            );
            machine.done(pull, &["registry:5000", "one"]);
            assert_eq!(pulls(), 3);
            // The cause of the last attempt is reported.
            machine.fake("crictl", "echo 'connection refused' >&2; exit 1");
            let ended = machine.run(pull, &["registry:5000", "one"]);
            assert_eq!((ended.status, pulls()), (1, 10));
            assert_eq!(ended.complained, "connection refused\n");
            // An image that the registry does not have is not asked for again.
            machine.fake("crictl", "echo 'cannot resolve one: not found' >&2; exit 1");
            let ended = machine.run(pull, &["registry:5000", "one"]);
            assert_eq!((ended.status, pulls()), (1, 1));
        }
    });
}

#[test]
fn every_node_that_is_not_ready_is_named_with_the_reason() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in\n\
             *'-o name') printf 'node/node1\\nnode/node2\\n' ;;\n\
             *jsonpath*) printf 'node1\\tTrue\\tkubelet is posting ready status\\nnode2\\tFalse\\tcni plugin not initialized\\nnode4\\tUnknown\\tKubelet stopped posting\\n' ;;\n\
             esac",
        );
        let names = ["node1", "node2", "node3", "node4"];
        let ended = machine.run(kubernetes::NODES.verb("ready"), &names);
        let missing = "node2 is not Ready: cni plugin not initialized\nnode3 has not registered\n\
                       node4 is not Ready: Kubelet stopped posting\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, missing));
        let call = &machine.calls()[0];
        let path = r#"{.status.conditions[?(@.type=="Ready")].message}"#;
        assert!(call.contains(path), "{call}");
        machine.done(kubernetes::NODES.verb("ready"), &["node1"]);
        let ended = machine.run(kubernetes::NODES.verb("registered"), &names);
        let missing = "node3 has not registered\nnode4 has not registered\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, missing));
        machine.done(kubernetes::NODES.verb("registered"), &["node1", "node2"]);
    });
}

/// A runtime that does not answer was reported as one without images.
#[test]
fn image_is_missing_only_if_the_runtime_says_so() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        machine.fake(
            "crictl",
            "case \"$*\" in\n\
             *absent) echo 'level=fatal msg=\"no such image \\\"absent\\\" present\"' >&2; exit 1 ;;\n\
             *silent) echo 'rpc error: code = DeadlineExceeded' >&2; exit 1 ;;\n\
             *busy) [ \"$(grep -c busy /root/calls)\" = 2 ] || { echo 'code = Unavailable' >&2; exit 1; } ;;\n\
             esac\n\
             case \"$*\" in *loose) echo false ;; *) echo true ;; esac",
        );
        let run = |verb, image| {
            let script = runtime::CRI_IMAGES.verb(verb);
            let ended = machine.run(script, &["registry:5000", "good", image]);
            (ended.status, ended.printed, ended.complained)
        };
        let said = |text: &str| text.to_owned();
        let silent = "the runtime does not answer for silent: rpc error: code = DeadlineExceeded\n";
        for verb in ["present", "pinned"] {
            assert_eq!(run(verb, "good"), (0, said(""), said("")), "{verb}");
            machine.calls();
            assert_eq!(run(verb, "busy"), (0, said(""), said("")), "{verb}");
            assert_eq!(
                run(verb, "absent"),
                (1, said("absent is missing\n"), said(""))
            );
            assert_eq!(run(verb, "silent"), (75, said(""), said(silent)), "{verb}");
        }
        assert_eq!(
            run("pinned", "loose"),
            (1, said("loose is not pinned\n"), said(""))
        );
    });
}

#[test]
fn containerd_that_does_not_answer_is_not_one_without_images() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        machine.fake(
            "ctr",
            "[ ! -e /root/silent ] || { echo 'ctr: failed to dial' >&2; exit 1; }\n\
             echo 'good type digest size platforms io.cri-containerd.pinned=pinned'",
        );
        let check = runtime::CONTAINERD_IMAGES.verb("check");
        machine.done(check, &["registry:5000", "good"]);
        let ended = machine.run(check, &["registry:5000", "other"]);
        assert_eq!(ended.printed, "other is missing or not pinned\n");
        machine.write("/root/silent", "");
        let ended = machine.run(check, &["registry:5000", "good"]);
        assert_eq!((ended.status, ended.printed.as_str()), (75, ""));
        assert_eq!(
            ended.complained,
            "containerd does not answer: ctr: failed to dial\n"
        );
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
fn keys_of_another_state_directory_are_refused() {
    Machine::with_each_shell(|machine| {
        let file = "/etc/kubernetes/kubexm/encryption.yaml";
        let check = |names: &[&str]| {
            let arguments: Vec<&str> = [file].into_iter().chain(names.iter().copied()).collect();
            let script = kubernetes::ENCRYPTION_KEYS.verb("check");
            machine.run(script, &arguments).status
        };
        assert_eq!(check(&["key1-aa"]), 0, "a new host has no keys");
        machine.write(
            file,
            "            - name: \"key1-aa\"\n              secret: \"x\"\n            - name: \"key2-bb\"\n",
        );
        assert_eq!(check(&["key2-bb", "key3-cc", "key1-aa"]), 0);
        assert_eq!(check(&["key1-aa"]), 1, "key2-bb is lost");
        assert_eq!(check(&["key1-dd", "key2-ee"]), 1);
    });
}

#[test]
fn secrets_are_not_rewritten_by_an_api_server_without_encryption() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "cat >/dev/null 2>&1 || :");
        let file = "/etc/kubernetes/kubexm/encryption.yaml";
        let manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml";
        let marker = "/var/lib/kubexm/done/encryption-secretbox-key1-aa";
        machine.write(file, "");
        machine.write(manifest, "    - --profiling=false\n");
        let script = kubernetes::ENCRYPTION_REWRITE.verb("apply");
        let arguments = ["encryption-secretbox-key1-aa", file];
        // The file is older than the time in which the API server reads it.
        let run = || machine.run_after(&format!("touch -d @1 {file}"), script, &arguments, "");
        let refused = run();
        assert_eq!(refused.status, 1);
        assert!(
            refused.complained.contains("hint: "),
            "{}",
            refused.complained
        );
        assert!(!machine.has(marker) && machine.calls().is_empty());
        machine.write(
            manifest,
            &format!("    - --encryption-provider-config={file}\n"),
        );
        let done = run();
        assert_eq!(done.status, 0, "{}", done.complained);
        assert!(machine.has(marker) && machine.calls().len() == 2);
    });
}

#[test]
fn isulad_has_the_login_only_while_it_pulls() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "isula",
            "case $1 in login) cat >/root/password ;; pull) case $2 in *absent*) exit 3 ;; esac ;; esac",
        );
        let pull = |image, input| {
            machine.run_after(":", runtime::ISULAD_PULL, &["registry:5000", image], input)
        };
        assert_eq!(pull("quay.example:8443/a:1", "").status, 0);
        assert_eq!(
            machine.calls(),
            [
                "isula pull registry:5000/quay.example_8443/a:1",
                "isula tag registry:5000/quay.example_8443/a:1 quay.example:8443/a:1"
            ]
        );
        assert_eq!(pull("quay.example/absent:1", "kubexm:p:w\n").status, 3);
        assert_eq!(
            machine.calls(),
            [
                "isula login --username kubexm --password-stdin registry:5000",
                "isula pull registry:5000/quay.example/absent:1",
                "isula logout registry:5000"
            ]
        );
        assert_eq!(machine.read("/root/password"), "p:w");
    });
}
