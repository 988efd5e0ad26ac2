//! Rules that all scripts follow. Tests of single scripts are in the modules below.

mod applications;
mod backup;
mod certificates;
mod checks;
mod conformance;
mod dns;
mod doctor;
mod drain;
mod etcd;
mod facts;
mod files;
mod killed;
mod kubeadm;
mod kubelet_credentials;
mod kubernetes;
mod load_balancer;
mod locks;
mod machine;
mod network;
mod nodes;
mod objects;
mod os;
mod packages;
mod parameters;
mod pod_network;
mod registry;
mod reset;
mod rollback;
mod rotation;
mod runtime;
mod settings;
mod status;
mod support;
mod systemd;
mod undo;
mod upgrade;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ALL, Script};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Scripts that have a function of their own with the name of a shared one.
const OWN_FUNCTIONS: &[(&str, &str)] = &[];

/// Returns the file of a script, without the functions that it shares.
fn own(script: &Script) -> String {
    std::fs::read_to_string(Path::new(CRATE).join(script.name)).unwrap()
}

#[test]
fn every_file_is_a_script_of_the_crate() {
    let mut found = BTreeSet::new();
    for area in std::fs::read_dir(CRATE).unwrap() {
        let area = area.unwrap().path();
        if !area.is_dir() || area.ends_with("lib") {
            continue;
        }
        for file in std::fs::read_dir(&area).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sh") {
                let name = path.strip_prefix(CRATE).unwrap();
                found.insert(name.to_str().unwrap().to_owned());
            }
        }
    }
    let known: BTreeSet<String> = ALL.iter().map(|script| script.name.to_owned()).collect();
    assert_eq!(known, found);
    assert_eq!(known.len(), ALL.len(), "a file has two constants");
}

#[test]
fn each_shell_parses_every_script() {
    for shell in ["dash", "bash", "busybox sh"] {
        for script in ALL {
            let mut words = shell.split(' ');
            let mut command = Command::new(words.next().unwrap());
            command.args(words).args(["-nc", script.text]);
            let output = command
                .output()
                .unwrap_or_else(|error| panic!("{shell} is needed: {error}"));
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && words.is_empty(),
                "{shell} {}: {words}",
                script.name
            );
        }
    }
}

#[test]
fn every_script_states_its_options_and_its_purpose() {
    for script in ALL {
        let own = own(script);
        let mut lines = own.lines();
        assert_eq!(lines.next(), Some("#!/bin/sh -eu"), "{}", script.name);
        let purpose = lines.next().unwrap_or_default();
        assert!(
            purpose.starts_with("# ") && purpose.len() > 20,
            "{}: {purpose}",
            script.name
        );
    }
}

#[test]
fn no_script_evaluates_text() {
    for script in ALL {
        for (at, line) in script.text.lines().enumerate() {
            let code = line.trim_start();
            let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
            assert!(
                code.starts_with('#') || !words.any(|word| word == "eval"),
                "{}:{}: {line}",
                script.name,
                at + 1
            );
        }
    }
}

/// Rust reads objects of the cluster into types, and decides.
#[test]
fn no_script_takes_fields_out_of_objects() {
    // What people read. The specifications of pods stay on the host.
    let permitted = "doctor/support-api.sh";
    for script in ALL.iter().filter(|one| one.name != permitted) {
        for word in ["jsonpath", "custom-columns"] {
            assert!(!script.text.contains(word), "{}: {word}", script.name);
        }
    }
}

/// A disabled check has its reason in the same line.
#[test]
fn every_exception_for_shellcheck_states_its_reason() {
    for script in ALL {
        let lines = script.text.lines().map(str::trim_start);
        for line in lines.filter(|line| line.starts_with("# shellcheck disable")) {
            let reason = line.split_once(" # ").map_or("", |(_, reason)| reason);
            assert!(reason.len() > 10, "{}: {line}", script.name);
        }
    }
}

/// Returns the functions of `lib/` with their files. A script on a host cannot read another one.
fn shared() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(Path::new(CRATE).join("lib")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.map(read).collect()
}

