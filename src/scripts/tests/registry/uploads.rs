//! Uploads into a registry, also while a collection of garbage works.

use super::{DATA, blob, hex, repository, revision, storage};
use crate::registry;
use crate::tests::machine::{Ended, Machine};

const NAME: &str = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865";
/// Waits only a moment for the lock of garbage.
const NO_PATIENCE: &str = "case $* in\n'-s -w 300 8') exec /usr/bin/flock -s -n 8 ;;\n'-w 300 8') exec /usr/bin/flock -n 8 ;;\n\
                           *) exec /usr/bin/flock \"$@\" ;;\nesac";
/// Writes whether a collection of garbage could begin.
const LOOK: &str = "if /usr/bin/flock -n /run/kubexm/garbage.lock true; then echo free; else echo held; fi >/root/lock";

fn receive(machine: &Machine, before: &str) -> Ended {
    let stream = format!("2 {NAME}\n1\nend {NAME}\nall\n");
    machine.run_after(before, registry::RECEIVE, &[DATA], &stream)
}

fn received() -> String {
    format!(
        "{DATA}/docker/registry/v2/blobs/sha256/{}/{NAME}/data",
        &NAME[..2]
    )
}

fn link(machine: &Machine, before: &str, lines: &str) -> Ended {
    machine.run_after(before, registry::LINK, &[DATA], lines)
}

/// A collection of garbage of a killed run that ends after a second with this command.
fn collection(ends_with: &str) -> String {
    format!(
        "install -d -m 700 /run/kubexm\n\
         (flock 8; echo >/run/begun; sleep 1; {ends_with}; echo >/run/ended) 8>/run/kubexm/garbage.lock >/dev/null 2>&1 &\n\
         until [ -e /run/begun ]; do sleep 0.1; done"
    )
}

#[test]
fn received_blobs_outlive_a_collection_of_garbage_that_still_works() {
    Machine::with_each_shell(|machine| {
        let removes = collection(&format!("rm -rf {DATA}/docker"));
        let ended = receive(machine, &removes);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        while !machine.has("/run/ended") {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(machine.read(&received()), "1\n");
    });
}

/// A tag without its image would look complete to everyone but the pods.
#[test]
fn no_link_is_written_to_a_blob_that_garbage_collection_removed() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let line = |path: &str, digit: char| {
            format!("repositories/r.io/c/{path}/link sha256:{}\n", hex(digit))
        };
        let revision_of = |digit: char| format!("_manifests/revisions/sha256/{}", hex(digit));
        let tag = line("_manifests/tags/v1/current", '8');
        let lines = line(&revision_of('9'), '9') + &line(&revision_of('8'), '8') + &tag;
        let removes = collection(&format!("rm {}", blob('8')));
        let ended = link(machine, &removes, &lines);
        assert_eq!(ended.status, 1, "{}", ended.complained);
        assert!(
            ended.complained.contains(&revision_of('8')) && ended.complained.contains("\nhint: "),
            "{}",
            ended.complained
        );
        assert!(!machine.has(&repository("r.io/c")));
        machine.write(&blob('8'), "content");
        let ended = link(machine, ":", &lines);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let written = machine.read(&revision("r.io/c", '8'));
        assert_eq!(written, format!("sha256:{}", hex('8')));
    });
}

#[test]
fn collection_of_garbage_cannot_begin_during_an_upload() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        machine.fake("sync", LOOK);
        let lock = || {
            let seen = machine.read("/root/lock");
            machine.write("/root/lock", "");
            seen
        };
        assert_eq!(receive(machine, ":").status, 0);
        assert_eq!(lock(), "held\n");
        let line = format!("repositories/a/_layers/sha256/1/link sha256:{}\n", hex('3'));
        assert_eq!(link(machine, ":", &line).status, 0);
        assert_eq!(lock(), "held\n");
        // The lock ends with the script.
        machine.done(registry::GARBAGE.verb("remove"), &[DATA]);
        assert!(!machine.has(&received()), "it has no link");
    });
}

#[test]
fn upload_does_not_wait_for_ever() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        machine.fake("flock", NO_PATIENCE);
        let first = "install -d /run/kubexm\nexec 7>/run/kubexm/garbage.lock\n/usr/bin/flock 7";
        let line = format!("repositories/a/_layers/sha256/1/link sha256:{}\n", hex('3'));
        for ended in [receive(machine, first), link(machine, first, &line)] {
            let words = "another run still removes blobs on this host after 5 minutes\n";
            assert_eq!((ended.status, ended.complained.as_str()), (1, words));
        }
        assert!(!machine.has(&received()) && !machine.has(&repository("a")));
        // Two uploads exclude no one else.
        let first = first.replace("flock 7", "flock -s 7");
        assert_eq!(receive(machine, &first).status, 0);
        assert_eq!(link(machine, &first, &line).status, 0);
    });
}

#[test]
fn links_are_written_in_repositories_and_nowhere_else() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let right = format!("repositories/a/_layers/sha256/1/link sha256:{}\n", hex('3'));
        for wrong in [
            "repositories/../../x/_manifests/tags/v1/current/link",
            "repositories/a/_manifests/tags/../../../current/link",
            "repositories/a/./_layers/sha256/1/link",
            "repositories/a//_layers/sha256/1/link",
            "repositories/a/_layers/sha256/1/data",
            "repositories/a/link",
            "blobs/_layers/sha256/1/link",
            "/etc/repositories/a/_layers/sha256/1/link",
        ] {
            let lines = format!("{right}{wrong} sha256:{}\n", hex('3'));
            let ended = link(machine, ":", &lines);
            assert_eq!(ended.status, 2, "{wrong}: {}", ended.complained);
            assert!(ended.complained.contains(wrong), "{}", ended.complained);
            assert!(!machine.has(&repository("a")), "{wrong}");
        }
        let left = std::fs::read_dir(machine.at(DATA)).unwrap();
        assert_eq!(left.count(), 1, "no temporary file stays");
        assert_eq!(link(machine, ":", &right).status, 0);
        assert!(machine.has(&format!("{}/_layers/sha256/1/link", repository("a"))));
    });
}
