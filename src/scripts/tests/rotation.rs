//! The rotation of authorities on a node, and in the cluster. The programs are stand-ins.

use super::machine::Machine;
use crate::etcd::CLIENTS_END;
use crate::kubeadm::{PROGRAMS, ROTATE};
use crate::kubernetes::{HANDSHAKES, KUBELET_CERTIFICATES, SIGNER as UNIT_SIGNER};

const MANAGER: &str = "/etc/kubernetes/manifests/kube-controller-manager.yaml";
pub(super) const SIGNER: [&str; 2] = ["signer", "/etc/kubernetes/pki/signing-ca.crt"];
/// `both\n` in base64 is `Ym90aAo=`.
pub(super) const KUBECONFIGS: [&str; 2] = ["kubeconfigs", "both\n"];

/// Adds a control plane, and stand-ins: crictl stores when containers started, and systemctl that the kubelet runs.
pub(super) fn with_control_plane(machine: &Machine) {
    machine.write(
        MANAGER,
        "    - --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt\n    - --port=1\n",
    );
    for name in ["admin", "controller-manager", "scheduler", "kubelet"] {
        machine.write(
            &format!("/etc/kubernetes/{name}.conf"),
            "    certificate-authority-data: b2xkCg==\n    server: a\n",
        );
    }
    machine.write("/etc/kubernetes/pki/ca.crt", "new\n");
    machine.write("/etc/kubernetes/pki/etcd/ca.crt", "new\n");
    machine.write("/var/lib/kubexm/receipt.jsonl", "");
    machine.fake("systemctl", "[ ! -e /usr/local/bin/broken ]");
    machine.fake("journalctl", "echo 'the cause'");
    machine.fake("kubectl", "[ ! -e /usr/local/bin/unready ]");
    machine.fake("sleep", "");
    machine.fake(
        "crictl",
        "for word in \"$@\"; do case $word in ^*) name=${word#^}; name=${name%$} ;; esac; last=$word; done\n\
         case $* in\n\
         *json) printf '{ \"createdAt\": \"%s000000000\" }\\n' \"$(cat \"/usr/local/bin/started-$name\")\" ;;\n\
         ps*) echo \"$name\" ;;\n\
         stop*) echo $(($(date +%s) + 60)) >\"/usr/local/bin/started-$last\" ;;\n\
         esac",
    );
    for name in ["kube-apiserver", "etcd", "kube-scheduler"] {
        machine.write(&format!("/root/fake/started-{name}"), "1000000000\n");
    }
}

#[test]
fn controller_manager_gets_a_file_with_one_certificate() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        let found = machine.run(ROTATE.verb("check"), &SIGNER);
        let expected = "the controller manager signs with /etc/kubernetes/pki/ca.crt\n";
        assert_eq!((found.status, found.printed.as_str()), (1, expected));
        let before = machine.read(MANAGER);
        machine.done(ROTATE.verb("apply"), &SIGNER);
        machine.done(ROTATE.verb("check"), &SIGNER);
        assert!(
            machine
                .read(MANAGER)
                .contains("=/etc/kubernetes/pki/signing-ca.crt\n")
        );
        machine.done(
            ROTATE.verb("apply"),
            &["signer", "/etc/kubernetes/pki/ca.crt"],
        );
        assert_eq!(machine.read(MANAGER), before);
        machine.write(MANAGER, "    - --port=1\n");
        let ended = machine.run(ROTATE.verb("apply"), &SIGNER);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("\nhint: "),
            "{}",
            ended.complained
        );
    });
}

const UNIT: &str = "/etc/systemd/system/kube-controller-manager.service";
pub(super) const SIGNING_CA: [&str; 1] = ["/etc/kubernetes/pki/signing-ca.crt"];

/// Adds the unit of a controller manager.
pub(super) fn with_unit(machine: &Machine) {
    machine.write(
        UNIT,
        "ExecStart=/usr/local/bin/kube-controller-manager \\\n  \
         --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt \\\n  \
         --cluster-signing-key-file=/etc/kubernetes/pki/ca.key\n",
    );
    machine.write("/var/lib/kubexm/receipt.jsonl", "");
}

