//! Certificates that kubeadm issues again. The programs are stand-ins.

use super::machine::Machine;
use crate::kubeadm::{KUBECONFIG, KUBELET_CREDENTIALS, RENEW};

/// The ID of a renewal, and a configuration of `kubeadm init`, as far as the stand-in reads it.
pub(super) const FILES: [&str; 3] = ["files", "2026-01-31T12:00:00Z", "kind: new\n"];
const PROGRAMS: [&str; 3] = ["programs", FILES[1], FILES[2]];
const LIVE: &str = "/etc/kubernetes";
/// What kubeadm issues again.
const RENEWED: [&str; 5] = [
    "pki/apiserver.crt",
    "pki/apiserver.key",
    "pki/etcd/server.crt",
    "admin.conf",
    "controller-manager.conf",
];
/// A kubeconfig of kubeadm.
pub(super) const KUBECONFIG_TEXT: &str =
    "    client-certificate-data: YWJj\n    client-key-data: c2VjcmV0\n";

/// Adds a control plane with files `old`, and stand-ins: kubeadm writes the `kind` of its configuration, and crictl stores
/// when containers started.
pub(super) fn with_control_plane(machine: &Machine) {
    for path in RENEWED
        .iter()
        .chain(&["pki/ca.crt", "pki/ca.key", "kubelet.conf", "scheduler.conf"])
        .chain(&[
            "pki/apiserver-kubelet-client.crt",
            "pki/front-proxy-client.crt",
        ])
    {
        machine.write(&format!("{LIVE}/{path}"), "old\n");
    }
    let write: Vec<String> = RENEWED
        .iter()
        .map(|path| format!("echo \"$kind\" >{LIVE}/{path}"))
        .collect();
    machine.fake(
        "kubeadm",
        &format!(
            "[ ! -e /usr/local/bin/broken ] || {{ echo half >{LIVE}/pki/apiserver.crt; echo 'no disk' >&2; exit 1; }}\n\
             [ ! -e /usr/local/bin/external ] || {{ echo 'Detected external ca, x cannot be renewed'; exit 0; }}\n\
             for last in \"$@\"; do :; done\n\
             kind=$(sed -n 's/^kind: //p' \"$last\")\n\
             case $* in\n\
             'certs renew all '*) ;;\n\
             'certs renew '*)\n\
             case $3 in *.conf) file={LIVE}/$3 ;; etcd-*) file={LIVE}/pki/etcd/${{3#etcd-}}.crt ;; *) file={LIVE}/pki/$3.crt ;; esac\n\
             [ -e \"$file\" ] || {{ echo \"MISSING! $3\"; exit 0; }}\n\
             [ \"$(cat \"$file\")\" != damaged ] || {{ echo \"cannot read $3\" >&2; exit 1; }}\n\
             exit 0 ;;\n\
             'init phase certs '*)\n\
             [ -e {LIVE}/pki/ca.key ] || {{ echo 'the CA has no key' >&2; exit 1; }}\n\
             for kind in crt key; do echo written >{LIVE}/pki/$4.$kind; done; exit 0 ;;\n\
             'init phase kubeconfig '*) echo written >{LIVE}/$4.conf; exit 0 ;;\n\
             *) exit 2 ;;\n\
             esac\n\
             for file in {LIVE}/pki/*.crt {LIVE}/*.conf; do\n\
             [ \"$(cat \"$file\")\" != damaged ] || {{ echo \"cannot read $file\" >&2; exit 1; }}\n\
             done\n\
             [ -e {LIVE}/pki/front-proxy-client.crt ] || echo 'MISSING! certificate for the front proxy client'\n\
             echo 'MISSING! certificate embedded in the kubeconfig file for the super-admin'\n\
             {}",
            write.join("\n")
        ),
    );
    machine.fake(
        "crictl",
        "for word in \"$@\"; do case $word in ^*) name=${word#^}; name=${name%$} ;; esac; last=$word; done\n\
         case $* in\n\
         *json) printf '{ \"createdAt\": \"%s000000000\" }\\n' \"$(cat \"/usr/local/bin/started-$name\")\" ;;\n\
         ps*) echo \"$name\" ;;\n\
         stop*) echo $(($(date +%s) + 60)) >\"/usr/local/bin/started-$last\" ;;\n\
         esac",
    );
    for name in ["kube-controller-manager", "kube-scheduler"] {
        machine.write(&format!("/root/fake/started-{name}"), "1000000000\n");
    }
    // The directory that stands for a machine is not a mount point, whose propagation a program could change.
    machine.fake(
        "unshare",
        "shift; exec /usr/bin/unshare --mount --propagation unchanged \"$@\"",
    );
    machine.fake("kubectl", "[ ! -e /usr/local/bin/unready ]");
    machine.fake("sleep", "");
}

