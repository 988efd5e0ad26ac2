//! Scripts that change Kubernetes.

use super::machine::Machine;
use crate::kubernetes;

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
