//! Systems that no test here runs on. Their facts were written after their documentation
//! (os-release(5) of each, firewalld's and ufw's manuals, container-selinux's file list), not recorded.

use kubexm_host::facts::Os;

use crate::guards::*;

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

fn said(facts: &Facts, host: &str) -> Vec<(String, String)> {
    let words = words(&cluster(), &host.parse().unwrap(), facts);
    words
        .into_iter()
        .map(|word| (word.what, word.hint))
        .collect()
}

#[test]
fn ufw_is_told_what_the_host_is_for() {
    let control_plane = said(&ubuntu(), "node1");
    assert_eq!(control_plane.len(), 1, "{control_plane:?}");
    let (what, hint) = &control_plane[0];
    insta::assert_snapshot!(format!("{what}\n{hint}"), @"
    ufw is on: it lets in what it is told to, and passes on nothing
    ufw allow 10250/tcp && ufw allow 2379:2380/tcp && ufw allow 5000/tcp && ufw allow 6443/tcp && ufw allow 8472/udp && ufw allow from 10.244.0.0/16 && ufw route allow from 10.244.0.0/16 && ufw route allow to 10.244.0.0/16; or turn it off: ufw disable
    ");
    let worker = &said(&ubuntu(), "node2")[0].1;
    insta::assert_snapshot!(worker, @"ufw allow 10250/tcp && ufw allow 8472/udp && ufw allow from 10.244.0.0/16 && ufw route allow from 10.244.0.0/16 && ufw route allow to 10.244.0.0/16; or turn it off: ufw disable");
    assert!(!worker.contains("6443") && !worker.contains("2379") && !worker.contains("5000"));
}

#[test]
fn firewalld_is_told_only_what_it_does_not_let_in_yet() {
    let said = said(&rocky(), "node1");
    let firewalld = said
        .iter()
        .find(|(what, _)| what.contains("firewalld"))
        .unwrap();
    insta::assert_snapshot!(format!("{}\n{}", firewalld.0, firewalld.1), @"
    firewalld is on, and its default zone does not let in 5000/tcp, 6443/tcp, 8472/udp
    firewall-cmd --permanent --add-port=5000/tcp --add-port=6443/tcp --add-port=8472/udp && firewall-cmd --permanent --zone=trusted --add-source=10.244.0.0/16 && firewall-cmd --reload; or turn it off: systemctl disable --now firewalld
    ");
    assert!(!firewalld.1.contains("10250"));
    let mut open = rocky();
    open.firewalld.as_mut().unwrap().push("8472/udp".to_owned());
    let worker = words(&cluster(), &"node2".parse().unwrap(), &open);
    assert!(worker.iter().all(|word| !word.what.contains("firewalld")));
}

#[test]
fn selinux_wants_a_policy_for_containers() {
    let hint = |facts: &Facts| {
        let said = said(facts, "node2");
        let word = said.into_iter().find(|(what, _)| what.contains("SELinux"));
        word.map(|(_, hint)| hint)
    };
    insta::assert_snapshot!(hint(&rocky()).unwrap(), @"install container-selinux from your system's media, or add it to spec.packages of the bundle's manifest; or let SELinux only tell: setenforce 0, and SELINUX=permissive in /etc/selinux/config");
    insta::assert_snapshot!(hint(&open_euler()).unwrap(), @"if a pod is refused something: ausearch -m avc -ts recent");
    assert_eq!(hint(&ubuntu()), None);
}

#[test]
fn each_finds_its_packages_by_its_family() {
    let last = |facts: Facts| facts.releases().pop().unwrap();
    let name = |id: &str, release: &str| (id.to_owned(), release.to_owned());
    assert_eq!(last(rocky()), name("rhel-like", "9"));
    assert_eq!(last(open_euler()), name("openEuler", "22"));
    assert_eq!(ubuntu().releases()[0], name("ubuntu", "noble"));
}