#[test]
fn new_files_replace_the_former_ones_only_when_kubeadm_has_issued_all() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        let check = || machine.run(RENEW.verb("check"), &FILES);
        let found = check();
        assert_eq!(
            (found.status, found.printed.as_str()),
            (1, "they are older than this renewal\n")
        );
        machine.write("/root/fake/broken", "");
        let ended = machine.run(RENEW.verb("apply"), &FILES);
        let said = "no disk\nhint: ";
        assert!(ended.complained.starts_with(said), "{}", ended.complained);
        assert_eq!(ended.status, 1);
        assert_eq!(machine.read(&format!("{LIVE}/pki/apiserver.crt")), "old\n");
        assert!(!machine.has("/var/lib/kubexm/renewal"));
        std::fs::remove_file(machine.at("/root/fake/broken")).unwrap();
        machine.done(RENEW.verb("apply"), &FILES);
        for path in RENEWED {
            assert_eq!(machine.read(&format!("{LIVE}/{path}")), "new\n", "{path}");
        }
        for path in ["pki/ca.crt", "pki/ca.key", "kubelet.conf"] {
            assert_eq!(machine.read(&format!("{LIVE}/{path}")), "old\n", "{path}");
        }
        // The copy had keys of CAs.
        assert!(!machine.has("/var/lib/kubexm/renewal"));
        assert_eq!(check().status, 0);
        machine.calls();
        machine.done(RENEW.verb("apply"), &FILES);
        assert_eq!(
            machine.calls(),
            [""; 0],
            "the same renewal issues nothing again"
        );
    });
}

/// Before, kubeadm left out a file that was missing, and refused all of them if one was damaged.
#[test]
fn file_that_is_missing_or_damaged_is_written() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        let front_proxy = format!("{LIVE}/pki/front-proxy-client.crt");
        std::fs::remove_file(machine.at(&front_proxy)).unwrap();
        machine.write(&format!("{LIVE}/scheduler.conf"), "damaged");
        machine.done(RENEW.verb("apply"), &FILES);
        let written = [
            "pki/front-proxy-client.crt",
            "pki/front-proxy-client.key",
            "scheduler.conf",
        ];
        for path in written {
            let text = machine.read(&format!("{LIVE}/{path}"));
            assert_eq!(text, "written\n", "{path}");
        }
        // The others are as after any other renewal.
        for path in RENEWED {
            assert_eq!(machine.read(&format!("{LIVE}/{path}")), "new\n", "{path}");
        }
        let kept = format!("{LIVE}/pki/apiserver-kubelet-client.crt");
        assert_eq!(machine.read(&kept), "old\n");
    });
}

#[test]
fn missing_file_of_a_ca_without_its_key_is_an_error() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        for name in ["ca.key", "front-proxy-client.crt"] {
            std::fs::remove_file(machine.at(&format!("{LIVE}/pki/{name}"))).unwrap();
        }
        let ended = machine.run(RENEW.verb("apply"), &FILES);
        let expected = "the CA has no key\nhint: if a CA or its key is missing, put it back";
        assert!(
            ended.complained.starts_with(expected),
            "{}",
            ended.complained
        );
        assert_eq!(ended.status, 1);
        assert_eq!(machine.read(&format!("{LIVE}/admin.conf")), "old\n");
        assert!(!machine.has("/var/lib/kubexm/renewal"));
    });
}

