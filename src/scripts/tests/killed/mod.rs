//! Every script that changes a host is killed at each of its simple commands. The next run, and then a reset, lead to
//! the same files as without the kill; so does a reset right after the kill.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::machine::Machine;
use super::users::with_users;
use crate::{
    Script, etcd, host, kubernetes, load_balancer, markers, os, packages, registry, steps, systemd,
};

/// Kills the shell before its simple command number `$KILL_AT`, counted in all of its subshells. The commands of the
/// trap are builtins, so that they do not change what the script sees.
const KILL: &str = r#"set -T
trap 'read -r kubexm_n </root/n || kubexm_n=0; kubexm_n=$((kubexm_n + 1)); echo "$kubexm_n" >/root/n
  [ "$kubexm_n" -ne "$KILL_AT" ] || kill -9 $$ "$BASHPID"' DEBUG
"#;

type Call = (Script, Vec<String>, &'static str);

/// A script, how it is called in an install, and how a reset reverts it.
struct Case {
    /// Prepares the file system.
    before: fn(&Machine),
    /// Runs in the mount namespace of each script.
    enter: &'static str,
    /// The install. A check with the status 0 skips it.
    check: Option<Call>,
    apply: Call,
    undo: Vec<Call>,
}

fn call(script: Script, arguments: &[&str]) -> Call {
    with(script, arguments, "")
}

fn with(script: Script, arguments: &[&str], input: &'static str) -> Call {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    (script, arguments.collect(), input)
}

/// Runs a script with bash, and kills it before the command with this number. Returns whether it was killed.
fn run(machine: &Machine, enter: &str, call: &Call, kill_at: Option<usize>) -> bool {
    let (script, arguments, input) = call;
    let at = kill_at.unwrap_or(0);
    machine.write("/root/n", "0\n");
    let text: &'static str = match kill_at {
        Some(_) => Box::leak(format!("{KILL}{}", script.text).into_boxed_str()),
        None => script.text,
    };
    let script = Script { text, ..*script };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let before = format!("export KILL_AT={at}\n{enter}");
    let ended = machine.run_after(&before, script, &arguments, input);
    assert!(
        ended.status == 137 || ended.status == 0,
        "{} {arguments:?} at {at}: {} {}",
        script.name,
        ended.status,
        ended.complained
    );
    ended.status == 137
}

fn install(machine: &Machine, case: &Case) {
    if let Some((script, arguments, _)) = &case.check {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if machine
            .run_after(case.enter, *script, &arguments, "")
            .status
            == 0
        {
            return;
        }
    }
    run(machine, case.enter, &case.apply, None);
}

fn reset(machine: &Machine, case: &Case) {
    for undo in &case.undo {
        run(machine, case.enter, undo, None);
    }
    run(machine, case.enter, &call(steps::RECEIPT_REMOVE, &[]), None);
}

/// Returns every file with its mode, and content or target, without those of the test.
fn listing(machine: &Machine) -> BTreeMap<String, String> {
    fn list(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let about = path.symlink_metadata().unwrap();
            let ours = ["root/calls", "root/fake", "root/n"].contains(&name.as_str());
            if ours || name.starts_with("run/kubexm") || name == "run/mount" {
                continue;
            }
            let content = if about.is_symlink() {
                format!("{:?}", path.read_link().unwrap())
            } else if about.is_file() {
                std::fs::read_to_string(&path).unwrap()
            } else {
                list(root, &path, found);
                String::new()
            };
            found.insert(name, format!("{:o} {content}", about.permissions().mode()));
        }
    }
    let mut found = BTreeMap::new();
    list(&machine.at("/"), &machine.at("/"), &mut found);
    found
}

