//! Scripts that install and remove OS packages and mask services.

use super::machine::Machine;
use crate::{load_balancer, packages};

/// `/usr/sbin` is empty, so that the script can write to it.
const SBIN: &str = "mount -t tmpfs none /usr/sbin";

#[test]
fn apt_lists_new_and_newer_packages() {
    Machine::with_each_shell(|machine| {
        let said = "Inst socat [1.7] (1.8-1 kubexm:now [amd64])\\nInst conntrack (1:1.4.7 kubexm:now [amd64])\\nConf socat (1.8-1 x)";
        machine.fake(
            "apt-get",
            &format!("case $* in *-s*) printf '{said}\\n' ;; esac"),
        );
        let arguments = ["digest", "7", "socat", "conntrack"];
        let ended = machine.run_after(":", packages::APT.verb("simulate"), &arguments, "Package");
        assert_eq!(ended.printed, "socat 1.8-1 newer\nconntrack 1:1.4.7 new\n");
        assert_eq!(machine.read("/var/lib/kubexm/packages/Packages"), "Package");
        let calls = machine.calls();
        assert!(calls[0].ends_with("Sandbox::User=root update"), "{calls:?}");
        assert!(
            calls[1].ends_with("-s install socat conntrack"),
            "{calls:?}"
        );
        assert!(
            calls
                .iter()
                .all(|call| call.contains("Dir::Etc::sourceparts=/dev/null"))
        );
    });
}

#[test]
fn apt_removes_no_package_of_the_host() {
    Machine::with_each_shell(|machine| {
        let said =
            "Remv systemd-timesyncd [257]\\nRemv ntp [1]\\nInst chrony (4.6 kubexm:now [amd64])";
        machine.fake(
            "apt-get",
            &format!("case $* in *-s*) printf '{said}\\n' ;; esac"),
        );
        let arguments = ["digest", "7", "chrony"];
        let ended = machine.run_after(":", packages::APT.verb("simulate"), &arguments, "Package");
        assert_eq!((ended.status, ended.printed.as_str()), (1, ""));
        assert!(
            ended.complained.starts_with("packages of the bundle exclude packages of the host, which apt would remove: systemd-timesyncd ntp\nhint: "),
            "{}",
            ended.complained
        );
    });
}

#[test]
fn services_do_not_start_while_apt_installs() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "apt-get",
            "cat /usr/sbin/policy-rc.d >/root/policy\nexit \"$(cat /root/status)\"",
        );
        machine.fake("tar", "");
        machine.fake("dpkg", "");
        let arguments = ["digest", "7", "socat"];
        let and_look = format!("{SBIN}\nmkdir -p /root/sbin; mount --bind /root/sbin /usr/sbin");
        for (status, theirs) in [
            ("0", None),
            ("100", None),
            ("0", Some("#!/bin/sh\nexit 0\n")),
        ] {
            machine.write("/root/status", status);
            machine.write("/root/sbin/keep", "");
            let policy = machine.at("/root/sbin/policy-rc.d");
            let _ = std::fs::remove_file(&policy);
            if let Some(theirs) = theirs {
                machine.write("/root/sbin/policy-rc.d", theirs);
            }
            let ended = machine.run_after(&and_look, packages::APT.verb("install"), &arguments, "");
            assert_eq!(ended.status == 0, status == "0", "{}", ended.complained);
            let expected = theirs.unwrap_or("#!/bin/sh\n# kubexm installs packages.\nexit 101\n");
            assert_eq!(machine.read("/root/policy"), expected);
            assert_eq!(policy.exists(), theirs.is_some());
            assert!(!machine.has("/var/lib/kubexm/packages"));
        }
    });
}

#[test]
fn packages_of_a_killed_install_are_configured_first() {
    Machine::with_each_shell(|machine| {
        machine.fake("apt-get", "exit \"$(cat /root/status)\"");
        machine.fake("dpkg", "");
        machine.fake("tar", "");
        let install = |status: &str| {
            machine.write("/root/status", status);
            let arguments = ["digest", "7", "socat"];
            machine.run_after(SBIN, packages::APT.verb("install"), &arguments, "");
            let calls = machine.calls();
            let configured = calls
                .iter()
                .filter(|call| *call == "dpkg --force-confold --configure -a")
                .count();
            (configured, machine.has("/var/lib/kubexm/apt-begun"))
        };
        // The first installation fails, the second one finishes it, and the third one has nothing to finish.
        assert_eq!(install("100"), (0, true));
        assert_eq!(install("0"), (1, false));
        assert_eq!(install("0"), (0, false));
    });
}