#[test]
fn unit_of_the_controller_manager_gets_a_file_with_one_certificate() {
    Machine::with_each_shell(|machine| {
        with_unit(machine);
        let found = machine.run(UNIT_SIGNER.verb("check"), &SIGNING_CA);
        let expected = "the controller manager signs with /etc/kubernetes/pki/ca.crt\n";
        assert_eq!((found.status, found.printed.as_str()), (1, expected));
        let before = machine.read(UNIT);
        machine.done(UNIT_SIGNER.verb("apply"), &SIGNING_CA);
        machine.done(UNIT_SIGNER.verb("check"), &SIGNING_CA);
        let expected = before.replace(
            "file=/etc/kubernetes/pki/ca.crt",
            "file=/etc/kubernetes/pki/signing-ca.crt",
        );
        assert_eq!(machine.read(UNIT), expected);
        machine.done(UNIT_SIGNER.verb("apply"), &["/etc/kubernetes/pki/ca.crt"]);
        assert_eq!(machine.read(UNIT), before);
        machine.write(UNIT, "ExecStart=/usr/local/bin/other\n");
        let ended = machine.run(UNIT_SIGNER.verb("apply"), &SIGNING_CA);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("\nhint: "),
            "{}",
            ended.complained
        );
    });
}

#[test]
fn kubeconfigs_trust_the_cas_and_the_kubelet_restarts_once() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        assert_eq!(machine.run(ROTATE.verb("check"), &KUBECONFIGS).status, 1);
        machine.write("/root/fake/broken", "");
        let ended = machine.run(ROTATE.verb("apply"), &KUBECONFIGS);
        let expected = "the kubelet does not run with its new kubeconfig\nkubelet: the cause\n";
        assert_eq!((ended.status, ended.complained.as_str()), (1, expected));
        assert_eq!(machine.run(ROTATE.verb("check"), &KUBECONFIGS).status, 1);
        std::fs::remove_file(machine.at("/root/fake/broken")).unwrap();
        machine.calls();
        machine.done(ROTATE.verb("apply"), &KUBECONFIGS);
        for name in ["admin", "controller-manager", "scheduler", "kubelet"] {
            let text = machine.read(&format!("/etc/kubernetes/{name}.conf"));
            assert_eq!(
                text,
                "    certificate-authority-data: Ym90aAo=\n    server: a\n"
            );
        }
        let restart = "systemctl restart kubelet.service".to_owned();
        assert!(machine.calls().contains(&restart));
        machine.done(ROTATE.verb("check"), &KUBECONFIGS);
        machine.done(ROTATE.verb("apply"), &KUBECONFIGS);
        assert!(!machine.calls().contains(&restart));
    });
}

/// The steps of kubexm compare the times.
#[test]
fn programs_end_and_the_certificate_of_the_api_server_is_verified() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        let files = [
            "/etc/kubernetes/pki/ca.crt",
            "/etc/kubernetes/scheduler.conf",
        ];
        machine.fake(
            "crictl",
            "[ ! -e /root/silent ] && echo '{\"containers\": []}'",
        );
        let printed = machine.done(PROGRAMS.verb("look"), &files);
        let lines: Vec<&str> = printed.lines().collect();
        let [first, second, "{\"containers\": []}"] = lines[..] else {
            panic!("{printed}");
        };
        assert!(
            [first, second]
                .iter()
                .all(|line| line.parse::<u64>().is_ok())
        );
        // Neither a missing file nor a runtime without an answer is a program that does not run.
        let missing = machine.run(PROGRAMS.verb("look"), &["/missing"]);
        assert_ne!(missing.status, 0);
        machine.write("/root/silent", "");
        assert_ne!(machine.run(PROGRAMS.verb("look"), &files).status, 0);
        machine.fake("crictl", "");
        machine.calls();
        machine.done(PROGRAMS.verb("stop"), &["c1", "c2"]);
        let calls = [
            "sleep 1",
            "crictl stop --timeout 40 c1",
            "crictl stop --timeout 40 c2",
        ];
        assert_eq!(machine.calls(), calls);
        machine.done(PROGRAMS.verb("serves"), &[]);
        // The certificate in the file, and no other one, verifies the connection.
        let pinned = "--certificate-authority /etc/kubernetes/pki/apiserver.crt";
        let calls = machine.calls();
        assert!(calls.iter().any(|call| call.contains(pinned)), "{calls:?}");
        machine.write("/root/fake/unready", "");
        assert_ne!(machine.run(PROGRAMS.verb("serves"), &[]).status, 0);
        machine.write(
            "/var/log/pods/kube-system_etcd-node1_1/etcd/0.log",
            "the cause\n",
        );
        let printed = machine.done(PROGRAMS.verb("logs"), &["kube-scheduler", "etcd"]);
        let expected =
            "the logs of these programs are in /var/log/pods on this host\netcd: the cause\n";
        assert_eq!(printed, expected);
    });
}

pub(super) const SERVING: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";

