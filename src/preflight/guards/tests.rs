//! Systems that no test here runs on. What their hosts print was written after their documentation
//! (os-release(5) of each, firewalld's and ufw's manuals, container-selinux's file list), not recorded.

use crate::guards::*;

const UBUNTU: &str = "arch=x86_64\nos_id=ubuntu\nos_codename=noble\nos_version=24.04\nos_like=debian\n\
os_name=Ubuntu 24.04.2 LTS\ntool_apt-get=yes\ntool_dnf=no\nfirewalld=no\nufw=yes\nselinux=\n\
container_selinux=no\nnetworkmanager=no\n";
const ROCKY: &str = "arch=x86_64\nos_id=rocky\nos_codename=\nos_version=9.5\nos_like=rhel centos fedora\n\
os_name=Rocky Linux 9.5 (Blue Onyx)\ntool_apt-get=no\ntool_dnf=yes\nfirewalld=yes\n\
firewalld_port=10250/tcp\nfirewalld_port=2379-2380/tcp\nufw=no\nselinux=1\ncontainer_selinux=no\n\
networkmanager=yes\n";
const OPEN_EULER: &str = "arch=aarch64\nos_id=openEuler\nos_codename=\nos_version=22.03\nos_like=\n\
os_name=openEuler 22.03 (LTS-SP4)\ntool_apt-get=no\ntool_dnf=yes\nfirewalld=yes\nufw=no\nselinux=1\n\
container_selinux=yes\nnetworkmanager=yes\n";

fn cluster() -> Cluster {
    kubexm_config::parse_cluster("example", kubexm_config::schema::TEMPLATE).unwrap()
}

fn said(facts: &str, host: &str) -> Vec<(String, String)> {
    let words = words(&cluster(), &host.parse().unwrap(), &Facts::parse(facts));
    words
        .into_iter()
        .map(|word| (word.what, word.hint))
        .collect()
}

#[test]
fn ufw_is_told_what_the_host_is_for() {
    let control_plane = said(UBUNTU, "node1");
    assert_eq!(control_plane.len(), 1, "{control_plane:?}");
    let (what, hint) = &control_plane[0];
    insta::assert_snapshot!(format!("{what}\n{hint}"), @"
    ufw is on: it lets in what it is told to, and passes on nothing
    ufw allow 10250/tcp && ufw allow 2379:2380/tcp && ufw allow 5000/tcp && ufw allow 6443/tcp && ufw allow 8472/udp && ufw allow from 10.244.0.0/16 && ufw route allow from 10.244.0.0/16 && ufw route allow to 10.244.0.0/16; or turn it off: ufw disable
    ");
    let worker = &said(UBUNTU, "node2")[0].1;
    insta::assert_snapshot!(worker, @"ufw allow 10250/tcp && ufw allow 8472/udp && ufw allow from 10.244.0.0/16 && ufw route allow from 10.244.0.0/16 && ufw route allow to 10.244.0.0/16; or turn it off: ufw disable");
    assert!(!worker.contains("6443") && !worker.contains("2379") && !worker.contains("5000"));
}

#[test]
fn firewalld_is_told_only_what_it_does_not_let_in_yet() {
    let said = said(ROCKY, "node1");
    let firewalld = said
        .iter()
        .find(|(what, _)| what.contains("firewalld"))
        .unwrap();
    insta::assert_snapshot!(format!("{}\n{}", firewalld.0, firewalld.1), @"
    firewalld is on, and its default zone does not let in 5000/tcp, 6443/tcp, 8472/udp
    firewall-cmd --permanent --add-port=5000/tcp --add-port=6443/tcp --add-port=8472/udp && firewall-cmd --permanent --zone=trusted --add-source=10.244.0.0/16 && firewall-cmd --reload; or turn it off: systemctl disable --now firewalld
    ");
    assert!(!firewalld.1.contains("10250"));
    let open = format!("{ROCKY}firewalld_port=8472/udp\n");
    let worker = words(&cluster(), &"node2".parse().unwrap(), &Facts::parse(&open));
    assert!(worker.iter().all(|word| !word.what.contains("firewalld")));
}

#[test]
fn selinux_wants_a_policy_for_containers() {
    let hint = |facts: &str| {
        let said = said(facts, "node2");
        let word = said.into_iter().find(|(what, _)| what.contains("SELinux"));
        word.map(|(_, hint)| hint)
    };
    insta::assert_snapshot!(hint(ROCKY).unwrap(), @"install container-selinux from your system's media, or add it to spec.packages of the bundle's manifest; or let SELinux only tell: setenforce 0, and SELINUX=permissive in /etc/selinux/config");
    insta::assert_snapshot!(hint(OPEN_EULER).unwrap(), @"if a pod is refused something: ausearch -m avc -ts recent");
    assert_eq!(hint(UBUNTU), None);
}

#[test]
fn each_finds_its_packages_by_its_family() {
    let last = |facts: &str| Facts::parse(facts).releases().pop().unwrap();
    let name = |id: &str, release: &str| (id.to_owned(), release.to_owned());
    assert_eq!(last(ROCKY), name("rhel-like", "9"));
    assert_eq!(last(OPEN_EULER), name("openEuler", "22"));
    assert_eq!(Facts::parse(UBUNTU).releases()[0], name("ubuntu", "noble"));
}
