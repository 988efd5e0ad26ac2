//! Settings with which the programs of a host run.

use super::{file, parsed};
use kubexm_kinds::{PluginKind, load_balancer};

const DONE: &str = "/var/lib/kubexm/done";
const PODS: &str = "/etc/kubernetes/manifests";
const UNITS: &str = "/etc/systemd/system";

/// What a host prints.
#[derive(Default, Clone)]
struct Printed(String);

impl Printed {
    /// A node with the marker of this name.
    fn node(marker: &str) -> Self {
        Self::default().present(&format!("{DONE}/{marker}"))
    }

    fn present(mut self, path: &str) -> Self {
        self.0 += &format!("present={path}\n");
        self
    }

    fn file(mut self, path: &str, text: &str) -> Self {
        self.0 += &file("file", path, text);
        self
    }

    fn kubeconfig(mut self, path: &str, text: &str) -> Self {
        self.0 += &file("kubeconfig", path, text);
        self
    }

    fn line(mut self, line: &str) -> Self {
        self.0 += &format!("{line}\n");
        self
    }

    /// Returns the settings as `NAME VALUE`.
    fn applied(&self) -> Vec<String> {
        let facts = parsed(&format!("{}clock=1\n", self.0));
        let settings = facts.applied.iter();
        let lines = settings.flat_map(|(setting, values)| {
            values.iter().map(move |value| format!("{setting} {value}"))
        });
        lines.collect()
    }

    /// Returns the values of one setting.
    fn values(&self, setting: &str) -> Vec<String> {
        let applied = self.applied().into_iter();
        let values = applied.filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == setting).then(|| value.to_owned())
        });
        values.collect()
    }
}

#[test]
fn settings_of_running_programs_are_facts() {
    let files = |host: Printed| {
        host.file(
            &format!("{PODS}/kube-apiserver.yaml"),
            "  - command:\n    - kube-apiserver\n    - --advertise-address=192.0.2.11\n    \
             - --etcd-servers=https://127.0.0.1:2379\n    - --secure-port=6443\n    - --service-cluster-ip-range=10.96.0.0/12\n    \
             image: registry.k8s.io/kube-apiserver:v1.36.3\n",
        )
        .file(
            &format!("{PODS}/kube-controller-manager.yaml"),
            "    - --cluster-cidr=10.244.0.0/16\n    - --cluster-name=my cluster\n",
        )
        .file(
            &format!("{PODS}/etcd.yaml"),
            "    - etcd\n    - --data-dir=/srv/etcd\n",
        )
        .kubeconfig(
            "/etc/kubernetes/admin.conf",
            "    server: https://api.example:6443\n",
        )
        .file(
            "/var/lib/kubelet/config.yaml",
            "clusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\n",
        )
        .file(
            "/var/lib/kubelet/instance-config.yaml",
            "containerRuntimeEndpoint: \"unix:///run/containerd/containerd.sock\"\n",
        )
        .file(
            "/etc/kubexm/flannel.yaml",
            "      \"Backend\": {\"Type\": \"vxlan\"}\n",
        )
        .file(
            "/var/lib/kubelet/kubeadm-flags.env",
            "KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.11 --hostname-override=node1\"\n",
        )
    };
    // Without a marker of kubexm, the files belong to another Kubernetes.
    assert_eq!(files(Printed::default()).applied(), [""; 0]);
    for marker in ["kubeadm-init", "kubeadm-join"] {
        assert_eq!(
            files(Printed::node(marker)).applied(),
            [
                "kubernetesType kubeadm",
                "dnsDomain cluster.local",
                "runtime unix:///run/containerd/containerd.sock",
                "endpoint api.example:6443",
                "network flannel",
                "flannelBackend vxlan",
                "nodeName node1",
                "controlPlane yes",
                "version 1.36.3",
                "serviceCIDR 10.96.0.0/12",
                "advertiseAddress 192.0.2.11",
                "apiServerPort 6443",
                "etcdServers https://127.0.0.1:2379",
                "podCIDR 10.244.0.0/16",
                "clusterName my cluster",
                "etcd kubeadm",
                "etcdDataDir /srv/etcd",
            ]
        );
    }
    // Static pods are those of kubeadm only.
    assert_eq!(
        files(Printed::node("kubernetes-node")).values("controlPlane"),
        [""; 0]
    );
}

