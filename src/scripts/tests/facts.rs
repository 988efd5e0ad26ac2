//! The script that prints the facts of a host.

use super::machine::Machine;
use crate::host;

#[test]
fn read_only_file_systems_are_facts() {
    Machine::with_each_shell(|machine| {
        for folder in ["/etc", "/usr/local", "/opt", "/root/fake"] {
            let _ = std::fs::create_dir_all(machine.at(folder));
        }
        let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
        // The directory that stands for a machine shares /usr with this one, read-only.
        let of_usr = "readonly=/usr/local\n";
        assert_eq!(
            printed.replace(of_usr, "").find("readonly="),
            None,
            "{printed}"
        );
        let before = "mount --bind /opt /opt\nmount -o remount,bind,ro /opt";
        let printed = machine.run_after(before, host::FACTS, &["/"], "").printed;
        assert!(printed.contains("\nreadonly=/opt\n"), "{printed}");
    });
}

#[test]
fn file_systems_of_paths_have_inodes_and_can_be_read_only() {
    Machine::with_each_shell(|machine| {
        for folder in ["/srv/data", "/srv/other"] {
            let _ = std::fs::create_dir_all(machine.at(folder));
        }
        let before = "mount -t tmpfs -o nr_inodes=100 none /srv/data\nmkdir /srv/data/a\nmount -o remount,ro /srv/data";
        let paths = ["/srv/data/a/b c", "/srv/other"];
        let printed = machine.run_after(before, host::FACTS, &paths, "").printed;
        let lines = |key: &str| -> Vec<&str> {
            let lines = printed.lines().filter_map(|line| line.strip_prefix(key));
            lines.collect()
        };
        // The root of the file system is an inode, too.
        assert!(
            lines("inodes=").contains(&"98 100 /srv/data/a/b c"),
            "{printed}"
        );
        assert_eq!(lines("disk_readonly="), ["/srv/data/a/b c"], "{printed}");
    });
}

#[test]
fn file_systems_that_are_not_mounted_are_facts() {
    Machine::with_each_shell(|machine| {
        for folder in [
            "/srv/data",
            "/srv/mounted",
            "/srv/linked",
            "/srv/gone/below",
        ] {
            let _ = std::fs::create_dir_all(machine.at(folder));
        }
        let fstab = "# /dev/sdz /srv/mounted/comment ext4 defaults 0 2\n\
                     /dev/sdb /srv/data/ ext4 defaults,nofail 0 2\n\
                     /dev/sdc /srv/mounted xfs defaults 0 2\n\
                     /dev/sdd /srv/by-hand ext4 rw,noauto 0 0\n\
                     /dev/sdf /srv/gone ext4 defaults 0 2\n\
                     /dev/sde none swap sw 0 0\n";
        machine.write("/etc/fstab", fstab);
        let before = "mount -t tmpfs none /srv/mounted\nmount -t tmpfs none /srv/gone/below\nln -sf /srv/data/of-etcd /srv/linked/etcd";
        let paths = [
            "/srv/data",
            "/srv/data/a b",
            "/srv/database",
            "/srv/mounted/a",
            "/srv/mounted/comment",
            "/srv/by-hand/a",
            "/srv/linked/etcd",
            "/srv/gone/below/a",
        ];
        let printed = machine.run_after(before, host::FACTS, &paths, "").printed;
        let lines = printed.lines();
        let lines: Vec<&str> = lines
            .filter_map(|line| line.strip_prefix("unmounted="))
            .collect();
        let expected = [
            "/srv/data /srv/data",
            "/srv/data /srv/data/a b",
            "/srv/data /srv/linked/etcd",
        ];
        assert_eq!(lines, expected, "{printed}");
        machine.write("/etc/fstab", "");
        let printed = machine.run_after(before, host::FACTS, &paths, "").printed;
        assert!(!printed.contains("unmounted="), "{printed}");
    });
}

