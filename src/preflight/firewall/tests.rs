//! Distributions on which no test runs. Their facts follow the documentation (os-release(5) of each,
//! the manuals of firewalld and ufw, the file list of container-selinux); they are not recorded.

use kubexm_host::facts::Os;

use crate::firewall::*;

fn os(id: &str, version: &str, like: &[&str]) -> Os {
    Os {
        id: Some(id.to_owned()),
        version: Some(version.to_owned()),
        like: like.iter().map(|text| (*text).to_owned()).collect(),
        ..Os::default()
    }
}

fn ubuntu() -> Facts {
    Facts {
        os: Os {
            codename: Some("noble".to_owned()),
            ..os("ubuntu", "24.04", &["debian"])
        },
        ufw: true,
        ..Facts::default()
    }
}

fn rocky() -> Facts {
    Facts {
        os: os("rocky", "9.5", &["rhel", "centos", "fedora"]),
        firewalld: Some(vec!["10250/tcp".to_owned(), "2379-2380/tcp".to_owned()]),
        selinux: Some(Selinux::Enforcing),
        network_manager: true,
        ..Facts::default()
    }
}

fn open_euler() -> Facts {
    Facts {
        os: os("openEuler", "22.03", &[]),
        firewalld: Some(Vec::new()),
        selinux: Some(Selinux::Enforcing),
        container_selinux: true,
        network_manager: true,
        ..Facts::default()
    }
}

fn cluster() -> Cluster {
    kubexm_config::parse_cluster("example", kubexm_config::schema::TEMPLATE).unwrap()
}

fn found(facts: &Facts, host: &str) -> Vec<(String, String)> {
    let findings = findings(&cluster(), &host.parse().unwrap(), facts);
    findings
        .into_iter()
        .map(|finding| (finding.what, finding.hint))
        .collect()
}

#[test]
fn ufw_hint_opens_the_ports_of_the_host() {
    let control_plane = found(&ubuntu(), "node1");
    assert_eq!(control_plane.len(), 1, "{control_plane:?}");
    let (what, hint) = &control_plane[0];
    insta::assert_snapshot!(format!("{what}\n{hint}"), @"
    ufw is active: it blocks forwarded traffic and every port that is not allowed explicitly
    run ufw allow 10250/tcp && ufw allow 2379:2380/tcp && ufw allow 5000/tcp && ufw allow 6443/tcp && ufw allow 8472/udp && ufw allow from 10.244.0.0/16 && ufw route allow from 10.244.0.0/16 && ufw route allow to 10.244.0.0/16; or disable it: ufw disable
    ");
    let worker = &found(&ubuntu(), "node2")[0].1;
    insta::assert_snapshot!(worker, @"run ufw allow 10250/tcp && ufw allow 8472/udp && ufw allow from 10.244.0.0/16 && ufw route allow from 10.244.0.0/16 && ufw route allow to 10.244.0.0/16; or disable it: ufw disable");
    assert!(!worker.contains("6443") && !worker.contains("2379") && !worker.contains("5000"));
}

#[test]
fn firewalld_hint_opens_only_blocked_ports() {
    let found = found(&rocky(), "node1");
    let firewalld = found
        .iter()
        .find(|(what, _)| what.contains("firewalld"))
        .unwrap();
    insta::assert_snapshot!(format!("{}\n{}", firewalld.0, firewalld.1), @"
    firewalld is active, and its default zone blocks 5000/tcp, 6443/tcp, 8472/udp
    run firewall-cmd --permanent --add-port=5000/tcp --add-port=6443/tcp --add-port=8472/udp && firewall-cmd --permanent --zone=trusted --add-source=10.244.0.0/16 && firewall-cmd --reload; or disable it: systemctl disable --now firewalld
    ");
    assert!(!firewalld.1.contains("10250"));
    let mut open = rocky();
    open.firewalld.as_mut().unwrap().push("8472/udp".to_owned());
    let worker = findings(&cluster(), &"node2".parse().unwrap(), &open);
    assert!(
        worker
            .iter()
            .all(|finding| !finding.what.contains("firewalld"))
    );
}

#[test]
fn network_plugin_opens_the_ports_of_its_transport_only() {
    let opened = |network: &str| {
        let template = kubexm_config::schema::TEMPLATE;
        assert!(template.contains("    plugin: flannel"));
        let text = template.replace("    plugin: flannel", network);
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        let list = openings(&cluster, &"node2".parse().unwrap()).into_iter();
        let list: Vec<String> = list.map(|(port, kind)| format!("{port}/{kind}")).collect();
        list.join(" ")
    };
    let cilium = |routing: &str| {
        opened(&format!(
            "    plugin: cilium\n    cilium: {{routing: {routing}}}"
        ))
    };
    let calico = |way: &str| {
        opened(&format!(
            "    plugin: calico\n    calico: {{encapsulation: {way}}}"
        ))
    };
    let all = [
        cilium("vxlan"),
        cilium("geneve"),
        cilium("native"),
        calico("vxlan"),
        calico("ipip"),
        calico("none"),
        opened("    plugin: flannel\n    flannel: {backend: host-gw}"),
        opened("    plugin: bridge"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    10250/tcp 4240/tcp 8472/udp
    10250/tcp 4240/tcp 6081/udp
    10250/tcp 4240/tcp
    10250/tcp 4789/udp 5473/tcp
    10250/tcp 179/tcp 5473/tcp
    10250/tcp 179/tcp 5473/tcp
    10250/tcp
    10250/tcp
    ");
}

#[test]
fn selinux_needs_a_policy_for_containers() {
    let hint = |facts: &Facts| {
        let found = found(facts, "node2");
        let finding = found.into_iter().find(|(what, _)| what.contains("SELinux"));
        finding.map(|(_, hint)| hint)
    };
    insta::assert_snapshot!(hint(&rocky()).unwrap(), @"install container-selinux, or add it to spec.packages of the bundle manifest; or make SELinux permissive: setenforce 0, and SELINUX=permissive in /etc/selinux/config");
    insta::assert_snapshot!(hint(&open_euler()).unwrap(), @"if SELinux denies something to a pod, ausearch -m avc -ts recent shows it");
    assert_eq!(hint(&ubuntu()), None);
}

#[test]
fn distributions_find_packages_of_their_family() {
    let last = |facts: Facts| facts.releases().pop().unwrap();
    let name = |id: &str, release: &str| (id.to_owned(), release.to_owned());
    assert_eq!(last(rocky()), name("rhel-like", "9"));
    assert_eq!(last(open_euler()), name("openEuler", "22"));
    assert_eq!(ubuntu().releases()[0], name("ubuntu", "noble"));
}
