//! Scripts that create and remove the users of services, and those that give them files.

use std::os::unix::fs::symlink;

use super::machine::Machine;
use crate::{etcd, host, os, registry, steps};

/// Fake programs that keep users in `/root/db/passwd` and groups in `/root/db/group`. As with `USERGROUPS_ENAB`, the
/// group of a user disappears with it.
pub(super) fn with_users(machine: &Machine) {
    machine.write("/root/db/passwd", "root:x:0:\n");
    machine.write("/root/db/group", "root:x:0:\n");
    machine.fake("getent", "grep \"^$2:\" \"/root/db/$1\"");
    machine.fake(
        "groupadd",
        "for name; do :; done; case $* in *--gid*) id=$3 ;; *) id=990 ;; esac; echo \"$name:x:$id:\" >>/root/db/group",
    );
    machine.fake(
        "useradd",
        "for name; do :; done; echo \"$name:x:991:\" >>/root/db/passwd",
    );
    let remove = |file: &str| {
        format!(
            "kept=$(grep -v \"^$1:\" /root/db/{file}); printf '%s\\n' \"$kept\" >/root/db/{file}\n"
        )
    };
    machine.fake(
        "userdel",
        &format!("{}{}", remove("passwd"), remove("group")),
    );
    machine.fake("groupdel", &remove("group"));
}

fn users(machine: &Machine) -> (String, String) {
    (
        machine.read("/root/db/passwd"),
        machine.read("/root/db/group"),
    )
}

/// A directory of data whose owner is in `/root/owner`: in a user namespace, no owner besides root exists.
pub(super) fn with_data_of_etcd(machine: &Machine, owner: &str) {
    machine.write("/srv/etcd/member/db", "");
    machine.write("/root/owner", &format!("{owner}\n"));
    machine.fake(
        "stat",
        "case $2 in %U:%G) cat /root/owner ;; *) echo 700 0:0 ;; esac",
    );
    machine.fake("chown", "echo \"$1\" >/root/owner");
    machine.fake("chmod", "");
}

#[test]
fn directory_of_data_goes_to_its_user_and_back() {
    Machine::with_each_shell(|machine| {
        let owner = etcd::FOLDER_OWNER;
        machine.done(owner.verb("check"), &["/srv/etcd"]);
        with_data_of_etcd(machine, "root:root");
        let ended = machine.run(owner.verb("check"), &["/srv/etcd"]);
        let words = "/srv/etcd does not belong to etcd\n";
        assert_eq!((ended.status, ended.printed.as_str()), (1, words));
        // What a run left that was killed while it wrote the file.
        machine.write("/var/lib/kubexm/backup/etcd-folder", "");
        machine.done(owner.verb("apply"), &["/srv/etcd"]);
        machine.done(owner.verb("check"), &["/srv/etcd"]);
        machine.calls();
        machine.done(etcd::FOLDER_RESTORE, &["/srv/etcd"]);
        let expected = ["chmod 700 /srv/etcd", "chown 0:0 /srv/etcd"];
        assert_eq!(machine.calls(), expected);
    });
}

#[test]
fn user_that_kubexm_created_is_removed() {
    Machine::with_each_shell(|machine| {
        with_users(machine);
        let before = users(machine);
        let ended = machine.run(os::USER.verb("check"), &["etcd"]);
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (1, "the group etcd does not exist\n")
        );
        machine.done(os::USER.verb("apply"), &["etcd"]);
        machine.done(os::USER.verb("check"), &["etcd"]);
        let calls = machine.calls();
        assert!(
            calls.contains(
                &"useradd --system --gid etcd --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin \
                  --comment created by kubexm etcd"
                    .to_owned()
            ),
            "{calls:?}"
        );
        machine.done(os::USER_REMOVE, &["etcd"]);
        assert_eq!(users(machine), before);
        machine.done(os::USER_REMOVE, &["etcd"]);
    });
}

#[test]
fn user_and_group_of_the_site_stay() {
    Machine::with_each_shell(|machine| {
        with_users(machine);
        machine.write("/root/db/group", "root:x:0:\netcd:x:55:\n");
        let with_group = users(machine);
        machine.done(os::USER.verb("apply"), &["etcd"]);
        assert!(machine.read("/root/db/passwd").contains("etcd"));
        machine.done(os::USER_REMOVE, &["etcd"]);
        assert_eq!(users(machine), with_group);
        machine.write("/root/db/passwd", "root:x:0:\netcd:x:56:\n");
        let with_both = users(machine);
        machine.done(os::USER.verb("check"), &["etcd"]);
        machine.done(os::USER.verb("apply"), &["etcd"]);
        machine.done(os::USER_REMOVE, &["etcd"]);
        assert_eq!(users(machine), with_both);
    });
}