#[test]
fn settings_of_units_are_facts() {
    let incomplete = Printed::node("kubernetes-node")
        .line("hostname=Node1")
        .file(
            &format!("{UNITS}/kube-apiserver.service"),
            "ExecStart=/usr/local/bin/kube-apiserver \\\n  --encryption-provider-config=/etc/kubernetes/kubexm/encryption.yaml \
             \\\n  --service-cluster-ip-range=10.96.0.0/12\nRestart=always\n",
        )
        .file(
            &format!("{UNITS}/kube-controller-manager.service"),
            "ExecStart=/usr/local/bin/kube-controller-manager \\\n  \"--cluster-name=a b\" \\\n  --cluster-cidr=10.244.0.0/16\n",
        )
        .line("version=kube-apiserver Kubernetes v1.36.3")
        .line("version=etcd etcd Version: 3.6.16")
        .file(
            "/var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: \"unix:///run/crio/crio.sock\"\n",
        );
    // An install that failed has not written the unit of the kubelet.
    assert_eq!(incomplete.values("nodeName"), [""; 0]);
    // Without its settings, no member of etcd is known.
    assert_eq!(incomplete.values("etcdVersion"), [""; 0]);
    let unit = |flags: &str| {
        let text = format!("ExecStart=/usr/local/bin/kubelet \\\n{flags}  --v=2\n");
        incomplete
            .clone()
            .file(&format!("{UNITS}/kubelet.service"), &text)
    };
    assert_eq!(unit("").values("nodeName"), ["node1"]);
    let complete = unit("  --hostname-override=other \\\n")
        .file(
            "/etc/kubexm/etcd-member/etcd.env",
            "# c\nETCD_DATA_DIR=\"/srv/etcd\"\n",
        )
        .present(&format!("{UNITS}/kubexm-haproxy.service"))
        .present("/etc/kubexm/kube-vip/hosts")
        .present(&format!("{DONE}/encryption-identity"))
        // Without admin.conf, the endpoint of a control plane is unknown.
        .kubeconfig(
            "/etc/kubernetes/kubelet.conf",
            "server: https://192.0.2.11:6443\n",
        );
    assert_eq!(
        complete.applied(),
        [
            "kubernetesType systemd",
            "runtime unix:///run/crio/crio.sock",
            "nodeName other",
            "controlPlane yes",
            "version 1.36.3",
            "serviceCIDR 10.96.0.0/12",
            "encryption encrypted",
            "encryption plain",
            "podCIDR 10.244.0.0/16",
            "clusterName a b",
            "etcd systemd",
            "etcdDataDir /srv/etcd",
            "etcdVersion 3.6.16",
            "balancer haproxy",
            "balancer kube-vip pod",
        ]
    );
}

#[test]
fn flags_have_their_values_with_and_without_quotes() {
    let name = |line: &str| {
        let path = format!("{PODS}/kube-controller-manager.yaml");
        let host = Printed::node("kubeadm-init").file(&format!("{PODS}/kube-apiserver.yaml"), "");
        host.file(&path, &format!("{line}\n    - --cluster-name=later\n"))
            .values("clusterName")
    };
    for (line, expected) in [
        ("    - --cluster-name=a b", "a b"),
        ("    - \"--cluster-name=a: b\"", "a: b"),
        ("    - '--cluster-name=a: \"b\"'", "a: \"b\""),
        ("    - \"--cluster-name=cut off", "cut off"),
        ("--cluster-name=a --other=b", "a"),
        ("  --cluster-name=a\\", "a"),
        ("  '--cluster-name=a b' --other=c", "a b"),
        ("    - --cluster-name=\u{e9}\u{fffd}", "\u{e9}\u{fffd}"),
        ("    - --cluster-names=a", "later"),
    ] {
        assert_eq!(name(line), [expected], "{line}");
    }
    // The first one counts, as for the program that the text starts.
    assert_eq!(name("    - --cluster-name="), [""; 0]);
}

