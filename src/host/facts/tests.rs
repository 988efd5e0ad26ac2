mod applied;
mod places;
mod system;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use kubexm_types::{ClusterIdentity, Digest};
use std::collections::BTreeSet;

/// Returns a line with a path and content in base64.
fn file(key: &str, path: &str, text: &str) -> String {
    format!("{key}={path} {}\n", STANDARD.encode(text))
}

/// What a host prints, besides the files of [`FILES`].
const TEXT: &str = "arch=x86_64
kernel=6.1.0-28-amd64
hostname=node1
glibc=glibc 2.41
machine_id=
cpus=2
memory=MemTotal:           2048 kB
address=10.0.0.1
address=fe800000000000000000000000000001
route=00000000 0102000A 00000000
route=0002000A 00000000 00FFFFFF
route6=00000000000000000000000000000000 00 fd000000000000000000000000000001
route6=fd000000000000000000000000000000 40 00000000000000000000000000000000
route6=fe800000000000000000000000000000 40 00000000000000000000000000000000
listen=192B
module=ip_vs
tool=apt-get
firewalld=yes
firewalld_port=6443/tcp
ufw=no
networkmanager=no
selinux=1
container_selinux=no
fstab=/opt
folder=/usr/local
writable=no
space=
mount=
path=/opt/a=b c
writable=no
space=77 100 1024 5 10
mount=27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
exists=yes
resolved=/opt/a=b c
certificate=/etc/kubernetes/pki/apiserver.crt YWJj
rotated=/var/lib/kubelet/pki/kubelet-client-current.pem YWJj
runtime=/run/crio/crio.sock
registry_login=no
registry_source=docker.io
present=/sys/fs/cgroup/cgroup.controllers
present=/run/systemd/system
present=/var/lib/kubexm/pods-ended
present=/var/lib/kubexm/done/kubernetes-node
version=etcd etcd Version: 3.6.16
clock=17.5
";

/// The files that the host of [`TEXT`] prints.
const FILES: &[(&str, &str, &str)] = &[
    (
        "file",
        "/etc/os-release",
        "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\nID=debian\n",
    ),
    (
        "file",
        "/proc/swaps",
        "Filename\tType\tSize\n/dev/sdb                partition\t1\n",
    ),
    (
        "file",
        "/etc/hosts",
        "10.0.0.99 registry.kubexm.internal # ours\nnonsense other\n",
    ),
    (
        "file",
        "/var/lib/kubexm/cluster",
        r#"{"id":"0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11","name":"a","created":"2026-01-31T12:00:00Z"}"#,
    ),
    ("file", "/var/lib/kubexm/begun.json", "{\"serial\":1}"),
    ("file", "/etc/kubexm/flannel.yaml", ""),
    ("file", "/etc/kubexm/etcd-member/etcd.env", ""),
    (
        "certificate",
        "/etc/kubernetes/pki/ca.crt",
        "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n",
    ),
];

/// Everything that the host prints.
fn text() -> String {
    let files = FILES.iter();
    let files: String = files
        .map(|(key, path, text)| file(key, path, text))
        .collect();
    format!("{files}{TEXT}")
}

fn parsed(text: &str) -> Facts {
    parse::facts(text).unwrap().0
}