#[test]
fn certificates_of_the_kubelet_are_facts_without_their_keys() {
    // "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n" in base64.
    const ENCODED: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllXSmoKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    let text = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n\
                -----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n";
    Machine::with_each_shell(|machine| {
        let folder = "/var/lib/kubelet/pki";
        let rotated = || -> Vec<String> {
            let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
            let lines = printed.lines().filter(|line| line.starts_with("rotated="));
            lines.map(str::to_owned).collect()
        };
        let line = |name: &str| format!("rotated={folder}/{name} {ENCODED}");
        machine.write(&format!("{folder}/kubelet-client-current.pem"), text);
        machine.write(&format!("{folder}/kubelet.crt"), text);
        let client = line("kubelet-client-current.pem");
        assert_eq!(rotated(), [client.clone(), line("kubelet.crt")]);
        machine.write(&format!("{folder}/kubelet-server-current.pem"), text);
        assert_eq!(rotated(), [client, line("kubelet-server-current.pem")]);
    });
}

/// Returns the lines of the script of facts that begin with one of these keys.
fn lines_of(machine: &Machine, keys: &[&str]) -> Vec<String> {
    let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
    let lines = printed.lines().filter(|line| {
        let key = line.split_once('=').map(|(key, _)| key);
        key.is_some_and(|key| keys.contains(&key))
    });
    lines.map(str::to_owned).collect()
}

/// The crate kubexm-host decodes the certificate of a kubeconfig itself, because it can be damaged.
#[test]
fn damaged_kubeconfigs_and_strange_names_are_facts() {
    Machine::with_each_shell(|machine| {
        let folder = "/etc/kubernetes";
        for (name, text) in [
            (
                "admin",
                "    client-certificate-data: YWJj\n    client-key-data: c2VjcmV0\n",
            ),
            ("damaged", "    client-certificate-data: a\\nb c\n"),
            (
                "kubelet",
                "    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n",
            ),
            ("old admin", "    client-certificate-data: \"YWJj\"\n"),
            ("two\nlines", "    client-certificate-data: YWJj\n"),
        ] {
            machine.write(&format!("{folder}/{name}.conf"), text);
        }
        for name in ["apiserver old.crt", "back\\nslash.crt", "line\nend.crt"] {
            machine.write(&format!("{folder}/pki/{name}"), "abc");
        }
        assert_eq!(
            lines_of(machine, &["certificate", "kubeconfig", "end.crt YWJj"]),
            [
                format!("certificate={folder}/pki/apiserver old.crt YWJj"),
                format!("certificate={folder}/pki/back\\nslash.crt YWJj"),
                format!("kubeconfig={folder}/admin.conf WVdKag=="),
                // The letters, and not a line end.
                format!("kubeconfig={folder}/damaged.conf YVxuYiBj"),
                format!("kubeconfig={folder}/old admin.conf WVdKag=="),
            ]
        );
    });
}

#[test]
fn link_of_the_kubelet_without_its_file_is_a_fact_without_content() {
    Machine::with_each_shell(|machine| {
        let path = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        let rotated = || lines_of(machine, &["rotated"]);
        assert_eq!(rotated(), [""; 0]);
        machine.write("/var/lib/kubelet/pki/other", "");
        let gone = "/var/lib/kubelet/pki/kubelet-client-2026-01-31-12-00-00.pem";
        std::os::unix::fs::symlink(gone, machine.at(path)).unwrap();
        assert_eq!(rotated(), [format!("rotated={path} ")]);
    });
}

/// Returns the settings that the script of facts prints.
fn applied(machine: &Machine) -> Vec<String> {
    let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("applied="));
    lines.map(str::to_owned).collect()
}

