//! The script that reads what the checks of hosts judge.

use super::doctor::lines;
use super::machine::Machine;
use crate::preflight::CHECKS;

const ARGUMENTS: [&str; 9] = [
    "data=/var/lib/containerd",
    "etcd=/var/lib/etcd",
    "directories=/var/lib/etcd /srv/registry /srv/data",
    "files=/etc /etc/hosts /etc/missing",
    "chains=FLANNEL cali",
    "units=docker.service kubelet.service",
    "--",
    "10.96.0.1",
    "fd00:96::1",
];

#[test]
fn what_decides_whether_a_cluster_works_is_read() {
    Machine::with_each_shell(|machine| {
        let fstab = "#/dev/a none swap sw 0 0\n/dev/b none swap sw 0 0\n";
        machine.write("/etc/fstab", fstab);
        machine.write("/srv/cni/10-flannel.conflist", "{}");
        machine.write("/etc/cni/x", "");
        std::os::unix::fs::symlink("/srv/cni", machine.at("/etc/cni/net.d")).unwrap();
        machine.write("/var/lib/etcd/lost+found/x", "");
        machine.write("/etc/hosts", "");
        machine.write("/etc/ufw/ufw.conf", "ENABLED=yes\n");
        machine.write("/etc/ufw/sysctl.conf", "net/ipv4/ip_forward=0\n");
        machine.write("/etc/cloud/cloud.cfg", "manage_etc_hosts: true\n");
        machine.write("/etc/cloud/cloud.cfg.d/a.cfg", "manage_etc_hosts: false\n");
        let analyze =
            "echo '# /etc/sysctl.d/99-cis.conf'; echo '#comment'; echo 'a.b = 0'; echo; echo '; c'";
        machine.fake("systemd-analyze", analyze);
        let environment = "case $* in *show-environment*) printf 'HTTPS_PROXY=http://u:UExBTlRFRA@x\\nno_proxy=$\\047a,b\\047\\nPATH=/bin\\n' ;; esac";
        machine.fake("systemctl", environment);
        machine.fake("lsattr", "case $2 in /etc/hosts) echo '----ia------ /etc/hosts' ;; *) echo '------A--e-- /x' ;; esac");
        machine.fake(
            "ip",
            "case $* in '-4 route show') cat /root/routes; exit ;; -6*) exit 1 ;; *fd00*) exit 2 ;; esac; echo '10.96.0.1 via 192.0.2.1'",
        );
        let routes = "default via 192.0.2.1 dev eth0\n10.244.8.0/24 dev eth1 proto kernel scope link src 10.244.8.1\n\
                      10.99.0.0/16 via 192.0.2.1 dev eth0\nblackhole 10.98.0.0/16\n10.97.0.0/16 proto static \n\
                      \tnexthop via 192.0.2.1 dev eth0 weight 1\n";
        machine.write("/root/routes", routes);
        machine.fake(
            "dpkg",
            "echo 'The following:'; echo ' site-agent  an agent'",
        );
        machine.fake("apt-get", "echo 'unmet dependencies' >&2; exit 100");
        machine.fake(
            "nft",
            "echo 'table inet own {'; echo '  type filter hook forward priority 0; policy drop;'; echo '  type filter hook input priority 0; policy drop;'
             echo '\ttcp dport 22 accept'; echo 'table inet filter {'; echo '  ct state new counter packets 1 bytes 2 reject with icmpx port-unreachable'
             echo 'table ip filter {'; echo '  of-iptables drop'; echo 'table ip cali-of-calico {'; echo 'drop'
             echo 'table ip6 six {'; echo '  type filter hook input priority 0; policy drop;'; echo '  udp dport 8472 drop'
             echo 'table ip four {'; echo '  tcp dport 6443 drop'; echo 'table ip6 filter {'; echo '  of-iptables drop'",
        );
        machine.fake(
            "ip6tables-save",
            "echo ':INPUT DROP [0:0]'; echo '-A KUBE-FIREWALL -j DROP'; echo '-A INPUT -p ipv6-icmp -j ACCEPT'",
        );
        machine.fake(
            "iptables-save",
            "echo '-A INPUT -i lo -j ACCEPT'; echo '-A KUBE-FORWARD -j ACCEPT'; echo '-A INPUT -p tcp --dport 10250 -j DROP'; echo '-A KUBE-FIREWALL -j DROP'; echo '-A cali-FORWARD -j DROP'",
        );
        machine.write("/data/kubelet/x", "");
        std::os::unix::fs::symlink("/data/kubelet", machine.at("/var/lib/kubelet")).unwrap();
        let printed = machine.done(CHECKS, &ARGUMENTS);
        let found = lines(&printed);
        for line in [
            "swap_fstab=/dev/b",
            "cni_file=/etc/cni/net.d/10-flannel.conflist",
            "etcd_entry=lost+found",
            "next_sysctl=# /etc/sysctl.d/99-cis.conf",
            "next_sysctl=a.b = 0",
            "next_sysctl=# /etc/ufw/sysctl.conf",
            "next_sysctl=net/ipv4/ip_forward=0",
            "cloud_hosts=/etc/cloud/cloud.cfg:manage_etc_hosts: true",
            "cloud_hosts=/etc/cloud/cloud.cfg.d/a.cfg:manage_etc_hosts: false",
            "proxy=HTTPS_PROXY",
            "no_proxy=a",
            "no_proxy=b",
            "immutable=/etc/hosts",
            "link=/var/lib/kubelet /data/kubelet",
            "route=10.96.0.1 10.96.0.1 via 192.0.2.1",
            "no_route=fd00:96::1",
            "network=10.244.8.0/24 eth1 -",
            "network=10.99.0.0/16 eth0 192.0.2.1",
            "network=10.97.0.0/16 - several",
            "packages=site-agent",
            "packages=unmet dependencies",
            "forward=inet own",
            "rule=-A INPUT -p tcp --dport 10250 -j DROP",
            "rule=filter: ct state new counter packets 1 bytes 2 reject with icmpx port-unreachable",
            "accept=-A INPUT -i lo -j ACCEPT",
            "accept=own: tcp dport 22 accept",
            "input=own",
            "rule6=:INPUT DROP [0:0]",
            "accept6=-A INPUT -p ipv6-icmp -j ACCEPT",
            "rule6=filter: ct state new counter packets 1 bytes 2 reject with icmpx port-unreachable",
            "accept6=own: tcp dport 22 accept",
            "input6=own",
            "rule6=six: udp dport 8472 drop",
            "input6=six",
            "rule=four: tcp dport 6443 drop",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        for word in [
            "KUBE-FORWARD",
            "of-iptables",
            "KUBE-FIREWALL",
            "cali-FORWARD",
            "of-calico",
            "rule=six",
            "input=six",
            "rule6=four",
            "/dev/a",
            "UExBTlRFRA",
            "comment",
        ] {
            assert!(!printed.contains(word), "{word}: {printed}");
        }
        let immutable = found.iter().filter(|line| line.starts_with("immutable="));
        assert_eq!(immutable.count(), 1, "{found:#?}");
        let networks = found.iter().filter(|line| line.starts_with("network="));
        assert_eq!(networks.count(), 3, "{found:#?}");
    });
}

#[test]
fn file_systems_are_printed_as_they_are_and_as_the_next_boot_mounts_them() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "");
        machine.fake(
            "xfs_info",
            "echo 'naming =version 2 bsize=4096 ascii-ci=0, ftype=0'",
        );
        let fstab = "/dev/a / ext4 defaults 0 1\n/dev/b /var/ xfs rw,ro 0 0\n#/dev/c /srv ext4 ro 0 0\n\
                     /dev/d /var/lib/etcd ext4 ro,noauto 0 0\n/dev/e none swap sw 0 0\n";
        machine.write("/etc/fstab", fstab);
        let printed = machine.done(CHECKS, &ARGUMENTS);
        let found = lines(&printed);
        for line in [
            "next_mount=/usr/local/bin defaults ext4 /",
            "next_mount=/var/lib/etcd rw,ro xfs /var/",
            "next_mount=/srv/registry defaults ext4 /",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        // The programs of the machine are a mount of its own.
        let mut own = found.iter();
        let words = own.find(|line| line.starts_with("mount=/usr/local/bin "));
        assert_eq!(words.unwrap().split(' ').count(), 4, "{found:#?}");
    });
}

