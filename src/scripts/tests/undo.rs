//! The list of scripts that receipts can name.

use std::collections::BTreeSet;

use crate::undo::{self, Parameter, directories, protected};

/// Receipts on hosts have these names. A name can be added; a reset of an older cluster needs all others.
#[test]
fn names_of_undo_scripts_never_disappear() {
    let names: BTreeSet<&str> = undo::SCRIPTS.iter().map(|undo| undo.script.name).collect();
    assert_eq!(names.len(), undo::SCRIPTS.len());
    for name in [
        "etcd/folder-restore.sh",
        "kubeadm/reset.sh",
        "kubernetes/conformance.sh",
        "kubernetes/kubelet-surroundings-remove.sh",
        "load-balancer/address-remove.sh",
        "load-balancer/join-proxy.sh",
        "load-balancer/kube-vip-services.sh",
        "load-balancer/unmask-services.sh",
        "markers/remove.sh",
        "network/remove-leftovers.sh",
        "os/hook-end.sh",
        "os/hostname-restore.sh",
        "os/modules-unload.sh",
        "os/network-manager-forget.sh",
        "os/resolvers-restore.sh",
        "os/swap-on.sh",
        "os/sysctl-restore.sh",
        "os/time-servers-restore.sh",
        "os/time-zone-restore.sh",
        "os/user-remove.sh",
        "packages/apt-remove.sh",
        "packages/dnf-remove.sh",
        "runtime/stop-crio-scopes.sh",
        "runtime/stop-pods.sh",
        "steps/block-edit.sh",
        "steps/parents-remove.sh",
        "steps/run-to-completion-end.sh",
        "systemd/unit-stop.sh",
    ] {
        assert!(names.contains(name), "{name}");
    }
    assert!(undo::find("steps/run-to-completion.sh").is_none());
    assert!(undo::SCRIPTS.iter().all(|undo| undo.script.verb.is_none()));
}

#[test]
fn arguments_have_types() {
    let accepts = |name: &str, arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        undo::find(name).unwrap().accepts(&arguments)
    };
    assert!(accepts("systemd/unit-stop.sh", &["kubelet.service"]));
    assert!(accepts(
        "systemd/unit-stop.sh",
        &["kubexm-registry.service"]
    ));
    for wrong in ["sshd.service", "-kubelet", "kubelet.service; reboot", ""] {
        assert!(!accepts("systemd/unit-stop.sh", &[wrong]), "{wrong}");
    }
    assert!(!accepts("systemd/unit-stop.sh", &[]));
    assert!(!accepts(
        "systemd/unit-stop.sh",
        &["kubelet.service", "etcd.service"]
    ));
    assert!(accepts(
        "packages/apt-remove.sh",
        &["socat", "libxtables12", "conntrack"]
    ));
    assert!(!accepts(
        "packages/apt-remove.sh",
        &["socat", "openssh-server"]
    ));
    assert!(!accepts("packages/apt-remove.sh", &["--force-all"]));
    assert!(accepts("load-balancer/address-remove.sh", &["fd00::1"]));
    assert!(!accepts("load-balancer/address-remove.sh", &["$(reboot)"]));
    let services = "/etc/kubernetes/manifests/kube-vip-services.yaml";
    let stop = |last: &str| {
        accepts(
            "load-balancer/kube-vip-services.sh",
            &["stop", services, last],
        )
    };
    assert!(stop("192.0.2.10"));
    assert!(!stop("eth0"));
    assert!(accepts(
        "kubeadm/reset.sh",
        &["unix:///run/containerd/containerd.sock"]
    ));
    assert!(!accepts("kubeadm/reset.sh", &["unix:///run/../etc/x"]));
    assert!(accepts(
        "steps/block-edit.sh",
        &["/etc/hosts", "remove", "ended"]
    ));
    assert!(!accepts(
        "steps/block-edit.sh",
        &["/etc/hosts", "put", "evil"]
    ));
    assert!(!accepts(
        "steps/block-edit.sh",
        &["/etc/shadow", "remove", "absent"]
    ));
    assert!(!accepts("network/remove-leftovers.sh", &["everything"]));
    assert!(accepts("steps/parents-remove.sh", &["/srv/a/b", "/srv/a"]));
    assert!(!accepts("steps/parents-remove.sh", &["/srv/a", "/srv"]));
    assert!(accepts("kubernetes/conformance.sh", &["clear"]));
    assert!(!accepts("kubernetes/conformance.sh", &["start"]));
    assert!(accepts("os/user-remove.sh", &["etcd"]));
    assert!(!accepts("os/user-remove.sh", &["root"]));
}

