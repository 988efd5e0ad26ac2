use super::*;

/// What a host prints.
const TEXT: &str = "arch=x86_64
kernel=6.1.0-28-amd64
os_id=debian
os_codename=trixie
os_version=13
os_like=
os_name=Debian GNU/Linux 13 (trixie)
glibc=2.41
machine_id=
cpus=2
memory=2048
swap=/dev/sdb
cgroup=v2
address=10.0.0.1
address=fe80:0000:0000:0000:0000:0000:0000:0001
default_route=yes
default_route_ipv6=yes
listen=192B
onlink=0002000A 00FFFFFF
onlink=fd000000000000000000000000000000/40
module=ip_vs
systemd=yes
tool=apt-get
firewalld=yes
firewalld_port=6443/tcp
ufw=no
networkmanager=no
selinux=1
container_selinux=no
exists=/opt/a=b c
readonly=/usr/local
disk=77 100 / /opt/a=b c
inodes=5 10 /opt/a=b c
disk_readonly=/opt/a=b c
unmounted=/opt /opt/a=b c
receipt=no
cluster=eyJpZCI6IjBiN2M0YzRlLTkzYTUtNGNjNy04ZDgzLTNmM2Y2ZjBmOWIxMSIsIm5hbWUiOiJhIiwiY3JlYXRlZCI6IjIwMjYtMDEtMzFUMTI6MDA6MDBaIn0=
authority=/etc/kubernetes/pki/ca.crt LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllXSmoKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=
certificate=/etc/kubernetes/pki/apiserver.crt YWJj
rotated=/var/lib/kubelet/pki/kubelet-client-current.pem YWJj
hosts_entry=10.0.0.99 registry.kubexm.internal
hosts_entry=nonsense other
kubernetes=no
runtime=/run/crio/crio.sock
initialized=no
cluster_files=no
etcd_formed=no
pods_ended=yes
registry_login=no
joined=yes
applied=network flannel
applied=balancer haproxy pod
applied=etcdVersion 3.6.16
nameserver=
clock=17.5
";

fn parsed(text: &str) -> Facts {
    parse::facts(text).unwrap().0
}

#[test]
fn every_line_is_read() {
    let (facts, clock) = parse::facts(TEXT).unwrap();
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
        default_route: true,
        default_route_ipv6: true,
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
        applied: [
            (Setting::Network, ["flannel".to_owned()].into()),
            (Setting::Balancer, ["haproxy pod".to_owned()].into()),
            (Setting::EtcdVersion, ["3.6.16".to_owned()].into()),
        ]
        .into(),
        ..Facts::default()
    };
    assert_eq!((facts, clock), (expected, 17.5));
}

#[test]
fn a_missing_value_is_not_zero() {
    let facts = parsed("cpus=\nmemory=\nselinux=\nnameserver=\nglibc=\nmachine_id=\nclock=1\n");
    assert_eq!(facts, Facts::default());
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
        ("systemd=maybe", "is neither yes nor no"),
        ("memory=2 GiB", "is not a number"),
        ("cpus=-1", "is not a number"),
        ("listen=zz", "is not a port"),
        ("address=node1", "is not an address"),
        ("onlink=zz 0", "is not a network"),
        ("onlink=fd00/81", "is not a network"),
        ("disk=zz 1 / /opt", "is not the space of a disk"),
        ("inodes=1 /opt", "is not a number of inodes"),
        ("cgroup=v3", "is neither v1 nor v2"),
        ("selinux=2", "is neither 0 nor 1"),
        ("cluster=%", "is not base64"),
        ("authority=/etc/x", "has no content"),
        ("applied=podCIDR", "has no value"),
        ("certificate=/etc/x", "has no content"),
        ("rotated=/etc/x", "has no content"),
        ("certificate=/etc/x %", "is not base64"),
        ("hosts_entry=10.0.0.1", "has no name"),
        ("applied=color red", "the name is unknown"),
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
}