/// The first bytes of a file system as `xxd` shows them, with the fields that decide.
#[test]
fn types_of_directory_entries_are_read_from_the_superblock_of_xfs() {
    const TYPES: crate::Script = crate::Script {
        name: "xfs_ftype.sh",
        text: concat!(
            include_str!("../lib/timed.sh"),
            include_str!("../lib/xfs_ftype.sh"),
            "xfs_ftype /data"
        ),
        verb: None,
    };
    let block = |magic: &[u8], version: [u8; 2], features2: u32, incompatible: u32| {
        let mut block = vec![0; 512];
        block[..4].copy_from_slice(magic);
        block[100..102].copy_from_slice(&version);
        block[200..204].copy_from_slice(&features2.to_be_bytes());
        block[216..220].copy_from_slice(&incompatible.to_be_bytes());
        block
    };
    Machine::with_each_shell(|machine| {
        machine.fake("xfs_info", "exit 127");
        machine.fake(
            "df",
            "echo 'Filesystem 1024-blocks'; echo '/root/disk 100 0 100 0% /data'",
        );
        for (content, expected) in [
            (block(b"XFSB", [0xb4, 0xb5], 0x18a, 1), "ftype=1\n"),
            (block(b"XFSB", [0xb4, 0xb5], 0x18a, 0xb), "ftype=1\n"),
            (block(b"XFSB", [0xb4, 0xb5], 0x38a, 0), "ftype=0\n"),
            (block(b"XFSB", [0xb4, 0xb4], 0x28a, 0), "ftype=1\n"),
            (block(b"XFSB", [0xb4, 0xb4], 0x8a, 1), "ftype=0\n"),
            (block(b"XFSB", [0x34, 0xb4], 0x28a, 0), "ftype=0\n"),
            (block(b"EXT4", [0xb4, 0xb5], 0x18a, 1), ""),
            (b"XFSB".to_vec(), ""),
        ] {
            std::fs::write(machine.at("/root/disk"), content).unwrap();
            assert_eq!(machine.done(TYPES, &[]), expected);
        }
        std::fs::remove_file(machine.at("/root/disk")).unwrap();
        assert_eq!(machine.done(TYPES, &[]), "");
        machine.fake("xfs_info", "echo 'naming =version 2 ascii-ci=0, ftype=0'");
        assert_eq!(machine.done(TYPES, &[]), "ftype=0\n");
    });
}

