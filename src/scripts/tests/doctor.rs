//! Scripts that read what is wrong with a host.

use super::machine::Machine;
use crate::doctor::{CLUSTER, HOST, LOGS, RUNTIME, SUPPORT, WAYS};

/// Returns the lines before the last one, which must be the end.
fn lines(printed: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.pop(), Some("end="), "{printed}");
    lines
}

#[test]
fn settings_of_a_kubelet_are_read() {
    Machine::with_each_shell(|machine| {
        machine.write(
            "/var/lib/kubelet/config.yaml",
            "cgroupDriver: systemd\nfailSwapOn: \"false\"\nresolvConf: /etc/own.conf\n",
        );
        machine.write(
            "/var/lib/kubelet/kubeadm-flags.env",
            "KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.11 --new=1\"\n",
        );
        machine.write("/etc/own.conf", "search x\nnameserver 127.0.0.53\n");
        machine.write(
            "/etc/fstab",
            "#/dev/a none swap sw 0 0\n/dev/b none swap sw 0 0\n",
        );
        machine.write("/etc/cni/net.d/10-flannel.conflist", "{}");
        machine.write("/run/flannel/subnet.env", "FLANNEL_SUBNET=10.244.1.1/24\n");
        machine.write("/etc/kubernetes/manifests/etcd.yaml", "");
        machine.fake("crictl", "printf 'a\\nb\\n'");
        machine.fake("timedatectl", "echo yes");
        machine.fake(
            "iptables-save",
            "echo '-A INPUT -p tcp --dport 10250 -j DROP'; echo '-A KUBE-FIREWALL -j DROP'",
        );
        let printed = machine.done(HOST, &["/var/lib/containerd"]);
        let found = lines(&printed);
        for line in [
            "kubelet=cgroupDriver systemd",
            "kubelet=failSwapOn false",
            "kubelet_certificate=the file does not exist",
            "kubelet_conf=missing",
            "kubelet_flags=/var/lib/kubelet/kubeadm-flags.env KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.11 --new=1\"",
            "resolv_conf=/etc/own.conf",
            "nameserver=127.0.0.53",
            "swap_fstab=/dev/b",
            "cni_file=/etc/cni/net.d/10-flannel.conflist",
            "flannel_subnet=10.244.1.1/24",
            "sandboxes=2",
            "rule=-A INPUT -p tcp --dport 10250 -j DROP",
            "empty_manifest=/etc/kubernetes/manifests/etcd.yaml",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        assert!(
            !printed.contains("KUBE-FIREWALL") && !printed.contains("/dev/a"),
            "{printed}"
        );
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
fn questions_without_an_answer_of_the_api_are_named() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "case $* in *pods*kube-dns*) echo 'Unable to connect' >&2; exit 1 ;; *apiservices*) printf 'v1.\\t/\\t[]\\n' ;; esac");
        let printed = machine.done(CLUSTER, &["https://192.0.2.11:6443", "kubeadm"]);
        let found = lines(&printed);
        assert!(
            found.contains(&"failed=dns Unable to connect"),
            "{found:#?}"
        );
        assert!(!printed.contains("apiservice="), "{printed}");
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

/// Secrets of every kind that hosts have, each with the word PLANTED or its base64.
const SECRETS: &str = "keep this line
-----BEGIN RSA PRIVATE KEY-----
PLANTED1
-----END RSA PRIVATE KEY-----
  client-key-data: UExBTlRFRA==
  password: PLANTED3
password=PLANTED4 other
\"token\": \"PLANTED5\",
Authorization = \"Basic UExBTlRFRA==\"
Nov 24 kubelet: Authorization: Bearer PLANTED7abc
join --token abcdef.planted890123456 --x
run --password PLANTED8 --y
http_proxy=http://user:PLANTED9@proxy:3128
LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpQTEFOVEVE
eyJhbGciOiJSUzI1NiIsPLANTED.eyJpc3MiOiJPLANTED.c2lnPLANTED
    - name: DB_PASSWORD
      value: PLANTED11
    - name: DB_HOST
      value: db.example
    auth_pass PLANTED12
        secret: UExBTlRFRA==
{\"env\":\"x\",\"apiKey\":\"PLANTED14\"}
--oidc-client-secret=PLANTED15
image: registry.k8s.io/kube-apiserver:v1.36.3
- --service-account-signing-key-file=/etc/kubernetes/pki/sa.key
";

#[test]
fn planted_secrets_do_not_leave_a_host() {
    Machine::with_each_shell(|machine| {
        for path in [
            "/etc/kubernetes/manifests/kube-apiserver.yaml",
            "/var/lib/kubelet/config.yaml",
            "/etc/containerd/certs.d/_default/hosts.toml",
            "/etc/kubexm/keepalived/keepalived.conf",
            "/var/lib/kubexm/receipt.jsonl",
            "/etc/cni/net.d/10-own.conf",
            "/var/log/pods/kube-system_a_1/a/0.log",
            "/var/log/pods/default_web_1/web/0.log",
            "/root/secrets",
        ] {
            machine.write(path, SECRETS);
        }
        // Files that no part reads.
        for path in [
            "/etc/kubernetes/admin.conf",
            "/etc/kubernetes/pki/ca.key",
            "/etc/kubernetes/encryption.yaml",
            "/etc/kubexm/registry/htpasswd",
            "/var/lib/kubelet/pki/kubelet-client-current.pem",
        ] {
            machine.write(path, "PLANTED in a file that stays\n");
        }
        for program in [
            "journalctl",
            "kubectl",
            "iptables-save",
            "crictl",
            "systemctl",
            "ps",
        ] {
            machine.fake(program, "cat /root/secrets");
        }
        for part in [
            &["host"][..],
            &["configuration"],
            &["journal", "kubelet", "100"],
            &["pods", "100"],
            &["api", "https://192.0.2.11:6443"],
        ] {
            let printed = machine.done(SUPPORT, part);
            lines(&printed);
            for planted in ["PLANTED", "planted", "UExBTlRFR", "LS0tLS1CRUdJTiBSU0"] {
                let line = printed.lines().find(|line| line.contains(planted));
                assert_eq!(line, None, "{part:?}");
            }
            for kept in ["|keep this line", "|      value: db.example", "/pki/sa.key"] {
                assert!(printed.contains(kept), "{part:?}: {kept}: {printed}");
            }
        }
        // The pods of users are not read.
        let printed = machine.done(SUPPORT, &["pods", "100"]);
        assert!(!printed.contains("default_web"), "{printed}");
        assert_eq!(machine.run(SUPPORT, &["evil"]).status, 2);
    });
}
