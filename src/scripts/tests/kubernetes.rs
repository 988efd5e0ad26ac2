//! Scripts that change Kubernetes.

use super::machine::Machine;
use crate::kubernetes;

#[test]
fn objects_are_printed_compressed_with_the_status_of_kubectl() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "echo '{}'; [ ! -e /root/down ] || { echo refused >&2; exit 4; }",
        );
        // The stand-in of gzip shows that kubectl's output passes through it.
        machine.fake("gzip", "sed 's/^/compressed /'");
        let words = ["https://192.0.2.11:6443", "nodes", "-A"];
        // A cluster that does not exist is not one that does not answer.
        assert_eq!(machine.run(kubernetes::GET, &words).status, 66);
        machine.write("/etc/kubernetes/kubelet.conf", "");
        assert_eq!(machine.done(kubernetes::GET, &words), "compressed {}\n");
        machine.done(kubernetes::GET, &["", "node", "node1"]);
        let calls = machine.calls();
        let ends = [
            "--request-timeout=30s --server https://192.0.2.11:6443 get -o json nodes -A",
            "--request-timeout=30s get -o json node node1",
        ];
        for end in ends {
            assert!(calls.iter().any(|call| call.ends_with(end)), "{calls:?}");
        }
        machine.write("/root/down", "");
        let ended = machine.run(kubernetes::GET, &words);
        assert_eq!((ended.status, ended.complained.as_str()), (4, "refused\n"));
    });
}

#[test]
fn nodes_get_each_label_and_taint() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "");
        let labels = ["label", "node1", "a=1 b/c= d-"];
        let taints = ["taint", "node2", "gpu=yes:NoSchedule"];
        let arguments = [labels, taints].concat();
        machine.done(kubernetes::NODE_METADATA, &arguments);
        let calls = machine.calls();
        assert!(calls[0].ends_with("label --overwrite node node1 a=1 b/c= d-"));
        assert!(calls[1].ends_with("taint --overwrite node node2 gpu=yes:NoSchedule"));
        assert_eq!(calls.len(), 2, "{calls:?}");
        machine.fake("kubectl", "echo refused >&2; exit 1");
        let ended = machine.run(kubernetes::NODE_METADATA, &arguments);
        assert_eq!((ended.status, ended.complained.as_str()), (1, "refused\n"));
        assert_eq!(machine.calls().len(), 1, "goes on after a failure");
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
        let arguments = ["encryption-secretbox-key1-aa", file];
        let known = |before: &str| {
            let script = kubernetes::ENCRYPTION_REWRITE.verb("known");
            machine.run_after(before, script, &arguments, "").status
        };
        assert_eq!(known(":"), 1);
        assert_eq!(known(&format!("touch -d @1 {file}")), 0);
        let run = || machine.run(kubernetes::ENCRYPTION_REWRITE.verb("apply"), &arguments);
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
        machine.write(file, "");
        assert_eq!(known(":"), 0);
    });
}