#[test]
fn what_the_next_boot_does_besides_is_read() {
    Machine::with_each_shell(|machine| {
        machine.write(
            "/etc/waagent.conf",
            "ResourceDisk.Format=y\n# ResourceDisk.EnableSwap=y\nResourceDisk.EnableSwap=Y\n",
        );
        machine.write(
            "/etc/resolv.conf",
            "# nameserver 192.0.2.1\nnameserver 127.0.0.1\n",
        );
        machine.write(
            "/etc/fapolicyd/rules.d/90-deny.rules",
            "deny_audit perm=execute all : all\n",
        );
        machine.write(
            "/etc/fapolicyd/rules.d/80-own.rules",
            "allow perm=any all : dir=/opt/\n",
        );
        machine.fake(
            "systemctl",
            "case $* in 'is-enabled systemd-sysctl.service') echo masked; exit 1 ;; 'is-active fapolicyd') echo active ;; is-active*) exit 3 ;; esac",
        );
        machine.fake("ip", "case $* in *cni0) echo '7: cni0    inet 10.85.0.1/16 brd 10.85.255.255 scope global cni0' ;; esac");
        let read = || machine.done(CHECKS, &ARGUMENTS);
        let printed = read();
        let found = lines(&printed);
        for line in [
            "swap_setting=/etc/waagent.conf:ResourceDisk.EnableSwap=Y",
            "resolver=/etc/resolv.conf 127.0.0.1",
            "masked_unit=systemd-sysctl.service",
            "cni0=10.85.0.1/16",
            "fapolicyd=active",
            "fapolicyd=allow perm=any all : dir=/opt/",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        for word in [
            "resolved=",
            "deny_audit",
            "192.0.2.1",
            "systemd-modules-load",
        ] {
            assert!(!printed.contains(word), "{word}: {printed}");
        }
        machine.write("/etc/fapolicyd/fapolicyd.conf", "permissive = 1\n");
        assert!(!read().contains("fapolicyd="));
    });
}

#[test]
fn many_other_rules_do_not_hide_one_that_drops_packets() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "iptables-save",
            "for n in $(seq 99); do echo \"-A INPUT -p tcp --dport $n -j ACCEPT\"; done
             for n in $(seq 99); do echo \"-A f2b-sshd -s 198.51.100.$n/32 -j REJECT\"; done
             echo '-A INPUT -p tcp --dport 10250 -j DROP'",
        );
        machine.fake(
            "nft",
            "echo 'table inet own {'; for n in $(seq 99); do echo \"tcp dport $n accept\"; done
             echo '  udp dport 8472 drop'; echo '}'",
        );
        let printed = machine.done(CHECKS, &ARGUMENTS);
        let found = lines(&printed);
        for line in [
            "rule=-A INPUT -p tcp --dport 10250 -j DROP",
            "rule=own: udp dport 8472 drop",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        let rules = found.iter().filter(|line| line.starts_with("rule="));
        assert_eq!(rules.count(), 42, "{found:#?}");
    });
}

