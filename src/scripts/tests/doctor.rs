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

#[test]
fn pods_are_counted_only_if_the_runtime_lists_all_of_them() {
    Machine::with_each_shell(|machine| {
        let sandboxes = |crictl: &str| -> Vec<String> {
            machine.fake("crictl", crictl);
            let printed = machine.done(HOST, &["/var/lib/containerd"]);
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

#[test]
fn many_other_rules_do_not_hide_one_that_drops_packets() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "iptables-save",
            "for n in $(seq 99); do echo \"-A INPUT -p tcp --dport $n -j ACCEPT\"; done
             for n in $(seq 99); do echo \"-A f2b-sshd -s 198.51.100.$n/32 -j REJECT\"; done
             echo '-A INPUT -p tcp --dport 10250 -j DROP'",
        );
        machine.fake(
            "nft",
            "echo 'table inet own {'; for n in $(seq 99); do echo \"tcp dport $n accept\"; done
             echo '  udp dport 8472 drop'; echo '}'",
        );
        let printed = machine.done(HOST, &["/var/lib/containerd"]);
        let found = lines(&printed);
        for line in [
            "rule=-A INPUT -p tcp --dport 10250 -j DROP",
            "rule=own: udp dport 8472 drop",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        let rules = found.iter().filter(|line| line.starts_with("rule="));
        assert_eq!(rules.count(), 42, "{found:#?}");
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
fn questions_always_have_a_cause_if_they_fail() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in *cluster-info*) exit 124 ;; *apiservices*) exit 3 ;;
             *endpointslices*) echo 'Warning: old' >&2; printf 'shop/web\\ttrue\\n' ;; esac",
        );
        let printed = machine.done(CLUSTER, &["https://192.0.2.11:6443", "kubeadm"]);
        let found = lines(&printed);
        for line in [
            "failed=cluster_info no answer in 25 s",
            "failed=apiservice kubectl ended with 3",
            "slice=shop/web\ttrue",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        assert!(!printed.contains("Warning"), "{printed}");
        let left = std::fs::read_dir(machine.at("/run")).unwrap();
        let mut left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.find(|name| name.contains("doctor")), None);
    });
}