/// `steps/directory-remove.sh` has its own list, because it runs where a mistake has its effect.
#[test]
fn directories_of_package_managers_are_protected() {
    for own in kubexm_kinds::PackageManager::all_properties() {
        for path in own.directories {
            assert!(protected::is_protected_file(path), "{path}");
            let pattern = format!(" {path}* ");
            let text = crate::steps::DIRECTORY_REMOVE
                .text
                .replace(['(', ')', '|'], " ");
            let text = text.replace('\n', " ");
            assert!(text.contains(&pattern), "steps/directory-remove.sh: {path}");
        }
        for name in own.essential {
            assert!(
                !Parameter::Package.accepts(name.trim_end_matches('*')),
                "{name}"
            );
        }
    }
}

/// A reset finds what kinds leave, and nothing else.
#[test]
fn directories_and_units_of_kinds_are_known() {
    use kubexm_kinds::{PluginKind, RuntimeKind};
    let of_runtimes = RuntimeKind::all_properties().flat_map(|own| own.directories);
    let of_plugins = PluginKind::all_properties().flat_map(|own| own.directories);
    for directory in of_runtimes.chain(of_plugins) {
        // Two kinds with the same directory agree.
        let path = directory.path;
        assert_eq!(directories::content(path), directory.content, "{path}");
    }
    for unit in PluginKind::all_properties().filter_map(|own| own.unit) {
        assert!(Parameter::Unit.accepts(unit), "{unit}");
    }
    assert!(Parameter::Unit.accepts("docker.service") && !Parameter::Unit.accepts("sshd.service"));
    assert!(Parameter::Owner.accepts("calico") && !Parameter::Owner.accepts("docker"));
    for file in ["bin/calico-ipam", "bin/bridge"] {
        assert!(directories::content("/opt/cni").patterns.contains(&file));
    }
    let patterns = directories::content("/etc/cni").patterns;
    assert!(patterns.contains(&"net.d/calico-tls") && patterns.ends_with(&["net.d/"]));
}

#[test]
fn system_paths_are_protected() {
    for path in [
        "/",
        "/etc",
        "/etc/shadow",
        "/etc/ssh/sshd_config",
        "/usr/bin/env",
        "/lib/x",
        "/root/.ssh",
        "/var/lib/dpkg/status",
    ] {
        assert!(protected::is_protected_file(path), "{path}");
    }
    for path in [
        "/etc/kubernetes/admin.conf",
        "/usr/local/bin/kubelet",
        "/opt/cni/bin/bridge",
        "/etc/default/kubelet",
        "/etc/hosts",
        "/etc/sshd",
    ] {
        assert!(!protected::is_protected_file(path), "{path}");
    }
    for path in [
        "/home/anna",
        "/var/lib",
        "/usr/local/bin",
        "/lib/modules/6.1",
        "/etc/systemd/system",
        "/srv",
    ] {
        assert!(protected::is_protected_directory(path), "{path}");
    }
    for path in [
        "/srv/data",
        "/data",
        "/home/anna/data",
        "/lib/modules",
        "/usr/libexec/kubernetes",
        "/var/lib/etcd",
    ] {
        assert!(Parameter::Directory.accepts(path), "{path}");
    }
    assert!(!Parameter::Directory.accepts("/srv/../etc"));
}

/// The reset of a directory must not delete what its patterns cannot name.
#[test]
fn patterns_stay_below_their_directory() {
    for path in [
        "/lib/modules",
        "/run/netns",
        "/etc/kubernetes",
        "/data",
        "/srv/etcd/member",
        "/run/containerd",
    ] {
        let content = directories::content(path);
        for pattern in content.patterns {
            assert!(
                !pattern.starts_with('/') && !pattern.contains(".."),
                "{path}: {pattern}"
            );
            assert!(
                *pattern != "*" && !pattern.contains("$"),
                "{path}: {pattern}"
            );
        }
        assert_eq!(content.patterns.contains(&"."), path == "/run/containerd");
    }
    assert!(directories::content("/lib/modules").patterns.is_empty());
    // Kubernetes' data is not at a path that a user chose, and a directory below /run is not one of a program.
    assert!(directories::is_known("/var/lib/kubelet") && !directories::is_known("/data"));
    assert!(
        !directories::content("/run/NetworkManager")
            .patterns
            .contains(&".")
    );
}

#[test]
fn essential_packages_of_earlier_receipts_stay() {
    let apt = "ce8fc4d8b30554e97ff4aee7c4b5e4dba6e195aea02d5024871089091534adab";
    let names = ["socat", "dbus-user-session", "systemd-resolved", "ipset"].map(str::to_owned);
    let replaced = undo::earlier::replacement(apt, &names).unwrap();
    assert_eq!(replaced[0].0.script.name, "packages/apt-remove.sh");
    assert_eq!(replaced[0].1, ["socat", "ipset"]);
    assert!(replaced[0].0.accepts(&replaced[0].1));
}
