//! Scripts that read what is wrong with a host.

use super::machine::Machine;
use crate::doctor::{HOST, LOGS, RUNTIME, WAYS};

/// Returns the lines before the last one, which must be the end.
pub(super) fn lines(printed: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.pop(), Some("end="), "{printed}");
    lines
}

#[test]
fn settings_of_a_kubelet_are_read() {
    Machine::with_each_shell(|machine| {
        machine.write(
            "/var/lib/kubelet/config.yaml",
            "cgroupDriver: systemd\nfailSwapOn: false\nkind: KubeletConfiguration\nresolvConf: \"/etc/own.conf\"\n\
             staticPodURLHeader:\n  Authorization: [UExBTlRFRA==]\n",
        );
        machine.write(
            "/var/lib/kubelet/kubeadm-flags.env",
            "KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.11 --new=1\"\n",
        );
        machine.write("/etc/own.conf", "search x\nnameserver 127.0.0.53\n");
        machine.write("/run/flannel/subnet.env", "FLANNEL_SUBNET=10.244.1.1/24\n");
        machine.write("/etc/kubernetes/manifests/etcd.yaml", "");
        machine.fake("crictl", "printf 'a\\nb\\n'");
        machine.fake("timedatectl", "echo yes");
        let printed = machine.done(HOST, &[]);
        let found = lines(&printed);
        for line in [
            "kubelet=cgroupDriver: systemd",
            "kubelet=failSwapOn: false",
            "kubelet_certificate=the file does not exist",
            "kubelet_conf=missing",
            "kubelet_flags=/var/lib/kubelet/kubeadm-flags.env KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.11 --new=1\"",
            "resolv_conf=/etc/own.conf",
            "nameserver=127.0.0.53",
            "flannel_subnet=10.244.1.1/24",
            "sandboxes=2",
            "empty_manifest=/etc/kubernetes/manifests/etcd.yaml",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        assert!(!printed.contains("UExBTlRFRA"), "{printed}");
        let user = "client-certificate: /client.pem\n    client-key-data: UExBTlRFRA==";
        let kubeconfig = format!("users:\n- user:\n    {user}\n");
        machine.write("/etc/kubernetes/kubelet.conf", &kubeconfig);
        let printed = machine.done(HOST, &[]);
        let found = lines(&printed);
        let file = "kubelet_conf=client-certificate: /client.pem";
        assert!(
            found.contains(&file) && !printed.contains("UExBTlRFRA"),
            "{printed}"
        );
    });
}

#[test]
fn pods_are_counted_only_if_the_runtime_lists_all_of_them() {
    Machine::with_each_shell(|machine| {
        let sandboxes = |crictl: &str| -> Vec<String> {
            machine.fake("crictl", crictl);
            let printed = machine.done(HOST, &[]);
            let all = printed
                .lines()
                .filter(|line| line.starts_with("sandboxes="));
            all.map(str::to_owned).collect()
        };
        assert_eq!(sandboxes("seq 235"), ["sandboxes=235"]);
        assert_eq!(sandboxes(":"), ["sandboxes=0"]);
        assert_eq!(sandboxes("seq 3; exit 1"), [""; 0]);
    });
}

const CONFIG: &str = "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.1'\n\
[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/etc/containerd/certs.d'\n\
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n";

#[test]
fn configuration_of_containerd_is_read_without_the_login() {
    Machine::with_each_shell(|machine| {
        machine.write("/root/config", CONFIG);
        machine.fake("containerd", "cat /root/config");
        machine.fake("crictl", "case $1 in version) echo 'RuntimeVersion:  v2.3.7' ;; inspecti) exit 1 ;; images) : ;; esac");
        machine.fake(
            "kubectl",
            "echo 'x509: certificate signed by unknown authority'; exit 1",
        );
        machine.fake("kubeadm", "echo registry.k8s.io/pause:3.10.2");
        let hosts = "server = \"https://r:5000\"\nca = \"/ca.crt\"\n[host.\"https://r:5000/v2/x\"]\n[header]\nAuthorization = \"Basic UExBTlRFRA==\"\n";
        machine.write("/etc/containerd/certs.d/registry.k8s.io/hosts.toml", hosts);
        std::fs::create_dir_all(machine.at("/etc/containerd/certs.d/empty")).unwrap();
        let printed = machine.done(RUNTIME, &["containerd", "1.36.3", "r:5000"]);
        let found = lines(&printed);
        for line in [
            "cri=ok v2.3.7",
            "sandbox=registry.k8s.io/pause:3.1",
            "sandbox_expected=registry.k8s.io/pause:3.10.2",
            "sandbox_present=no",
            "config_path=/etc/containerd/certs.d",
            "systemd_cgroup=true",
            "inline_mirrors=0",
            "mirror=registry.k8s.io https://r:5000/v2/x",
            "mirror_missing=/etc/containerd/certs.d/empty/hosts.toml",
            "registry=r:5000 /ca.crt x509: certificate signed by unknown authority",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        assert!(!printed.contains("UExBTlRFRA"), "{printed}");
        machine.fake(
            "containerd",
            "echo 'containerd: toml: line 3: expected'; exit 1",
        );
        machine.fake(
            "crictl",
            "echo 'rpc error: unknown service runtime.v1.RuntimeService'; exit 1",
        );
        let printed = machine.done(RUNTIME, &["containerd", "1.36.3"]);
        let found = lines(&printed);
        assert!(
            found.contains(&"config_error=containerd: toml: line 3: expected"),
            "{found:#?}"
        );
        let cause = "cri=no rpc error: unknown service runtime.v1.RuntimeService";
        assert!(found.contains(&cause), "{found:#?}");
    });
}

#[test]
fn connections_end_in_one_of_four_ways() {
    Machine::with_each_shell(|machine| {
        let printed = machine.done(WAYS, &["a/x/1", "127.0.0.1", "1"]);
        let found = lines(&printed);
        // The machine of the test has no network.
        assert!(
            ["way=a/x/1 refused", "way=a/x/1 unreachable"].contains(&found[0]),
            "{found:?}"
        );
        assert_eq!(found.len(), 1);
    });
}

#[test]
fn long_entries_of_logs_stay_valid() {
    Machine::with_each_shell(|machine| {
        let long = "x".repeat(1999);
        // The text ends within an escape.
        machine.write(
            "/root/journal",
            &format!(
                "{{\"__REALTIME_TIMESTAMP\":\"17\",\"__CURSOR\":\"c\",\"MESSAGE\":\"{long}\\u001b {long}\"}}\n\
                 {{ \"MESSAGE\" : \"a \\\"b\\\"\", \"__REALTIME_TIMESTAMP\" : \"18\" }}\n\
                 {{\"MESSAGE\":[{}7],\"__REALTIME_TIMESTAMP\":\"19\"}}\n",
                "97,".repeat(3000)
            ),
        );
        machine.fake(
            "journalctl",
            "case $* in *kubelet*) cat /root/journal ;; esac",
        );
        machine.write(
            "/var/log/pods/kube-system_a_1/a/0.log",
            &format!(
                "{{\"log\":\"{long}\\\\{long}\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05Z\"}}\n\
                 2026-01-02T03:04:05Z stderr F {long}\n"
            ),
        );
        let printed = machine.done(LOGS, &["10", "15", "kubelet"]);
        let found: Vec<&str> = lines(&printed)
            .into_iter()
            .filter_map(|line| line.strip_prefix('|'))
            .collect();
        let entry = |time: &str, message: &str| {
            format!("{{\"__REALTIME_TIMESTAMP\"{time},\"MESSAGE\":{message}}}")
        };
        assert_eq!(found[0], entry(":\"17\"", &format!("\"{long}\"")));
        assert_eq!(found[1], entry(" : \"18\"", "\"a \\\"b\\\"\""));
        let bytes = format!("[{}97]", "97,".repeat(2665));
        assert_eq!(found[2], entry(":\"19\"", &bytes));
        let docker = format!("{{\"log\":\"{long}\\n\",\"time\":\"2026-01-02T03:04:05Z\"}}");
        assert_eq!(found[3], docker);
        assert_eq!(found[4].len(), 2000);
        let calls = machine.calls();
        let mut journal = calls.iter().filter(|call| call.starts_with("journalctl"));
        assert!(journal.all(|call| call.contains(" --all ")), "{calls:?}");
    });
}

#[test]
fn logs_begin_with_the_clock_and_name_their_sources() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "journalctl",
            "case $* in *kubelet*) echo '{\"MESSAGE\":\"m\"}' ;; esac",
        );
        machine.write(
            "/var/log/pods/kube-system_etcd-node1_1/etcd/0.log",
            "2026-01-02T03:04:05Z stderr F x\n",
        );
        machine.write(
            "/var/log/pods/shop_web-0_2/web/0.log",
            "2026-01-02T03:04:05Z stderr F too many open files\n",
        );
        let printed = machine.done(LOGS, &["10", "15", "kubelet"]);
        let found = lines(&printed);
        assert!(found[0].starts_with("now="), "{found:?}");
        let rest = [
            "= unit kubelet",
            "|{\"MESSAGE\":\"m\"}",
            "= unit kernel",
            "= pod kube-system_etcd-node1",
            "|2026-01-02T03:04:05Z stderr F x",
        ];
        assert_eq!(found[1..], rest);
    });
}
