//! Scripts that write and remove files.

use super::machine::Machine;
use crate::{host, kubeadm, steps};

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
        let arguments = ["path=/etc/app/conf", "mode=600"];
        let ended = machine.run_after(":", host::UPLOAD, &arguments, input);
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
        let upload = |path, input| machine.run_after(":", host::UPLOAD, &[path, "mode=600"], input);
        let ended = upload("path=/etc/app/key", input);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(machine.read("/etc/app/key"), "hello");
        assert_eq!(machine.at("/srv/public").read_dir().unwrap().count(), 1);
        let ended = upload("path=/srv/public", input);
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("is a directory"),
            "{}",
            ended.complained
        );
        let ended = upload("path=/etc/app/key", &input[1..]);
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
fn secret_that_kubexm_wrote_is_not_copied() {
    Machine::with_each_shell(|machine| {
        let (path, secret) = ("path=/etc/app/login", "secret=yes");
        let folders = machine.done(steps::FILE_PREPARE, &[path, secret]);
        assert_eq!(folders, "folder /etc/app\n");
        let record = r#"{"step":"file /etc/app/login","undo":{"folders":["/etc/app"],"kind":"removeFile","path":"/etc/app/login"}}"#;
        machine.write("/var/lib/kubexm/receipt.jsonl", &format!("{record}\n"));
        machine.write("/etc/app/login", "old password");
        let printed = machine.done(steps::FILE_PREPARE, &[path, secret]);
        assert_eq!(printed, "ours\n");
        assert!(!machine.has("/var/lib/kubexm/backup"));
        // An earlier version made a copy.
        let printed = machine.done(steps::FILE_PREPARE, &[path]);
        let copy = printed.trim().strip_prefix("backup ").unwrap();
        assert_eq!(machine.read(copy), "old password");
        machine.done(steps::FILE_PREPARE, &[path, secret]);
        assert!(!machine.has(copy));
        // A file of the site is copied.
        machine.write("/etc/other", "theirs");
        let printed = machine.done(steps::FILE_PREPARE, &["path=/etc/other", secret]);
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
            "id=test",
            "command=echo said; umask >/root/umask",
            "cleanup=:",
            "limit=60",
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
fn a_run_waits_for_the_command_that_another_left() {
    Machine::with_each_shell(|machine| {
        let wait = |before: &str, seconds: &str| {
            machine.run_after(before, steps::RUN_TO_COMPLETION_WAIT, &[seconds], "")
        };
        let none = wait(":", "1");
        assert_eq!(none.status, 0, "{}", none.complained);
        machine.write("/run/kubexm/once.lock", "");
        let left = |seconds: u8| {
            // `setsid` needs a moment until it has a group of its own.
            format!(
                "setsid sleep {seconds} >/dev/null 2>&1 & echo $! >/run/kubexm/once.group
                 until [ \"$(cut -d ' ' -f 5 /proc/$!/stat)\" = $! ]; do :; done"
            )
        };
        let ended = wait(&left(100), "1");
        assert_eq!(ended.status, 1);
        let text = "a command of an earlier run still runs after 1 seconds\n";
        assert_eq!(ended.complained, text);
        let again = format!(
            "kill $(cat /run/kubexm/once.group) 2>/dev/null || :; {}; touch /run/began",
            left(3)
        );
        let ended = wait(&again, "30");
        assert_eq!(ended.status, 0, "{}", ended.complained);
        assert_eq!(machine.read("/run/kubexm/once.group"), "");
        let modified = |path: &str| machine.at(path).metadata().unwrap().modified().unwrap();
        let waited = modified("/run/kubexm/once.group").duration_since(modified("/run/began"));
        assert!(waited.unwrap().as_secs() >= 2, "it did not wait");
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

#[test]
fn files_that_no_step_writes_any_more_are_reported() {
    Machine::with_each_shell(|machine| {
        let check = |paths: &[&str]| machine.run(steps::FORMER_FILES.verb("check"), paths);
        assert_eq!(check(&["/etc/one"]).status, 0);
        let record = |path: &str| format!("{{\"step\":\"file {path}\",\"undo\":{{}}}}\n");
        let others = "{\"step\":\"install kubelet\",\"undo\":{\"path\":\"/etc/program\"}}\n";
        let receipt = [record("/etc/one"), record("/etc/two"), record("/etc/gone")].concat();
        machine.write("/var/lib/kubexm/receipt.jsonl", &(receipt + others));
        for path in ["/etc/one", "/etc/two", "/etc/program"] {
            machine.write(path, "");
        }
        assert_eq!(check(&["/etc/one", "/etc/two"]).status, 0);
        let ended = check(&["/etc/one", "/etc/other"]);
        let first = "files of an earlier install stay on this host, and no setting of the cluster file needs them:\n  \
                     /etc/two\n";
        assert_eq!(ended.status, 78, "{}", ended.complained);
        assert!(ended.printed.starts_with(first), "{}", ended.printed);
        assert!(ended.printed.contains("\nhint: "), "{}", ended.printed);
    });
}

#[test]
fn directories_that_no_step_names_any_more_are_reported() {
    Machine::with_each_shell(|machine| {
        let check = |paths: &[&str]| machine.run(steps::FORMER_FILES.verb("check"), paths);
        let undo = |path: &str| format!("{{\"kind\":\"removeDirectory\",\"path\":\"{path}\"}}");
        let record =
            |path: &str| format!("{{\"step\":\"folders data\",\"undo\":{}}}\n", undo(path));
        let paths = ["/srv/one", "/srv/two", "/srv/theirs", "/srv/gone"];
        machine.write("/var/lib/kubexm/receipt.jsonl", &paths.map(record).concat());
        machine.write("/srv/one/.kubexm-owner", "");
        machine.write("/srv/two/.kubexm-owner", "");
        machine.write("/srv/theirs/file", "");
        assert_eq!(check(&["/srv/one", "/srv/two"]).status, 0);
        let ended = check(&["/srv/two"]);
        assert_eq!(ended.status, 78, "{}", ended.complained);
        let expected = "directories of an earlier install stay on this host, and no setting of the cluster file needs them:\n  \
                        /srv/one\nhint: remove them when nothing uses them any more, or state their settings again\n";
        assert_eq!(ended.printed, expected);
    });
}
