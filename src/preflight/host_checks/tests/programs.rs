//! What keeps programs and the runtime from working.

use super::*;

/// fapolicyd starts only programs of packages and of its rules.
#[test]
fn programs_need_rules_of_fapolicyd() {
    let finding = only("", "fapolicyd=active");
    assert!(
        finding.fatal && finding.kind == FindingKind::Programs,
        "{finding}"
    );
    let command = "'allow perm=any all : dir=/opt/cni/bin/' 'allow perm=any all : dir=/var/lib/kubexm/' \
                   >/etc/fapolicyd/rules.d/80-kubexm.rules && systemctl restart fapolicyd";
    assert!(finding.hint.ends_with(command), "{finding}");
    let rules = finding
        .hint
        .split('\'')
        .filter(|word| word.starts_with("allow"));
    let lines: Vec<String> = rules.map(|rule| format!("\nfapolicyd={rule}")).collect();
    assert_eq!(
        found("", &format!("fapolicyd=active{}", lines.concat())),
        []
    );
    let list = "fapolicyd=active\nfapolicyd=allow perm=any all : dir=/usr/local/,/opt/,/var/lib/";
    assert_eq!(found("", list), []);
    let shorter = "fapolicyd=active\nfapolicyd=allow perm=any all : dir=/usr/local/,/opt/";
    assert_eq!(found("", shorter).len(), 1);
}

#[test]
fn file_systems_on_which_the_runtime_cannot_work_are_refused() {
    let runtime = "mount=/var/lib/containerd rw";
    for (answers, fatal) in [
        (format!("{runtime} nfs4 /var"), true),
        (format!("{runtime} overlay /"), true),
        (format!("{runtime} xfs /\nxfs=ftype=0"), true),
        ("mount=/var/lib/kubelet rw nfs /var".to_owned(), true),
        ("mount=/var/lib/etcd rw nfs /var/lib/etcd".to_owned(), false),
    ] {
        let finding = only("", &answers);
        assert_eq!(
            (finding.kind, finding.fatal),
            (FindingKind::FileSystems, fatal),
            "{finding}"
        );
    }
    let unread = only("", &format!("{runtime} xfs /var"));
    assert!(
        !unread.fatal && unread.hint.contains("the package xfsprogs"),
        "{unread}"
    );
    for harmless in [
        format!("{runtime} xfs /\nxfs=ftype=1"),
        "mount=/var/lib/kubelet rw xfs /".to_owned(),
        format!("{runtime} ext4 /"),
        "mount=/srv/other rw nfs4 /srv".to_owned(),
        "mount=/var/log/pods rw nfs4 /var/log".to_owned(),
    ] {
        assert_eq!(found("", &harmless), [], "{harmless}");
    }
}

/// A host for a registry or a load balancer has no runtime and no kubelet.
#[test]
fn directories_that_a_host_does_not_use_may_be_anything() {
    for answers in [
        "link=/var/lib/containerd /data/containerd",
        "mount=/opt/cni/bin rw,noexec",
        "mount=/var/lib/containerd rw nfs4 /var",
        "next_mount=/var/lib/containerd ro ext4 /var",
    ] {
        assert_eq!(
            on("registry1", &Facts::default(), "", answers),
            [],
            "{answers}"
        );
    }
    let programs = on(
        "registry1",
        &Facts::default(),
        "",
        "mount=/usr/local/bin rw,noexec",
    );
    assert_eq!(programs.len(), 1);
}

/// `chattr +i /etc/resolv.conf` keeps programs for addresses from changing it, and kubexm does not need to.
#[test]
fn only_files_that_an_install_changes_may_not_be_immutable() {
    let files = |sections: &str, host: &str| {
        let cluster = cluster("", sections);
        let files = system::files(&cluster, &host.parse().unwrap());
        files.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let has = |files: &[String], path: &str| files.iter().any(|file| file == path);
    let node = files("", "node1");
    for path in [
        "/etc/shadow",
        "/etc/hosts",
        "/etc/kubernetes",
        "/opt/cni/bin",
        "/var/lib/etcd",
    ] {
        assert!(has(&node, path), "{path}");
    }
    assert!(!has(&node, "/etc/resolv.conf") && !has(&node, "/etc/hostname"));
    let changed = files(
        "system: {resolvers: {servers: [192.0.2.53]}, setHostname: true}",
        "node1",
    );
    assert!(has(&changed, "/etc/resolv.conf") && has(&changed, "/etc/hostname"));
    let other = files("system: {manageHostsFile: false}", "registry1");
    assert!(!has(&other, "/etc/hosts") && !has(&other, "/etc/kubernetes"));
}