/// Kills the install of a case, and its reset, at each simple command.
fn kill_everywhere(case: &Case) {
    let name = case.apply.0.name;
    let machine = Machine::new("bash");
    (case.before)(&machine);
    let original = listing(&machine);
    install(&machine, case);
    let installed = listing(&machine);
    assert_ne!(installed, original, "{name} does nothing");
    reset(&machine, case);
    let after_reset = listing(&machine);
    assert_eq!(after_reset, original, "{name} is not reverted");
    let fresh = || {
        let machine = Machine::new("bash");
        (case.before)(&machine);
        machine
    };
    let mut kills = 0;
    for at in 1.. {
        let machine = fresh();
        if !run(&machine, case.enter, &case.apply, Some(at)) {
            break;
        }
        kills += 1;
        install(&machine, case);
        assert_eq!(
            listing(&machine),
            installed,
            "{name}: next run after a kill at command {at}"
        );
        reset(&machine, case);
        assert_eq!(
            listing(&machine),
            original,
            "{name}: reset after a kill at command {at}"
        );
        let machine = fresh();
        run(&machine, case.enter, &case.apply, Some(at));
        reset(&machine, case);
        assert_eq!(
            listing(&machine),
            original,
            "{name}: killed at command {at}, then reset"
        );
    }
    assert!(kills > 0, "{name} was never killed");
    for undo in &case.undo {
        let undone = undo.0.name;
        for at in 1.. {
            let machine = fresh();
            install(&machine, case);
            let killed = run(&machine, case.enter, undo, Some(at));
            reset(&machine, case);
            assert_eq!(
                listing(&machine),
                original,
                "{undone}: killed at command {at}"
            );
            if !killed {
                break;
            }
        }
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn files() {
    let input = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\n1\n";
    let upload = |path: &'static str| with(host::UPLOAD, &[path, "600"], input);
    let existing = |machine: &Machine| machine.write("/etc/app/a b.conf", "theirs");
    let copy = "/var/lib/kubexm/backup/$(printf %s '/etc/app/a b.conf' | sha256sum | cut -c1-32)";
    // The first test also creates the directory.
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: upload("/etc/app/deep/a.conf"),
        undo: vec![call(
            steps::FILE_REMOVE,
            &["/etc/app/deep/a.conf", "/etc/app/deep", "/etc/app"],
        )],
    });
    let backup = std::process::Command::new("sh")
        .args(["-c", &format!("echo {copy}")])
        .output()
        .unwrap();
    let backup = String::from_utf8(backup.stdout).unwrap();
    let backup: &'static str = Box::leak(backup.trim().to_owned().into_boxed_str());
    let machine = Machine::new("bash");
    existing(&machine);
    let prepare = call(steps::FILE_PREPARE, &["/etc/app/a b.conf"]);
    for at in 1.. {
        let killed = run(&machine, ":", &prepare, Some(at));
        assert_eq!(machine.read("/etc/app/a b.conf"), "theirs");
        let copied = machine.has(backup);
        assert!(
            !copied || machine.read(backup) == "theirs",
            "an incomplete copy has its name"
        );
        if !killed {
            assert!(copied);
            break;
        }
    }
    // kubexm asks this script before it writes the file.
    for at in 1.. {
        let machine = Machine::new("bash");
        existing(&machine);
        let original = listing(&machine);
        run(&machine, ":", &prepare, None);
        let killed = run(&machine, ":", &upload("/etc/app/a b.conf"), Some(at));
        let restore = call(steps::FILE_RESTORE, &["/etc/app/a b.conf", backup]);
        run(&machine, ":", &restore, Some(at));
        run(&machine, ":", &restore, None);
        run(&machine, ":", &call(steps::RECEIPT_REMOVE, &[]), None);
        assert_eq!(listing(&machine), original, "killed at command {at}");
        if !killed {
            break;
        }
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn blocks_of_files() {
    for (before, state) in [
        (
            (|machine: &Machine| machine.write("/etc/hosts", "127.0.0.1 localhost\n"))
                as fn(&Machine),
            "ended",
        ),
        (
            |machine: &Machine| machine.write("/etc/hosts", "127.0.0.1 localhost"),
            "unended",
        ),
        (|_| {}, "absent"),
    ] {
        let block = "# kubexm begin\n10.0.0.1 node1\n# kubexm end\n";
        kill_everywhere(&Case {
            before,
            enter: ":",
            check: None,
            apply: call(steps::BLOCK_EDIT, &["/etc/hosts", "put", block]),
            undo: vec![call(steps::BLOCK_EDIT, &["/etc/hosts", "remove", state])],
        });
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn directories_and_markers() {
    kill_everywhere(&Case {
        before: |machine| machine.write("/opt/theirs", ""),
        enter: ":",
        check: None,
        apply: call(
            steps::DIRECTORY_CREATE,
            &["/var/lib/data", "711", "/opt/cni", "755"],
        ),
        undo: vec![
            call(steps::DIRECTORY_REMOVE, &["/opt/cni", "marked", "bin/"]),
            call(
                steps::DIRECTORY_REMOVE,
                &["/var/lib/data", "marked", "member"],
            ),
        ],
    });
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: Some(call(markers::CHECK, &["kubeadm-init"])),
        apply: call(markers::SET, &["kubeadm-init"]),
        undo: vec![call(markers::REMOVE, &["kubeadm"])],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/srv/etcd/member/wal", ""),
        enter: ":",
        check: Some(call(etcd::FOLDER.verb("check"), &["/srv/etcd"])),
        apply: call(etcd::FOLDER.verb("apply"), &["/srv/etcd"]),
        undo: vec![call(etcd::FOLDER_RESTORE, &["/srv/etcd"])],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/etc/kubernetes/x", ""),
        enter: "systemctl() { return 1; }",
        check: Some(call(
            kubernetes::KUBELET_SURROUNDINGS.verb("check"),
            &["/etc/kubernetes/manifests", "/etc/kubernetes/resolv.conf"],
        )),
        apply: call(
            kubernetes::KUBELET_SURROUNDINGS.verb("apply"),
            &["/etc/kubernetes/manifests", "/etc/kubernetes/resolv.conf"],
        ),
        undo: vec![call(
            kubernetes::KUBELET_SURROUNDINGS_REMOVE,
            &["/etc/kubernetes/manifests", "/etc/kubernetes/resolv.conf"],
        )],
    });
    kill_everywhere(&Case {
        before: |machine| machine.write("/etc/kubexm/haproxy/x", ""),
        enter: ":",
        check: Some(call(
            load_balancer::PROXY_CA.verb("check"),
            &["/etc/kubexm/haproxy/ca.crt"],
        )),
        apply: with(
            load_balancer::PROXY_CA.verb("put"),
            &["/etc/kubexm/haproxy/ca.crt"],
            "ca\n",
        ),
        undo: vec![call(steps::FILE_REMOVE, &["/etc/kubexm/haproxy/ca.crt"])],
    });
    // A receipt has all complete lines that were written before.
    let machine = Machine::new("bash");
    for at in 1.. {
        if !run(
            &machine,
            ":",
            &with(steps::RECEIPT_APPEND, &[], "{\"a\":1}\n"),
            Some(at),
        ) {
            break;
        }
    }
    let receipt = machine.read("/var/lib/kubexm/receipt.jsonl");
    assert!(
        receipt
            .lines()
            .filter(|line| !line.is_empty())
            .all(|line| line == "{\"a\":1}"),
        "{receipt:?}"
    );
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn packages_of_apt() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/root/sbin/keep", "");
            machine.fake("apt-get", "[ ! -e /root/installed ] || exit 0\n[ \"$(/usr/sbin/policy-rc.d; echo $?)\" = 101 ] || exit 1\necho socat >/root/installed");
            machine.fake(
                "dpkg-query",
                "[ -e /root/installed ] || exit 1; printf installed",
            );
            machine.fake("dpkg", "rm /root/installed");
            machine.fake("tar", "");
        },
        enter: "mount --bind /root/sbin /usr/sbin",
        check: Some(call(packages::APT_CHECK, &["socat"])),
        apply: call(packages::APT.verb("install"), &["digest", "7", "socat"]),
        undo: vec![call(packages::APT_REMOVE, &["socat"])],
    });
}

