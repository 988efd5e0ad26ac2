//! What nothing in a registry needs.

use super::{DATA, blob, hex, layer, repository, revision, storage};
use crate::registry;
use crate::tests::machine::Machine;

const NEEDED: [char; 7] = ['0', '1', '3', '4', '5', '6', '9'];

#[test]
fn blobs_that_no_manifest_needs_are_found_and_removed() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let listed = machine.done(registry::GARBAGE.verb("list"), &[DATA]);
        let mut lines: Vec<&str> = listed.lines().collect();
        lines.sort_unstable();
        let expected = [
            format!("blob {} 7", hex('7')),
            format!("blob {} {}", hex('8'), machine.read(&blob('8')).len()),
            format!("link repositories/r.io/a/_layers/sha256/{}/link", hex('7')),
            format!(
                "link repositories/r.io/old/_layers/sha256/{}/link",
                hex('7')
            ),
        ];
        assert_eq!(lines, expected);
        assert!(machine.has(&blob('7')), "a list removes nothing");
        machine.done(registry::GARBAGE.verb("remove"), &[DATA]);
        for digit in NEEDED {
            assert!(machine.has(&blob(digit)), "{digit} is needed");
        }
        for digit in ['7', '8'] {
            assert!(!machine.has(&blob(digit)), "{digit}");
        }
        assert!(machine.has(&layer("r.io/a", '5')) && machine.has(&layer("r.io/b", '4')));
        assert!(
            !machine.has(&repository("r.io/old")),
            "empty directories go, too"
        );
        assert_eq!(machine.done(registry::GARBAGE.verb("list"), &[DATA]), "");
    });
}

/// A power failure can leave empty files. Their names are enough to keep what they mean.
#[test]
fn empty_link_keeps_its_manifest() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        machine.write(&revision("r.io/b", '9'), "");
        let listed = machine.done(registry::GARBAGE.verb("list"), &[DATA]);
        assert!(!listed.contains(&hex('9')), "{listed}");
    });
}

/// A tag that was replaced has a link to its former manifest, which counts while the manifest exists.
#[test]
fn former_manifest_of_a_tag_is_garbage_once_it_was_removed() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let tags = format!("{}/_manifests/tags", repository("r.io/a"));
        let index = |tag: &str, digit: char| format!("{tags}/{tag}/index/sha256/{}", hex(digit));
        let link = |digit: char| format!("sha256:{}", hex(digit));
        machine.write(&format!("{}/link", index("v1", '8')), &link('8'));
        machine.write(&revision("r.io/a", '8'), &link('8'));
        // The manifest of this tag is gone: pods cannot pull it, but the tag still names it.
        machine.write(&format!("{}/link", index("v2", '9')), &link('9'));
        machine.write(&format!("{tags}/v2/current/link"), &link('9'));
        std::fs::remove_file(machine.at(&revision("r.io/b", '9'))).unwrap();
        let garbage = || machine.done(registry::GARBAGE.verb("list"), &[DATA]);
        let list = garbage();
        assert!(!list.contains("blob"), "{list}");
        std::fs::remove_file(machine.at(&revision("r.io/a", '8'))).unwrap();
        machine.done(registry::GARBAGE.verb("remove"), &[DATA]);
        assert!(!machine.has(&blob('8')) && !machine.has(&blob('7')));
        assert!(!machine.has(&index("v1", '8')) && machine.has(&index("v1", '0')));
        assert!(machine.has(&blob('9')) && machine.has(&index("v2", '9')));
        assert_eq!(garbage(), "");
    });
}

/// A dry run takes no lock, and the script of a killed run goes on.
#[test]
fn two_runs_that_look_for_garbage_do_not_share_files() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        machine.write("/run/kubexm/garbage-killed/all", "");
        machine.write("/root/garbage.sh", registry::GARBAGE.text);
        // Another run begins and ends while this one works.
        machine.fake(
            "join",
            "[ -e /root/begun ] || { : >/root/begun; sh -eu /root/garbage.sh list /srv/registry >/root/other; }\n\
             exec /usr/bin/join \"$@\"",
        );
        let printed = machine.done(registry::GARBAGE.verb("remove"), &[DATA]);
        assert_eq!(printed, machine.read("/root/other"));
        assert_eq!(printed.lines().count(), 4, "{printed}");
        let left = std::fs::read_dir(machine.at("/run/kubexm")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["garbage.lock"]);
    });
}

