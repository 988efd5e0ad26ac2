//! Certificates that kubeadm issues again. The programs are stand-ins.

use super::machine::Machine;
use crate::kubeadm::RENEW;

/// The ID of a renewal, and a configuration of `kubeadm init`, as far as the stand-in reads it.
pub(super) const FILES: [&str; 2] = ["id=2026-01-31T12:00:00Z", "config=kind: new\n"];
const LIVE: &str = "/etc/kubernetes";
/// What kubeadm issues again, on a control plane with a member of etcd: certificates with keys, and kubeconfigs.
const PAIRS: [&str; 7] = [
    "apiserver",
    "apiserver-kubelet-client",
    "front-proxy-client",
    "apiserver-etcd-client",
    "etcd/server",
    "etcd/peer",
    "etcd/healthcheck-client",
];
const KUBECONFIGS: [&str; 3] = ["admin.conf", "controller-manager.conf", "scheduler.conf"];
/// What kubeadm does not issue again.
const AUTHORITIES: [&str; 3] = ["ca", "front-proxy-ca", "etcd/ca"];
/// Replaces kubeadm: it writes the `kind` of its configuration, and does not read a file with the text `damaged`.
const KUBEADM: &str = r#"live=/etc/kubernetes
[ ! -e /usr/local/bin/broken ] || { echo half >$live/pki/apiserver.crt; echo 'no disk' >&2; exit 1; }
[ ! -e /usr/local/bin/external ] || { echo 'Detected external ca, x cannot be renewed'; exit 0; }
for last in "$@"; do :; done
kind=$(sed -n 's/^kind: //p' "$last")
file() { case $1 in *.conf) echo "$live/$1" ;; etcd-*) echo "$live/pki/etcd/${1#etcd-}.crt" ;; *) echo "$live/pki/$1.crt" ;; esac; }
issue() {
  echo "$kind" >"$1"
  case $1 in *.crt) echo "$kind" >"${1%.crt}.key" ;; esac
}
renew() {
  file=$(file "$1")
  [ -e "$file" ] || { echo "MISSING! $1"; return 0; }
  [ "$(cat "$file")" != damaged ] || { echo "cannot read $1" >&2; exit 1; }
  issue "$file"
}
write() {
  [ "$(cat $live/pki/ca.crt)" != damaged ] || { echo 'invalid CA' >&2; exit 1; }
  [ ! -e "$(file "$1")" ] || { echo "$1 exists" >&2; exit 1; }
  issue "$(file "$1")"
}
case $* in
'certs renew '*) renew "$3" ;;
'init phase certs '*) write "$4" ;;
'init phase kubeconfig '*) write "$4.conf" ;;
*) exit 2 ;;
esac"#;

/// Returns the paths of what kubeadm issues again.
fn renewed() -> Vec<String> {
    let pairs = PAIRS.iter();
    let pairs =
        pairs.flat_map(|name| ["crt", "key"].map(|kind| format!("{LIVE}/pki/{name}.{kind}")));
    let kubeconfigs = KUBECONFIGS.iter().map(|name| format!("{LIVE}/{name}"));
    pairs.chain(kubeconfigs).collect()
}

/// Adds a control plane with files `old`, and a stand-in for kubeadm.
pub(super) fn with_control_plane(machine: &Machine) {
    for path in renewed() {
        machine.write(&path, "old\n");
    }
    for name in AUTHORITIES {
        machine.write(&format!("{LIVE}/pki/{name}.crt"), "old\n");
        machine.write(&format!("{LIVE}/pki/{name}.key"), "old\n");
    }
    machine.write(&format!("{LIVE}/kubelet.conf"), "old\n");
    machine.write(&format!("{LIVE}/manifests/etcd.yaml"), "old\n");
    machine.fake("kubeadm", KUBEADM);
    // The directory that stands for a machine is not a mount point, whose propagation a program could change.
    machine.fake(
        "unshare",
        "shift; exec /usr/bin/unshare --mount --propagation unchanged \"$@\"",
    );
}

