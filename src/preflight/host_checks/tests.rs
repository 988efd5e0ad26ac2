mod networks;
mod overrides;
mod programs;
mod reboot;

use super::*;
use kubexm_config::example::cluster;

/// Returns the findings about a host with these answers, in a cluster with these sections.
fn on(host: &str, facts: &Facts, sections: &str, answers: &str) -> Vec<Finding> {
    in_cluster(&cluster("", sections), host, facts, answers)
}

fn in_cluster(cluster: &Cluster, host: &str, facts: &Facts, answers: &str) -> Vec<Finding> {
    let answers = Answers::parse(&format!("{answers}\nend=\n"), KEYS).unwrap();
    judge(&Asked {
        cluster,
        host: &host.parse().unwrap(),
        facts,
        answers: &answers,
    })
}

fn found(sections: &str, answers: &str) -> Vec<Finding> {
    on("node1", &Facts::default(), sections, answers)
}

/// Returns the only finding.
fn only(sections: &str, answers: &str) -> Finding {
    let mut found = found(sections, answers);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn healthy_host_has_no_findings() {
    let answers = "mount=/usr/local/bin rw,relatime\nmount=/var/lib/containerd rw,noexec\nsysctl=net/ipv4/ip_forward 0\n\
                   next_sysctl=# /etc/sysctl.d/50-site.conf\nnext_sysctl=net.ipv4.ip_forward = 0\n\
                   next_sysctl=# /etc/sysctl.d/99-site.conf\nnext_sysctl=net/ipv4/ip_forward=1\nnext_sysctl=vm.swappiness = 1\n\
                   cni_file=/etc/cni/net.d/00-multus.conf\n\
                   cni_file=/etc/cni/net.d/10-flannel.conflist\nroute=10.96.0.1 via 192.0.2.1\nforward=ip filter";
    assert_eq!(found("", answers), []);
}

/// The runtime takes the first file by name, so that pods of an installed cluster had the network of podman. The pods of flannel
/// write theirs after CoreDNS has got a network.
#[test]
fn other_network_configurations_are_refused_if_the_runtime_would_use_them() {
    let answers =
        "cni_file=/etc/cni/net.d/99-last.conf\ncni_file=/etc/cni/net.d/05-podman.conflist";
    let finding = only("", answers);
    assert!(finding.fatal && finding.kind == FindingKind::CniLeftovers);
    let commands = "rm /etc/cni/net.d/05-podman.conflist && rm /etc/cni/net.d/99-last.conf";
    assert!(finding.hint.ends_with(commands), "{finding}");
    let late = "cni_file=/etc/cni/net.d/87-podman-bridge.conflist";
    for plugin in ["flannel", "calico", "cilium"] {
        let finding = only(&format!("network: {{plugin: {plugin}}}"), late);
        assert!(finding.fatal, "{finding}");
    }
    // kubexm writes the file of the bridge before the kubelet starts. One of another plugin of an earlier cluster comes first.
    let bridge = "network: {plugin: bridge}";
    assert_eq!(found(bridge, late), []);
    assert!(only(bridge, "cni_file=/etc/cni/net.d/10-flannel.conflist").fatal);
    assert_eq!(found("network: {plugin: none}", answers), []);
    let node = Facts {
        initialized: true,
        ..Facts::default()
    };
    assert_eq!(on("node1", &node, "", late), []);
    let found = on("node1", &node, "", answers);
    assert!(!found[0].hint.contains("99-last"), "{found:#?}");
}

#[test]
fn host_of_a_cluster_is_not_checked_for_what_an_install_needs() {
    let facts = Facts {
        initialized: true,
        ..Facts::default()
    };
    let answers = "etcd_entry=member\npackages=x\nimmutable=/etc/hosts";
    let found = on("node1", &facts, "", answers);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(!found[0].fatal && found[0].kind == FindingKind::FileSystems);
}

#[test]
fn kernel_setting_that_the_next_boot_undoes_is_refused_with_its_file() {
    let after = |lines: &str| format!("next_sysctl=# /etc/sysctl.d/99-cis.conf\n{lines}");
    for line in [
        "net.ipv4.ip_forward = 0",
        "-net/ipv4/ip_forward=0",
        "net.ipv4.conf.all.forwarding=0",
        "net.*.ip_forward=0",
    ] {
        let finding = only("", &after(&format!("next_sysctl={line}")));
        assert!(finding.fatal, "{finding}");
        assert!(
            finding.what.contains("/etc/sysctl.d/99-cis.conf"),
            "{finding}"
        );
    }
    // The last line counts.
    let twice = after(
        "next_sysctl=net.ipv4.ip_forward=0\nnext_sysctl=# /etc/sysctl.d/99-zz.conf\nnext_sysctl=net.ipv4.ip_forward=1",
    );
    assert_eq!(found("", &twice), []);
    // A setting of the user, without which the cluster works.
    let own = only(
        "system: {sysctl: {vm.swappiness: 1}}",
        &after("next_sysctl=vm.swappiness=60"),
    );
    assert!(!own.fatal, "{own}");
}

#[test]
fn service_address_without_a_route_is_refused_if_pods_of_the_plugin_need_it() {
    let answers = "no_route=10.96.0.1";
    assert!(only("", answers).fatal);
    assert!(!only("network: {plugin: bridge}", answers).fatal);
}

#[test]
fn proxy_of_units_must_not_get_requests_for_the_cluster() {
    let proxies = |exceptions: &str| format!("proxy=HTTPS_PROXY\nno_proxy={exceptions}");
    let finding = only("", &proxies("localhost,example.org"));
    assert!(
        finding.fatal && finding.what.contains("HTTPS_PROXY"),
        "{finding}"
    );
    assert!(
        finding
            .what
            .contains("registry.kubexm.internal and 192.0.2.11"),
        "{finding}"
    );
    for exceptions in [
        "kubexm.internal,192.0.2.0/24,10.96.0.0/12,10.244.0.0/16",
        ".kubexm.internal, 192.0.2.11,192.0.2.12 10.0.0.0/8",
        "*",
    ] {
        assert_eq!(found("", &proxies(exceptions)), [], "{exceptions}");
    }
    let finding = only("", &proxies("internal.example,192.0.2.0/24"));
    assert!(!finding.what.contains("192.0.2.11"), "{finding}");
}

/// CNI programs of the runtime ask the API server at its service address.
#[test]
fn proxy_of_the_runtime_must_not_get_requests_for_services() {
    let proxies = |exceptions: &str| {
        only(
            "",
            &format!("proxy=HTTPS_PROXY\nno_proxy=kubexm.internal,{exceptions}"),
        )
    };
    let finding = proxies("192.0.2.0/24,10.244.0.0/16");
    assert!(finding.fatal && finding.what.ends_with("to every unit, and no_proxy does not have 10.96.0.0/12: the runtime and the programs that it starts would ask the cluster through the proxy"), "{finding}");
    let finding = proxies("192.0.2.11,10.96.0.1");
    assert!(!finding.fatal, "{finding}");
    assert!(
        finding
            .what
            .contains("10.96.0.0/12 and 10.244.0.0/16 and 192.0.2.12"),
        "{finding}"
    );
}

#[test]
fn what_an_install_would_meet_later_is_refused_before() {
    for (answers, kind) in [
        ("etcd_entry=lost+found", FindingKind::EtcdData),
        ("mount=/opt/cni/bin rw,noexec", FindingKind::MountOptions),
        ("immutable=/etc/hosts", FindingKind::FileSystems),
        (
            "link=/var/lib/kubelet /data/kubelet",
            FindingKind::FileSystems,
        ),
        ("packages=libc6", FindingKind::Packages),
        ("rpm_database=error: db5", FindingKind::Packages),
        (
            "cloud_hosts=/etc/cloud/cloud.cfg:manage_etc_hosts: true",
            FindingKind::HostNames,
        ),
    ] {
        let finding = only("", answers);
        assert_eq!((finding.kind, finding.fatal), (kind, true), "{finding}");
    }
    assert!(!only("", "forward=inet hardening").fatal);
    assert!(!only("", "mount=/var/lib/kubelet rw,noexec").fatal);
    let unmanaged = "system: {manageHostsFile: false, installPackages: false}";
    let answers = "packages=x\ncloud_hosts=/etc/cloud/cloud.cfg:manage_etc_hosts: true";
    assert_eq!(found(unmanaged, answers), []);
    // A worker has no member of etcd.
    assert_eq!(on("node2", &Facts::default(), "", "etcd_entry=x"), []);
}

/// A printed command that an earlier file does not obey refuses the install for ever.
#[test]
fn last_value_of_cloud_init_counts_and_its_remedy_comes_after_it() {
    let line = |file: &str, value: &str| format!("cloud_hosts={file}:manage_etc_hosts: {value}\n");
    let directory = "/etc/cloud/cloud.cfg.d";
    let first = line("/etc/cloud/cloud.cfg", "\"1\" # comment");
    let early = line(&format!("{directory}/90-site.cfg"), "True");
    let own = line(&format!("{directory}/99-kubexm.cfg"), "false");
    let late = line(&format!("{directory}/zz.cfg"), "template");
    let user = line("/var/lib/cloud/instance/cloud-config.txt", "yes");
    for (answers, command) in [
        (first.clone(), ">/etc/cloud/cloud.cfg.d/99-kubexm.cfg"),
        (
            format!("{first}{early}"),
            ">/etc/cloud/cloud.cfg.d/99-kubexm.cfg",
        ),
        (
            format!("{early}{own}{late}"),
            "false/' /etc/cloud/cloud.cfg.d/zz.cfg",
        ),
        (
            format!("{own}{user}"),
            "touch /etc/cloud/cloud-init.disabled",
        ),
    ] {
        let finding = only("", answers.trim_end());
        assert!(finding.hint.ends_with(command), "{finding}");
    }
    assert_eq!(found("", format!("{first}{early}{own}").trim_end()), []);
    // It only changes the line of 127.0.1.1.
    let localhost = line("/etc/cloud/cloud.cfg", "localhost");
    assert_eq!(found("", localhost.trim_end()), []);
}

#[test]
fn module_that_the_next_boot_does_not_load_is_refused_with_its_file() {
    for said in ["blacklist br-netfilter", "install br_netfilter /bin/true"] {
        let file = "/etc/modprobe.d/cis.conf";
        let finding = only(
            "",
            &format!("not_loaded={said}\nmodprobe_line={file}: {said}"),
        );
        assert!(finding.fatal && finding.what.contains(file), "{finding}");
        assert!(
            finding
                .hint
                .contains(r"\s+br[-_]netfilter(\s|$)/d' /etc/modprobe.d/cis.conf"),
            "{finding}"
        );
    }
    let finding = only("", "not_loaded=blacklist overlay");
    assert!(
        finding.hint.contains("modprobe.blacklist=overlay"),
        "{finding}"
    );
    for harmless in [
        "blacklist floppy",
        "install overlay /sbin/modprobe --ignore-install overlay",
    ] {
        assert_eq!(found("", &format!("not_loaded={harmless}")), []);
    }
}

#[test]
fn mount_that_the_next_boot_does_not_repeat_is_refused_with_its_line() {
    let disk = "unsaved_mount=/srv / ext4 /dev/sdb1 rw,noatime,rw,prjquota";
    let answers = format!("{disk} /var/lib/etcd\n{disk} /srv/registry");
    let finding = only("", &answers);
    assert!(
        finding.fatal && finding.what.contains("/var/lib/etcd and /srv/registry"),
        "{finding}"
    );
    let line = "uuid=$(blkid -s UUID -o value /dev/sdb1) && \
                echo \"UUID=$uuid /srv ext4 rw,noatime,prjquota 0 0\" >>/etc/fstab";
    assert!(finding.hint.ends_with(line), "{finding}");
    let of = |mount: &str| only("", &format!("unsaved_mount={mount} /srv/registry"));
    let bound = of("/srv /data ext4 /dev/sdb1 rw,");
    assert!(bound.hint.contains("with the option bind"), "{bound}");
    // A shell would change the last one.
    for mount in [
        "/srv / nfs4 server:/srv rw,hard",
        "/srv$x / ext4 /dev/sdb1 rw,",
    ] {
        let other = of(mount);
        assert!(
            other.fatal && !other.hint.contains(">>/etc/fstab"),
            "{other}"
        );
    }
    assert_eq!(
        found("", "unsaved_mount=/srv / zfs pool/srv rw, /srv/registry"),
        []
    );
}

#[test]
fn proxy_of_one_unit_has_the_exceptions_of_the_unit() {
    let proxy = "unit_proxy=containerd.service=HTTPS_PROXY";
    let finding = only("", proxy);
    assert!(
        finding.fatal && finding.what.contains("containerd.service"),
        "{finding}"
    );
    let exceptions = "no_proxy=.kubexm.internal, 192.0.2.0/24 10.0.0.0/8";
    assert_eq!(found("", &format!("{proxy}\n{exceptions}")), []);
    let own = format!("{proxy}\nunit_no_proxy=containerd.service=");
    let all = "kubexm.internal,192.0.2.0/24,10.0.0.0/8";
    assert_eq!(found("", &format!("{own}{all}")), []);
    assert_eq!(found("", &format!("{own}localhost\n{exceptions}")).len(), 1);
    // kubexm's unit unsets it.
    assert_eq!(found("", "unit_proxy=kubelet.service=HTTP_PROXY"), []);
}

/// Its files may differ when the unit exists.
#[test]
fn proxy_of_a_unit_that_systemd_does_not_know_is_a_warning() {
    let proxy = "unit_proxy=containerd.service=HTTPS_PROXY\nunit_unknown=kubelet.service";
    assert!(only("", proxy).fatal);
    assert!(!only("", &format!("{proxy}\nunit_unknown=containerd.service")).fatal);
}

/// A host whose docker was used before has its proxy for nothing that the cluster needs.
#[test]
fn only_units_of_the_runtime_and_the_kubelet_are_asked_for_proxies() {
    let units = |sections: &str, host: &str| {
        network::units(&cluster("", sections), &host.parse().unwrap()).join(" ")
    };
    assert_eq!(units("", "node1"), "containerd.service kubelet.service");
    assert_eq!(
        units("containerRuntime: {type: docker}", "node1"),
        "docker.service cri-dockerd.service kubelet.service"
    );
    assert_eq!(units("", "registry1"), "");
}

#[test]
fn only_nodes_need_the_modules_of_a_cluster_at_the_next_boot() {
    let blacklist = "not_loaded=blacklist overlay";
    let other = |sections, answers: &str| on("registry1", &Facts::default(), sections, answers);
    assert!(only("", blacklist).fatal);
    assert_eq!(other("", blacklist), []);
    assert_eq!(other("system: {modules: [overlay]}", blacklist).len(), 1);
    // The install would not load it.
    assert_eq!(other("", "not_loaded=install overlay /bin/true").len(), 1);
}

/// An install or upgrade may be the way to mend such a host.
#[test]
fn host_with_a_part_of_a_cluster_gets_only_warnings() {
    let answers = "immutable=/etc/hosts";
    assert!(only("", answers).fatal);
    for facts in [
        Facts {
            receipt: true,
            ..Facts::default()
        },
        Facts {
            registry_login: Some(false),
            ..Facts::default()
        },
        Facts {
            etcd_formed: true,
            ..Facts::default()
        },
    ] {
        let found = on("registry1", &facts, "", answers);
        assert!(found.len() == 1 && !found[0].fatal, "{found:#?}");
    }
}
