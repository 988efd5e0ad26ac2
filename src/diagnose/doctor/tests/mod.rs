//! Tests of doctor with the answers of a healthy cluster, of which each changes one.

mod api;
mod applications;
mod asked;
mod etcd;
mod followed;
mod lasting;
mod logs;
mod network_files;
mod rules;
mod runtime_class;
mod silent;
mod together;
mod warnings;

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::answers::{self, Answers};
use super::api::{Answer, Api, ApiService, Webhooks};
use super::report::{Certainty, DoctorReport, Verdict};
use super::seen::{Logs, Seen, Way};
use super::{checks, judge};
use crate::status::example::report;
use crate::status::{self, About, Problem, ProblemKind, Subject, Unit};
use kubexm_deploy::objects::{Node, Pod};
use kubexm_host::Facts;
use kubexm_operate::logs::LogEntry;
use kubexm_preflight::host_checks;
use kubexm_session::Connection;
use kubexm_session::command_line::CommandLine;
use kubexm_session::example::cluster_of_two as cluster;
use kubexm_types::HostName;

const HOST: &str = "ntp=yes
inodes=/var/lib/kubelet 900 1000 /
mount=/var/lib/kubelet rw,relatime
cgroup=cgroup2fs
sysctl=net/ipv4/ip_forward 1
sysctl=net/bridge/bridge-nf-call-iptables 1
sysctl=net/netfilter/nf_conntrack_count 10
sysctl=net/netfilter/nf_conntrack_max 1000
kubelet=cgroupDriver: systemd
kubelet=kind: KubeletConfiguration
kubelet_certificate=present
kubelet_conf=client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
kubelet_flags=/var/lib/kubelet/kubeadm-flags.env KUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.12\"
resolv_conf=/etc/resolv.conf
nameserver=192.0.2.53
cni_file=/etc/cni/net.d/10-flannel.conflist
cni_leases=cbr0 2
sandboxes=8
flannel_subnet=10.244.1.1/24
bridge=cni0 10.244.1.1/24
overlay=flannel.1
udp=2118
end=
";
const RUNTIME: &str = "cri=ok v2.3.7
condition=RuntimeReady\ttrue\t\t
sandbox=registry.k8s.io/pause:3.10.2
sandbox_expected=registry.k8s.io/pause:3.10.2
sandbox_present=yes
systemd_cgroup=true
config_path=/etc/containerd/certs.d
inline_mirrors=0
mirror=registry.k8s.io https://registry.kubexm.internal:5000/v2/registry.k8s.io
registry=registry.kubexm.internal:5000 /etc/kubexm/registry-ca.crt ok
end=
";
const NOW: i64 = 1_767_323_045;

/// Returns what two scripts print about a host: that of doctor, and that of the checks of preflight.
fn about_host(text: &str) -> Answers {
    let is_own = |line: &&str| {
        answers::HOST
            .iter()
            .any(|key| line.split('=').next() == Some(key))
    };
    let parsed = |is_of: &dyn Fn(&&str) -> bool, keys| {
        let lines = text.lines().filter(|line| *line == "end=" || is_of(line));
        let lines: Vec<&str> = lines.collect();
        Answers::parse(&lines.join("\n"), keys).unwrap()
    };
    let own = parsed(&is_own, answers::HOST);
    own.with(parsed(&|line| !is_own(line), host_checks::KEYS))
}

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

/// Replaces a line that begins with `old`, or adds one.
fn changed(text: &str, old: &str, new: &str) -> String {
    let mut found = old.is_empty();
    let lines = text.lines().filter(|line| {
        let is_it = !old.is_empty() && line.starts_with(old);
        found |= is_it;
        !is_it
    });
    let rest: Vec<&str> = lines.collect();
    assert!(found, "{old}");
    format!("{new}\n{}\n", rest.join("\n"))
}

/// Returns the answer of an API server with these objects.
fn objects<T: DeserializeOwned>(items: Value) -> Answer<T> {
    Ok(serde_json::from_value(items).unwrap())
}

/// Returns a pod of CoreDNS on the control plane.
fn dns(ready: &str) -> Answer<Pod> {
    objects(json!([{
        "metadata": {"name": "coredns-1", "namespace": "kube-system"},
        "spec": {"nodeName": "node1"},
        "status": {"podIP": "10.244.0.2", "conditions": [{"type": "Ready", "status": ready}]},
    }]))
}