/// Adds the same control plane without three files, and with two that are damaged.
pub(super) fn with_lost_files(machine: &Machine) {
    with_control_plane(machine);
    for path in [
        "pki/front-proxy-client.crt",
        "pki/etcd/peer.crt",
        "pki/etcd/peer.key",
    ] {
        remove(machine, path);
    }
    machine.write(&format!("{LIVE}/scheduler.conf"), "damaged");
    machine.write(&format!("{LIVE}/super-admin.conf"), "damaged");
}

fn remove(machine: &Machine, path: &str) {
    std::fs::remove_file(machine.at(&format!("{LIVE}/{path}"))).unwrap();
}

#[test]
fn certificate_that_gets_other_names_is_written_as_for_a_new_node() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        // Like the real one, it keeps the names of a certificate that it renews.
        let kubeadm = KUBEADM.replace("  issue \"$file\"\n", "  echo renewed >\"$file\"\n");
        machine.fake("kubeadm", &kubeadm);
        let [id, config] = FILES;
        let arguments = [id, config, "--", "pki/apiserver", "pki/etcd/peer"];
        machine.done(RENEW.verb("apply"), &arguments);
        let read = |name: &str| machine.read(&format!("{LIVE}/pki/{name}"));
        assert_eq!(read("etcd/server.crt"), "renewed\n");
        // The keys are those of the phase.
        assert_eq!(read("apiserver.key"), "new\n");
        assert_eq!(read("etcd/peer.key"), "new\n");
        assert_eq!(read("etcd/server.key"), "old\n");
        machine.done(RENEW.verb("check"), &arguments);
    });
}

/// The changes of kubexm's copy would be those of the target of the link.
#[test]
fn directory_that_is_a_link_is_refused() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        for name in ["pki/etcd", "pki"] {
            let path = machine.at(&format!("{LIVE}/{name}"));
            let target = machine.at("/srv/site");
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::rename(&path, &target).unwrap();
            std::os::unix::fs::symlink("/srv/site", &path).unwrap();
            let ended = machine.run(RENEW.verb("apply"), &FILES);
            let said = format!("{LIVE}/{name} is a link\nhint: ");
            assert!(ended.complained.starts_with(&said), "{}", ended.complained);
            std::fs::remove_file(&path).unwrap();
            std::fs::rename(&target, &path).unwrap();
        }
        for path in renewed() {
            assert_eq!(machine.read(&path), "old\n", "{path}");
        }
        assert_eq!(machine.read(&format!("{LIVE}/pki/ca.key")), "old\n");
    });
}

#[test]
fn full_disk_leaves_the_former_files() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        machine.fake(
            "cp",
            "case $* in --preserve*) for last in \"$@\"; do :; done; : >\"$last\"; echo full >&2; exit 1 ;; esac; exec /usr/bin/cp \"$@\"",
        );
        let ended = machine.run(RENEW.verb("apply"), &FILES);
        assert_eq!(ended.status, 1, "{}", ended.complained);
        for path in renewed() {
            assert_eq!(machine.read(&path), "old\n", "{path}");
        }
        assert!(!machine.has(&format!("{LIVE}/pki/.kubexm-new")));
        assert_eq!(machine.run(RENEW.verb("check"), &FILES).status, 1);
        std::fs::remove_file(machine.at("/root/fake/cp")).unwrap();
        machine.done(RENEW.verb("apply"), &FILES);
        assert_eq!(machine.read(&format!("{LIVE}/admin.conf")), "new\n");
    });
}