/// Adds a kubelet that gets a certificate when it starts.
pub(super) fn with_kubelet(machine: &Machine) {
    for name in ["client", "server"] {
        machine.write(
            &format!("/var/lib/kubelet/pki/kubelet-{name}-current.pem"),
            "old\n",
        );
    }
    machine.write("/var/lib/kubexm/receipt.jsonl", "");
    machine.fake(
        "systemctl",
        "echo new >/var/lib/kubelet/pki/kubelet-client-current.pem",
    );
    machine.write("/etc/kubernetes/kubelet.conf", "first\n");
}

#[test]
fn kubelet_requests_certificates_once_in_a_rotation() {
    Machine::with_each_shell(|machine| {
        with_kubelet(machine);
        let run = |verb| {
            machine
                .run(KUBELET_CERTIFICATES.verb(verb), &["1", SERVING])
                .status
        };
        assert_eq!(run("check"), 1);
        assert_eq!(run("request"), 0);
        assert!(!machine.has(SERVING));
        let own = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        assert_eq!(machine.read(own), "new\n");
        // A certificate in a kubeconfig of kubexm stays there.
        assert_eq!(machine.read("/etc/kubernetes/kubelet.conf"), "first\n");
        assert_eq!(
            [run("issued"), run("check"), run("record"), run("check")],
            [0, 1, 0, 0]
        );
        assert_eq!(machine.read("/etc/kubernetes/kubelet.conf"), "first\n");
    });
}

#[test]
fn server_that_the_new_ca_does_not_verify_is_named() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in\n*:6443*) echo ok ;;\n*:10250*) echo 'error: You must be logged in to the server (Unauthorized)'; exit 1 ;;\n\
             *) echo 'tls: failed to verify certificate: x509' >&2; exit 1 ;;\nesac",
        );
        let printed = machine.done(
            HANDSHAKES,
            &[
                "cas=ca\n",
                "certificate=/c",
                "key=/k",
                "--",
                "https://a:6443/readyz",
                "https://a:10250/healthz",
                "https://a:2379/health",
            ],
        );
        assert_eq!(
            printed,
            "failed https://a:2379/health tls: failed to verify certificate: x509\n"
        );
        assert_eq!(
            std::fs::read_dir(machine.at("/run/kubexm"))
                .unwrap()
                .count(),
            0
        );
    });
}

const MEMBER_CA: &str = "/etc/kubexm/etcd-member/ca.crt";

#[test]
fn api_server_ends_before_its_member_of_etcd_restarts() {
    Machine::with_each_shell(|machine| {
        let call = |verb, kind: &str| {
            let (kind, cas) = (format!("kind={kind}"), "cas=/etc/kubexm/etcd/ca.crt");
            let arguments = [&*kind, "unit=etcd.service", cas, "--", MEMBER_CA];
            machine.run(CLIENTS_END.verb(verb), &arguments)
        };
        with_control_plane(machine);
        machine.write("/etc/kubexm/etcd/ca.crt", "old\nnew\n");
        machine.write(MEMBER_CA, "old\nnew\n");
        machine.fake("systemctl", "");
        machine.fake("systemd-run", "");
        let kinds = [
            ("systemd", "systemctl stop kube-apiserver.service"),
            ("kubeadm", "crictl stop --timeout 40 kube-apiserver"),
        ];
        for (kind, stop) in kinds {
            let found = call("check", kind);
            let expected = "the API server runs, and its member of etcd restarts\n";
            assert_eq!(
                (found.status, found.printed.as_str()),
                (1, expected),
                "{kind}"
            );
            machine.calls();
            assert_eq!(call("apply", kind).status, 0);
            let calls = machine.calls();
            assert!(calls.contains(&stop.to_owned()), "{calls:?}");
            // Otherwise the timer would stay for five minutes, and a reset would leave it.
            let timer = calls.iter().find(|call| call.starts_with("systemd-run"));
            let ends = |call: &String| call.contains("Conflicts=kube-apiserver.service");
            assert!(timer.is_none_or(ends) && timer.is_some() == (kind == "systemd"));
        }
        // The kubelet has started it again, with the present file.
        assert_eq!(call("check", "kubeadm").status, 0);
        machine.fake("systemctl", "exit 3");
        assert_eq!(call("check", "systemd").status, 0);
        // etcd has the present files already.
        machine.fake("systemctl", "");
        let digest = "92ac9321e2f7d396720e17184d34da66fdd4f45f51e8949a0a3db33db379c81a";
        machine.write(
            "/var/lib/kubexm/started/etcd.service",
            &format!("{digest}\n1\n"),
        );
        assert_eq!(call("check", "systemd").status, 0);
    });
}