#[test]
fn ca_whose_key_is_elsewhere_is_an_error() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        machine.write("/root/fake/external", "");
        let ended = machine.run(RENEW.verb("apply"), &FILES);
        let expected = "Detected external ca, x cannot be renewed\n\
                        hint: put the key of the CA back on this host for the renewal\n";
        assert_eq!((ended.status, ended.complained.as_str()), (1, expected));
        assert_eq!(machine.read(&format!("{LIVE}/admin.conf")), "old\n");
    });
}

#[test]
fn programs_that_read_their_kubeconfig_at_the_start_restart_once() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        let found = machine.run(RENEW.verb("check"), &PROGRAMS);
        let expected = "kube-controller-manager runs with its former kubeconfig\n\
                        kube-scheduler runs with its former kubeconfig\n";
        assert_eq!((found.status, found.printed.as_str()), (1, expected));
        machine.calls();
        machine.done(RENEW.verb("apply"), &PROGRAMS);
        let stopped = |calls: Vec<String>| -> Vec<String> {
            let calls = calls.into_iter();
            calls
                .filter(|call| call.starts_with("crictl stop"))
                .collect()
        };
        assert_eq!(
            stopped(machine.calls()),
            [
                "crictl stop --timeout 30 kube-controller-manager",
                "crictl stop --timeout 30 kube-scheduler"
            ]
        );
        machine.done(RENEW.verb("check"), &PROGRAMS);
        machine.done(RENEW.verb("apply"), &PROGRAMS);
        assert_eq!(stopped(machine.calls()), [""; 0]);
    });
}

#[test]
fn no_program_restarts_while_the_api_server_does_not_serve_its_new_certificate() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        machine.write("/root/fake/unready", "");
        let ended = machine.run(RENEW.verb("apply"), &PROGRAMS);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("\nhint: "),
            "{}",
            ended.complained
        );
        let calls = machine.calls();
        assert!(!calls.iter().any(|call| call.starts_with("crictl stop")));
        // The certificate in the file, and no other one, verifies the connection.
        let pinned = "--certificate-authority /etc/kubernetes/pki/apiserver.crt";
        assert!(calls.iter().any(|call| call.contains(pinned)), "{calls:?}");
    });
}

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
    machine.fake("journalctl", "echo 'the cause'");
    machine.fake("sleep", "");
}

#[test]
fn kubelet_gets_a_certificate_and_its_kubeconfig_names_the_file() {
    Machine::with_each_shell(|machine| {
        with_kubelet(machine);
        let run =
            |verb, input| machine.run_after(":", KUBELET_CREDENTIALS.verb(verb), &["id"], input);
        assert_eq!(run("check", "").status, 1);
        machine.write("/root/fake/broken", "");
        let ended = run("apply", KUBECONFIG_TEXT);
        assert_eq!(ended.status, 1);
        let expected = "the kubelet does not get a certificate\nkubelet: the cause\n\
                        hint: correct what its log names, then run the same command again\n";
        assert_eq!(ended.complained, expected);
        std::fs::remove_file(machine.at("/root/fake/broken")).unwrap();
        // The kubelet starts by itself before the next run.
        machine.write("/var/lib/kubelet/pki/kubelet-client-current.pem", "new\n");
        let ended = run("apply", KUBECONFIG_TEXT);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let own = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        assert_eq!(
            machine.read("/etc/kubernetes/kubelet.conf"),
            format!("    client-certificate: {own}\n    client-key: {own}\n")
        );
        assert_eq!(run("check", "").status, 0);
    });
}