#[test]
fn cloud_init_values_come_in_the_order_in_which_it_merges_them() {
    Machine::with_each_shell(|machine| {
        let instance = "/var/lib/cloud/instance";
        for file in [
            "/etc/cloud/cloud.cfg",
            "/etc/cloud/cloud.cfg.d/Z.cfg",
            "/etc/cloud/cloud.cfg.d/a.cfg",
            &format!("{instance}/vendor-cloud-config.txt"),
            &format!("{instance}/cloud-config.txt"),
        ] {
            machine.write(file, "#cloud-config\nmanage_etc_hosts: x\n");
        }
        let files = || -> Vec<String> {
            let printed = machine.done(CHECKS, &ARGUMENTS);
            let lines = printed.lines();
            let files = lines.filter_map(|line| line.strip_prefix("cloud_hosts="));
            files
                .map(|line| line.split(':').next().unwrap_or_default())
                .map(|file| file.rsplit('/').next().unwrap_or_default().to_owned())
                .collect()
        };
        let order = [
            "cloud.cfg",
            "Z.cfg",
            "a.cfg",
            "vendor-cloud-config.txt",
            "cloud-config.txt",
        ];
        assert_eq!(files(), order);
        machine.write("/etc/cloud/cloud-init.disabled", "");
        assert!(files().is_empty());
    });
}

/// Hardening guides blacklist overlay; modprobe loads it nevertheless, and the next boot does not.
#[test]
fn modules_that_the_next_boot_does_not_load_are_printed_with_their_lines() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "modprobe",
            "echo 'alias a b'; echo 'blacklist br-netfilter'; echo 'install overlay /bin/true'",
        );
        machine.write(
            "/etc/modprobe.d/cis.conf",
            "# x\n install overlay /bin/true\n",
        );
        let printed = machine.done(CHECKS, &ARGUMENTS);
        let found = lines(&printed);
        for line in [
            "not_loaded=blacklist br-netfilter",
            "not_loaded=install overlay /bin/true",
            "modprobe_line=/etc/modprobe.d/cis.conf: install overlay /bin/true",
        ] {
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        assert!(!printed.contains("alias"), "{printed}");
    });
}

#[test]
fn proxies_of_units_are_printed_without_passwords() {
    Machine::with_each_shell(|machine| {
        let exceptions = "10.0.0.1,".repeat(1000);
        machine.fake(
            "systemctl",
            &format!(
                "case $* in *' docker.service') echo LoadState=loaded ;; esac
                 case $* in *Environment*docker.service) echo NeedDaemonReload=no
                 echo 'Environment=A=b https_proxy=http://u:UExBTlRFRA@x \"NO_PROXY={exceptions} b\"'
                 echo 'EnvironmentFiles=/etc/default/d* (ignore_errors=yes)' ;; esac"
            ),
        );
        machine.write(
            "/etc/default/docker",
            "# a\nall_proxy=\"http://UExBTlRFRA\"\n",
        );
        // systemd has read the files of this unit.
        machine.write(
            "/etc/systemd/system/docker.service.d/http-proxy.conf",
            "Environment=HTTP_PROXY=http://x\n",
        );
        let printed = machine.done(CHECKS, &ARGUMENTS);
        let of_docker = |line: &&str| line.starts_with("unit_") && line.contains("docker");
        let found: Vec<&str> = printed.lines().filter(of_docker).collect();
        assert_eq!(found.len(), 1003, "{found:?}");
        for line in [
            "unit_proxy=docker.service=https_proxy",
            "unit_no_proxy=docker.service=b",
            "unit_proxy=docker.service=all_proxy",
        ] {
            assert!(found.contains(&line), "{line}: {found:?}");
        }
        assert!(!printed.contains("UExBTlRFRA"), "{printed}");
    });
}