/// A full disk truncates files. All other facts of the host stay known.
#[test]
fn damaged_kubeconfig_does_not_hide_other_facts() {
    let path = "/etc/kubernetes/scheduler.conf";
    let certificate = |encoded: &str| {
        let facts = parsed(&format!("cpus=2\nkubeconfig={path} {encoded}\nclock=1\n"));
        assert_eq!(facts.cpus, Some(2));
        facts.certificates[path].clone()
    };
    // "YWJj" is the certificate "abc" as the file has it; "YWJ" and "Y W" are damaged.
    assert_eq!(certificate("WVdKag=="), "abc");
    for damaged in ["WVdK", "WSBX", "Pw==", ""] {
        assert_eq!(certificate(damaged), "", "{damaged}");
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
    let facts = parsed("cluster=e30=\nclock=1\n");
    assert_eq!(facts.cluster, Membership::Damaged);
    assert_eq!(parsed("cluster=\nclock=1\n").cluster, Membership::Damaged);
    assert_eq!(parsed("clock=1\n").cluster, Membership::Unrecorded);
}

#[test]
fn facts_that_were_cut_off_are_an_error() {
    let cut = TEXT.strip_suffix("clock=17.5\n").unwrap();
    assert_eq!(parse::facts(cut), Err(parse::FactsError::Truncated));
}

/// All service packs of openEuler have the same `VERSION_ID`.
#[test]
fn host_of_a_service_pack_prefers_the_packages_of_its_service_pack() {
    let names = |name: &str| -> Vec<String> {
        let text = format!("os_id=openEuler\nos_version=24.03\nos_name={name}\nclock=1\n");
        let releases = parsed(&text).releases().into_iter();
        releases.map(|(_, release)| release).collect()
    };
    assert_eq!(
        names("openEuler 24.03 (LTS-SP3)"),
        ["24.03-LTS-SP3", "24.03", "24"]
    );
    assert_eq!(names("openEuler 24.03 (LTS)"), ["24.03-LTS", "24.03", "24"]);
    assert_eq!(names("openEuler 24.03"), ["24.03", "24"]);
}

#[test]
fn a_host_finds_its_packages_under_several_names() {
    let names = |id: &str, codename: &str, version: &str, like: &str| -> Vec<String> {
        let text = format!(
            "os_id={id}\nos_codename={codename}\nos_version={version}\nos_like={like}\nclock=1\n"
        );
        let releases = parsed(&text).releases();
        releases
            .iter()
            .map(|(id, release)| format!("{id} {release}"))
            .collect()
    };
    assert_eq!(
        names("rocky", "", "9.4", "rhel centos fedora"),
        ["rocky 9.4", "rocky 9", "rhel-like 9"]
    );
    assert_eq!(
        names("rhel", "", "8.10", "fedora").last().unwrap(),
        "rhel-like 8"
    );
    assert_eq!(
        names("centos", "", "9", "rhel fedora"),
        ["centos 9", "rhel-like 9"]
    );
    assert_eq!(
        names("ubuntu", "noble", "24.04", "debian"),
        ["ubuntu noble", "ubuntu 24.04", "ubuntu 24"]
    );
    assert_eq!(
        names("openEuler", "", "22.03", ""),
        ["openEuler 22.03", "openEuler 22"]
    );
    assert_eq!(names("kylin", "", "V10", ""), ["kylin V10"]);
    assert!(names("arch", "", "", "").is_empty());
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

/// The names of the script and of the enums are the same.
#[test]
fn the_script_asks_for_every_name() {
    let list = |start: &str| -> Vec<&str> {
        let line = scripts::FACTS
            .text
            .lines()
            .find(|line| line.starts_with(start));
        let line = line
            .unwrap()
            .trim_start_matches(start)
            .trim_end_matches("; do");
        line.split_whitespace().collect()
    };
    let tools: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
    assert_eq!(list("for tool in"), tools);
    for manager in kubexm_types::PackageManager::ALL {
        assert!(tools.contains(&manager.program()), "{manager:?}");
    }
    let modules: Vec<&str> = Module::ALL.iter().map(|module| module.name()).collect();
    assert_eq!(list("for module in"), modules);
    for setting in Setting::ALL {
        assert!(
            scripts::FACTS.text.contains(&format!("setting {setting} ")),
            "{setting}"
        );
    }
}