/// Returns an API whose backend has this condition.
fn api_service(available: Value) -> Answer<ApiService> {
    let spec = json!({"service": {"namespace": "shop", "name": "things"}});
    let status = json!({"conditions": [available]});
    objects(json!([{"metadata": {"name": "v1.x"}, "spec": spec, "status": status}]))
}

/// Returns a configuration with a webhook for each of these services.
fn webhooks(services: &[&str]) -> Answer<Webhooks> {
    let hook = |name: &&str| {
        let client = json!({"service": {"namespace": "default", "name": name}});
        let name = format!("{name}.example.com");
        json!({"name": name, "failurePolicy": "Fail", "clientConfig": client})
    };
    let hooks: Vec<Value> = services.iter().map(hook).collect();
    let kind = "ValidatingWebhookConfiguration";
    objects(json!([{"kind": kind, "metadata": {"name": "policy"}, "webhooks": hooks}]))
}

/// Returns a pod of the worker, with these fields of its status.
fn pod(name: &str, created: &str, status: Value) -> Answer<Pod> {
    let metadata = json!({"name": name, "namespace": "shop", "creationTimestamp": created});
    objects(json!([{"metadata": metadata, "spec": {"nodeName": "node2"}, "status": status}]))
}

/// Returns the nodes of a cluster whose worker has this address.
fn nodes(address: &str) -> Option<BTreeMap<String, Node>> {
    let status = json!({"addresses": [{"address": address, "type": "InternalIP"}]});
    let node = serde_json::from_value(json!({"status": status})).unwrap();
    Some(BTreeMap::from([("node2".to_owned(), node)]))
}

fn api() -> Api {
    Api {
        now: NOW,
        pods: Ok(Vec::new()),
        dns: dns("True"),
        requests: Ok(Vec::new()),
        api_services: api_service(json!({"type": "Available", "status": "True"})),
        webhooks: webhooks(&["policy"]),
        services: objects(json!([{"namespace": "default", "name": "policy"}])),
        namespaces: Ok(Vec::new()),
        tokens: Ok(Vec::new()),
        cluster_info: Ok(Vec::new()),
        needs: Ok(Vec::new()),
    }
}

/// Returns the answers of a healthy cluster with another one of the API server.
fn seen_with(change: impl FnOnce(&mut Api)) -> Seen {
    let mut seen = seen(HOST, RUNTIME);
    change(seen.api.as_mut().unwrap());
    seen
}

/// Returns the answers of a control plane and a worker, which is the one that changes.
fn seen(host: &str, runtime: &str) -> Seen {
    let cluster = cluster("");
    let names = [name("node1"), name("node2")];
    let mut seen = Seen {
        report: report(&cluster),
        line: CommandLine::new(Path::new("cluster.yaml"), &Connection::default()),
        facts: BTreeMap::new(),
        status: BTreeMap::new(),
        hosts: BTreeMap::new(),
        runtimes: BTreeMap::new(),
        logs: BTreeMap::new(),
        api: Some(api()),
        nodes: nodes("192.0.2.12"),
        ways: BTreeMap::new(),
        unanswered: Vec::new(),
        cluster,
    };
    for (at, name) in names.into_iter().enumerate() {
        let (host, runtime) = if at == 0 {
            (HOST, RUNTIME)
        } else {
            (host, runtime)
        };
        let answers = about_host(host);
        seen.hosts.insert(name.clone(), answers);
        let answers = Answers::parse(runtime, answers::RUNTIME).unwrap();
        seen.runtimes.insert(name.clone(), answers);
        let mut facts = Facts::default();
        facts.listening.insert(10250);
        seen.facts.insert(name.clone(), facts);
        let ways = [("pod/node1/53", Way::Ok), ("service/dns/53", Way::Ok)];
        let ways = ways.map(|(label, way)| (label.to_owned(), way));
        seen.ways.insert(name, ways.into());
    }
    // Without the member of etcd in the answers of status, this cluster has no quorum.
    seen.cluster.etcd = kubexm_config::cluster::Etcd::External {
        endpoints: Vec::new(),
        ca_file: "ca".into(),
        cert_file: "cert".into(),
        key_file: "key".into(),
    };
    seen
}

