//! The lock of a host, and the record of its cluster.

use super::machine::{Ended, Machine};
use crate::Parameters;
use crate::host::{BEGUN, CLAIM, LOCK, Lock};

const FILE: &str = "/run/kubexm.lock";

fn lock(machine: &Machine, verb: &'static str, token: &str, origin: &str) -> Ended {
    let parameters = Lock {
        token: token.to_owned(),
        origin: origin.to_owned(),
        seconds: "100".to_owned(),
        holder: "{\"user\": \"a b\"}".to_owned(),
    };
    let arguments = parameters.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    machine.run(LOCK.verb(verb), &arguments)
}

#[test]
fn host_is_locked_by_one_run_until_it_is_released() {
    Machine::with_each_shell(|machine| {
        assert_eq!(lock(machine, "take", "1", "here").status, 0);
        let refused = lock(machine, "take", "2", "elsewhere");
        assert_eq!(refused.status, 3);
        let (seconds, holder) = refused.printed.split_once(' ').unwrap();
        assert!(
            (1..=100).contains(&seconds.parse::<u32>().unwrap()),
            "{seconds}"
        );
        assert_eq!(holder, "{\"user\": \"a b\"}\n");
        assert_eq!(lock(machine, "renew", "1", "here").status, 0);
        // Another run cannot release it.
        assert_eq!(lock(machine, "release", "2", "elsewhere").status, 0);
        assert!(machine.has(FILE));
        assert_eq!(lock(machine, "release", "1", "here").status, 0);
        assert!(!machine.has(FILE));
        assert_eq!(lock(machine, "take", "2", "elsewhere").status, 0);
    });
}

#[test]
fn lock_of_a_dead_holder_ends() {
    Machine::with_each_shell(|machine| {
        machine.write(FILE, "1\n1\nhere\n{}\n");
        assert_eq!(lock(machine, "take", "2", "elsewhere").status, 0);
        // Its holder was asleep.
        assert_eq!(lock(machine, "renew", "1", "here").status, 3);
        assert_eq!(lock(machine, "renew", "2", "elsewhere").status, 0);
        // The other run has ended in the meantime.
        assert_eq!(lock(machine, "release", "2", "elsewhere").status, 0);
        let lost = lock(machine, "renew", "1", "here");
        assert_eq!((lost.status, lost.printed.as_str()), (3, "0 \n"));
        assert!(!machine.has(FILE));
        // No other run has taken the lock of this one.
        machine.write(FILE, "1\n1\nhere\n{}\n");
        assert_eq!(lock(machine, "renew", "1", "here").status, 0);
    });
}

/// The lock of the state directory excludes two runs of one origin.
#[test]
fn next_run_of_the_same_origin_does_not_wait() {
    Machine::with_each_shell(|machine| {
        assert_eq!(lock(machine, "take", "1", "here").status, 0);
        assert_eq!(lock(machine, "take", "2", "here").status, 0);
        assert_eq!(lock(machine, "renew", "1", "here").status, 3);
    });
}

#[test]
fn incomplete_lock_is_not_a_lock() {
    Machine::with_each_shell(|machine| {
        for content in [
            "",
            "999999999999",
            "999999999999\n1\nhere",
            "x\n1\nhere\n{}\n",
        ] {
            machine.write(FILE, content);
            let ended = lock(machine, "take", "2", "elsewhere");
            assert_eq!(ended.status, 0, "{content}: {}", ended.complained);
        }
    });
}

#[test]
fn host_keeps_the_record_of_its_first_cluster() {
    Machine::with_each_shell(|machine| {
        let record = "/var/lib/kubexm/cluster";
        machine.write("/var/lib/kubexm/.cluster-abcdef", "of a killed script");
        for _ in 0..2 {
            let ended = machine.run(CLAIM, &["{\"id\":\"1\"}"]);
            assert_eq!(ended.status, 0, "{}", ended.complained);
            assert_eq!(machine.read(record), "{\"id\":\"1\"}\n");
        }
        assert!(!machine.has("/var/lib/kubexm/.cluster-abcdef"));
        let ended = machine.run(CLAIM, &["{\"id\":\"2\"}"]);
        assert_ne!(ended.status, 0);
        assert_eq!(ended.complained, "{\"id\":\"1\"}\n");
        assert_eq!(machine.read(record), "{\"id\":\"1\"}\n");
    });
}

/// A reset must leave nothing, and a host that no install has changed must get nothing.
#[test]
fn host_of_a_cluster_records_what_has_begun() {
    Machine::with_each_shell(|machine| {
        let record = "/var/lib/kubexm/begun.json";
        assert_eq!(machine.run(BEGUN, &["{\"serial\":1}"]).status, 3);
        assert!(!machine.has("/var/lib/kubexm"));
        assert_eq!(lock(machine, "take", "1", "here").printed, "");
        machine.done(CLAIM, &["{\"id\": \"1\"}"]);
        machine.write("/var/lib/kubexm/.begun-killed", "x");
        for line in ["{\"serial\":1}", "{\"serial\":2}"] {
            machine.done(BEGUN, &[line]);
            let has = format!("{line}\n");
            assert_eq!(machine.read(record), has);
            assert_eq!(lock(machine, "take", "1", "here").printed, has);
            // Only a run that begins asks.
            assert_eq!(lock(machine, "renew", "1", "here").printed, "");
        }
        assert!(!machine.has("/var/lib/kubexm/.begun-killed"));
        let refused = lock(machine, "take", "2", "elsewhere");
        assert!(!refused.printed.contains("serial"), "{}", refused.printed);
    });
}
