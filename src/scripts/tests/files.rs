//! Scripts that remove and mount.

use super::machine::Machine;
use crate::{etcd, host, kubeadm, os, steps};

#[test]
fn script_gets_its_input_and_leaves_no_file() {
    Machine::with_each_shell(|machine| {
        machine.write("/run/kubexm/input-999999999", "of a killed script");
        let script = "cat; echo \" $1 $2\"; ls /run/kubexm";
        let arguments = ["6", script, "a b", "c"];
        let ended = machine.run_after("umask 022", steps::RECEIVE_INPUT, &arguments, "secret");
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (0, "secret a b c\n")
        );
        let ended = machine.run_after(":", steps::RECEIVE_INPUT, &arguments, "secre");
        assert_eq!((ended.status, ended.printed.as_str()), (1, ""));
        assert_eq!(ended.complained, "only 5 of 6 bytes of its input arrived\n");
        assert_eq!(machine.at("/run/kubexm").read_dir().unwrap().count(), 0);
    });
}

/// The order of calls that matter for a power failure.
fn order(machine: &Machine) -> Vec<String> {
    let calls = machine.calls();
    let calls = calls.into_iter().map(|call| {
        let words = call
            .split(' ')
            .map(|word| match word.rsplit_once(".kubexm-") {
                Some((start, _)) => format!("{start}.kubexm-*"),
                None => word.to_owned(),
            });
        words.collect::<Vec<_>>().join(" ")
    });
    calls.collect()
}

#[test]
fn content_reaches_the_disk_before_the_name_does() {
    Machine::with_each_shell(|machine| {
        machine.fake("sync", "exec /usr/bin/sync \"$@\"");
        machine.fake("mv", "exec /usr/bin/mv \"$@\"");
        machine.write("/etc/app/conf", "old");
        let input = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\nhello";
        let ended = machine.run_after(":", host::UPLOAD, &["/etc/app/conf", "600"], input);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(machine.read("/etc/app/conf"), "hello");
        let expected = [
            "sync /etc/app/.conf.kubexm-*",
            "mv -fT /etc/app/.conf.kubexm-* /etc/app/conf",
            "sync /etc/app",
        ];
        assert_eq!(order(machine), expected);
        machine.write("/var/lib/kubexm/backup/x", "former");
        machine.done(
            steps::FILE_RESTORE,
            &["/etc/app/conf", "/var/lib/kubexm/backup/x"],
        );
        assert_eq!(machine.read("/etc/app/conf"), "former");
        assert_eq!(order(machine), expected);
        machine.write("/etc/hosts", "127.0.0.1 localhost\n");
        let block = "# kubexm begin\n10.0.0.1 a\n# kubexm end\n";
        machine.done(steps::BLOCK_EDIT, &["/etc/hosts", "put", block]);
        assert!(machine.read("/etc/hosts").ends_with(block));
        let expected = [
            "sync /etc/.hosts.kubexm-*",
            "mv -fT /etc/.hosts.kubexm-* /etc/hosts",
            "sync /etc",
        ];
        assert_eq!(order(machine), expected);
    });
}

