//! The script that prints the facts of a host.

use super::machine::Machine;
use crate::host;

/// Returns the lines of the script of facts after `before` that follow this one and begin with a key.
fn of_place(
    machine: &Machine,
    before: &str,
    paths: &[&str],
    place: &str,
    key: &str,
) -> Vec<String> {
    let arguments = [&["--"], paths].concat();
    let printed = machine
        .run_after(before, host::FACTS, &arguments, "")
        .printed;
    let lines = printed.lines().skip_while(|line| *line != place).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("path=") && !line.starts_with("folder="));
    let values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

/// The crate kubexm-host reads the flags of the mount, because busybox does not know that root cannot write there.
#[test]
fn mounts_of_directories_and_paths_are_facts() {
    Machine::with_each_shell(|machine| {
        for folder in [
            "/etc",
            "/usr/local",
            "/opt",
            "/root/fake",
            "/srv/data",
            "/srv/other",
        ] {
            let _ = std::fs::create_dir_all(machine.at(folder));
        }
        let before = "mount --bind /opt /opt\nmount -o remount,bind,ro /opt\nmount -t tmpfs none /srv/data\nmkdir /srv/data/a";
        let paths = ["/srv/data/a/b c", "/srv/other"];
        let mount = |place: &str| {
            let mounts = of_place(machine, before, &paths, place, "mount");
            assert_eq!(mounts.len(), 1, "{place}");
            let words: Vec<&str> = mounts[0].split(' ').collect();
            let flags = words.get(5).map_or("", |flags| flags);
            (
                words.get(4).map(|point| (*point).to_owned()),
                flags.split(',').any(|flag| flag == "ro"),
            )
        };
        let at = |point: &str| Some(point.to_owned());
        assert_eq!(mount("folder=/opt"), (at("/opt"), true));
        // The directory that stands for a machine shares /usr with this one.
        assert_eq!(mount("folder=/usr/local").0, at("/usr"));
        // The nearest directory that exists.
        assert_eq!(mount("path=/srv/data/a/b c"), (at("/srv/data"), false));
        // The process does not see the mount of its root.
        assert_eq!(mount("path=/srv/other"), (None, false));
        assert_eq!(mount("folder=/etc"), (None, false));
    });
}

#[test]
fn file_systems_of_paths_have_space_and_inodes() {
    Machine::with_each_shell(|machine| {
        let _ = std::fs::create_dir_all(machine.at("/srv/data"));
        let before = "mount -t tmpfs -o nr_inodes=100,size=1m none /srv/data\nmkdir /srv/data/a";
        let paths = ["/srv/data/a/b c", "/srv/data/a"];
        let fact = |place: &str, key: &str| of_place(machine, before, &paths, place, key);
        // The root of the file system is an inode, too.
        let all = "256 256 4096 98 100";
        assert_eq!(fact("path=/srv/data/a/b c", "space"), [all]);
        assert_eq!(fact("path=/srv/data/a/b c", "exists"), ["no"]);
        assert_eq!(fact("path=/srv/data/a", "exists"), ["yes"]);
        assert_eq!(fact("path=/srv/data/a", "writable"), ["yes"]);
    });
}

#[test]
fn mount_points_of_fstab_and_paths_without_links_are_facts() {
    Machine::with_each_shell(|machine| {
        let fstab = "# /dev/sdz /srv/comment ext4 defaults 0 2\n\
                     /dev/sdb /srv/data/ ext4 defaults,nofail 0 2\n\
                     //server/share /srv/share cifs username=a,password=secret 0 0\n\
                     /dev/sdd /srv/by-hand ext4 rw,noauto 0 0\n\
                     /dev/sde none swap sw 0 0\n";
        assert_eq!(lines_of(machine, &["fstab"]), [""; 0]);
        machine.write("/etc/fstab", fstab);
        let expected = ["fstab=/srv/data/", "fstab=/srv/share", "fstab=none"];
        assert_eq!(lines_of(machine, &["fstab"]), expected);
        let _ = std::fs::create_dir_all(machine.at("/srv/linked"));
        let before = "ln -sfn /srv/data/of-etcd /srv/linked/etcd";
        let path = "/srv/linked/etcd/member";
        let resolved = of_place(
            machine,
            before,
            &[path],
            &format!("path={path}"),
            "resolved",
        );
        assert_eq!(resolved, ["/srv/data/of-etcd/member"]);
    });
}

