//! Scripts of a rollback. The programs are stand-ins.

use super::machine::Machine;
use crate::kubernetes::{FORMER, VERSIONS};

/// The ID of the restore, what runs Kubernetes, and the former version.
pub(super) const KUBEADM: [&str; 3] = ["restore=r1", "kind=kubeadm", "version=1.34.4"];
const SYSTEMD: [&str; 3] = ["restore=r1", "kind=systemd", "version=1.34.4"];

const FILES: [(&str, &str); 7] = [
    (
        "etc/kubernetes/manifests/kube-apiserver.yaml",
        "former server",
    ),
    ("etc/kubernetes/manifests/etcd.yaml", "former etcd"),
    ("etc/kubernetes/scheduler.yaml", "former settings"),
    ("etc/kubernetes/pki/ca.key", "key"),
    ("etc/systemd/system/kube-apiserver.service", "former unit"),
    (
        "etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
        "former drop-in",
    ),
    ("var/lib/kubelet/config.yaml", "former kubelet"),
];

/// Adds a host whose programs have stopped, with files of a newer version and the archive of the former ones.
pub(super) fn with_archive(machine: &Machine) {
    for (path, content) in FILES {
        machine.write(&format!("/root/archive/{path}"), content);
        if !path.contains("/manifests/") {
            machine.write(&format!("/{path}"), "new");
        }
    }
    machine.write("/var/lib/kubexm/cluster", "");
    machine.write("/var/lib/kubexm/upgraded", "1.35.4\n");
    machine.write(
        "/var/lib/kubexm/restore/manifests/kube-apiserver.yaml",
        "new",
    );
    let target = machine.at("/var/lib/kubexm/restore/r1/former.tar");
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    let packed = std::process::Command::new("tar")
        // Without the time, archives of equal files are equal.
        .args(["--mtime=@0", "-cf"])
        .arg(target)
        .arg("-C")
        .arg(machine.at("/root/archive"))
        .args(["./etc", "./var"])
        .status();
    assert!(packed.unwrap().success());
    machine.fake("systemctl", "");
}

#[test]
fn former_files_of_kubeadm_wait_until_the_programs_start() {
    Machine::with_each_shell(|machine| {
        with_archive(machine);
        assert_eq!(machine.run(FORMER.verb("check"), &KUBEADM).status, 1);
        machine.done(FORMER.verb("apply"), &KUBEADM);
        machine.done(FORMER.verb("check"), &KUBEADM);
        let kept = "/var/lib/kubexm/restore/manifests";
        assert_eq!(
            machine.read(&format!("{kept}/kube-apiserver.yaml")),
            "former server"
        );
        assert_eq!(machine.read(&format!("{kept}/etcd.yaml")), "former etcd");
        assert!(!machine.has("/etc/kubernetes/manifests/kube-apiserver.yaml"));
        assert_eq!(
            machine.read("/var/lib/kubelet/config.yaml"),
            "former kubelet"
        );
        assert_eq!(
            machine.read("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"),
            "former drop-in"
        );
        // Certificates can have been renewed since, and the archive has keys.
        assert_eq!(machine.read("/etc/kubernetes/pki/ca.key"), "new");
        assert_eq!(machine.read("/etc/kubernetes/scheduler.yaml"), "new");
        assert!(!machine.has("/var/lib/kubexm/restore/r1/former"));
        assert_eq!(machine.read("/var/lib/kubexm/upgraded"), "1.34.4\n");
        let calls = machine.calls();
        assert_eq!(
            calls,
            [
                "systemctl stop kubelet.service",
                "systemctl daemon-reload",
                "systemctl start kubelet.service"
            ]
        );
    });
}

#[test]
fn former_units_and_settings_are_put_back() {
    Machine::with_each_shell(|machine| {
        with_archive(machine);
        machine.done(FORMER.verb("apply"), &SYSTEMD);
        assert_eq!(
            machine.read("/etc/systemd/system/kube-apiserver.service"),
            "former unit"
        );
        assert_eq!(
            machine.read("/etc/kubernetes/scheduler.yaml"),
            "former settings"
        );
        assert_eq!(machine.read("/var/lib/kubexm/upgraded"), "1.35.4\n");
        // A host with a member of etcd alone has no kubelet.
        machine.calls();
        machine.done(
            FORMER.verb("apply"),
            &["restore=r1", "kind=none", "version=1.34.4"],
        );
        assert_eq!(machine.calls(), ["systemctl daemon-reload"]);
    });
}

#[test]
fn versions_of_programs_and_pods_are_printed() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubeadm", "echo v1.35.4");
        machine.fake("kubelet", "echo Kubernetes v1.34.4");
        machine.fake("systemctl", "echo 0");
        machine.fake("kube-proxy", "exit 1");
        machine.write(
            "/etc/kubernetes/manifests/kube-apiserver.yaml",
            "    image: registry.k8s.io/kube-apiserver:v1.34.4\n",
        );
        machine.write("/var/lib/kubexm/cordoned-node2", "");
        assert_eq!(
            machine.done(VERSIONS, &[]),
            "program kubeadm v1.35.4\nprogram kubelet Kubernetes v1.34.4\n\
             pod kube-apiserver     image: registry.k8s.io/kube-apiserver:v1.34.4\ncordoned node2\nend\n"
        );
    });
}