#[test]
fn task_ends_with_one_call_for_each_file_system() {
    Machine::with_each_shell(|machine| {
        machine.fake("sync", "[ \"$1\" != -f ] || [ ! -e /root/old ] || exit 1");
        let paths = ["/", "/etc", "/var/lib", "/srv/not/there"];
        machine.done(steps::FLUSH, &paths);
        assert_eq!(machine.calls(), ["sync -f /"]);
        let mount = "mkdir -p /disk\nmount -t tmpfs none /disk";
        let ended = machine.run_after(mount, steps::FLUSH, &["/etc", "/disk/a/b", "/disk"], "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(machine.calls(), ["sync -f /etc", "sync -f /disk"]);
        // coreutils before 8.24.
        machine.write("/root/old", "");
        machine.done(steps::FLUSH, &paths);
        assert_eq!(machine.calls(), ["sync -f /", "sync"]);
    });
}

#[test]
fn file_never_lands_in_a_directory_behind_a_link() {
    Machine::with_each_shell(|machine| {
        machine.write("/srv/public/theirs", "");
        std::fs::create_dir_all(machine.at("/etc/app")).unwrap();
        std::os::unix::fs::symlink("/srv/public", machine.at("/etc/app/key")).unwrap();
        let input = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\nhello";
        let ended = machine.run_after(":", host::UPLOAD, &["/etc/app/key", "600"], input);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(machine.read("/etc/app/key"), "hello");
        assert_eq!(machine.at("/srv/public").read_dir().unwrap().count(), 1);
        let ended = machine.run_after(":", host::UPLOAD, &["/srv/public", "600"], input);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("is a directory"),
            "{}",
            ended.complained
        );
        let ended = machine.run_after(":", host::UPLOAD, &["/etc/app/key", "600"], &input[1..]);
        assert_eq!(ended.status, 1);
        assert_eq!(machine.read("/etc/app/key"), "hello");
        assert!(
            !ended.complained.contains("2cf24d"),
            "a digest: {}",
            ended.complained
        );
    });
}

#[test]
fn read_only_file_systems_are_facts() {
    Machine::with_each_shell(|machine| {
        for folder in ["/etc", "/usr/local", "/opt", "/root/fake"] {
            let _ = std::fs::create_dir_all(machine.at(folder));
        }
        let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
        // The directory that stands for a machine shares /usr with this one, read-only.
        let of_usr = "readonly=/usr/local\n";
        assert_eq!(
            printed.replace(of_usr, "").find("readonly="),
            None,
            "{printed}"
        );
        let before = "mount --bind /opt /opt\nmount -o remount,bind,ro /opt";
        let printed = machine.run_after(before, host::FACTS, &["/"], "").printed;
        assert!(printed.contains("\nreadonly=/opt\n"), "{printed}");
    });
}

/// Returns the settings that the script of facts prints.
fn applied(machine: &Machine) -> Vec<String> {
    let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("applied="));
    lines.map(str::to_owned).collect()
}

#[test]
fn settings_of_running_programs_are_facts() {
    Machine::with_each_shell(|machine| {
        // Without a marker of kubexm, the files belong to another Kubernetes.
        let manifests = "/etc/kubernetes/manifests";
        machine.write(
            &format!("{manifests}/kube-apiserver.yaml"),
            "  - command:\n    - kube-apiserver\n    - --advertise-address=192.0.2.11\n    \
             - --etcd-servers=https://127.0.0.1:2379\n    - --service-cluster-ip-range=10.96.0.0/12\n    \
             image: registry.k8s.io/kube-apiserver:v1.36.3\n",
        );
        machine.write(
            &format!("{manifests}/kube-controller-manager.yaml"),
            "    - --cluster-cidr=10.244.0.0/16\n    - --cluster-name=my cluster\n",
        );
        machine.write(&format!("{manifests}/etcd.yaml"), "kind: Pod\n");
        machine.write(
            "/etc/kubernetes/admin.conf",
            "    server: https://api.example:6443\n",
        );
        machine.write(
            "/var/lib/kubelet/config.yaml",
            "clusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\n",
        );
        machine.write(
            "/var/lib/kubelet/instance-config.yaml",
            "containerRuntimeEndpoint: \"unix:///run/containerd/containerd.sock\"\n",
        );
        machine.write(
            "/etc/kubexm/flannel.yaml",
            "      \"Backend\": {\"Type\": \"vxlan\"}\n",
        );
        assert_eq!(applied(machine), [""; 0]);
        machine.write("/var/lib/kubexm/done/kubeadm-init", "");
        assert_eq!(
            applied(machine),
            [
                "kubernetesType kubeadm",
                "dnsDomain cluster.local",
                "runtime unix:///run/containerd/containerd.sock",
                "endpoint api.example:6443",
                "network flannel",
                "flannelBackend vxlan",
                "controlPlane yes",
                "version 1.36.3",
                "serviceCIDR 10.96.0.0/12",
                "advertiseAddress 192.0.2.11",
                "etcdServers https://127.0.0.1:2379",
                "podCIDR 10.244.0.0/16",
                "clusterName my cluster",
                "etcd kubeadm",
            ]
        );
    });
}