/// Before, the file stayed for ever, and no service of any later package of the host started.
#[test]
fn policy_of_a_killed_install_does_not_stay() {
    let machine = Machine::new("bash");
    machine.write("/root/sbin/keep", "");
    machine.fake("apt-get", "echo socat >/root/installed; kill -9 \"$PPID\"");
    machine.fake(
        "dpkg-query",
        "[ -e /root/installed ] || exit 1; printf installed",
    );
    machine.fake("dpkg", "rm /root/installed");
    machine.fake("tar", "");
    let enter = "mount --bind /root/sbin /usr/sbin";
    let policy = "/root/sbin/policy-rc.d";
    let install = call(packages::APT.verb("install"), &["digest", "7", "socat"]);
    assert!(
        run(&machine, enter, &install, None),
        "the fake apt-get kills the script"
    );
    assert!(machine.has(policy));
    // All packages are installed, and the check still asks for a run.
    let ended = machine.run_after(enter, packages::APT_CHECK, &["socat"], "");
    assert_eq!(
        (ended.status, ended.printed.as_str()),
        (
            1,
            "has the /usr/sbin/policy-rc.d of an install that was killed\n"
        )
    );
    machine.fake("apt-get", "");
    run(&machine, enter, &install, None);
    assert!(!machine.has(policy));
    assert_eq!(
        machine
            .run_after(enter, packages::APT_CHECK, &["socat"], "")
            .status,
        0
    );
    // A policy of the site is neither replaced nor removed.
    machine.write(policy, "#!/bin/sh\nexit 101\n");
    run(&machine, enter, &install, None);
    run(
        &machine,
        enter,
        &call(packages::APT_REMOVE, &["socat"]),
        None,
    );
    assert_eq!(machine.read(policy), "#!/bin/sh\nexit 101\n");
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn packages_of_dnf() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.fake("dnf", "echo socat >/root/installed");
            machine.fake(
                "rpm",
                "case $1 in -e) rm /root/installed ;; *) [ -e /root/installed ] ;; esac",
            );
            machine.fake("tar", "");
        },
        enter: ":",
        check: Some(call(packages::DNF_CHECK, &["socat"])),
        apply: call(packages::DNF.verb("install"), &["digest", "7", "socat"]),
        undo: vec![call(packages::DNF_REMOVE, &["socat"])],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn swap_and_services() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write(
                "/etc/fstab",
                "UUID=1 / ext4 defaults 0 1\n/dev/sdb none swap sw 0 0\n",
            );
            machine.fake("swapoff", "");
            machine.fake("swapon", "");
        },
        enter: ":",
        check: Some(call(os::SWAP_OFF.verb("check"), &[])),
        apply: call(os::SWAP_OFF.verb("apply"), &[]),
        undo: vec![call(os::SWAP_ON, &[])],
    });
    fn services(machine: &Machine) {
        let systemctl = "case $1 in\nmask) echo \"$3\" >\"/root/units/$3\" ;;\nunmask) rm -f \"/root/units/$3\" ;;\n\
                         enable) : >\"/root/units/$3\" ;;\nrestart) : >\"/root/units/$2.on\" ;;\n\
                         disable) rm -f \"/root/units/$4\" \"/root/units/$4.on\" ;;\n\
                         is-enabled) [ -e \"/root/units/$3\" ] ;;\nis-active) [ -e \"/root/units/$3.on\" ] ;;\n\
                         show) if [ -e \"/root/units/$5\" ]; then echo masked; else echo not-found; fi ;;\nesac";
        machine.fake("systemctl", systemctl);
        machine.write("/root/units/keep", "");
    }
    kill_everywhere(&Case {
        before: services,
        enter: ":",
        check: Some(call(
            load_balancer::MASK_SERVICES.verb("check"),
            &["nginx.service", "haproxy.service"],
        )),
        apply: call(
            load_balancer::MASK_SERVICES.verb("apply"),
            &["nginx.service", "haproxy.service"],
        ),
        undo: vec![call(load_balancer::UNMASK_SERVICES, &[])],
    });
    kill_everywhere(&Case {
        before: services,
        enter: ":",
        check: Some(call(
            systemd::UNIT.verb("check"),
            &["kubelet.service", "yes", "/etc/fstab"],
        )),
        apply: call(
            systemd::UNIT.verb("apply"),
            &["kubelet.service", "yes", "/etc/fstab"],
        ),
        undo: vec![call(systemd::UNIT_STOP, &["kubelet.service"])],
    });
    kill_everywhere(&Case {
        before: |machine| {
            machine.fake("systemctl", "");
            machine.write("/etc/NetworkManager/conf.d/theirs.conf", "");
        },
        enter: ":",
        check: Some(call(
            os::NETWORK_MANAGER.verb("check"),
            &["/etc/NetworkManager/conf.d/kubexm.conf", "a\nb"],
        )),
        apply: call(
            os::NETWORK_MANAGER.verb("apply"),
            &["/etc/NetworkManager/conf.d/kubexm.conf", "a\nb"],
        ),
        undo: vec![call(
            os::NETWORK_MANAGER_FORGET,
            &["/etc/NetworkManager/conf.d/kubexm.conf"],
        )],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn users_of_services() {
    kill_everywhere(&Case {
        before: with_users,
        enter: ":",
        check: Some(call(os::USER.verb("check"), &["etcd"])),
        apply: call(os::USER.verb("apply"), &["etcd"]),
        undo: vec![call(os::USER_REMOVE, &["etcd"])],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn registry_content() {
    let data = "/var/lib/registry";
    let remove = || {
        vec![call(
            steps::DIRECTORY_REMOVE,
            &[data, "any", "docker", ".kubexm-staging-*"],
        )]
    };
    let blob = "2 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\n1\n\
                end 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\nall\n";
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: with(registry::RECEIVE, &[data], blob),
        undo: remove(),
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
fn long_commands() {
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: Some(call(markers::CHECK, &["kubeadm-init"])),
        apply: call(
            steps::RUN_TO_COMPLETION,
            &[
                "kubeadm-init",
                "/etc/init.yaml",
                "cp \"$INPUT\" /etc/initialized",
                "",
                "rm -f /etc/initialized",
                "",
                "600",
            ],
        ),
        undo: vec![
            call(steps::RUN_TO_COMPLETION_END, &[]),
            call(steps::FILE_REMOVE, &["/etc/initialized"]),
            call(steps::FILE_REMOVE, &["/etc/init.yaml"]),
            call(markers::REMOVE, &["kubeadm"]),
        ],
    });
}
