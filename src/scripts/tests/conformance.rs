//! Tests of `kubernetes/conformance.sh`.

use super::machine::Machine;
use crate::Script;
use crate::kubernetes::CONFORMANCE;

const FOLDER: &str = "/var/lib/kubexm/conformance";
const RUN: [&str; 6] = [
    "run=parallel",
    "processes=4",
    "seconds=60",
    "labels=Conformance && !Serial",
    "focus=DNS|Pods a",
    "skip=",
];

/// Adds a unit whose state is `/root/state`, as `ActiveState/SubState`, and a kubectl.
fn with_programs(machine: &Machine) {
    machine.fake(
        "systemctl",
        "state=$(cat /root/state 2>/dev/null || echo inactive/dead)\n\
         case $*:$3 in\n\
         show*:ActiveState) echo \"${state%/*}\" ;;\n\
         show*:SubState) echo \"${state#*/}\" ;;\n\
         show*) echo 1 ;;\n\
         stop*) rm -f /root/state ;;\n\
         esac",
    );
    machine.fake("systemd-run", "echo active/running >/root/state");
    machine.fake("kubectl", "");
}

fn verb(name: &'static str) -> Script {
    CONFORMANCE.verb(name)
}

/// Returns the call of systemd-run since the last time, if there is one.
fn started(machine: &Machine) -> Option<String> {
    let mut calls = machine.calls().into_iter();
    calls.find(|call| call.starts_with("systemd-run"))
}

#[test]
fn run_is_started_with_its_arguments_and_joined_with_the_same_ones() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        machine.done(verb("start"), &RUN);
        let call = started(machine).unwrap();
        for part in [
            "--procs=4 --timeout=60s --label-filter=Conformance && !Serial --focus=DNS|Pods a /var",
            "--kubeconfig=/etc/kubernetes/admin.conf",
            "--report-dir=/var/lib/kubexm/conformance/report-parallel",
        ] {
            assert!(call.contains(part), "{call}");
        }
        machine.done(verb("start"), &RUN);
        assert_eq!(started(machine), None);
        let other = [
            "run=serial",
            "processes=1",
            "seconds=60",
            "labels=Conformance && Serial",
            "skip=GPU",
        ];
        machine.done(verb("start"), &other);
        let call = started(machine).unwrap();
        assert!(
            call.contains("--skip=GPU") && !call.contains("--focus"),
            "{call}"
        );
    });
}

#[test]
fn progress_is_counted_in_the_log() {
    Machine::with_each_shell(|machine| {
        with_programs(machine);
        machine.done(verb("start"), &RUN);
        assert_eq!(
            machine.done(verb("look"), &[]),
            "state running\ntotal \ndone 0\nfailed 0\n"
        );
        let log = "Running in parallel across 4 processes\nWill run 406 of 7592 specs\n\
                   • [0.120 seconds]\ntext • [1 seconds]\n• [FAILED] [4.392 seconds]\n";
        machine.write(&format!("{FOLDER}/log"), log);
        machine.write("/root/state", "active/exited");
        assert_eq!(
            machine.done(verb("look"), &[]),
            "state ended\nstatus 1\ntotal 406\ndone 2\nfailed 1\n"
        );
    });
}

#[test]
fn nothing_stays_after_the_tests() {
    Machine::with_each_shell(|machine| {
        for name in ["remove", "clear"] {
            with_programs(machine);
            machine.done(verb("start"), &RUN);
            machine.calls();
            machine.done(verb(name), &[]);
            assert!(
                !machine.has(FOLDER) && !machine.has("/root/state"),
                "{name}"
            );
            let calls = machine.calls().join("\n");
            let deletes = calls.contains("delete namespaces -l e2e-framework");
            assert_eq!(deletes, name == "remove", "{calls}");
            machine.done(verb("clear"), &[]);
        }
    });
}