#[test]
fn settings_of_units_are_facts() {
    Machine::with_each_shell(|machine| {
        machine.write("/var/lib/kubexm/done/kubernetes-node", "");
        let units = "/etc/systemd/system";
        machine.write(
            &format!("{units}/kube-apiserver.service"),
            "ExecStart=/usr/local/bin/kube-apiserver \\\n  --encryption-provider-config=/etc/kubernetes/kubexm/encryption.yaml \
             \\\n  --service-cluster-ip-range=10.96.0.0/12\nRestart=always\n",
        );
        machine.write(
            &format!("{units}/kube-controller-manager.service"),
            "ExecStart=/usr/local/bin/kube-controller-manager \\\n  \"--cluster-name=a b\" \\\n  --cluster-cidr=10.244.0.0/16\n",
        );
        machine.fake("kube-apiserver", "echo Kubernetes v1.36.3");
        machine.write(
            "/var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: \"unix:///run/crio/crio.sock\"\n",
        );
        machine.write(
            "/etc/kubexm/etcd-member/etcd.env",
            "# c\nETCD_DATA_DIR=/srv/etcd\n",
        );
        machine.write(&format!("{units}/kubexm-haproxy.service"), "");
        assert_eq!(
            applied(machine),
            [
                "kubernetesType systemd",
                "runtime unix:///run/crio/crio.sock",
                "controlPlane yes",
                "version 1.36.3",
                "serviceCIDR 10.96.0.0/12",
                "encryption encrypted",
                "podCIDR 10.244.0.0/16",
                "clusterName a b",
                "etcd systemd",
                "etcdDataDir /srv/etcd",
                "balancer haproxy",
            ]
        );
    });
}

#[test]
fn login_of_a_registry_is_a_fact_only_if_kubexm_runs_one() {
    Machine::with_each_shell(|machine| {
        let fact = |config: Option<&str>| {
            if let Some(text) = config {
                machine.write("/etc/kubexm/registry/config.yml", text);
            }
            let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
            let line = printed
                .lines()
                .find_map(|line| line.strip_prefix("registry_login="));
            line.map(str::to_owned)
        };
        assert_eq!(fact(None), None);
        assert_eq!(fact(Some("version: 0.1\n# auth:\n")).unwrap(), "no");
        assert_eq!(
            fact(Some("version: 0.1\nauth:\n  htpasswd:\n")).unwrap(),
            "yes"
        );
    });
}

#[test]
fn certificate_of_an_authority_is_printed_once() {
    Machine::with_each_shell(|machine| {
        let (pki, own) = ("/etc/kubernetes/pki", "/etc/kubexm");
        for path in [
            format!("{pki}/ca.crt"),
            format!("{pki}/sa.pub"),
            format!("{pki}/apiserver.crt"),
            format!("{own}/registry-ca.crt"),
            format!("{own}/registry/tls.crt"),
        ] {
            machine.write(&path, "a");
        }
        let printed = machine.run_after(":", host::FACTS, &["/"], "").printed;
        let lines = printed
            .lines()
            .filter(|line| line.starts_with("authority=") || line.starts_with("certificate="));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "authority=/etc/kubernetes/pki/ca.crt YQ==",
                "authority=/etc/kubernetes/pki/sa.pub YQ==",
                "authority=/etc/kubexm/registry-ca.crt YQ==",
                "certificate=/etc/kubernetes/pki/apiserver.crt YQ==",
                "certificate=/etc/kubexm/registry/tls.crt YQ==",
            ]
        );
    });
}

