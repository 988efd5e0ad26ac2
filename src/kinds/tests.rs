//! What hosts of running clusters have. Other tests take these values from the constants, so that only this one shows that a
//! constant is wrong.

use crate::load_balancer;
use crate::{PluginKind, RuntimeKind};

#[test]
fn runtimes_have_the_sockets_and_files_of_their_projects() {
    let all = RuntimeKind::ALL.iter().map(|kind| {
        let own = kind.properties();
        let units = own.units().join(" ");
        [
            kind.name(),
            own.socket,
            own.found_by,
            own.config,
            own.data_directory,
        ]
        .map(str::to_owned)
        .into_iter()
        .chain([units])
        .collect::<Vec<_>>()
    });
    let expected = [
        [
            "containerd",
            "unix:///run/containerd/containerd.sock",
            "/run/containerd/containerd.sock",
            "/etc/containerd/config.toml",
            "/var/lib/containerd",
            "containerd.service",
        ],
        [
            "cri-o",
            "unix:///run/crio/crio.sock",
            "/run/crio/crio.sock",
            "/etc/crio/crio.conf.d/10-kubexm.conf",
            "/var/lib/containers/storage",
            "crio.service",
        ],
        [
            "docker",
            "unix:///run/cri-dockerd.sock",
            "/run/docker.sock",
            "/etc/docker/daemon.json",
            "/var/lib/docker",
            "docker.service cri-dockerd.service",
        ],
        [
            "isulad",
            "unix:///run/isulad.sock",
            "/run/isulad.sock",
            "/etc/isulad/daemon.json",
            "/var/lib/isulad",
            "isulad.service",
        ],
    ];
    assert_eq!(all.collect::<Vec<_>>(), expected);
}

#[test]
fn plugins_are_found_by_their_files() {
    let all = PluginKind::ALL.iter().map(|kind| {
        let own = kind.properties();
        (kind.name(), own.found_by, own.cni_file)
    });
    let expected = [
        (
            "flannel",
            Some("/etc/kubexm/flannel.yaml"),
            Some("10-flannel."),
        ),
        (
            "calico",
            Some("/etc/kubexm/calico.yaml"),
            Some("10-calico."),
        ),
        (
            "cilium",
            Some("/etc/kubexm/cilium.yaml"),
            Some("05-cilium."),
        ),
        (
            "bridge",
            Some("/etc/cni/net.d/10-kubexm-bridge.conflist"),
            Some("10-kubexm-"),
        ),
        ("none", None, None),
    ];
    assert_eq!(all.collect::<Vec<_>>(), expected);
}

#[test]
fn load_balancers_are_found_by_their_files() {
    let all = load_balancer::all_properties().map(|own| {
        let pod = own.pod.map(|pod| (pod.on_node, pod.before));
        (own.program, own.found_by, own.config, pod)
    });
    let expected = [
        (
            "keepalived",
            Some("/etc/systemd/system/kubexm-keepalived.service"),
            Some("/etc/kubexm/*/keepalived.conf"),
            None,
        ),
        (
            "haproxy",
            Some("/etc/systemd/system/kubexm-haproxy.service"),
            Some("/etc/kubexm/*/haproxy.cfg"),
            Some((
                "/etc/kubernetes/manifests/kubexm-haproxy.yaml",
                "/etc/kubexm/static-pods/kubexm-haproxy.yaml",
            )),
        ),
        (
            "nginx",
            Some("/etc/systemd/system/kubexm-nginx.service"),
            Some("/etc/kubexm/*/nginx.conf"),
            Some((
                "/etc/kubernetes/manifests/kubexm-nginx.yaml",
                "/etc/kubexm/static-pods/kubexm-nginx.yaml",
            )),
        ),
        (
            "kube-vip",
            None,
            None,
            Some(("/etc/kubexm/kube-vip/hosts", "/etc/kubexm/kube-vip/hosts")),
        ),
    ];
    assert_eq!(all.collect::<Vec<_>>(), expected);
}