/// dpkg does not wait for its lock, unlike apt.
#[test]
fn lock_of_another_package_manager_is_waited_for() {
    Machine::with_each_shell(|machine| {
        machine.fake("apt-get", "");
        machine.fake("sleep", "");
        machine.fake("tar", "");
        let install = |dpkg: &str| {
            machine.fake("dpkg", dpkg);
            machine.write("/var/lib/kubexm/apt-begun", "");
            machine.calls();
            let arguments = ["digest", "7", "socat"];
            let ended = machine.run_after(SBIN, packages::APT.verb("install"), &arguments, "");
            let calls = machine.calls();
            let tries = calls.iter().filter(|call| call.starts_with("dpkg "));
            (ended.status, tries.count())
        };
        let said =
            "dpkg: error: dpkg frontend lock was locked by /usr/bin/perl process with pid 4711";
        machine.write("/root/locked", "2");
        let locked = format!(
            "left=$(cat /root/locked)\n[ \"$left\" != 0 ] || exit 0\necho $((left - 1)) >/root/locked\n\
             echo '{said}' >&2\nexit 2"
        );
        assert_eq!(install(&locked), (0, 3));
        assert_eq!(install(&format!("echo '{said}' >&2; exit 2")), (1, 60));
        assert_eq!(install("echo 'cannot configure socat' >&2; exit 1"), (1, 1));
    });
}

#[test]
fn only_installed_packages_are_removed() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "dpkg-query",
            "case $4 in socat) printf installed ;; ebtables) printf config-files ;; ipset) printf not-installed ;; *) exit 1 ;; esac",
        );
        machine.fake("dpkg", "");
        let names = ["none", "socat", "ipset", "ebtables"];
        machine.done(packages::APT_REMOVE, &names);
        assert_eq!(
            machine.calls().last().unwrap(),
            "dpkg --purge socat ebtables"
        );
        machine.done(packages::APT_REMOVE, &["none"]);
        assert!(
            machine
                .calls()
                .iter()
                .all(|call| !call.starts_with("dpkg "))
        );
        let ended = machine.run(packages::APT_CHECK, &names);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "does not have none ipset ebtables\n")
        );
        machine.fake("rpm", "[ \"$1\" = -e ] || [ \"$3\" = socat ]");
        machine.calls();
        machine.done(packages::DNF_REMOVE, &names);
        assert_eq!(machine.calls().last().unwrap(), "rpm -e socat");
    });
}

#[test]
fn dnf_uses_only_the_bundle() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "dnf",
            "printf 'Installing:\\n socat x86_64 1.8-1.el9\\n   kubexm-bundle 300 k\\n conntrack x86_64 1.4 kubexm-bundle 9 k\\n'\n\
             cat /var/lib/kubexm/packages/dnf.conf >/root/conf; echo 'Operation aborted.' >&2; exit 1",
        );
        machine.fake("rpm", "[ \"$3\" = conntrack ]");
        let simulate = packages::DNF.verb("simulate");
        let ended = machine.run_after(
            ":",
            simulate,
            &["d1g35t", "7", "socat", "conntrack"],
            "<xml/>",
        );
        assert_eq!(
            ended.printed, "socat 1.8-1.el9 new\nconntrack 1.4 newer\n",
            "{}",
            ended.complained
        );
        let base = "/var/lib/kubexm/packages";
        assert!(
            machine
                .read(&format!("{base}/repodata/repomd.xml"))
                .contains(">d1g35t</checksum>")
        );
        assert!(machine.read("/root/conf").contains("plugins=0"));
        // Another failure is an error.
        machine.fake("dnf", "echo 'nothing provides libx' >&2; exit 1");
        let ended = machine.run_after(":", simulate, &["d", "7", "socat"], "");
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (1, "nothing provides libx\n")
        );
    });
}

#[test]
fn existing_services_are_not_masked() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "systemctl",
            "case \"$1 $5\" in 'show nginx.service') echo not-found ;; show*) echo loaded ;; esac",
        );
        let units = ["nginx.service", "haproxy.service"];
        let ended = machine.run(load_balancer::MASK_SERVICES.verb("check"), &units);
        assert_eq!((ended.status, ended.printed.is_empty()), (1, false));
        machine.calls();
        machine.done(load_balancer::MASK_SERVICES.verb("apply"), &units);
        let masked: Vec<String> = machine
            .calls()
            .into_iter()
            .filter(|call| call.contains(" mask"))
            .collect();
        assert_eq!(masked, ["systemctl mask --quiet nginx.service"]);
        machine.write("/var/www/html/index.nginx-debian.html", "");
        machine.write("/run/nginx/none", "");
        std::fs::remove_file(machine.at("/run/nginx/none")).unwrap();
        machine.done(load_balancer::UNMASK_SERVICES, &[]);
        assert_eq!(machine.calls(), ["systemctl unmask --quiet nginx.service"]);
        assert!(!machine.has("/var/www") && !machine.has("/run/nginx"));
    });
}
