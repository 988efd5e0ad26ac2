//! What the next boot makes of a host.

use super::*;

#[test]
fn settings_of_interfaces_that_undo_those_of_the_cluster_are_refused() {
    let of =
        |file: &str, line: &str| format!("next_sysctl=# /etc/sysctl.d/{file}\nnext_sysctl={line}");
    for (file, line) in [
        ("99-cis.conf", "net.ipv4.conf.default.forwarding=0"),
        // It may be a card that no pod uses.
        ("99-cis.conf", "net/ipv4/conf/eth0/forwarding = 0"),
        // systemd applies patterns to each new interface.
        ("10-cis.conf", "net.ipv4.conf.*.forwarding=0"),
        ("10-cis.conf", "kernel.modules_disabled=1"),
    ] {
        let finding = only("", &of(file, line));
        assert!(finding.kind == FindingKind::KernelSettings, "{finding}");
        assert_eq!(finding.fatal, !line.contains("eth0"), "{finding}");
        assert!(finding.hint.contains(file), "{finding}");
        assert_eq!(
            on("registry1", &Facts::default(), "", &of(file, line)),
            [],
            "{line}"
        );
    }
    for harmless in [
        of("10-cis.conf", "net.ipv4.conf.default.forwarding=0"),
        of("99-cis.conf", "net.ipv6.conf.all.disable_ipv6=1"),
        of("99-cis.conf", "net.ipv6.conf.default.forwarding=0"),
        of("99-cis.conf", "net.ipv4.conf.all.rp_filter=1"),
        of("99-cis.conf", "-net.ipv4.conf.all.rp_filter"),
        format!(
            "{}\nnext_sysctl=net.ipv4.conf.default.forwarding=1",
            of("99-cis.conf", "net.ipv4.conf.default.forwarding=0")
        ),
    ] {
        assert_eq!(found("", &harmless), [], "{harmless}");
    }
    let mut dual = cluster("", "");
    let both: Vec<ipnet::IpNet> = ["10.244.0.0/16", "fd00::/56"]
        .map(|net| net.parse().unwrap())
        .into();
    dual.network.pod_cidr = kubexm_config::cluster::IpFamilies::from_list(&both).unwrap();
    for line in [
        "net.ipv6.conf.default.disable_ipv6=1",
        "net.ipv6.conf.*.forwarding=0",
    ] {
        let found = in_cluster(&dual, "node1", &Facts::default(), &of("10-cis.conf", line));
        assert!(found.len() == 1 && found[0].fatal, "{line}: {found:#?}");
    }
}

#[test]
fn units_that_apply_settings_and_load_modules_must_not_be_masked() {
    let finding = only("", "masked_unit=systemd-sysctl.service");
    assert!(
        finding
            .hint
            .ends_with("systemctl unmask systemd-sysctl.service"),
        "{finding}"
    );
    let locked = only("", "sysctl=kernel/modules_disabled 1");
    assert!(locked.fatal, "{locked}");
    assert_eq!(found("", "sysctl=kernel/modules_disabled 0"), []);
}

#[test]
fn options_of_fstab_count_at_the_next_boot() {
    let now = "mount=/var/lib/etcd rw,relatime ext4 /data\n";
    let next = |options: &str| format!("{now}next_mount=/var/lib/etcd {options} ext4 /data");
    let finding = only("", &next("defaults,ro"));
    assert!(
        finding.fatal && finding.what.contains("with ro"),
        "{finding}"
    );
    for harmless in ["defaults", "ro,rw", "noexec,nodev"] {
        assert_eq!(found("", &next(harmless)), [], "{harmless}");
    }
    // Another file system is mounted there now.
    let other = format!("{now}next_mount=/var/lib/etcd ro ext4 /");
    assert_eq!(found("", &other), []);
    let programs = "mount=/opt/cni/bin rw ext4 /opt\nnext_mount=/opt/cni/bin";
    for options in ["noexec", "user", "exec,users"] {
        let finding = only("", &format!("{programs} {options} ext4 /opt"));
        assert!(
            finding.fatal && finding.what.contains("with noexec"),
            "{finding}"
        );
    }
    assert_eq!(found("", &format!("{programs} user,exec ext4 /opt")), []);
}

#[test]
fn mount_with_noauto_is_refused() {
    let finding = only(
        "",
        "noauto_mount=/data / ext4 /dev/sdb1 rw,relatime,rw /var/lib/etcd",
    );
    assert!(
        finding.fatal && finding.what.contains("noauto for /data"),
        "{finding}"
    );
    assert!(
        finding.what.contains("/var/lib/etcd would be on another"),
        "{finding}"
    );
}

#[test]
fn agent_that_creates_swap_is_refused() {
    let answers = "swap_setting=/etc/waagent.conf:ResourceDisk.EnableSwap=y";
    let finding = only("", answers);
    assert!(
        finding.fatal && finding.kind == FindingKind::Swap,
        "{finding}"
    );
    let permitted = cluster("kubelet: {extraConfig: {failSwapOn: false}}", "");
    assert_eq!(
        in_cluster(&permitted, "node1", &Facts::default(), answers),
        []
    );
}