/// systemd does not read the files of a unit that does not exist yet.
#[test]
fn files_of_a_unit_that_systemd_does_not_know_are_read_as_systemd_does() {
    Machine::with_each_shell(|machine| {
        let printed = |files: &str| {
            let file = "/etc/systemd/system/kubelet.service.d/http-proxy.conf";
            machine.write(file, &format!("[Service]\n{files}\n"));
            machine.fake(
                "systemctl",
                "case $* in *LoadState*) echo LoadState=not-found; echo NeedDaemonReload=no ;; esac",
            );
            let printed = machine.done(CHECKS, &ARGUMENTS);
            let lines = printed.lines();
            let lines = lines.filter(|line| {
                let is_about = line.starts_with("unit_") && line.contains("kubelet");
                is_about && !line.starts_with("unit_setting")
            });
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        machine.write(
            "/etc/default/kubelet",
            "HTTP_PROXY=http://x\nNO_PROXY='c,\\\nd'\n",
        );
        let expected = [
            "unit_proxy=kubelet.service=HTTP_PROXY",
            "unit_no_proxy=kubelet.service=c",
            "unit_no_proxy=kubelet.service=d",
            "unit_unknown=kubelet.service",
        ];
        let folders = [
            "/run/systemd/system/kubelet.service.d",
            "/etc/systemd/system/service.d",
        ];
        for (folder, name) in folders.into_iter().zip(["HTTPS_PROXY", "all_proxy"]) {
            let file = format!("{folder}/site.conf");
            machine.write(&file, &format!("[Service]\nEnvironment={name}=http://x\n"));
            let found = printed("");
            let expected = format!("unit_proxy=kubelet.service={name}");
            assert!(found.contains(&expected), "{folder}: {found:?}");
            machine.write(&file, "");
        }
        for files in [
            "EnvironmentFile=-/etc/default/kubelet",
            "Environment=HTTP_PROXY=http://x\nEnvironment=NO_PROXY=c,d",
            "Environment='HTTP_PROXY=http://x' 'NO_PROXY=c,d'",
            "Environment=\"HTTP_PROXY=http://x\" \\\n  NO_PROXY=\"c,d\"",
        ] {
            assert_eq!(printed(files), expected, "{files}");
        }
    });
}

#[test]
fn what_changes_the_programs_of_the_cluster_is_printed_without_values() {
    Machine::with_each_shell(|machine| {
        let drop_ins = "systemd/system/kubelet.service.d";
        machine.write(
            &format!("/etc/{drop_ins}/10-kubeadm.conf"),
            "# Written by kubexm, based on kubeadm's drop-in:\n[Service]\nExecStart=\n",
        );
        machine.write(
            &format!("/etc/{drop_ins}/20-site.conf"),
            "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet\nEnvironment=TOKEN=UExBTlRFRA HTTPS_PROXY=x\n",
        );
        machine.write(
            &format!("/run/{drop_ins}/a.conf"),
            "[Service]\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/a --register-node=false\"\n",
        );
        let flags =
            "KUBELET_EXTRA_ARGS=\"--node-ip=192.0.2.1 -v 4 --site=UExBTlRFRA\"\nOTHER=--x\n";
        machine.write("/etc/default/kubelet", flags);
        machine.write(
            "/etc/crio/crio.conf.d/99-site.conf",
            "[crio.image]\n# a = b\n pause_image = \"UExBTlRFRA\"\n",
        );
        let printed = machine.done(CHECKS, &ARGUMENTS);
        let keys = ["unit_setting=", "kubelet_flag=", "crio_setting="];
        let mut found = lines(&printed);
        found.retain(|line| keys.iter().any(|key| line.starts_with(key)));
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "crio_setting=/etc/crio/crio.conf.d/99-site.conf pause_image".to_owned(),
                "kubelet_flag=/etc/default/kubelet node-ip".to_owned(),
                "kubelet_flag=/etc/default/kubelet site".to_owned(),
                "kubelet_flag=/etc/default/kubelet v".to_owned(),
                format!("kubelet_flag=/run/{drop_ins}/a.conf config"),
                format!("kubelet_flag=/run/{drop_ins}/a.conf register-node=false"),
                format!("unit_setting=kubelet.service /etc/{drop_ins}/20-site.conf ExecStart"),
                format!("unit_setting=kubelet.service /etc/{drop_ins}/20-site.conf TOKEN"),
            ]
        );
        assert!(!printed.contains("UExBTlRFRA"), "{printed}");
    });
}