/// Returns a script without comments.
fn code(text: &str) -> String {
    let lines = text.lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns whether a word is where a command begins. A call of kubectl with `--kubeconfig` is one of the program.
fn calls(code: &str, name: &str) -> bool {
    let code = format!("\n{}", code.replace("kubectl --kubeconfig", ""));
    let mut places = code.match_indices(name);
    places.any(|(at, _)| {
        let before = code[..at].trim_end_matches(' ');
        let after = &code[at + name.len()..];
        let is_output = before.ends_with("$(") && after.starts_with(')');
        let is_word = after.starts_with([' ', '\n', ';']) || is_output;
        let starts = [
            "\n",
            ";",
            "&",
            "|",
            "(",
            ")",
            "{",
            "!",
            " if",
            "until",
            "while",
            "then",
            "do",
            "else",
            "patiently",
        ];
        is_word && starts.iter().any(|start| before.ends_with(start))
    })
}

#[test]
fn scripts_have_the_shared_functions_that_they_call() {
    let shared = shared();
    assert!(!shared.is_empty());
    for script in ALL {
        for (name, file) in &shared {
            let definition = format!("\n{name}() {{\n");
            assert!(file.contains(&definition), "{name}: {file}");
            let defines = own(script).contains(&definition);
            let may = OWN_FUNCTIONS.contains(&(script.name, name.as_str()));
            assert_eq!(defines, may, "{} defines {name}", script.name);
            let has = script.text.contains(file);
            let needs = !may && calls(&code(&script.text.replace(file, "")), name);
            assert_eq!(has, needs, "{}: {name}", script.name);
        }
    }
}

/// Parts with a purpose of their own are functions of `lib/`, or other scripts.
#[test]
fn scripts_have_at_most_120_lines() {
    let scripts = ALL.iter();
    let scripts = scripts.map(|script| (script.name.to_owned(), own(script)));
    for (name, text) in scripts.chain(shared()) {
        let lines = text.lines().count();
        assert!(lines <= 120, "{name} has {lines} lines");
    }
}

/// A pod of a user may have a container with the name of a program of the control plane.
#[test]
fn containers_by_name_are_those_of_kubexm() {
    let namespaces = ["kube-system", "kube-flannel"];
    for script in ALL {
        let calls = script.text.lines().filter(|line| {
            line.contains("crictl ps")
                && line.contains("--name")
                && !line.trim_start().starts_with('#')
        });
        for line in calls {
            let of_namespace =
                |name: &str| line.contains(&format!("--label io.kubernetes.pod.namespace={name} "));
            assert!(
                namespaces.iter().any(|name| of_namespace(name)),
                "{}: {line}",
                script.name
            );
        }
    }
}

/// kubectl waits without a limit for an API server that does not answer.
#[test]
fn every_call_of_kubectl_has_a_request_timeout() {
    let mut calls = 0;
    for script in ALL {
        let text = script.text.replace("\\\n", " ");
        for line in text
            .lines()
            .filter(|line| line.contains("kubectl --kubeconfig"))
        {
            calls += 1;
            assert!(
                line.contains(" --request-timeout="),
                "{}: {line}",
                script.name
            );
        }
    }
    assert!(calls > 10, "the calls have another form now");
}

/// A file that gets its name before its content is on disk can be empty after a power failure.
#[test]
fn files_get_their_names_by_one_function() {
    // They rename many files at once, or directories, and flush the file system before and afterwards.
    let exceptions = [
        "etcd/restore.sh",
        "kubeadm/authorities.sh",
        "registry/link.sh",
        "registry/receive.sh",
    ];
    for script in ALL
        .iter()
        .filter(|script| !exceptions.contains(&script.name))
    {
        for line in code(&own(script)).lines() {
            let mut words = line.split_whitespace();
            assert!(!words.any(|word| word == "mv"), "{}: {line}", script.name);
            assert!(!line.contains("sed -i"), "{}: {line}", script.name);
        }
    }
}

/// Other users of the host cannot read what commands print.
#[test]
fn runtime_directory_is_private() {
    for script in ALL {
        let text = script.text;
        assert!(!text.contains("mkdir -p /run/kubexm"), "{}", script.name);
    }
}

/// No shell of several lines is left in Rust code.
#[test]
fn rust_code_contains_no_shell_blocks() {
    let mut folders = vec![Path::new(CRATE).join("..")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["scripts", "tests", "target"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                let lines = text.lines().map(str::trim).enumerate();
                let is_shell = |line: &str| {
                    ["; do", "; then"].iter().any(|end| line.ends_with(end))
                        || ["fi", "esac"].contains(&line)
                };
                let shell = lines.filter(|(_, line)| is_shell(line));
                found.extend(shell.map(|(at, line)| format!("{path:?}:{}: {line}", at + 1)));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