#[test]
fn new_files_replace_the_former_ones_only_when_kubeadm_has_issued_all() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        let check = || machine.run(RENEW.verb("check"), &FILES);
        let found = check();
        assert_eq!(
            (found.status, found.printed.as_str()),
            (1, "they are older than this renewal, or missing\n")
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
        for path in renewed() {
            assert_eq!(machine.read(&path), "new\n", "{path}");
        }
        for path in ["pki/ca.crt", "pki/etcd/ca.key", "kubelet.conf"] {
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

/// kubeadm leaves out a file that is missing, and refuses one that is damaged.
#[test]
fn file_that_is_missing_or_damaged_is_written() {
    Machine::with_each_shell(|machine| {
        with_lost_files(machine);
        machine.done(RENEW.verb("apply"), &FILES);
        let phases: Vec<String> = machine
            .calls()
            .iter()
            .filter_map(|call| call.strip_prefix("kubeadm init phase "))
            .filter_map(|phase| Some(phase.split_once(" --config")?.0.to_owned()))
            .collect();
        assert_eq!(
            phases,
            [
                "certs front-proxy-client",
                "certs etcd-peer",
                "kubeconfig scheduler",
                "kubeconfig super-admin"
            ],
            "no other file is written"
        );
        let super_admin = format!("{LIVE}/super-admin.conf");
        for path in renewed().into_iter().chain([super_admin]) {
            assert_eq!(machine.read(&path), "new\n", "{path}");
        }
        for name in AUTHORITIES {
            assert_eq!(machine.read(&format!("{LIVE}/pki/{name}.crt")), "old\n");
        }
        assert!(!machine.has("/var/lib/kubexm/renewal"));
        machine.done(RENEW.verb("check"), &FILES);
    });
}

/// Not every control plane has a member of etcd, or super-admin.conf.
#[test]
fn file_that_a_control_plane_does_not_need_is_not_written() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        remove(machine, "manifests/etcd.yaml");
        std::fs::remove_dir_all(machine.at(&format!("{LIVE}/pki/etcd"))).unwrap();
        machine.write(&format!("{LIVE}/admin.conf"), "damaged");
        machine.done(RENEW.verb("apply"), &FILES);
        assert_eq!(machine.read(&format!("{LIVE}/admin.conf")), "new\n");
        assert!(!machine.has(&format!("{LIVE}/pki/etcd")));
        assert!(!machine.has(&format!("{LIVE}/super-admin.conf")));
        machine.done(RENEW.verb("check"), &FILES);
    });
}

/// A renewal that was interrupted on another host continues with the same ID.
#[test]
fn file_that_was_lost_after_its_renewal_is_written() {
    Machine::with_each_shell(|machine| {
        with_control_plane(machine);
        machine.done(RENEW.verb("apply"), &FILES);
        for path in ["pki/apiserver.key", "controller-manager.conf"] {
            remove(machine, path);
            assert_eq!(machine.run(RENEW.verb("check"), &FILES).status, 1, "{path}");
            machine.done(RENEW.verb("apply"), &FILES);
            assert_eq!(machine.read(&format!("{LIVE}/{path}")), "new\n");
            machine.done(RENEW.verb("check"), &FILES);
        }
    });
}

#[test]
fn missing_ca_or_key_of_a_ca_is_an_error() {
    let lost = [
        (
            "pki/etcd/ca.crt",
            "/etc/kubernetes/pki/etcd/ca.crt is missing, and kubexm does not issue a CA again\n\
             hint: copy it from another control plane; without one, `kubexm backup restore` rebuilds the cluster",
        ),
        (
            "pki/front-proxy-ca.key",
            "the key of a CA is missing: /etc/kubernetes/pki/front-proxy-ca.key\n\
             hint: put the key of the CA back on this host for the renewal\n",
        ),
    ];
    for (path, expected) in lost {
        Machine::with_each_shell(|machine| {
            with_lost_files(machine);
            remove(machine, path);
            refused(machine, expected);
        });
    }
}

#[test]
fn damaged_ca_is_an_error() {
    Machine::with_each_shell(|machine| {
        with_lost_files(machine);
        machine.write(&format!("{LIVE}/pki/ca.crt"), "damaged");
        refused(
            machine,
            "MISSING! front-proxy-client\ninvalid CA\nhint: if a CA or its key is damaged, copy it from another control plane",
        );
    });
}

/// Asserts that a renewal fails with this error, and that no file has changed.
fn refused(machine: &Machine, expected: &str) {
    let ended = machine.run(RENEW.verb("apply"), &FILES);
    assert!(
        ended.complained.starts_with(expected),
        "{}",
        ended.complained
    );
    assert_eq!(ended.status, 1);
    assert_eq!(machine.read(&format!("{LIVE}/admin.conf")), "old\n");
    assert_eq!(machine.read(&format!("{LIVE}/scheduler.conf")), "damaged");
    assert!(!machine.has("/var/lib/kubexm/renewal"));
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
