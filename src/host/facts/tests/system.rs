//! Files of the operating system.

use super::{file, parsed};
use crate::facts::Facts;

/// Returns the facts of a host with this os-release.
fn with_os(release: &str) -> Facts {
    let line = file("file", "/etc/os-release", release);
    parsed(&format!("{line}clock=1\n"))
}

#[test]
fn values_of_os_release_are_those_of_a_shell() {
    let name = |assigned: &str| with_os(assigned).os.name;
    for (assigned, expected) in [
        ("PRETTY_NAME=Debian", "Debian"),
        ("PRETTY_NAME=\"a b\"", "a b"),
        ("PRETTY_NAME='a \"b'", "a \"b"),
        ("PRETTY_NAME=\"a \\\"b\\\" \\$c\"", "a \"b\" $c"),
        (
            "NAME=x\nPRETTY_NAME=one\n# PRETTY_NAME=no\nPRETTY_NAME=two\n",
            "two",
        ),
        ("PRETTY_NAME=\"a\"\r", "a"),
    ] {
        assert_eq!(name(assigned).unwrap(), expected, "{assigned}");
    }
    for without in ["", "PRETTY_NAME=", "PRETTY_NAME=\"\"", "NAME=a"] {
        assert_eq!(name(without), None, "{without}");
    }
    assert_eq!(
        with_os("PRETTY_NAME=\"\nID=debian").os.id.unwrap(),
        "debian"
    );
}

#[test]
fn names_of_hosts_are_those_outside_of_the_block_of_kubexm() {
    let names = |text: &str| -> Vec<String> {
        let facts = parsed(&format!("{}clock=1\n", file("file", "/etc/hosts", text)));
        let entries = facts.hosts_entries.iter();
        entries
            .map(|(address, name)| format!("{address} {name}"))
            .collect()
    };
    let text = "127.0.0.1 localhost\n# kubexm begin\n192.0.2.1 own\n# kubexm end\n\
                # 192.0.2.2 off\n::1\tip6 ip6-loopback # 192.0.2.3 x\n192.0.2.4\nnonsense other\n192.0.2.5 last";
    let expected = [
        "127.0.0.1 localhost",
        "::1 ip6",
        "::1 ip6-loopback",
        "192.0.2.5 last",
    ];
    assert_eq!(names(text), expected);
    assert_eq!(names(&"192.0.2.1 a\n".repeat(1000)).len(), 500);
}

#[test]
fn first_name_server_is_a_fact() {
    let first = |text: &str| {
        let line = file("file", "/etc/resolv.conf", text);
        parsed(&format!("{line}clock=1\n")).nameserver
    };
    let text = "# nameserver 192.0.2.1\n\nsearch nameserver\nnameserver  192.0.2.53\nnameserver 192.0.2.54\n";
    assert_eq!(first(text).unwrap(), "192.0.2.53");
    assert_eq!(first("search a\n"), None);
}

/// All service packs of openEuler have the same `VERSION_ID`.
#[test]
fn host_of_a_service_pack_prefers_the_packages_of_its_service_pack() {
    let names = |name: &str| -> Vec<String> {
        let text = format!("ID=\"openEuler\"\nVERSION_ID=\"24.03\"\nPRETTY_NAME=\"{name}\"\n");
        let releases = with_os(&text).releases().into_iter();
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
            "ID={id}\nVERSION_CODENAME={codename}\nVERSION_ID={version}\nID_LIKE=\"{like}\"\n"
        );
        let releases = with_os(&text).releases();
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