#[test]
fn programs_that_write_the_name_servers_are_printed_unless_their_settings_forbid_it() {
    Machine::with_each_shell(|machine| {
        let settings = [
            (
                "/etc/dhcp/dhclient.conf",
                "dhclient",
                "request routers;\n",
                "supersede domain-name-servers 192.0.2.53;\n",
            ),
            (
                "/etc/dhcpcd.conf",
                "dhcpcd",
                "hostname\n",
                "nohook resolv.conf\n",
            ),
            (
                "/etc/sysconfig/network/config",
                "netconfig",
                "NETCONFIG_DNS_POLICY=\"auto\"\n",
                "NETCONFIG_DNS_POLICY=\"\"\n",
            ),
            (
                "/etc/cloud/cloud.cfg.d/a.cfg",
                "cloud-init",
                "manage_resolv_conf: true\n",
                "manage_resolv_conf: false\n",
            ),
        ];
        machine.fake(
            "pidof",
            "case $1 in dhclient | dhcpcd) echo 7 ;; *) exit 1 ;; esac",
        );
        let found = || {
            let printed = machine.done(CHECKS, &ARGUMENTS);
            let mut found: Vec<String> = lines(&printed).into_iter().map(str::to_owned).collect();
            found.retain(|line| line.starts_with("resolv_writer="));
            found
        };
        for (file, _, writes, _) in settings {
            machine.write(file, writes);
        }
        let expected =
            settings.map(|(file, program, ..)| format!("resolv_writer={program} {file}"));
        assert_eq!(found(), expected);
        for (file, _, _, leaves) in settings {
            machine.write(file, leaves);
        }
        assert_eq!(found(), [""; 0]);
    });
}

/// With merged directories, /lib is a link to /usr/lib.
#[test]
fn lines_of_modprobe_are_printed_once() {
    const MOUNT: &str = "mount -t tmpfs x /usr/lib/modprobe.d
        echo 'blacklist overlay' >/usr/lib/modprobe.d/site.conf";
    Machine::with_each_shell(|machine| {
        let ended = machine.run_after(MOUNT, CHECKS, &ARGUMENTS, "");
        let lines = ended.printed.lines();
        let found: Vec<&str> = lines
            .filter(|line| line.starts_with("modprobe_line"))
            .collect();
        assert_eq!(found.len(), 1, "{found:?} {}", ended.complained);
    });
}

/// After the next boot, programs would find an empty directory below the mount point.
#[test]
fn mounts_that_a_boot_does_not_repeat_are_printed() {
    const MOUNT: &str = "mkdir -p /var/lib/etcd /srv/registry /srv/data/x\n\
        for path in /var/lib/etcd /srv; do mount -t tmpfs -o noatime disk $path; done\nmkdir -p /srv/data\nmount -t tmpfs disk /srv/data";
    Machine::with_each_shell(|machine| {
        machine.fake("systemd-detect-virt", "exit 1");
        machine.fake(
            "systemctl",
            "case $* in *FragmentPath*/srv/data) echo FragmentPath=/run/x.mount ;; *FragmentPath*) echo FragmentPath= ;; esac",
        );
        let unsaved = || {
            let ended = machine.run_after(MOUNT, CHECKS, &ARGUMENTS, "");
            assert_eq!(ended.status, 0, "{}", ended.complained);
            let lines = ended.printed.lines();
            let lines = lines.filter_map(|line| line.strip_prefix("unsaved_mount="));
            // A user namespace has options of its own.
            let lines = lines.map(|line| {
                let (first, directory) = line.rsplit_once(' ').unwrap();
                let options = first.find(",rw,uid=").unwrap_or(first.len());
                format!("{} {directory}", &first[..options])
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(
            unsaved(),
            [
                "/var/lib/etcd / tmpfs disk rw,noatime,rw /var/lib/etcd",
                "/srv / tmpfs disk rw,noatime,rw /srv/registry"
            ]
        );
        machine.write("/etc/fstab", "disk /var/lib/etcd/ tmpfs defaults 0 0\n");
        assert_eq!(unsaved(), ["/srv / tmpfs disk rw,noatime,rw /srv/registry"]);
        machine.fake("systemd-detect-virt", "");
        assert!(unsaved().is_empty());
    });
}