#[test]
fn secret_that_kubexm_wrote_is_not_copied() {
    Machine::with_each_shell(|machine| {
        let folders = machine.done(steps::FILE_PREPARE, &["/etc/app/login", "secret"]);
        assert_eq!(folders, "folder /etc/app\n");
        let record = r#"{"step":"file /etc/app/login","undo":{"folders":["/etc/app"],"kind":"removeFile","path":"/etc/app/login"}}"#;
        machine.write("/var/lib/kubexm/receipt.jsonl", &format!("{record}\n"));
        machine.write("/etc/app/login", "old password");
        let printed = machine.done(steps::FILE_PREPARE, &["/etc/app/login", "secret"]);
        assert_eq!(printed, "ours\n");
        assert!(!machine.has("/var/lib/kubexm/backup"));
        // An earlier version made a copy.
        let printed = machine.done(steps::FILE_PREPARE, &["/etc/app/login", ""]);
        let copy = printed.trim().strip_prefix("backup ").unwrap();
        assert_eq!(machine.read(copy), "old password");
        machine.done(steps::FILE_PREPARE, &["/etc/app/login", "secret"]);
        assert!(!machine.has(copy));
        // A file of the site is copied.
        machine.write("/etc/other", "theirs");
        let printed = machine.done(steps::FILE_PREPARE, &["/etc/other", "secret"]);
        assert!(printed.starts_with("backup "), "{printed}");
    });
}

#[test]
fn what_commands_print_is_private() {
    use std::os::unix::fs::PermissionsExt;
    Machine::with_each_shell(|machine| {
        // An earlier version created both for all users.
        machine.write("/run/kubexm/once.log", "");
        let mode = |path: &str| machine.at(path).metadata().unwrap().permissions().mode() & 0o777;
        for (path, bits) in [("/run/kubexm", 0o755), ("/run/kubexm/once.log", 0o644)] {
            std::fs::set_permissions(machine.at(path), PermissionsExt::from_mode(bits)).unwrap();
        }
        let arguments = [
            "test",
            "",
            "echo said; umask >/root/umask",
            "",
            ":",
            "",
            "60",
        ];
        let ended = machine.run_after("umask 022", steps::RUN_TO_COMPLETION, &arguments, "");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(machine.read("/run/kubexm/once.log"), "said\n");
        assert_eq!(
            (mode("/run/kubexm"), mode("/run/kubexm/once.log")),
            (0o700, 0o600)
        );
        assert_eq!(machine.read("/root/umask").trim(), "0022");
    });
}

#[test]
fn swap_is_disabled_in_fstab_and_restored() {
    let fstab = "# swap\nUUID=1 / ext4 defaults 0 1\n/dev/sdb none swap sw 0 0\n/swap.img\tnone\tswap\tsw 0 0\n";
    Machine::with_each_shell(|machine| {
        machine.fake("swapoff", "");
        machine.fake("swapon", "");
        machine.write("/etc/fstab", fstab);
        let ended = machine.run(os::SWAP_OFF.verb("check"), &[]);
        assert_eq!(ended.status, 1);
        machine.done(os::SWAP_OFF.verb("apply"), &[]);
        assert_eq!(machine.calls(), ["swapoff -a"]);
        let off = "# swap\nUUID=1 / ext4 defaults 0 1\n#kubexm /dev/sdb none swap sw 0 0\n#kubexm /swap.img\tnone\tswap\tsw 0 0\n";
        assert_eq!(machine.read("/etc/fstab"), off);
        machine.write("/var/lib/kubexm/backup/swaps", "/dev/sdb\n/swap.img\n");
        machine.done(os::SWAP_ON, &[]);
        assert_eq!(machine.read("/etc/fstab"), fstab);
        assert_eq!(machine.calls(), ["swapon /dev/sdb", "swapon /swap.img"]);
    });
}

