//! The script that collects the parts of a support bundle on a host.

use super::doctor::lines;
use super::machine::Machine;
use crate::doctor::SUPPORT;

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
/// More secrets, and lines that must stay as they are. kubexm removes the same ones from what hosts print.
const PLANTED: &str = include_str!("planted.txt");
const ORDINARY: &str = include_str!("ordinary.txt");
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
            machine.write(path, &[ORDINARY, PLANTED, SECRETS].concat());
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
            &["journal", "kubelet", "200"],
            &["pods", "200"],
            &["api", "https://192.0.2.11:6443"],
        ] {
            let printed = machine.done(SUPPORT, &[&[SECONDS], part].concat());
            lines(&printed);
            for planted in ["PLANTED", "planted", "UExBTlRFR", "LS0tLS1CRUdJTiBSU0"] {
                let line = printed.lines().find(|line| line.contains(planted));
                assert_eq!(line, None, "{part:?}");
            }
            let ordinary = ORDINARY.lines().chain(["end of the secrets"]);
            let ordinary = ordinary.map(|line| format!("|{line}\n"));
            let kept = KEPT.iter().map(|kept| (*kept).to_owned());
            for kept in kept.chain(ordinary) {
                assert!(printed.contains(&kept), "{part:?}: {kept}: {printed}");
            }
        }
        // The pods of users are not read.
        let printed = machine.done(SUPPORT, &[SECONDS, "pods", "100"]);
        assert!(!printed.contains("default_web"), "{printed}");
        assert_eq!(machine.run(SUPPORT, &[SECONDS, "evil"]).status, 2);
    });
}

#[test]
fn last_words_of_programs_of_users_are_left_out() {
    Machine::with_each_shell(|machine| {
        let pod = |namespace: &str| {
            let ended = r#"{"terminated":{"containerID":"c","exitCode":1,"finishedAt":"t","message":"mine: \"{x}\" \\","reason":"Error"}}"#;
            let waits = r#"{"waiting":{"message":"back-off","reason":"CrashLoopBackOff"}}"#;
            format!(
                "{namespace}/a\tnode1\t[{{\"lastState\":{ended},\"state\":{waits}}},{{\"state\":{ended}}}]\n"
            )
        };
        machine.write("/root/states", &(pod("kube-system") + &pod("shop")));
        machine.fake(
            "kubectl",
            "case $* in *'{.status}'*) cat /root/states ;; esac",
        );
        let printed = machine.done(SUPPORT, &[SECONDS, "api", "https://192.0.2.11:6443"]);
        let found = |namespace: &str| {
            let start = format!("|{namespace}/a");
            let line = printed.lines().find(|line| line.starts_with(&start));
            line.unwrap().to_owned()
        };
        assert_eq!(found("kube-system").matches("mine").count(), 2);
        let of_user = found("shop");
        assert!(!of_user.contains("mine"), "{of_user}");
        assert_eq!(
            of_user
                .matches(r#""message":"[left out]","reason":"Error""#)
                .count(),
            2
        );
        assert!(of_user.contains("back-off"), "{of_user}");
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