#[test]
fn pods_that_failed_do_not_count_if_their_owner_has_a_good_one() {
    Machine::with_each_shell(|machine| {
        let pod = |name: &str, phase: &str, ready: bool, owner: &str| {
            let containers = format!("[{{\"ready\":{ready}}}]");
            format!(
                "shop/{name}\tnode1\t{phase}\t2026-01-02T03:04:05Z\t[]\t{containers}\t\t{owner}\n"
            )
        };
        let pods = [
            pod("evicted", "Failed", false, "web"),
            pod("replacement", "Running", true, "web"),
            pod("tried", "Failed", false, "job"),
            pod("done", "Succeeded", false, "job"),
            pod("failing", "Failed", false, "api"),
            pod("starting", "Running", false, "api"),
            pod("alone", "Failed", false, ""),
        ];
        machine.write("/root/pods", &pods.concat());
        machine.fake(
            "kubectl",
            "case $* in *'get pods -A'*) cat /root/pods ;; esac",
        );
        let printed = machine.done(CLUSTER, &["https://192.0.2.11:6443", "systemd"]);
        let found = printed
            .lines()
            .filter_map(|line| line.strip_prefix("pod=shop/"));
        let names: Vec<&str> = found.filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(names, ["starting", "alone", "failing"]);
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
        - {name: \"vip_interface\", value: \"eth0\"}
        - {name: \"bgp_peerpass\", value: \"PLANTED16\"}
        - {name: address, value: 192.0.2.99}
        - {name: bgp_peers, value: \"192.0.2.1:65000:PLANTED17:false\"}
        - {value: 'PLANTED18', name: 'OWN_PSK'}
{\"env\":[{\"name\":\"PASS\",\"value\":\"PLANTED19\"}]}
    - name: \"pass\"
      # A comment.
      value: |
        PLANTED20

        PLANTED21
    - name: port
      value: \"6443\"
    - value: PLANTED22
      name: API_KEY
  passphrase:
    \"PLANTED23\"
  token: >-
    PLANTED24
  after: keep this too
  stats auth admin:PLANTED25
  user admin insecure-password PLANTED26
  user admin password PLANTED27
  authentication { auth_type PASS auth_pass PLANTED28 }
\tpassword PLANTED29
  \"r.example\": { \"auth\": \"UExBTlRFRA==\" }
auth = 'UExBTlRFRA=='
command: [\"run\", \"--password\", \"PLANTED30\"]
image: registry.k8s.io/kube-apiserver:v1.36.3
- --service-account-signing-key-file=/etc/kubernetes/pki/sa.key
";
/// Lines of [`SECRETS`] that are not secret, and that support needs.
const KEPT: [&str; 7] = [
    "|keep this line",
    "|      value: db.example",
    "|        - {name: \"vip_interface\", value: \"eth0\"}",
    "|        - {name: address, value: 192.0.2.99}",
    "|      value: \"6443\"",
    "|  after: keep this too",
    "/pki/sa.key",
];
/// Seconds that a part gets.
const SECONDS: &str = "60";

#[test]
fn planted_secrets_do_not_leave_a_host() {
    Machine::with_each_shell(|machine| {
        for path in [
            "/etc/kubernetes/manifests/kube-apiserver.yaml",
            "/var/lib/kubelet/config.yaml",
            "/etc/containerd/certs.d/_default/hosts.toml",
            "/etc/kubexm/keepalived/keepalived.conf",
            "/etc/kubexm/haproxy/haproxy.cfg",
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
            let printed = machine.done(SUPPORT, &[&[SECONDS], part].concat());
            lines(&printed);
            for planted in ["PLANTED", "planted", "UExBTlRFR", "LS0tLS1CRUdJTiBSU0"] {
                let line = printed.lines().find(|line| line.contains(planted));
                assert_eq!(line, None, "{part:?}");
            }
            for kept in KEPT {
                assert!(printed.contains(kept), "{part:?}: {kept}: {printed}");
            }
        }
        // The pods of users are not read.
        let printed = machine.done(SUPPORT, &[SECONDS, "pods", "100"]);
        assert!(!printed.contains("default_web"), "{printed}");
        assert_eq!(machine.run(SUPPORT, &[SECONDS, "evil"]).status, 2);
    });
}

/// The script read the last 60 logs of all pods, and of these the ones of the cluster.
#[test]
fn logs_of_users_do_not_displace_those_of_the_cluster() {
    Machine::with_each_shell(|machine| {
        for number in 10..80 {
            let path = format!("/var/log/pods/shop_web-{number}_1/web/0.log");
            machine.write(&path, "a\n");
        }
        for number in 10..72 {
            let path = format!("/var/log/pods/kube-system_pod-{number}_1/a/0.log");
            machine.write(&path, "keep\n");
        }
        let printed = machine.done(SUPPORT, &[SECONDS, "pods", "10"]);
        assert_eq!(printed.matches("\n|keep\n").count(), 60, "{printed}");
        let left_out = lines(&printed)[0];
        assert_eq!(left_out, "left_out=pods: 2 of 62 logs");
    });
}

/// A command that prints more than this fails, and its output is lost.
const LARGEST_OUTPUT: usize = 16 * 1024 * 1024;

#[test]
fn long_logs_lose_their_oldest_lines() {
    Machine::with_each_shell(|machine| {
        let old = format!("password: old {}\n", "x".repeat(2980)).repeat(2500);
        let text = format!("{old}the newest line\n");
        for number in 0..5 {
            let path = format!("/var/log/pods/kube-system_pod-{number}_1/a/0.log");
            machine.write(&path, &text);
        }
        machine.write("/root/log", &text);
        machine.fake("journalctl", "cat /root/log");
        for part in [&["journal", "kubelet", "9999"][..], &["pods", "9999"]] {
            let printed = machine.done(SUPPORT, &[&[SECONDS], part].concat());
            let sources = printed.matches("\n|[older lines are left out]\n").count();
            assert_eq!(sources, if part.len() == 3 { 1 } else { 5 });
            assert_eq!(
                printed.matches("\n|the newest line\n").count(),
                sources,
                "{part:?}"
            );
            // The line in which the newest bytes begin has a value without its name.
            assert!(!printed.contains("xxx"), "{part:?}");
            assert!(printed.len() < LARGEST_OUTPUT, "{part:?}");
            lines(&printed);
        }
    });
}

#[test]
fn part_stays_below_the_largest_output_and_names_the_rest() {
    Machine::with_each_shell(|machine| {
        machine.write(
            "/root/objects",
            &format!("{}\n", "x".repeat(3990)).repeat(3000),
        );
        machine.fake("kubectl", "cat /root/objects");
        let printed = machine.done(SUPPORT, &[SECONDS, "api", "https://192.0.2.11:6443"]);
        assert!(printed.len() < LARGEST_OUTPUT, "{}", printed.len());
        let found = lines(&printed);
        for line in [
            "= api/version.txt",
            "|[2750 more lines are left out]",
            "= api/events.txt",
            "|[older lines are left out]",
            "left_out=api/pod-states.jsonl: too large",
        ] {
            assert!(found.contains(&line), "{line}");
        }
    });
}

#[test]
fn questions_without_time_are_named() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "case $1$* in *version) echo v1 ;; esac; sleep 2");
        machine.write("/var/lib/kubelet/config.yaml", "a: b\n");
        machine.write("/var/log/pods/kube-system_a_1/a/0.log", "a\n");
        let url = "https://192.0.2.11:6443";
        let printed = machine.done(SUPPORT, &["1", "api", url]);
        let found = lines(&printed);
        assert_eq!(found[..2], ["= api/version.txt", "|v1"], "{found:?}");
        assert!(found.contains(&"left_out=api/nodes.txt: no time"));
        for part in [
            &["configuration"][..],
            &["pods", "10"],
            &["journal", "kubelet", "10"],
        ] {
            let printed = machine.done(SUPPORT, &[&["0"], part].concat());
            let found = lines(&printed);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("left_out="), "{found:?}");
            assert!(found[0].ends_with(": no time"), "{found:?}");
        }
    });
}
