//! Other programs and files that change what kubexm sets.

use super::{Facts, found, on, only};

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
    for same in [
        "cgroup-driver=systemd",
        "anonymous-auth=false",
        "authorization-mode=Webhook",
    ] {
        let flag = only("", &format!("kubelet_flag=/etc/default/kubelet {same}"));
        assert!(!flag.fatal, "{flag}");
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