#[test]
fn settings_of_running_programs_are_facts() {
    Machine::with_each_shell(|machine| {
        // Without a marker of kubexm, the files belong to another Kubernetes.
        let manifests = "/etc/kubernetes/manifests";
        machine.write(
            &format!("{manifests}/kube-apiserver.yaml"),
            "  - command:\n    - kube-apiserver\n    - --advertise-address=192.0.2.11\n    \
             - --etcd-servers=https://127.0.0.1:2379\n    - --service-cluster-ip-range=10.96.0.0/12\n    \
             image: registry.k8s.io/kube-apiserver:v1.36.3\n",
        );
        machine.write(
            &format!("{manifests}/kube-controller-manager.yaml"),
            "    - --cluster-cidr=10.244.0.0/16\n    - --cluster-name=my cluster\n",
        );
        machine.write(&format!("{manifests}/etcd.yaml"), "kind: Pod\n");
        machine.write(
            "/etc/kubernetes/admin.conf",
            "    server: https://api.example:6443\n",
        );
        machine.write(
            "/var/lib/kubelet/config.yaml",
            "clusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\n",
        );
        machine.write(
            "/var/lib/kubelet/instance-config.yaml",
            "containerRuntimeEndpoint: \"unix:///run/containerd/containerd.sock\"\n",
        );
        machine.write(
            "/etc/kubexm/flannel.yaml",
            "      \"Backend\": {\"Type\": \"vxlan\"}\n",
        );
        machine.write(
            "/var/lib/kubelet/kubeadm-flags.env",
            "KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.11 --hostname-override=node1\"\n",
        );
        assert_eq!(applied(machine), [""; 0]);
        machine.write("/var/lib/kubexm/done/kubeadm-init", "");
        assert_eq!(
            applied(machine),
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
                "etcdServers https://127.0.0.1:2379",
                "podCIDR 10.244.0.0/16",
                "clusterName my cluster",
                "etcd kubeadm",
            ]
        );
    });
}

#[test]
fn settings_of_units_are_facts() {
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/kubexm/done/kubernetes-node", "");
        let units = "/etc/systemd/system";
        machine.write(
            &format!("{units}/kube-apiserver.service"),
            "ExecStart=/usr/local/bin/kube-apiserver \\\n  --encryption-provider-config=/etc/kubernetes/kubexm/encryption.yaml \
             \\\n  --service-cluster-ip-range=10.96.0.0/12\nRestart=always\n",
        );
        machine.write(
            &format!("{units}/kube-controller-manager.service"),
            "ExecStart=/usr/local/bin/kube-controller-manager \\\n  \"--cluster-name=a b\" \\\n  --cluster-cidr=10.244.0.0/16\n",
        );
        machine.fake("kube-apiserver", "echo Kubernetes v1.36.3");
        machine.fake("etcd", "echo etcd Version: 3.6.16; echo Git SHA: 1");
        machine.write(
            "/var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: \"unix:///run/crio/crio.sock\"\n",
        );
        // An install that failed has not written the unit of the kubelet.
        let incomplete = applied(machine);
        assert!(
            !incomplete.iter().any(|fact| fact.starts_with("nodeName")),
            "{incomplete:?}"
        );
        machine.write(
            &format!("{units}/kubelet.service"),
            "ExecStart=/usr/local/bin/kubelet \\\n  --hostname-override=node1 \\\n  --v=2\n",
        );
        machine.write(
            "/etc/kubexm/etcd-member/etcd.env",
            "# c\nETCD_DATA_DIR=/srv/etcd\n",
        );
        machine.write(&format!("{units}/kubexm-haproxy.service"), "");
        machine.write("/etc/kubexm/kube-vip/hosts", "");
        // Without admin.conf, the endpoint of a control plane is unknown.
        machine.write(
            "/etc/kubernetes/kubelet.conf",
            "server: https://192.0.2.11:6443\n",
        );
        assert_eq!(
            applied(machine),
            [
                "kubernetesType systemd",
                "runtime unix:///run/crio/crio.sock",
                "nodeName node1",
                "controlPlane yes",
                "version 1.36.3",
                "serviceCIDR 10.96.0.0/12",
                "encryption encrypted",
                "podCIDR 10.244.0.0/16",
                "clusterName a b",
                "etcd systemd",
                "etcdDataDir /srv/etcd",
                "etcdVersion 3.6.16",
                "balancer haproxy",
                "balancer kube-vip pod",
            ]
        );
    });
}

