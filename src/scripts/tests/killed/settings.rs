//! Settings of hosts, and hooks of the user.

use super::super::machine::{Machine, SYSTEMCTL};
use super::{Case, call, kill_everywhere, with};
use crate::os;

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn host_settings() {
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/root/name", "former\n");
            machine.write("/etc/hostname", "former.example\n");
            machine.fake("uname", "cat /root/name");
            machine.fake("hostname", "echo \"$1\" >/root/name");
        },
        enter: ":",
        check: Some(call(os::HOSTNAME.verb("check"), &["node1"])),
        apply: call(os::HOSTNAME.verb("apply"), &["node1"]),
        undo: vec![call(os::HOSTNAME_RESTORE, &[])],
    });
    let resolvers = ["servers=192.0.2.53 192.0.2.54", "searches=corp.example"];
    let with_table = |machine: &Machine| {
        machine.fake("systemctl", SYSTEMCTL);
        machine.write("/root/units/keep", "");
        machine.write("/etc/resolv.conf", "nameserver 192.0.2.1\n");
    };
    let with_resolved = |machine: &Machine| {
        machine.fake("systemctl", SYSTEMCTL);
        machine.write("/root/units/systemd-resolved.active", "");
        machine.write("/etc/systemd/system/theirs.service", "");
    };
    let with_manager = |machine: &Machine| {
        machine.fake("systemctl", SYSTEMCTL);
        machine.fake("busctl", "echo symlink");
        machine.write("/root/units/NetworkManager.active", "");
        machine.write("/etc/NetworkManager/NetworkManager.conf", "");
        machine.write("/etc/resolv.conf", "nameserver 192.0.2.1\n");
    };
    for before in [with_table as fn(&Machine), with_resolved, with_manager] {
        kill_everywhere(&Case {
            before,
            enter: ":",
            check: Some(call(os::RESOLVERS.verb("check"), &resolvers)),
            apply: call(os::RESOLVERS.verb("apply"), &resolvers),
            undo: vec![call(os::RESOLVERS_RESTORE, &[])],
        });
    }
    let servers = ["role=source", "servers=ntp.example", "clients=192.0.2.12"];
    let with_directory = |machine: &Machine| {
        machine.fake("systemctl", SYSTEMCTL);
        machine.write("/root/units/chrony.service", "");
        machine.write(
            "/etc/chrony/chrony.conf",
            "server theirs.example\nconfdir /etc/chrony/conf.d\n",
        );
    };
    let with_one_file = |machine: &Machine| {
        machine.fake("systemctl", SYSTEMCTL);
        machine.write("/root/units/chronyd.service", "");
        machine.write("/etc/chrony.conf", "pool pool.example\n");
    };
    for before in [with_directory as fn(&Machine), with_one_file] {
        kill_everywhere(&Case {
            before,
            enter: ":",
            check: Some(call(os::TIME_SERVERS.verb("check"), &servers)),
            apply: call(os::TIME_SERVERS.verb("apply"), &servers),
            undo: vec![call(os::TIME_SERVERS_RESTORE, &[])],
        });
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn kernel_settings() {
    let settings = ["net.ipv4.ip_forward", "1", "vm.overcommit_memory", "1"];
    kill_everywhere(&Case {
        before: |machine| {
            machine.write("/root/sys/net/ipv4/ip_forward", "0\n");
            machine.write("/root/sys/vm/overcommit_memory", "2\n");
        },
        enter: "mount --bind /root/sys /proc/sys",
        check: Some(call(os::SYSCTL.verb("check"), &settings)),
        apply: call(os::SYSCTL.verb("apply"), &settings),
        undo: vec![call(os::SYSCTL_RESTORE, &[])],
    });
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn hooks() {
    let arguments = [
        "name=site",
        "record=changed",
        "cluster=demo",
        "host=node1",
        "--",
        "sh",
    ];
    kill_everywhere(&Case {
        before: |_| {},
        enter: ":",
        check: None,
        apply: with(os::HOOK.verb("run"), &arguments, ": of the site\n"),
        undo: vec![call(os::HOOK_END, &[])],
    });
}
