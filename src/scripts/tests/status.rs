//! Scripts that print the state of a cluster.

use super::machine::Machine;
use crate::status;

/// Prints the lines in the order of the alphabet: the questions run at the same time.
fn answers(machine: &Machine, questions: &str) -> Vec<String> {
    let words: Vec<&str> = questions.split_whitespace().collect();
    let printed = machine.done(status::HOST, &words);
    assert!(printed.ends_with("end=\n"), "{printed}");
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    lines.pop();
    lines.sort();
    lines
}

fn machine_with_programs(machine: &Machine) {
    machine.fake("kubectl", "cat /root/says\n[ ! -e /root/fails ]");
    machine.write("/root/says", "ok\n");
    machine.fake(
        "systemctl",
        "shift 9\ncase $1 in\na.service) printf 'NRestarts=3\\nLoadState=loaded\\nActiveState=failed\\nSubState=failed\\n' ;;\n\
         *) printf 'LoadState=not-found\\nActiveState=inactive\\nSubState=dead\\n' ;;\nesac",
    );
}

#[test]
fn units_and_manifests_are_answers() {
    Machine::with_each_shell(|machine| {
        machine_with_programs(machine);
        let manifest = "/etc/kubernetes/manifests/kube-scheduler.yaml";
        machine.write(
            manifest,
            "    image: registry.k8s.io/kube-scheduler:v1.36.3@sha256:0\n",
        );
        machine.fake("kubelet", "echo Kubernetes v1.36.2");
        let questions = "unit a.service unit b.service static-pod kube-scheduler static-pod etcd \
                         version kube-scheduler version kubelet version absent";
        let expected = [
            "static-pod=etcd no",
            "static-pod=kube-scheduler yes",
            "unit=a.service NRestarts=3 LoadState=loaded ActiveState=failed SubState=failed ",
            "unit=b.service LoadState=not-found ActiveState=inactive SubState=dead ",
            "version=absent ",
            "version=kube-scheduler     image: registry.k8s.io/kube-scheduler:v1.36.3@sha256:0",
            "version=kubelet Kubernetes v1.36.2",
        ];
        assert_eq!(answers(machine, questions), expected);
        assert_eq!(machine.run(status::HOST, &["evil", "x"]).status, 2);
    });
}

#[test]
fn programs_that_do_not_answer_have_a_cause() {
    Machine::with_each_shell(|machine| {
        machine_with_programs(machine);
        let questions = "health kubelet http://127.0.0.1:10248/healthz endpoint /etc/kubernetes/kubelet.conf \
                         registry registry.example:5000";
        let all = [
            "endpoint=",
            "health=kubelet ",
            "registry=registry.example:5000 ",
        ];
        let with = |answer: &str| all.map(|key| format!("{key}{answer}"));
        assert_eq!(answers(machine, questions), with("ok"));
        let calls = machine.calls();
        let asked = "kubectl --kubeconfig /dev/null --cache-dir /run/kubexm/kubectl --request-timeout=5s --server \
                     http://127.0.0.1:10248 --insecure-skip-tls-verify get --raw /healthz";
        assert!(calls.contains(&asked.to_owned()), "{calls:?}");
        let asked = "kubectl --kubeconfig /dev/null --cache-dir /run/kubexm/kubectl --request-timeout=5s --server \
                     https://registry.example:5000 --certificate-authority /etc/kubexm/registry-ca.crt --token none \
                     get --raw /v2/";
        assert!(calls.contains(&asked.to_owned()), "{calls:?}");
        machine.write("/root/fails", "");
        // What kubectl said is for kubexm to read.
        machine.write("/root/says", "a\nThe connection was refused\n\n");
        assert_eq!(
            answers(machine, questions),
            with("YQpUaGUgY29ubmVjdGlvbiB3YXMgcmVmdXNlZA==")
        );
    });
}

#[test]
fn version_of_an_api_server_is_that_of_its_answer() {
    Machine::with_each_shell(|machine| {
        machine_with_programs(machine);
        let questions = "running kube-apiserver https://192.0.2.11:6443";
        machine.write("/root/says", "{\n  \"gitVersion\": \"v1.36.3\"\n}\n");
        assert_eq!(
            answers(machine, questions),
            ["running=kube-apiserver ewogICJnaXRWZXJzaW9uIjogInYxLjM2LjMiCn0="]
        );
        machine.write("/root/fails", "");
        assert_eq!(answers(machine, questions), ["running=kube-apiserver "]);
    });
}

#[test]
fn members_of_etcd_report_as_json() {
    Machine::with_each_shell(|machine| {
        let body = "case $* in\n*'endpoint status') echo '{\"level\":\"warn\"}' >&2; echo '[{\"Status\":{}}]' ;;\n\
                    *'member list') [ -e /root/quorum ] && echo '{\"header\":{}}' ;;\nesac";
        machine.fake("etcdctl", body);
        machine.fake(
            "crictl",
            &format!("[ \"$1\" != ps ] || {{ cat /root/container; exit; }}\n{body}"),
        );
        machine.write("/root/container", "c1\n");
        machine.write("/root/quorum", "");
        let before = "mount -t tmpfs none /usr/local/lib\nmkdir -p /usr/local/lib/kubexm\n\
             cp /root/fake/etcdctl /usr/local/lib/kubexm/etcdctl";
        let both = [
            "etcd-members=eyJoZWFkZXIiOnt9fQo=",
            "etcd-status=W3siU3RhdHVzIjp7fX1dCg==",
        ];
        for kind in ["kubeadm", "systemd"] {
            let ended = machine.run_after(before, status::HOST, &["etcd", kind], "");
            let mut lines: Vec<&str> = ended.printed.lines().collect();
            assert_eq!((ended.status, lines.pop()), (0, Some("end=")), "{kind}");
            lines.sort_unstable();
            assert_eq!(lines, both, "{kind}");
        }
        std::fs::remove_file(machine.at("/root/quorum")).unwrap();
        let lines = answers(machine, "etcd kubeadm");
        assert_eq!(lines, ["etcd-members=", both[1]]);
        machine.write("/root/container", "");
        machine.fake(
            "crictl",
            "[ \"$1\" != ps ] || { echo c1; exit; }\necho 'Failed (deadline)'; echo null; exit 1",
        );
        assert_eq!(
            answers(machine, "etcd kubeadm"),
            ["etcd-failed=RmFpbGVkIChkZWFkbGluZSkKbnVsbA=="]
        );
        machine.fake("crictl", "cat /root/container");
        let said = "dGhlIGNvbnRhaW5lciBvZiBldGNkIGRvZXMgbm90IHJ1bg==";
        let failed = [format!("etcd-failed={said}")];
        assert_eq!(answers(machine, "etcd kubeadm"), failed);
    });
}