#[test]
fn removal_of_garbage_waits_for_another_one_and_for_uploads() {
    for (first, shell) in [("7", "dash"), ("-s 7", "dash"), ("-s 7", "bash")] {
        let machine = Machine::new(shell);
        let first = &format!(
            "install -d /run/kubexm\nexec 7>/run/kubexm/garbage.lock\n/usr/bin/flock {first}"
        );
        storage(&machine);
        machine.fake(
            "flock",
            "case $1 in -w) shift 2; exec /usr/bin/flock -n \"$@\" ;; *) exec /usr/bin/flock \"$@\" ;; esac",
        );
        let run = |verb| machine.run_after(first, registry::GARBAGE.verb(verb), &[DATA], "");
        let ended = run("remove");
        assert_eq!(ended.status, 1);
        assert!(
            ended.complained.contains("another run still removes blobs"),
            "{}",
            ended.complained
        );
        assert!(machine.has(&blob('7')));
        assert_eq!(run("list").status, 0);
    }
}

#[test]
fn new_registry_has_no_garbage() {
    Machine::with_each_shell(|machine| {
        for verb in ["list", "remove"] {
            assert_eq!(machine.done(registry::GARBAGE.verb(verb), &[DATA]), "");
        }
        std::fs::create_dir_all(machine.at(&repository(""))).unwrap();
        assert_eq!(machine.done(registry::GARBAGE.verb("list"), &[DATA]), "");
    });
}

/// What a script does not learn from a program must not make a blob look needless.
#[test]
fn nothing_needed_is_removed_whichever_program_fails() {
    let machine = Machine::new("dash");
    for name in "awk comm cut find grep join sed sort xargs".split(' ') {
        machine.fake(
            name,
            &format!(
                "read -r left </root/left\nleft=$((left - 1))\necho $left >/root/left\n\
                 [ $left -ne 0 ] || exit 5\nexec /usr/bin/{name} \"$@\""
            ),
        );
        let mut failures = 0;
        loop {
            storage(&machine);
            machine.write("/root/left", &format!("{}\n", failures + 1));
            let ended = machine.run(registry::GARBAGE.verb("remove"), &[DATA]);
            for digit in NEEDED {
                assert!(machine.has(&blob(digit)), "{name} {failures}: {digit}");
            }
            assert!(machine.has(&layer("r.io/a", '5')), "{name} {failures}");
            if ended.status == 0 {
                break;
            }
            failures += 1;
        }
        assert!(failures > 0, "{name} is not in use");
        std::fs::remove_file(machine.at(&format!("/root/fake/{name}"))).unwrap();
    }
}

/// An unreadable manifest could need every blob.
#[test]
fn nothing_is_removed_if_a_manifest_cannot_be_read() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        // Some programs say nothing of a file that they cannot read.
        for broken in ["awk", "grep"] {
            let body = format!(
                "case $* in *9999/data*) {} ;; *) exec /usr/bin/{broken} \"$@\" ;; esac",
                if broken == "awk" { ":" } else { "exit 2" }
            );
            machine.fake(broken, &body);
            let ended = machine.run(registry::GARBAGE.verb("remove"), &[DATA]);
            assert_eq!(ended.status == 0, broken == "awk", "{}", ended.complained);
            assert_eq!(machine.has(&blob('7')), broken == "grep");
            assert!(machine.has(&blob('4')), "the manifest 9 was read");
            storage(machine);
        }
    });
}

/// `/run` is in memory.
#[test]
fn content_of_layers_is_neither_copied_nor_read() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let content = format!("\u{1f}layer\nsha256:{}\n", hex('7'));
        machine.write(&blob('4'), &content.repeat(20_000));
        machine.fake(
            "join",
            "du -sk /run/kubexm | cut -f1 >/root/size\nexec /usr/bin/join \"$@\"",
        );
        let listed = machine.done(registry::GARBAGE.verb("list"), &[DATA]);
        assert!(listed.contains(&format!("blob {} 7", hex('7'))), "{listed}");
        let size: u32 = machine.read("/root/size").trim().parse().unwrap();
        assert!(size < 200, "{size} KiB");
    });
}

#[test]
fn manifest_counts_in_every_form_of_json() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let text = format!("\r\n\t {{\n\"layers\": [\n\"sha256:{}\"]}}", hex('7'));
        machine.write(&blob('9'), &text);
        machine.write(&blob('6'), "");
        let listed = machine.done(registry::GARBAGE.verb("list"), &[DATA]);
        assert!(!listed.contains(&format!("blob {}", hex('7'))), "{listed}");
        assert!(listed.contains(&format!("blob {}", hex('8'))), "{listed}");
    });
}
