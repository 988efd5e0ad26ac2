//! Kubeconfigs that kubeadm prints, and the one with which a kubelet begins again. The programs are stand-ins.

use super::machine::Machine;
use crate::kubeadm::KUBECONFIG;
use crate::kubernetes::KUBELET_CERTIFICATES;

/// A kubeconfig of kubeadm.
pub(super) const KUBECONFIG_TEXT: &str =
    "    client-certificate-data: YWJj\n    client-key-data: c2VjcmV0\n";

#[test]
fn kubeconfigs_are_printed_with_their_users() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubeadm", "echo warning >&2\necho \"config of $*\"");
        let printed = machine.done(KUBECONFIG, &["kind: a\n", "system:nodes", "a", "b"]);
        let users: Vec<&str> = printed
            .lines()
            .filter(|line| line.starts_with('#'))
            .collect();
        assert_eq!(users, ["# a", "# b"]);
        assert!(
            printed.contains("--client-name b --org system:nodes\n"),
            "{printed}"
        );
        assert_eq!(
            std::fs::read_dir(machine.at("/run/kubexm"))
                .unwrap()
                .count(),
            0
        );
        machine.fake("kubeadm", "echo 'no key' >&2; exit 1");
        let ended = machine.run(KUBECONFIG, &["kind: a\n", "system:nodes", "a"]);
        assert_eq!((ended.status, ended.complained.as_str()), (1, "no key\n"));
    });
}

/// Adds a node whose kubelet gets a certificate as soon as it starts, if it has none that is valid.
pub(super) fn with_kubelet(machine: &Machine) {
    machine.write("/etc/kubernetes/kubelet.conf", "expired\n");
    machine.write("/var/lib/kubexm/receipt.jsonl", "");
    machine.write(
        "/var/lib/kubelet/pki/kubelet-client-current.pem",
        "expired\n",
    );
    machine.fake(
        "systemctl",
        "own=/var/lib/kubelet/pki/kubelet-client-current.pem
         if [ -e /usr/local/bin/broken ] || grep -qs new $own; then exit 0; fi
         echo new >$own",
    );
}

#[test]
fn kubelet_gets_a_certificate_and_its_kubeconfig_names_the_file() {
    Machine::with_each_shell(|machine| {
        with_kubelet(machine);
        let run =
            |verb, input| machine.run_after(":", KUBELET_CERTIFICATES.verb(verb), &["id"], input);
        assert_eq!(run("check", "").status, 1);
        machine.write("/root/fake/broken", "");
        assert_eq!(run("request", KUBECONFIG_TEXT).status, 0);
        let ended = run("issued", "");
        let expected = "the kubelet does not get a certificate\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, expected));
        std::fs::remove_file(machine.at("/root/fake/broken")).unwrap();
        // The kubelet starts by itself before the next run.
        machine.write("/var/lib/kubelet/pki/kubelet-client-current.pem", "new\n");
        for (verb, input) in [("request", KUBECONFIG_TEXT), ("issued", ""), ("name", "")] {
            let ended = run(verb, input);
            assert_eq!(ended.status, 0, "{}", ended.complained);
        }
        let own = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        assert_eq!(
            machine.read("/etc/kubernetes/kubelet.conf"),
            format!("    client-certificate: {own}\n    client-key: {own}\n")
        );
        assert_eq!(run("check", "").status, 0);
        // Its certificate is older than its kubeconfig now.
        assert_eq!(run("issued", "").status, 0);
    });
}