#[test]
fn time_zone_is_set_and_restored() {
    const ZONE: &str = "Europe/Berlin";
    const MOUNT: &str = "mkdir -p /root/share && mount --bind /root/share /usr/share";
    Machine::with_each_shell(|machine| {
        let run = |verb| machine.run_after(MOUNT, os::TIME_ZONE.verb(verb), &[ZONE], "");
        let link = |target: &str| {
            let _ = std::fs::remove_file(machine.at("/etc/localtime"));
            std::os::unix::fs::symlink(target, machine.at("/etc/localtime")).unwrap();
        };
        let localtime = || std::fs::read_link(machine.at("/etc/localtime")).ok();
        let missing = run("apply");
        assert_eq!(missing.status, 1);
        assert!(missing.complained.contains("install the package tzdata"));
        machine.write("/root/share/zoneinfo/Europe/Berlin", "");
        // A minimal system has no time zone.
        assert_eq!(run("check").status, 1);
        assert_eq!(run("apply").status, 0);
        assert_eq!(run("check").status, 0);
        machine.done(os::TIME_ZONE_RESTORE, &[]);
        assert_eq!(localtime(), None);
        std::fs::remove_dir_all(machine.at("/var/lib/kubexm")).unwrap();

        link("../usr/share/zoneinfo/Etc/UTC");
        machine.write("/etc/timezone", "Etc/UTC\n");
        assert_eq!(run("check").status, 1);
        assert_eq!(run("apply").status, 0);
        let name = machine.read("/etc/timezone");
        assert_eq!((run("check").status, name), (0, format!("{ZONE}\n")));
        // The link of timedatectl means the same.
        link("../usr/share/zoneinfo/Europe/Berlin");
        assert_eq!(run("check").status, 0);
        machine.done(os::TIME_ZONE_RESTORE, &[]);
        assert_eq!(localtime(), Some("../usr/share/zoneinfo/Etc/UTC".into()));
        assert_eq!(machine.read("/etc/timezone"), "Etc/UTC\n");
    });
}

#[test]
fn missing_modules_are_loaded() {
    Machine::with_each_shell(|machine| {
        machine.fake("modprobe", "");
        let names = ["proc", "kubexm_none"];
        let ended = machine.run(os::MODULES.verb("check"), &names);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "kubexm_none is not loaded\n")
        );
        machine.done(os::MODULES.verb("apply"), &["kubexm_none"]);
        assert_eq!(machine.calls(), ["modprobe kubexm_none"]);
        let ended = machine.run(os::SYSCTL.verb("apply"), &["kubexm.none", "1"]);
        assert_eq!(ended.complained, "the kernel has no setting kubexm.none\n");
    });
}

#[test]
fn etcd_directory_is_private_and_its_mode_is_restored() {
    use std::os::unix::fs::PermissionsExt;
    Machine::with_each_shell(|machine| {
        machine.write("/srv/etcd/lost+found/x", "");
        let mode = || {
            machine
                .at("/srv/etcd")
                .metadata()
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        std::fs::set_permissions(machine.at("/srv/etcd"), PermissionsExt::from_mode(0o751))
            .unwrap();
        assert_eq!(
            machine
                .run(etcd::FOLDER.verb("check"), &["/srv/etcd"])
                .status,
            1
        );
        machine.done(etcd::FOLDER.verb("apply"), &["/srv/etcd"]);
        assert_eq!(mode(), 0o700);
        machine.done(etcd::FOLDER.verb("check"), &["/srv/etcd"]);
        machine.done(etcd::FOLDER_RESTORE, &["/srv/etcd"]);
        assert_eq!(mode(), 0o751);
        machine.write("/srv/mixed/report.txt", "");
        let ended = machine.run(etcd::FOLDER.verb("apply"), &["/srv/mixed"]);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("\n/srv/mixed/report.txt\n"),
            "{}",
            ended.complained
        );
    });
}

#[test]
fn other_patches_are_removed() {
    Machine::with_each_shell(|machine| {
        for name in ["one.yaml", "two.yaml", "old one.yaml"] {
            machine.write(&format!("/etc/kubexm/patches/{name}"), "");
        }
        let arguments = ["/etc/kubexm/patches", "one.yaml", "two.yaml"];
        let ended = machine.run(kubeadm::PATCHES.verb("check"), &arguments);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "contains old one.yaml\n")
        );
        machine.done(kubeadm::PATCHES.verb("remove"), &arguments);
        machine.done(kubeadm::PATCHES.verb("check"), &arguments);
        assert!(
            machine.has("/etc/kubexm/patches/one.yaml")
                && machine.has("/etc/kubexm/patches/two.yaml")
        );
    });
}