fn causes(report: &DoctorReport) -> Vec<&'static str> {
    // The example has no ConfigMap cluster-info.
    let causes = report.causes().map(|found| found.check);
    causes
        .filter(|check| *check != "join-information")
        .collect()
}

fn entry(source: &str, seconds_ago: i64, message: &str) -> LogEntry {
    LogEntry {
        time: OffsetDateTime::from_unix_timestamp(NOW - seconds_ago).unwrap(),
        host: name("node2"),
        source: source.to_owned(),
        message: message.to_owned(),
    }
}

fn with_logs(entries: Vec<LogEntry>, unhealthy: &[&str]) -> DoctorReport {
    let mut seen = seen(HOST, RUNTIME);
    seen.logs.insert(name("node2"), Logs { now: NOW, entries });
    let unhealthy = unhealthy.iter().map(|name| (*name).to_owned());
    seen.report.hosts[1].unhealthy = unhealthy.collect();
    judge(&seen)
}

#[test]
fn healthy_cluster_has_no_finding() {
    let report = judge(&seen(HOST, RUNTIME));
    assert_eq!(causes(&report), [""; 0], "{:#?}", report.findings);
    let unknown = report
        .checks
        .iter()
        .filter(|check| check.verdict == Verdict::Unknown);
    let unknown: Vec<&str> = unknown.map(|check| check.check).collect();
    assert_eq!(unknown, ["etcd-disk", "etcd-data", "etcd-quorum"]);
}