#[test]
fn certificates_of_the_kubelet_are_facts_without_their_keys() {
    // "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n" in base64.
    const ENCODED: &str =
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllXSmoKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    let text = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n\
                -----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n";
    Machine::with_each_shell(|machine| {
        let folder = "/var/lib/kubelet/pki";
        let rotated = || -> Vec<String> {
            let printed = machine
                .run_after(":", host::FACTS, &["--", "/"], "")
                .printed;
            let lines = printed.lines().filter(|line| line.starts_with("rotated="));
            lines.map(str::to_owned).collect()
        };
        let line = |name: &str| format!("rotated={folder}/{name} {ENCODED}");
        machine.write(&format!("{folder}/kubelet-client-current.pem"), text);
        machine.write(&format!("{folder}/kubelet.crt"), text);
        let client = line("kubelet-client-current.pem");
        assert_eq!(rotated(), [client.clone(), line("kubelet.crt")]);
        let server = "kubelet-server-current.pem";
        machine.write(&format!("{folder}/{server}"), text);
        assert_eq!(rotated(), [client, line(server), line("kubelet.crt")]);
        // The crate kubexm-host ignores the last one if this file exists.
        assert_eq!(
            lines_of(machine, &["present"]),
            [format!("present={folder}/{server}")]
        );
    });
}

/// Returns the lines of the script of facts that begin with one of these keys.
fn lines_of(machine: &Machine, keys: &[&str]) -> Vec<String> {
    let printed = machine
        .run_after(":", host::FACTS, &["--", "/"], "")
        .printed;
    let lines = printed.lines().filter(|line| {
        let key = line.split_once('=').map(|(key, _)| key);
        key.is_some_and(|key| keys.contains(&key))
    });
    lines.map(str::to_owned).collect()
}

/// The crate kubexm-host decodes the certificate of a kubeconfig itself, because it can be damaged.
#[test]
fn damaged_kubeconfigs_and_strange_names_are_facts() {
    Machine::with_each_shell(|machine| {
        let folder = "/etc/kubernetes";
        for (name, text) in [
            (
                "admin",
                "    server: https://a\n    client-certificate-data: YWJj\n    client-key-data: c2VjcmV0\n",
            ),
            ("damaged", "    client-certificate-data: a\\nb c\n"),
            (
                "kubelet",
                "    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n",
            ),
            ("old admin", "    client-certificate-data: \"YWJj\"\n"),
            ("two\nlines", "    client-certificate-data: YWJj\n"),
        ] {
            machine.write(&format!("{folder}/{name}.conf"), text);
        }
        for name in ["apiserver old.crt", "back\\nslash.crt", "line\nend.crt"] {
            machine.write(&format!("{folder}/pki/{name}"), "abc");
        }
        let kubeconfig =
            |name: &str, lines: &str| format!("kubeconfig={folder}/{name}.conf {}", encoded(lines));
        assert_eq!(
            lines_of(machine, &["certificate", "kubeconfig", "end.crt YWJj"]),
            [
                format!("certificate={folder}/pki/apiserver old.crt YWJj"),
                format!("certificate={folder}/pki/back\\nslash.crt YWJj"),
                kubeconfig(
                    "admin",
                    "    server: https://a\n    client-certificate-data: YWJj"
                ),
                // The letters, and not a line end.
                kubeconfig("damaged", "    client-certificate-data: a\\nb c"),
                kubeconfig("kubelet", ""),
                kubeconfig("old admin", "    client-certificate-data: \"YWJj\""),
            ]
        );
    });
}

#[test]
fn link_of_the_kubelet_without_its_file_is_a_fact_without_content() {
    Machine::with_each_shell(|machine| {
        let path = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        let rotated = || lines_of(machine, &["rotated"]);
        assert_eq!(rotated(), [""; 0]);
        machine.write("/var/lib/kubelet/pki/other", "");
        let gone = "/var/lib/kubelet/pki/kubelet-client-2026-01-31-12-00-00.pem";
        std::os::unix::fs::symlink(gone, machine.at(path)).unwrap();
        assert_eq!(rotated(), [format!("rotated={path} ")]);
    });
}