#[test]
fn damaged_files_hide_only_their_own_settings() {
    let api_server = |text: &str| {
        let path = format!("{PODS}/kube-apiserver.yaml");
        let host = Printed::node("kubeadm-init")
            .line("hostname=a")
            .file(&path, text);
        host.applied()
    };
    let always = ["kubernetesType kubeadm", "nodeName a", "controlPlane yes"];
    assert_eq!(api_server(""), always);
    assert_eq!(api_server("\u{0}\u{fffd}: [\n- {"), always);
    // A full disk truncates files.
    let truncated = api_server("spec:\n  - command:\n    - --secure-port=6443\n    - \"--etcd-ser");
    assert_eq!(truncated[3..], ["apiServerPort 6443"]);
}

#[test]
fn version_is_that_of_the_image() {
    let version = |image: &str| {
        let text = format!("    - --x=image: kube-apiserver:v9\n    image: {image}\n");
        let host = Printed::node("kubeadm-join");
        host.file(&format!("{PODS}/kube-apiserver.yaml"), &text)
            .values("version")
    };
    assert_eq!(version("a.example:5000/kube-apiserver:v1.36.3"), ["1.36.3"]);
    assert_eq!(version("\"a/kube-apiserver:v1.36.3\""), ["1.36.3"]);
    assert_eq!(version("a/kube-apiserver:v1.36.3@sha256:00"), ["1.36.3"]);
    assert_eq!(version("a/kube-apiserver@sha256:00"), [""; 0]);
}

#[test]
fn socket_of_the_runtime_has_three_sources_in_order() {
    let (flags, instance, config) = (
        "/var/lib/kubelet/kubeadm-flags.env",
        "/var/lib/kubelet/instance-config.yaml",
        "/var/lib/kubelet/config.yaml",
    );
    let host = Printed::node("kubeadm-join");
    assert_eq!(host.values("runtime"), [""; 0]);
    let host = host.file(config, "containerRuntimeEndpoint: unix:///a\n");
    assert_eq!(host.values("runtime"), ["unix:///a"]);
    let host = host.file(instance, "containerRuntimeEndpoint: 'unix:///b'\n");
    assert_eq!(host.values("runtime"), ["unix:///b"]);
    let empty = host.clone().file(flags, "KUBELET_KUBEADM_ARGS=\"\"\n");
    assert_eq!(empty.values("runtime"), ["unix:///b"]);
    let text =
        "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///c --node-ip=192.0.2.1\"\n";
    assert_eq!(host.file(flags, text).values("runtime"), ["unix:///c"]);
}

#[test]
fn endpoint_is_that_of_administrators_or_of_a_worker() {
    let (admin, kubelet) = ("/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf");
    let worker = Printed::node("kubeadm-join").kubeconfig(kubelet, "    server: https://lb:6443\n");
    assert_eq!(worker.values("endpoint"), ["lb:6443"]);
    let other = worker
        .clone()
        .kubeconfig(admin, "    server: \"https://[fd00::1]:6443\"\n");
    assert_eq!(other.values("endpoint"), ["[fd00::1]:6443"]);
    let control_plane = worker.file(&format!("{PODS}/kube-apiserver.yaml"), "");
    assert_eq!(control_plane.values("endpoint"), [""; 0]);
}

#[test]
fn node_has_the_name_of_its_host_without_a_flag() {
    let host = Printed::node("kubeadm-join").line("hostname=Node1.Example");
    assert_eq!(host.values("nodeName"), ["node1.example"]);
    let text = "KUBELET_KUBEADM_ARGS=\"--hostname-override=a\"\n";
    let host = host.file("/var/lib/kubelet/kubeadm-flags.env", text);
    assert_eq!(host.values("nodeName"), ["a"]);
    let unit = format!("{UNITS}/kubelet.service");
    let host = host.file(&unit, "ExecStart=kubelet --hostname-override=b --v=2\n");
    assert_eq!(host.values("nodeName"), ["b"]);
}

