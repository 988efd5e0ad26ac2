//! Members of etcd, images, and objects of the cluster.

use super::super::etcd::LINKED_ETCDCTL;
use super::super::machine::Machine;
use super::{Case, call, kill_everywhere, kill_everywhere_and, with};
use crate::{etcd, kubeadm, kubernetes, runtime, steps, systemd};

const ARGUMENTS: [&str; 3] = [
    "data=/srv/etcd",
    "state=existing",
    "members=node1=https://192.0.2.1:2380",
];

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn etcd_members() {
    let undo = || {
        vec![
            call(systemd::UNIT_STOP, &["etcd.service"]),
            call(steps::DIRECTORY_REMOVE, &["/srv/etcd", "any", "member"]),
        ]
    };
    // A case without an undo, because the directory existed before.
    let begin = Case {
        before: |machine| {
            machine.fake("systemctl", "");
            machine.write("/srv/etcd/member/snap/db", "half");
        },
        enter: ":",
        check: Some(call(etcd::MEMBER.verb("has-data"), &ARGUMENTS)),
        apply: call(etcd::MEMBER.verb("begin"), &ARGUMENTS),
        undo: vec![],
    };
    kill_everywhere_and(&begin, |machine| {
        let initial = machine.read("/run/kubexm/etcd-initial.env");
        assert_eq!(initial.lines().count(), 2, "{initial}");
        assert!(!machine.has("/srv/etcd/member"));
    });
    // The member starts; a reset removes its data.
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/srv/keep", "");
            machine.fake(
                "systemctl",
                "case $1 in\nstart) mkdir -p /srv/etcd/member/wal; : >/srv/etcd/member/wal/1.wal; : >/srv/etcd/member/on ;;\n\
                 is-active) if [ -e /srv/etcd/member/on ]; then echo active; else echo inactive; fi ;;\nesac",
            );
        },
        enter: ":",
        check: None,
        apply: call(etcd::AWAKE.verb("apply"), &["/srv/etcd", "etcd.service"]),
        undo: undo(),
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn snapshots() {
    for kind in ["kind=kubeadm", "kind=systemd"] {
        let arguments = [kind, "data=/var/lib/etcd"];
        kill_everywhere(&Case {
            before: |machine| {
                machine.write("/etc/tmpfiles.d/site.conf", "");
                machine.write("/var/lib/etcd/member/wal/0.wal", "");
                machine.fake("df", "printf 'head\\nx 1 1 9999 1%% /\\n'");
                machine.fake("systemctl", "");
                machine.fake("systemd-run", "");
                machine.fake(
                    "crictl",
                    "[ \"$1\" != ps ] || { echo c0ffee; exit 0; }\nshift 3; exec \"$@\"",
                );
                machine.fake(
                    "etcdctl",
                    "for file in \"$@\"; do :; done; mkdir -p \"${file%/*}\"; echo snapshot >\"$file\"",
                );
            },
            enter: LINKED_ETCDCTL,
            check: None,
            apply: call(etcd::SNAPSHOT.verb("save"), &arguments),
            undo: vec![call(etcd::SNAPSHOT.verb("remove"), &arguments)],
        });
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn images() {
    fn runtimes(machine: &Machine) {
        machine.write("/root/images/keep", "");
        machine.fake(
            "crictl",
            "case $1 in\n\
             pull) : >\"/root/images/$2\" ;;\n\
             inspecti) for image in \"$@\"; do :; done; [ -e \"/root/images/$image\" ] || { echo 'no such image' >&2; exit 1; } ;;\n\
             esac",
        );
        machine.fake(
            "ctr",
            "case $4 in\n\
             ls) for image in /root/images/*; do echo \"${image##*/} $(cat \"$image\")\"; done ;;\n\
             label) echo \"$6\" >\"/root/images/$5\" ;;\n\
             esac",
        );
        machine.fake(
            "isula",
            "case $1 in\npull) : >\"/root/images/$(echo \"$2\" | tr / _)\" ;;\n\
             tag) [ -e \"/root/images/$(echo \"$2\" | tr / _)\" ] || exit 1; : >\"/root/images/$(echo \"$3\" | tr / _)\" ;;\nesac",
        );
    }
    let names = ["registry:5000", "one", "two"];
    kill_everywhere(&Case {
        before: runtimes,
        enter: ":",
        check: Some(call(runtime::CONTAINERD_IMAGES.verb("check"), &names)),
        apply: call(runtime::CONTAINERD_IMAGES.verb("pull"), &names),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: runtimes,
        enter: ":",
        check: Some(call(runtime::CRI_IMAGES.verb("present"), &names)),
        apply: call(runtime::CRI_IMAGES.verb("pull"), &names),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: runtimes,
        enter: ":",
        check: None,
        apply: call(
            runtime::ISULAD_PULL,
            &["registry:5000", "quay.io/one", "quay.io/two"],
        ),
        undo: vec![],
    });
}

/// A stand-in for kubectl. It stores the objects in `/root/cluster`, which stands for etcd.
fn with_kubectl(machine: &Machine) {
    machine.write("/etc/kubernetes/admin.conf", "");
    machine.write("/root/cluster/keep", "");
    machine.fake(
        "kubectl",
        "cd /root/cluster\n\
         for last in \"$@\"; do :; done\n\
         case $* in\n\
         *' diff '*) cmp -s \"$last\" \"object-${last##*/}\" ;;\n\
         *' apply '*) cp \"$last\" \"object-${last##*/}\" ;;\n\
         *' label '*node1*) : >labelled1 ;;\n\
         *' label '*) : >labelled2 ;;\n\
         *' patch '*) : >patched ;;\n\
         *'certificate approve'*) : >\"approved-$last\" ;;\n\
         *'get secrets -A -o json') cat secrets ;;\n\
         *' replace '*) text=$(cat); [ -n \"$text\" ] || { echo 'no objects passed to replace' >&2; exit 1; }; \
           echo encrypted >secrets ;;\n\
         *' delete '*secret*) rm -f \"$last\" ;;\n\
         esac",
    );
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn objects() {
    let manifest = "/etc/kubexm/flannel.yaml";
    kill_everywhere(&Case {
        before: |machine| {
            with_kubectl(machine);
            machine.write("/etc/kubexm/flannel.yaml", "flannel");
        },
        enter: ":",
        check: Some(call(kubernetes::MANIFEST.verb("check"), &[manifest])),
        apply: call(kubernetes::MANIFEST.verb("apply"), &[manifest]),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: |machine| {
            with_kubectl(machine);
            machine.write("/etc/kubexm/access.yaml", "bindings");
        },
        enter: ":",
        check: Some(call(
            kubernetes::ACCESS.verb("check"),
            &["/etc/kubexm/access.yaml", "https://192.0.2.11:6443"],
        )),
        apply: with(
            kubernetes::ACCESS.verb("apply"),
            &["/etc/kubexm/access.yaml", "https://192.0.2.11:6443"],
            "kubeconfig\n",
        ),
        undo: vec![],
    });
    let labels = ["label", "node1", "a=1 b=2", "label", "node2", "a=1"];
    kill_everywhere(&Case {
        before: with_kubectl,
        enter: ":",
        check: None,
        apply: call(kubernetes::NODE_METADATA, &labels),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: with_kubectl,
        enter: ":",
        check: None,
        apply: call(
            kubernetes::PATCH,
            &["serviceaccount", "default", "--patch", "{}"],
        ),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: with_kubectl,
        enter: ":",
        check: None,
        apply: call(kubernetes::APPROVE, &["csr-1"]),
        undo: vec![],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn secrets() {
    let rewrite = [
        "encryption-secretbox-key1-aa",
        "/etc/kubernetes/kubexm/encryption.yaml",
    ];
    kill_everywhere(&Case {
        before: |machine| {
            with_kubectl(machine);
            machine.write("/root/cluster/secrets", "clear text");
            machine.write("/etc/kubernetes/kubexm/encryption.yaml", "");
            machine.write("/var/lib/kubexm/done/encryption-secretbox-key0-bb", "");
            machine.fake("sleep", "");
        },
        enter: ":",
        check: Some(call(kubernetes::ENCRYPTION_REWRITE.verb("check"), &rewrite)),
        apply: call(kubernetes::ENCRYPTION_REWRITE.verb("apply"), &rewrite),
        undo: vec![],
    });
    kill_everywhere(&Case {
        before: |machine| {
            with_kubectl(machine);
            machine.write("/root/cluster/token-1", "");
            machine.fake("sleep", "");
        },
        enter: ":",
        check: None,
        apply: call(
            kubernetes::DELETE,
            &["secret", "-n", "kube-system", "token-1"],
        ),
        undo: vec![],
    });
    // A token of a killed run stays until the last task of an install removes all of them.
    let mint = Case {
        before: |machine| {
            with_kubectl(machine);
            machine.write("/etc/kubernetes/pki/ca.crt", "ca");
            machine.fake(
                "kubeadm",
                "case $* in\n'token create'*) for file in \"$@\"; do :; done; : >\"/root/cluster/token-$(cat \"$file\")\" ;;\n\
                 *upload-certs*) : >/root/cluster/kubeadm-certs ;;\nesac",
            );
        },
        enter: ":",
        check: None,
        apply: with(
            kubeadm::JOIN_SECRETS,
            &["/run/kubexm/secrets-XXXXXX", "3"],
            "1",
        ),
        undo: ["token-1", "kubeadm-certs"]
            .map(|name| call(kubernetes::DELETE, &["secret", "-n", "kube-system", name]))
            .into(),
    };
    kill_everywhere(&mint);
}