#[test]
fn every_line_is_read() {
    let (facts, clock) = parse::facts(&text()).unwrap();
    let disk = Disk {
        free: 77,
        size: 100,
        mount: "/".to_owned(),
    };
    let some = |text: &str| Some(text.to_owned());
    let expected = Facts {
        machine: "x86_64".to_owned(),
        kernel: "6.1.0-28-amd64".to_owned(),
        os: Os {
            id: some("debian"),
            codename: some("trixie"),
            version: some("13"),
            like: Vec::new(),
            name: some("Debian GNU/Linux 13 (trixie)"),
        },
        glibc: Some("2.41".parse().unwrap()),
        cpus: Some(2),
        memory: Some(2048),
        swap: vec!["/dev/sdb".to_owned()],
        cgroup: Some(Cgroup::V2),
        addresses: ["10.0.0.1", "fe80::1"]
            .map(|text| text.parse().unwrap())
            .into(),
        networks: vec!["10.0.2.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()],
        listening: [6443].into(),
        modules: [Module::IpVs].into(),
        tools: [Tool::AptGet].into(),
        systemd: true,
        firewalld: Some(vec!["6443/tcp".to_owned()]),
        selinux: Some(Selinux::Enforcing),
        existing: ["/opt/a=b c".to_owned()].into(),
        read_only: ["/usr/local".to_owned()].into(),
        disks: [("/opt/a=b c".to_owned(), disk)].into(),
        inodes: [("/opt/a=b c".to_owned(), Inodes { free: 5, total: 10 })].into(),
        read_only_disks: ["/opt/a=b c".to_owned()].into(),
        unmounted: [("/opt/a=b c".to_owned(), "/opt".to_owned())].into(),
        runtimes: ["/run/crio/crio.sock".to_owned()].into(),
        joined: true,
        pods_ended: true,
        registry_login: Some(false),
        cluster: Membership::Cluster(ClusterIdentity {
            id: "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11".parse().unwrap(),
            name: "a".parse().unwrap(),
            created: "2026-01-31T12:00:00Z".parse().unwrap(),
        }),
        begun: Some("{\"serial\":1}".to_owned()),
        authorities: [(
            "/etc/kubernetes/pki/ca.crt".to_owned(),
            vec![Digest::of(b"abc")],
        )]
        .into(),
        certificates: [
            (
                "/etc/kubernetes/pki/apiserver.crt".to_owned(),
                "abc".to_owned(),
            ),
            (
                "/etc/kubernetes/pki/ca.crt".to_owned(),
                "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n".to_owned(),
            ),
        ]
        .into(),
        rotated: [(
            "/var/lib/kubelet/pki/kubelet-client-current.pem".to_owned(),
            "abc".to_owned(),
        )]
        .into(),
        hosts_entries: vec![(
            "10.0.0.99".parse().unwrap(),
            "registry.kubexm.internal".to_owned(),
        )],
        registry_sources: ["docker.io".to_owned()].into(),
        applied: [
            (Setting::KubernetesType, "systemd"),
            (Setting::Network, "flannel"),
            (Setting::Etcd, "systemd"),
            (Setting::EtcdVersion, "3.6.16"),
        ]
        .map(|(setting, value)| (setting, [value.to_owned()].into()))
        .into(),
        ..Facts::default()
    };
    assert_eq!((facts, clock), (expected, 17.5));
}

#[test]
fn a_missing_value_is_not_zero() {
    let facts = parsed("cpus=\nmemory=\nselinux=\nglibc=\nmachine_id=\nclock=1\n");
    let expected = Facts {
        cgroup: Some(Cgroup::V1),
        ..Facts::default()
    };
    assert_eq!(facts, expected);
    assert_eq!((facts.cpus, facts.memory), (None, None));
}

#[test]
fn a_line_that_kubexm_does_not_know_is_an_error() {
    let error = |line: &str| {
        parse::facts(&format!("cpus=2\n{line}\nclock=1\n"))
            .unwrap_err()
            .to_string()
    };
    let cases = [
        ("cpu=2", "the key is unknown"),
        ("nonsense", "has no '='"),
        ("tool=tarr", "the name is unknown"),
        ("module=zram", "the name is unknown"),
        ("ufw=maybe", "is neither yes nor no"),
        ("memory=2 GiB", "is not a number"),
        ("memory=MemTotal: 2 GiB", "is not a size"),
        ("memory=MemTotal: a kB", "is not a number"),
        ("glibc=glibc x", "is not a version of glibc"),
        ("cpus=-1", "is not a number"),
        ("listen=zz", "is not a port"),
        ("address=node1", "is not an address"),
        (
            "address=zz000000000000000000000000000001",
            "is not an address",
        ),
        ("route=zz 0 0", "is not a route"),
        ("route=0 0", "is not a route"),
        ("route=0002000A 00000000 00FF00FF", "is not a route"),
        ("route6=fd00 81 0", "is not a route"),
        ("route6=fd00 40", "is not a route"),
        ("space=1 2 3 4 5", "belongs to no path"),
        ("selinux=2", "is neither 0 nor 1"),
        ("file=/etc/x", "has no content"),
        ("file=/etc/x %", "is not base64"),
        ("kubeconfig=/etc/x", "has no content"),
        ("version=etcd", "has no program"),
        ("certificate=/etc/x", "has no content"),
        ("rotated=/etc/x", "has no content"),
        ("certificate=/etc/x %", "is not base64"),
        ("clock=now", "is not a time"),
        ("clock=nan", "is not a time"),
        ("clock=-inf", "is not a time"),
    ];
    for (line, reason) in cases {
        assert_eq!(
            error(line),
            format!("line 2 of the facts is '{line}': {reason}")
        );
    }
    for (line, reason) in [
        ("space=1 2 3 4", "is not the space of a disk"),
        ("space=zz 2 3 4 5", "is not the space of a disk"),
        ("mount=27 1 254:0 / / rw", "is not a mount"),
        ("exists=maybe", "is neither yes nor no"),
    ] {
        let text = format!("path=/opt\n{line}\nclock=1\n");
        let error = parse::facts(&text).unwrap_err().to_string();
        assert_eq!(error, format!("line 2 of the facts is '{line}': {reason}"));
    }
}

/// A full disk truncates files. All other facts of the host stay known.
#[test]
fn damaged_kubeconfig_does_not_hide_other_facts() {
    let path = "/etc/kubernetes/scheduler.conf";
    let certificate = |lines: &str| {
        let line = file("kubeconfig", path, lines);
        let facts = parsed(&format!("cpus=2\n{line}clock=1\n"));
        assert_eq!(facts.cpus, Some(2));
        facts.certificates.get(path).cloned()
    };
    let data = |data: &str| certificate(&format!("    client-certificate-data: {data}\n"));
    for encoded in ["YWJj", "\"YWJj\"", "YWJj\r"] {
        assert_eq!(data(encoded).unwrap(), "abc", "{encoded}");
    }
    for damaged in ["YWJ", "Y W", "a\\nb c", "?"] {
        assert_eq!(data(damaged).unwrap(), "", "{damaged}");
    }
    // The kubelet's has the path of a file.
    for without in ["", "    server: https://192.0.2.11:6443\n"] {
        assert_eq!(certificate(without), None);
    }
    // What the script encodes itself is complete.
    let output = format!("kubeconfig={path} YWJ\nclock=1\n");
    assert!(parse::facts(&output).is_err());
}

#[test]
fn path_of_a_certificate_can_have_spaces() {
    let text = "certificate=/etc/kubernetes/pki/apiserver old.crt YWJj\nclock=1\n";
    let expected = ("/etc/kubernetes/pki/apiserver old.crt", "abc");
    let facts = parsed(text);
    let found = facts.certificates.iter();
    let found: Vec<_> = found
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    assert_eq!(found, [expected]);
}

#[test]
fn error_about_a_line_does_not_quote_a_whole_file() {
    let line = format!("nonsense={}\u{1b}[2J", "x".repeat(70_000));
    let error = parse::facts(&line).unwrap_err().to_string();
    assert!(
        error.len() < 300 && error.ends_with("…': the key is unknown"),
        "{error}"
    );
}

#[test]
fn damaged_record_of_a_cluster_is_not_an_unknown_cluster() {
    for damaged in ["{}", "", "\u{1b}"] {
        let line = file("file", "/var/lib/kubexm/cluster", damaged);
        let facts = parsed(&format!("{line}clock=1\n"));
        assert_eq!(facts.cluster, Membership::Damaged);
    }
    assert_eq!(parsed("clock=1\n").cluster, Membership::Unrecorded);
}

#[test]
fn facts_that_were_cut_off_are_an_error() {
    let text = text();
    let cut = text.strip_suffix("clock=17.5\n").unwrap();
    assert_eq!(parse::facts(cut), Err(parse::FactsError::Truncated));
}

#[tokio::test]
async fn the_script_runs_on_a_real_system() {
    let host = crate::local::LocalHost::new("here".parse().unwrap());
    let paths = ["/".to_owned(), "/nothing/here".to_owned()];
    let facts = Facts::gather(&host, &paths).await.unwrap();
    assert_eq!(facts.disks["/nothing/here"].mount, "/");
    assert_eq!(facts.existing, ["/".to_owned()].into());
    assert!(facts.arch().is_some() && facts.cpus > Some(0), "{facts:?}");
    assert!(facts.memory > Some(0) && facts.tools.contains(&Tool::Tar));
    assert!(facts.clock_ahead.abs() < 2.0, "{}", facts.clock_ahead);
}

/// Preflight asks whether a host has its package manager.
#[test]
fn package_managers_are_tools() {
    let tools: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
    for manager in kubexm_kinds::PackageManager::ALL {
        let program = manager.program();
        assert!(tools.contains(&program), "Tool of values.rs: {program}");
    }
}

/// The script prints the files that Rust looks at, and no others.
#[test]
fn the_script_prints_every_file() {
    let lines = scripts::FACTS.text.lines();
    let mut assigned = lines.filter(|line| line.starts_with("pods=/"));
    let folders = assigned.next().unwrap().split(' ');
    let folders: Vec<(&str, &str)> = folders.filter_map(|one| one.split_once('=')).collect();
    let text = folders
        .iter()
        .fold(scripts::FACTS.text.to_owned(), |text, (name, folder)| {
            text.replace(&format!("${name}/"), &format!("{folder}/"))
        });
    let loops = text.split("\nfor file in ").skip(1);
    let named = loops.filter_map(|rest| Some(rest.split_once("; do")?.0));
    let named = named.flat_map(str::split_whitespace);
    let named: BTreeSet<&str> = named.filter(|word| word.starts_with('/')).collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("facts");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let code = ["applied.rs", "printed.rs"].map(read).concat();
    let looked: BTreeSet<&str> = code
        .split('"')
        .filter(|text| text.starts_with('/') && !text.contains('\n'))
        .collect();
    // Certificates reach Rust with their paths.
    let of_certificates =
        |path: &&str| path.contains("/pki/") || path.ends_with("ca.crt") || path.contains('*');
    let looked: Vec<&str> = looked
        .into_iter()
        .filter(|path| !of_certificates(path))
        .collect();
    let named: Vec<&str> = named
        .into_iter()
        .filter(|path| !of_certificates(path))
        .collect();
    assert_eq!(named, looked);
}