/// Returns a text in base64.
fn encoded(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn files_with_settings_are_facts_up_to_a_limit() {
    Machine::with_each_shell(|machine| {
        let path = "/etc/kubernetes/manifests/kube-apiserver.yaml";
        assert_eq!(lines_of(machine, &["file"]).len(), 1, "/proc/swaps");
        machine.write(path, "kind: Pod\n\u{e9}");
        let fact = |text: &str| format!("file={path} {}", encoded(text));
        assert!(lines_of(machine, &["file"]).contains(&fact("kind: Pod\n\u{e9}")));
        machine.write(path, &"a".repeat(100_000));
        assert!(lines_of(machine, &["file"]).contains(&fact(&"a".repeat(65_536))));
    });
}

#[test]
fn settings_of_network_plugins_are_facts_without_the_rest_of_their_files() {
    let calico = "              - \"name\": \"CALICO_IPV4POOL_IPIP\"\n                \"value\": \"Always\"\n";
    let cilium = "  \"routing-mode\": \"tunnel\"\n";
    let flannel = "      \"Backend\": {\"Type\": \"vxlan\"}\n";
    Machine::with_each_shell(|machine| {
        let printed = || {
            let arguments = [
                "plugins=/etc/kubexm/flannel.yaml /etc/kubexm/calico.yaml /etc/kubexm/cilium.yaml",
                "lines=\"Type\": \"|CALICO_IPV4POOL_|routing-mode",
            ];
            machine.run_after(":", host::FACTS, &arguments, "").printed
        };
        let has = |expected: &str| printed().lines().any(|line| line == expected);
        for (name, lines) in [("calico", calico), ("cilium", cilium), ("flannel", flannel)] {
            let path = format!("/etc/kubexm/{name}.yaml");
            machine.write(
                &path,
                &format!("{}{lines}", "description: x\n".repeat(100_000)),
            );
            let expected = format!("file={path} {}", encoded(lines));
            assert!(has(&expected), "{name}");
            machine.write(&path, "kind: Other\n");
            let expected = format!("file={path} ");
            assert!(has(&expected), "{name}");
        }
    });
}

#[test]
fn versions_of_running_programs_are_facts() {
    Machine::with_each_shell(|machine| {
        let versions = || lines_of(machine, &["version"]);
        machine.fake("kube-apiserver", "echo Kubernetes v1.36.3");
        machine.fake("etcd", "echo etcd Version: 3.6.16; echo Git SHA: 1");
        machine.write("/etc/systemd/system/kube-apiserver.service", "");
        // Without a marker of kubexm, the program belongs to another Kubernetes.
        assert_eq!(versions(), [""; 0]);
        machine.write("/var/lib/kubexm/done/kubernetes-node", "");
        machine.write("/etc/kubexm/etcd-member/etcd.env", "");
        let expected = [
            "version=kube-apiserver Kubernetes v1.36.3",
            "version=etcd etcd Version: 3.6.16",
        ];
        assert_eq!(versions(), expected);
        machine.fake("kube-apiserver", "exit 1");
        assert_eq!(versions()[0], "version=kube-apiserver ");
    });
}

#[test]
fn login_of_a_registry_is_a_fact_only_if_kubexm_runs_one() {
    Machine::with_each_shell(|machine| {
        let fact = |config: Option<&str>| {
            if let Some(text) = config {
                machine.write("/etc/kubexm/registry/config.yml", text);
            }
            let printed = machine
                .run_after(":", host::FACTS, &["--", "/"], "")
                .printed;
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
fn certificates_and_the_public_key_of_service_accounts_are_printed_once() {
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
        let printed = machine
            .run_after(":", host::FACTS, &["--", "/"], "")
            .printed;
        let lines = printed.lines();
        let lines = lines.filter(|line| line.starts_with("certificate="));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "certificate=/etc/kubernetes/pki/sa.pub YQ==",
                "certificate=/etc/kubernetes/pki/apiserver.crt YQ==",
                "certificate=/etc/kubernetes/pki/ca.crt YQ==",
                "certificate=/etc/kubexm/registry-ca.crt YQ==",
                "certificate=/etc/kubexm/registry/tls.crt YQ==",
            ]
        );
    });
}