#[test]
fn identifiers_of_checks_are_unique() {
    let mut ids: Vec<&str> = checks().map(|check| check.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn disk_is_found_once_and_also_if_only_status_looks_at_it() {
    let problem = |what: &str| Problem::new(About::Disk, what, "look").on(&name("node2"));
    let found = |host: &str, all: &[(&str, ProblemKind, &str)]| {
        let mut seen = seen(host, RUNTIME);
        let all = all.iter().map(|(what, kind, mount)| {
            let subject = Subject::Mount((*mount).to_owned());
            problem(what).of_kind(*kind).of(subject)
        });
        seen.report.problems = all.collect();
        let found = judge(&seen).findings;
        let found = found
            .iter()
            .filter(|one| one.check != "join-information")
            .map(|one| format!("{}: {}", one.check, one.what));
        found.collect::<Vec<_>>().join("\n")
    };
    let (root, registry) = (
        (
            "/ has 0 % of its inodes free, 1 of 1000, for /var/lib/kubelet",
            ProblemKind::Inodes,
            "/",
        ),
        (
            "/srv has 4 % of its inodes free, 40 of 1000, for /srv/registry",
            ProblemKind::Inodes,
            "/srv",
        ),
    );
    let few = changed(HOST, "inodes=", "inodes=/var/lib/kubelet 1 1000 /");
    insta::assert_snapshot!(found(&few, &[root, registry]), @"
    inodes: / has 1 of 1000 inodes free
    inodes: /srv has 4 % of its inodes free, 40 of 1000, for /srv/registry
    ");
    let kubelet = "cannot write /var/lib/kubelet: the file system is mounted read-only";
    let kubelet = (kubelet, ProblemKind::ReadOnly, "");
    let read_only = changed(HOST, "mount=", "mount=/var/lib/kubelet ro,relatime");
    insta::assert_snapshot!(found(&read_only, &[kubelet]), @"mount-options: /var/lib/kubelet is read-only");
    insta::assert_snapshot!(found(HOST, &[kubelet]), @"mount-options: cannot write /var/lib/kubelet: the file system is mounted read-only");
}

#[test]
fn answers_of_hosts_lead_to_their_cause() {
    for (old, new, check) in [
        ("", "swap=/swapfile file 1 0 -2", "swap"),
        ("cgroup=", "cgroup=tmpfs", "cgroup"),
        (
            "sysctl=net/ipv4",
            "sysctl=net/ipv4/ip_forward 0",
            "kernel-network",
        ),
        ("sysctl=net/bridge", "ntp=no", "kernel-network"),
        (
            "sysctl=net/netfilter/nf_conntrack_count",
            "sysctl=net/netfilter/nf_conntrack_count 990",
            "kernel-limits",
        ),
        ("", "dead_mount=/mnt/nfs nfs4", "dead-mount"),
        ("inodes=", "inodes=/var/lib/kubelet 1 1000 /", "inodes"),
        (
            "mount=",
            "mount=/var/lib/kubelet ro,relatime",
            "mount-options",
        ),
        ("mount=", "mount=/opt/cni/bin rw,noexec", "mount-options"),
        (
            "kubelet_certificate=",
            "kubelet_certificate=the file does not exist",
            "kubelet-credentials",
        ),
        (
            "kubelet_conf=",
            "kubelet_conf=missing",
            "kubelet-credentials",
        ),
        ("bridge=", "bridge=cni0 10.99.0.1/24", "cni-leftovers"),
        ("", "cni_file=/etc/cni/net.d/00-old.conf", "cni-leftovers"),
        // Of another program, while the pod of flannel has not written its file.
        (
            "cni_file=",
            "cni_file=/etc/cni/net.d/87-podman-bridge.conflist",
            "cni-leftovers",
        ),
        ("cni_leases=", "cni_leases=cbr0 250", "cni-leftovers"),
        ("nameserver=", "nameserver=127.0.0.53", "dns-servers"),
        (
            "",
            "empty_manifest=/etc/kubernetes/manifests/etcd.yaml",
            "static-pods",
        ),
        ("", "backend=192.0.2.99:6443", "load-balancer"),
    ] {
        let report = judge(&seen(&changed(HOST, old, new), RUNTIME));
        assert_eq!(causes(&report), [check], "{new}");
        let found = report.causes().find(|found| found.check == check).unwrap();
        assert_eq!(found.hosts, [name("node2")], "{new}");
        assert!(!found.cause.is_empty() && !found.fix.is_empty(), "{new}");
        assert!(!found.commands.is_empty(), "{new}");
    }
}

#[test]
fn kubelet_may_permit_what_its_host_has() {
    for (setting, old, new) in [
        ("failSwapOn: false", "", "swap=/swapfile file 1 0 -2"),
        ("failCgroupV1: false", "cgroup=", "cgroup=tmpfs"),
    ] {
        let host = changed(HOST, old, &format!("{new}\nkubelet={setting}"));
        assert_eq!(causes(&judge(&seen(&host, RUNTIME))), [""; 0], "{new}");
    }
}

/// Containers start from an overlay.
#[test]
fn data_of_the_runtime_needs_no_programs() {
    for path in ["/var/lib/containerd", "/var/lib/etcd", "/var/log/pods"] {
        let host = changed(HOST, "", &format!("mount={path} rw,noexec"));
        assert_eq!(causes(&judge(&seen(&host, RUNTIME))), [""; 0], "{path}");
    }
    let host = changed(HOST, "", "mount=/var/lib/kubelet rw,noexec");
    let report = judge(&seen(&host, RUNTIME));
    let found = report.causes().find(|found| found.check == "mount-options");
    assert_eq!(found.unwrap().certainty, Certainty::Possible);
}

#[test]
fn answers_of_runtimes_lead_to_their_cause() {
    for (old, new, check) in [
        (
            "",
            "disabled_plugins='io.containerd.grpc.v1.cri'",
            "runtime-configuration",
        ),
        ("", "config_error=toml: invalid", "runtime-configuration"),
        (
            "cri=",
            "cri=no unknown service runtime.v1.RuntimeService",
            "runtime",
        ),
        ("systemd_cgroup=", "systemd_cgroup=false", "cgroup-driver"),
        ("", "stale=/etc/containerd/config.toml", "runtime-stale"),
        ("config_path=", "inline_mirrors=0", "registry-mirrors"),
        ("inline_mirrors=", "inline_mirrors=2", "registry-mirrors"),
        (
            "",
            "mirror_missing=/etc/containerd/certs.d/x/hosts.toml",
            "registry-mirrors",
        ),
        (
            "sandbox=",
            "sandbox=registry.k8s.io/pause:3.1",
            "sandbox-image",
        ),
        ("sandbox_present=", "sandbox_present=no", "sandbox-image"),
        (
            "registry=",
            "registry=r:5000 /ca.crt x509: certificate signed by unknown authority",
            "registry-ca",
        ),
        (
            "condition=",
            "condition=NetworkReady\tfalse\tNetworkPluginNotReady\tcni plugin not initialized",
            "network-program",
        ),
    ] {
        let report = judge(&seen(HOST, &changed(RUNTIME, old, new)));
        assert_eq!(causes(&report), [check], "{new}");
    }
}

#[test]
fn lost_packets_to_a_program_that_listens_are_a_firewall() {
    let host = changed(
        HOST,
        "",
        "rule=-A INPUT -p tcp -m tcp --dport 10250 -j DROP",
    );
    let mut seen = seen(&host, RUNTIME);
    let ways = seen.ways.get_mut(&name("node1")).unwrap();
    ways.insert("kubelet/node2/10250".to_owned(), Way::Timeout);
    let report = judge(&seen);
    assert_eq!(causes(&report), ["firewall"]);
    let found = report
        .causes()
        .find(|found| found.check == "firewall")
        .unwrap();
    assert_eq!(
        found.commands,
        [
            "kubexm exec -f cluster.yaml --host node2 -- iptables -D INPUT -p tcp -m tcp --dport 10250 -j DROP"
        ]
    );
    seen.facts
        .get_mut(&name("node2"))
        .unwrap()
        .listening
        .clear();
    assert_eq!(causes(&judge(&seen)), [""; 0]);
}

#[test]
fn host_cannot_put_a_command_into_a_fix() {
    let rule = "rule=-A INPUT -p tcp --dport 10250 -j DROP; rm -rf /";
    let host = changed(HOST, "", rule);
    let mut seen = seen(&host, RUNTIME);
    let ways = seen.ways.get_mut(&name("node1")).unwrap();
    ways.insert("kubelet/node2/10250".to_owned(), Way::Timeout);
    let report = judge(&seen);
    let found = report
        .causes()
        .find(|found| found.check == "firewall")
        .unwrap();
    assert_eq!(found.commands, [""; 0]);
    let host = changed(HOST, "", "cni_file=/etc/cni/net.d/$(reboot).conf");
    let report = judge(&self::seen(&host, RUNTIME));
    let found = report
        .causes()
        .find(|found| found.check == "cni-leftovers")
        .unwrap();
    assert!(
        found.commands[0].ends_with("-- rm '/etc/cni/net.d/$(reboot).conf'"),
        "{:?}",
        found.commands
    );
}

#[test]
fn only_network_configurations_before_the_own_one_are_leftovers() {
    for file in [
        "87-podman-bridge.conflist",
        "100-crio-bridge.conf",
        "00-multus.conf",
    ] {
        let host = changed(HOST, "", &format!("cni_file=/etc/cni/net.d/{file}"));
        assert_eq!(causes(&judge(&seen(&host, RUNTIME))), [""; 0], "{file}");
    }
    let files =
        "cni_file=/etc/cni/net.d/87-podman.conflist\ncni_file=/etc/cni/net.d/05-cilium.conflist";
    let report = judge(&seen(&changed(HOST, "", files), RUNTIME));
    let found = report.causes().find(|found| found.check == "cni-leftovers");
    let found = found.unwrap();
    assert_eq!(found.certainty, Certainty::Likely);
    let on = "kubexm exec -f cluster.yaml --host node2 --";
    let removal = format!("{on} rm /etc/cni/net.d/05-cilium.conflist");
    let restart = format!("{on} systemctl restart containerd");
    assert_eq!(found.commands, [removal, restart]);
}

#[test]
fn leases_need_a_count_of_pods() {
    let host = changed(HOST, "cni_leases=", "cni_leases=cbr0 250");
    for sandboxes in ["sandboxes=235", "ntp=yes"] {
        let host = changed(&host, "sandboxes=", sandboxes);
        let report = judge(&seen(&host, RUNTIME));
        assert_eq!(causes(&report), [""; 0], "{sandboxes}");
    }
}

#[test]
fn evidence_has_no_characters_that_control_a_terminal() {
    let host = changed(HOST, "", "swap=/swap\u{1b}[2Jfile\u{202e} file 1 0 -2");
    let report = judge(&seen(&host, RUNTIME));
    let found = report.causes().find(|found| found.check == "swap").unwrap();
    assert_eq!(found.evidence, ["/swapfile file 1 0 -2"]);
}