#[test]
fn proxies_as_static_pods_are_facts_on_every_node() {
    Machine::with_each_shell(|machine| {
        let balancers = || -> Vec<String> {
            let all = applied(machine).into_iter();
            all.filter(|line| line.starts_with("balancer ")).collect()
        };
        let source = "/etc/kubexm/static-pods/kubexm-nginx.yaml";
        machine.write(source, "kind: Pod\n");
        // `kubeadm init` copies the source to the kubelet of the first control plane.
        assert_eq!(balancers(), ["balancer nginx pod"]);
        machine.write("/var/lib/kubexm/done/kubeadm-init", "");
        // The kubelet of a node runs only what its directory contains.
        assert_eq!(balancers(), [""; 0]);
        let pods = "/etc/kubernetes/manifests";
        machine.write(&format!("{pods}/kubexm-nginx.yaml"), "kind: Pod\n");
        assert_eq!(balancers(), ["balancer nginx pod"]);
        // Nodes that joined have no source.
        machine.write("/var/lib/kubexm/done/kubeadm-join", "");
        for path in [source, "/var/lib/kubexm/done/kubeadm-init"] {
            std::fs::remove_file(machine.at(path)).unwrap();
        }
        machine.write(&format!("{pods}/kubexm-haproxy.yaml"), "kind: Pod\n");
        assert_eq!(balancers(), ["balancer haproxy pod", "balancer nginx pod"]);
    });
}

#[test]
fn transport_of_calico_and_cilium_is_a_fact() {
    // As kubexm renders them, with quotation marks around each text.
    let calico = |ipip: &str, vxlan: &str| {
        format!(
            "              - \"name\": \"CALICO_IPV4POOL_IPIP\"\n                \"value\": \"{ipip}\"\n              \
             - \"name\": \"CALICO_IPV4POOL_VXLAN\"\n                \"value\": \"{vxlan}\"\n"
        )
    };
    let cilium = |mode: &str, protocol: &str| {
        format!(
            "\"data\":\n  \"routing-mode\": \"{mode}\"\n  \"tunnel-protocol\": \"{protocol}\"\n"
        )
    };
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/kubexm/done/kubernetes-node", "");
        for (file, text, expected) in [
            (
                "calico",
                calico("Never", "Always"),
                "calicoEncapsulation vxlan",
            ),
            (
                "calico",
                calico("Always", "Never"),
                "calicoEncapsulation ipip",
            ),
            (
                "calico",
                calico("Never", "Never"),
                "calicoEncapsulation none",
            ),
            ("cilium", cilium("tunnel", "geneve"), "ciliumRouting geneve"),
            ("cilium", cilium("native", "vxlan"), "ciliumRouting native"),
        ] {
            machine.write(&format!("/etc/kubexm/{file}.yaml"), &text);
            let found = applied(machine);
            assert!(found.iter().any(|line| line == expected), "{found:?}");
        }
    });
}

#[test]
fn login_of_a_registry_is_a_fact_only_if_kubexm_runs_one() {
    Machine::with_each_shell(|machine| {
        let fact = |config: Option<&str>| {
            if let Some(text) = config {
                machine.write("/etc/kubexm/registry/config.yml", text);
            }
            let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
            let line = printed
                .lines()
                .find_map(|line| line.strip_prefix("registry_login="));
            line.map(str::to_owned)
        };
        assert_eq!(fact(None), None);
        assert_eq!(fact(Some("version: 0.1\n# auth:\n")).unwrap(), "no");
        assert_eq!(
            fact(Some("version: 0.1\nauth:\n  htpasswd:\n")).unwrap(),
            "yes"
        );
    });
}

#[test]
fn certificate_of_an_authority_is_printed_once() {
    Machine::with_each_shell(|machine| {
        let (pki, own) = ("/etc/kubernetes/pki", "/etc/kubexm");
        for path in [
            format!("{pki}/ca.crt"),
            format!("{pki}/sa.pub"),
            format!("{pki}/apiserver.crt"),
            format!("{own}/registry-ca.crt"),
            format!("{own}/registry/tls.crt"),
        ] {
            machine.write(&path, "a");
        }
        let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
        let lines = printed
            .lines()
            .filter(|line| line.starts_with("authority=") || line.starts_with("certificate="));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "authority=/etc/kubernetes/pki/ca.crt YQ==",
                "authority=/etc/kubernetes/pki/sa.pub YQ==",
                "authority=/etc/kubexm/registry-ca.crt YQ==",
                "certificate=/etc/kubernetes/pki/apiserver.crt YQ==",
                "certificate=/etc/kubexm/registry/tls.crt YQ==",
            ]
        );
    });
}