/// The data of an etcd that an earlier version ran as root, and of a snapshot that root restored.
#[test]
fn etcd_receives_its_data_before_it_starts() {
    Machine::with_each_shell(|machine| {
        machine.write("/etc/passwd", "root:x:0:0::/:\netcd:x:991:990::/:\n");
        machine.write("/etc/group", "root:x:0:\netcd:x:990:\n");
        machine.fake("chown", "");
        let arguments = ["/srv/etcd", "/run/kubexm/etcd-initial.env"];
        machine.write("/srv/etcd/lost+found/x", "");
        let ended = machine.run(etcd::PREPARE, &arguments);
        assert_eq!(ended.status, 1);
        assert!(
            ended
                .printed
                .starts_with("no data in /srv/etcd: kubexm install"),
            "{}",
            ended.printed
        );
        assert!(machine.calls().is_empty());
        machine.write("/srv/etcd/member/wal/0.wal", "");
        machine.write("/srv/etcd/member/snap/db", "");
        machine.write("/etc/shadow", "");
        std::fs::hard_link(
            machine.at("/etc/shadow"),
            machine.at("/srv/etcd/member/snap/hard"),
        )
        .unwrap();
        symlink("/etc/shadow", machine.at("/srv/etcd/member/snap/link")).unwrap();
        machine.done(etcd::PREPARE, &arguments);
        let calls = machine.calls().join("\n");
        assert!(calls.contains("chown -h etcd:etcd /srv/etcd\n"), "{calls}");
        for path in [
            "member",
            "member/wal/0.wal",
            "member/snap",
            "member/snap/db",
        ] {
            assert!(
                calls
                    .split([' ', '\n'])
                    .any(|word| word == format!("/srv/etcd/{path}")),
                "{path}: {calls}"
            );
        }
        for other in ["hard", "link", "lost+found"] {
            assert!(!calls.contains(other), "{calls}");
        }
        // The first start of a member.
        std::fs::remove_dir_all(machine.at("/srv/etcd/member")).unwrap();
        machine.write("/run/kubexm/etcd-initial.env", "");
        machine.done(etcd::PREPARE, &arguments);
        assert_eq!(machine.calls(), ["chown -h etcd:etcd /srv/etcd"]);
    });
}

#[test]
fn file_of_a_service_gets_its_group_before_its_name() {
    Machine::with_each_shell(|machine| {
        let input = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\n1\n";
        machine.fake(
            "chown",
            "[ ! -e /etc/app.key ] && [ \"$(stat -c %a \"$2\")\" = 600 ]",
        );
        let arguments = ["path=/etc/app.key", "mode=640", "owner=:etcd"];
        let ended = machine.run_after(":", host::UPLOAD, &arguments, input);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert!(machine.calls()[0].starts_with("chown :etcd /etc/.app.key.kubexm-"));
        machine.write("/etc/passwd", "root:x:0:0::/:\n");
        machine.write("/etc/group", "root:x:0:\n");
        let look = machine.done(steps::FILE_LOOK, &["/etc/app.key"]);
        assert!(look.ends_with(" 640 0 root root\n"), "{look}");
    });
}

#[test]
fn images_of_the_registry_are_private_only_in_a_directory_of_kubexm() {
    use std::os::unix::fs::PermissionsExt;
    Machine::with_each_shell(|machine| {
        let mode = |path: &str| machine.at(path).metadata().unwrap().permissions().mode() & 0o777;
        machine.write("/srv/own/.kubexm-owner", "");
        std::fs::create_dir_all(machine.at("/srv/disk")).unwrap();
        for (path, after) in [("/srv/own", 0o700), ("/srv/disk", mode("/srv/disk"))] {
            let check = || machine.run(registry::FOLDER.verb("check"), &[path]).status;
            assert_eq!(check(), 1);
            machine.done(registry::FOLDER.verb("apply"), &[path]);
            assert_eq!(check(), 0);
            assert_eq!(mode(path), after, "{path}");
            // The registry is another user than root, and sees this directory only.
            for images in ["docker", "docker/registry/v2/repositories"] {
                assert_eq!(mode(&format!("{path}/{images}")), 0o755);
            }
        }
    });
}
