//! Every script that changes a host is killed at each of its simple commands. The next run, and then a reset, lead to
//! the same files as without the kill; so does a reset right after the kill. Programs such as kubeadm, kubectl, etcdctl,
//! crictl and systemctl are stand-ins that store their state in files; each test prints their names.

mod backup;
mod cluster;
mod coverage;
mod files;
mod kubeadm;
mod nodes;
mod rotation;
mod settings;
mod system;
mod upgrade;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::machine::Machine;
use crate::{Script, host, steps};

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

thread_local! {
    /// The scripts that tests would kill. While it is set, they kill none.
    static COVERED: RefCell<Option<BTreeSet<&'static str>>> = const { RefCell::new(None) };
}

/// Returns the scripts that these tests kill, without running them.
fn covered_by(tests: &[fn()]) -> BTreeSet<&'static str> {
    COVERED.with_borrow_mut(|covered| *covered = Some(BTreeSet::new()));
    for test in tests {
        test();
    }
    COVERED.with_borrow_mut(Option::take).unwrap_or_default()
}

/// Returns whether tests only list these scripts.
fn only_lists(scripts: impl IntoIterator<Item = Script>) -> bool {
    COVERED.with_borrow_mut(|covered| match covered {
        Some(covered) => {
            covered.extend(scripts.into_iter().map(|script| script.name));
            true
        }
        None => false,
    })
}

/// Returns the numbers of the commands before which tests kill a script, from 1: every number, or with
/// `KUBEXM_KILLS=K/N` the first one and every N-th one, so that N runs with K from 0 kill at each. A test ends at the
/// first number that the script does not have.
fn commands() -> impl Iterator<Item = usize> {
    let (first, step) = match std::env::var("KUBEXM_KILLS") {
        Ok(text) => {
            let (first, step) = text.split_once('/').expect("KUBEXM_KILLS is K/N");
            (first.parse().unwrap(), step.parse().unwrap())
        }
        Err(_) => (0, 1),
    };
    let others = (first + 1..).step_by(step).filter(|at| *at > 1);
    std::iter::once(1).chain(others)
}

/// Names the stand-ins in the output of a test.
fn stand_ins(machine: &Machine, script: &str) {
    let programs = std::fs::read_dir(machine.at("/root/fake")).unwrap();
    let mut names: Vec<String> = programs
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name != "awk")
        .collect();
    names.sort();
    println!("{script}: stand-ins for {}", names.join(", "));
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

/// Returns the upload of a file.
fn upload(path: &str) -> Call {
    let input = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865\n1\n";
    let path = format!("path={path}");
    with(host::UPLOAD, &[&path, "mode=600"], input)
}

/// Kills the install of a case, and its reset, at each simple command.
fn kill_everywhere(case: &Case) {
    kill_everywhere_and(case, |_| ());
}

/// Like [`kill_everywhere`]; `after` asserts more after each complete install. A case without an undo changes what ends
/// with the cluster.
fn kill_everywhere_and(case: &Case, after: fn(&Machine)) {
    let undo = case.undo.iter().map(|(script, _, _)| *script);
    if only_lists(undo.chain([case.apply.0])) {
        return;
    }
    let name = case.apply.0.name;
    let machine = Machine::new("bash");
    (case.before)(&machine);
    stand_ins(&machine, name);
    let original = listing(&machine);
    install(&machine, case);
    let installed = listing(&machine);
    assert_ne!(installed, original, "{name} does nothing");
    after(&machine);
    let is_reverted = !case.undo.is_empty();
    if is_reverted {
        reset(&machine, case);
        let after_reset = listing(&machine);
        assert_eq!(after_reset, original, "{name} is not reverted");
    }
    let fresh = || {
        let machine = Machine::new("bash");
        (case.before)(&machine);
        machine
    };
    let mut kills = 0;
    for at in commands() {
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
        after(&machine);
        if !is_reverted {
            continue;
        }
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
        for at in commands() {
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
