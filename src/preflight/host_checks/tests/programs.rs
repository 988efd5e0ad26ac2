//! Other programs and files that change what kubexm sets.

use super::{Facts, found, on, only};

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
    assert_eq!(
        found(
            "",
            "fapolicyd=active\nfapolicyd=allow perm=any all : dir=/usr/local/,/opt/,/var/lib/"
        )
        .len(),
        1
    );
}

#[test]
fn file_that_changes_the_programs_of_the_cluster_is_named() {
    let drop_in = "/etc/systemd/system/kubelet.service.d/20-site.conf";
    for (answers, text, fatal) in [
        (
            format!("unit_setting=kubelet.service {drop_in} ExecStart"),
            "another command",
            true,
        ),
        (
            format!("unit_setting=containerd.service {drop_in} GOGC"),
            "sets GOGC of containerd.service",
            false,
        ),
        (
            "kubelet_flag=/etc/default/kubelet node-ip".to_owned(),
            "the flag --node-ip: kubexm sets it",
            true,
        ),
        (
            "kubelet_flag=/etc/default/kubelet register-node=false".to_owned(),
            "--register-node",
            true,
        ),
        (
            "kubelet_flag=/etc/sysconfig/kubelet v".to_owned(),
            "/etc/sysconfig/kubelet gives the kubelet the flag --v",
            false,
        ),
    ] {
        let finding = only("", &answers);
        assert_eq!(finding.fatal, fatal, "{finding}");
        assert!(finding.what.contains(text), "{finding}");
    }
    let flag = only("", "kubelet_flag=/etc/default/kubelet node-ip");
    assert!(
        flag.hint.ends_with("use internalAddress of the hosts"),
        "{flag}"
    );
}

#[test]
fn files_with_flags_of_the_user_are_not_leftovers() {
    let flag = "kubelet_flag=/etc/default/kubelet v";
    let own = "system: {files: [{path: /etc/default/kubelet, content: a}]}";
    assert_eq!(found(own, flag), []);
    // An administrator adds flags to a host of a cluster.
    let used = Facts {
        receipt: true,
        ..Facts::default()
    };
    assert_eq!(on("node1", &used, "", flag), []);
    // kubexm writes a file of this name, which has precedence.
    let packages = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf";
    let packages = format!(
        "unit_setting=kubelet.service {packages} ExecStart\nkubelet_flag={packages} config"
    );
    assert_eq!(found("", &packages), []);
}

#[test]
fn later_file_of_cri_o_is_refused_if_it_sets_what_the_cluster_decides() {
    let cri_o = "containerRuntime: {type: cri-o}";
    let line = |file: &str, name: &str| format!("crio_setting=/etc/crio/crio.conf.d/{file} {name}");
    assert!(only(cri_o, &line("99-site.conf", "pause_image")).fatal);
    assert!(!only(cri_o, &line("99-site.conf", "log_level")).fatal);
    for (file, name) in [
        ("10-crio.conf", "pause_image"),
        ("10-kubexm.conf", "pause_image"),
    ] {
        assert_eq!(found(cri_o, &line(file, name)), []);
    }
    assert_eq!(found("", &line("99-site.conf", "pause_image")), []);
}

#[test]
fn program_that_replaces_the_name_servers_is_named_with_its_setting() {
    let own = "system: {resolvers: {servers: [192.0.2.53, 192.0.2.54]}}";
    for (writer, remedy) in [
        (
            "dhclient /etc/dhcp/dhclient.conf",
            "echo 'supersede domain-name-servers 192.0.2.53, 192.0.2.54;' >>/etc/dhcp/dhclient.conf",
        ),
        (
            "dhcpcd /etc/dhcpcd.conf",
            "echo 'nohook resolv.conf' >>/etc/dhcpcd.conf",
        ),
        (
            "netconfig /etc/sysconfig/network/config",
            "NETCONFIG_DNS_POLICY=\"\"/' /etc/sysconfig/network/config",
        ),
        (
            "cloud-init /etc/cloud/cloud.cfg",
            "\\1: false/' /etc/cloud/cloud.cfg",
        ),
    ] {
        let answers = format!("resolv_writer={writer}");
        let finding = only(own, &answers);
        assert!(
            !finding.fatal && finding.hint.ends_with(remedy),
            "{finding}"
        );
        assert_eq!(found("", &answers), []);
        let managed = Facts {
            network_manager: true,
            ..Facts::default()
        };
        assert_eq!(on("node1", &managed, own, &answers), []);
    }
}
//! What keeps programs and the runtime from working.
use super::*;
fn file_systems_on_which_the_runtime_cannot_work_are_refused() {
    let runtime = "mount=/var/lib/containerd rw";
    for (answers, fatal) in [
        (format!("{runtime} nfs4 /var"), true),
        (format!("{runtime} overlay /"), true),
        (format!("{runtime} xfs /\nxfs=ftype=0"), true),
        ("mount=/var/lib/kubelet rw nfs /var".to_owned(), true),
        ("mount=/var/lib/etcd rw nfs /var/lib/etcd".to_owned(), false),
        assert_eq!(
            (finding.kind, finding.fatal),
            (FindingKind::FileSystems, fatal),
    for harmless in [
        format!("{runtime} xfs /\nxfs=ftype=1"),
        format!("{runtime} xfs /"),
        format!("{runtime} ext4 /"),
        "mount=/srv/other rw nfs4 /srv".to_owned(),
        "mount=/var/log/pods rw nfs4 /var/log".to_owned(),
        assert_eq!(found("", &harmless), [], "{harmless}");
/// A host for a registry or a load balancer has no runtime and no kubelet.
fn directories_that_a_host_does_not_use_may_be_anything() {
    for answers in [
        "link=/var/lib/containerd /data/containerd",
        "mount=/opt/cni/bin rw,noexec",
        "mount=/var/lib/containerd rw nfs4 /var",
        "next_mount=/var/lib/containerd ro ext4 /var",
        assert_eq!(
            on("registry1", &Facts::default(), "", answers),
            [],
            "{answers}"
    let programs = on(
        "registry1",
        &Facts::default(),
        "",
        "mount=/usr/local/bin rw,noexec",
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