#[test]
fn proxies_as_static_pods_are_facts_on_every_node() {
    let source = "/etc/kubexm/static-pods/kubexm-nginx.yaml";
    let balancers = |host: &Printed| host.values("balancer");
    // `kubeadm init` copies the source to the kubelet of the first control plane.
    let host = Printed::default().present(source);
    assert_eq!(balancers(&host), ["nginx pod"]);
    // The kubelet of a node runs only what its directory contains.
    let host = Printed::node("kubeadm-init").present(source);
    assert_eq!(balancers(&host), [""; 0]);
    let host = host.present(&format!("{PODS}/kubexm-nginx.yaml"));
    assert_eq!(balancers(&host), ["nginx pod"]);
    // Nodes that joined have no source.
    let host = Printed::node("kubeadm-join")
        .present(&format!("{PODS}/kubexm-nginx.yaml"))
        .present(&format!("{PODS}/kubexm-haproxy.yaml"));
    assert_eq!(balancers(&host), ["haproxy pod", "nginx pod"]);
}

#[test]
fn every_load_balancer_and_network_plugin_is_found_by_its_file() {
    let found = |host: Printed| host.values("balancer");
    for own in load_balancer::all_properties() {
        let unit = own.found_by.map(|file| (own.program, file, file));
        let pod = own.pod.map(|pod| (pod.name, pod.on_node, pod.before));
        for (name, on_node, before) in unit.into_iter().chain(pod) {
            assert_eq!(
                found(Printed::node("kubeadm-init").present(on_node)),
                [name]
            );
            assert_eq!(found(Printed::default().present(before)), [name]);
        }
    }
    for kind in PluginKind::ALL {
        let Some(file) = kind.properties().found_by else {
            continue;
        };
        let host = Printed::node("kubeadm-init").present(file);
        assert_eq!(host.values("network"), [kind.name()]);
        assert_eq!(Printed::default().present(file).values("network"), [""; 0]);
    }
}

#[test]
fn transport_of_calico_and_cilium_is_a_fact() {
    // As kubexm renders them, with quotation marks around each text.
    let calico = |ipip: &str, vxlan: &str| {
        format!(
            "              - \"name\": \"CALICO_IPV4POOL_IPIP\"\n                \"value\": \"{ipip}\"\n--\n              \
             - \"name\": \"CALICO_IPV4POOL_VXLAN\"\n                \"value\": \"{vxlan}\"\n"
        )
    };
    let cilium = |mode: &str, protocol: &str| {
        format!("  \"routing-mode\": \"{mode}\"\n  \"tunnel-protocol\": \"{protocol}\"\n")
    };
    let (calico_setting, cilium_setting) = ("calicoEncapsulation", "ciliumRouting");
    for (plugin, text, setting, expected) in [
        ("calico", calico("Never", "Always"), calico_setting, "vxlan"),
        ("calico", calico("Always", "Never"), calico_setting, "ipip"),
        (
            "calico",
            calico("Always", "Always"),
            calico_setting,
            "vxlan",
        ),
        ("calico", calico("Never", "Never"), calico_setting, "none"),
        ("calico", String::new(), calico_setting, "none"),
        (
            "calico",
            "name: CALICO_IPV4POOL_IPIP".to_owned(),
            calico_setting,
            "none",
        ),
        (
            "cilium",
            cilium("tunnel", "geneve"),
            cilium_setting,
            "geneve",
        ),
        (
            "cilium",
            cilium("native", "vxlan"),
            cilium_setting,
            "native",
        ),
        (
            "cilium",
            "  tunnel-protocol: vxlan\n".to_owned(),
            cilium_setting,
            "vxlan",
        ),
    ] {
        let path = format!("/etc/kubexm/{plugin}.yaml");
        let host = Printed::node("kubernetes-node").file(&path, &text);
        assert_eq!(host.values(setting), [expected], "{text}");
    }
}
