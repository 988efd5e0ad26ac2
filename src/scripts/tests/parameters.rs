//! Rules about the parameters and the arguments of scripts.

use std::collections::BTreeSet;

use super::machine::Machine;
use super::{code, own};
use crate::{ALL, Parameters, Script, kubernetes};

/// Returns the names that the text before a script gives a value.
fn parameters(script: &Script) -> Option<String> {
    let names = script.text.strip_prefix("verb=''")?.lines().next()?;
    Some(names.replace("=''", ""))
}

/// A script states the parameters of its type, so that shellcheck knows them, and a reader sees them.
#[test]
fn scripts_state_their_parameters() {
    let mut found = 0;
    for script in ALL {
        let own = own(script);
        let stated = own
            .lines()
            .find_map(|line| line.strip_prefix(": \"${verb=}\""));
        let stated = stated.map(|names| names.replace(['"', '$', '{', '=', '}'], ""));
        assert_eq!(stated, parameters(script), "{}", script.name);
        found += usize::from(stated.is_some());
    }
    assert!(found > 10);
}

/// Scripts with three or more arguments that have no names, with the reason.
const WITHOUT_NAMES: &[(&str, &[&str])] = &[
    (
        "is an undo script, and receipts contain its arguments",
        &["steps/block-edit.sh"],
    ),
    (
        "has a list of which each entry is several arguments",
        &[
            "doctor/ways.sh",
            "kubernetes/node-metadata.sh",
            "status/host.sh",
            "steps/install-look.sh",
            "steps/install-receive.sh",
        ],
    ),
];

/// Returns the code of a script without functions, which have arguments of their own, and without text in single quotes, which
/// may be a program of awk.
fn own_commands(script: &Script) -> String {
    let code = code(&own(script));
    let mut in_function = false;
    let is_command = |line: &&str| {
        let begins = !line.starts_with(' ') && (line.contains("() {") || line.contains("() ("));
        let is_part = begins || in_function;
        in_function = if begins {
            !line.ends_with(['}', ')'])
        } else {
            in_function && !["}", ")"].contains(line)
        };
        !is_part
    };
    let lines: Vec<&str> = code.lines().filter(is_command).collect();
    let text = lines.join("\n");
    let (mut found, mut single, mut double) = (String::new(), false, false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if !single => _ = characters.next(),
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            _ if !single => found.push(character),
            _ => {}
        }
    }
    assert!(!single && !double, "{}: a quote has no end", script.name);
    found
}

/// Returns the largest number of an argument in code, as in `$3`, `${3:-}` and `shift 3`.
fn last_argument(code: &str) -> u32 {
    let read = code.split('$').skip(1);
    let read = read.map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    let numbers = read.chain(code.split("shift ").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().unwrap_or(0)
    });
    numbers.max().unwrap_or(0)
}

/// A number does not say what an argument is.
#[test]
fn scripts_with_three_or_more_arguments_have_names_for_them() {
    let mut found = BTreeSet::new();
    for script in ALL.iter().filter(|script| parameters(script).is_none()) {
        let code = own_commands(script);
        let is_verb = |line: &str| {
            line == "case $1 in" || line.starts_with("verb=$1") || line.starts_with("verb=${1")
        };
        let verbs = u32::from(code.lines().any(is_verb));
        if last_argument(&code) > 2 + verbs {
            found.insert(script.name);
        }
    }
    let exceptions = WITHOUT_NAMES.iter();
    let exceptions = exceptions.flat_map(|(_, names)| names.iter().copied());
    assert_eq!(found, exceptions.collect());
}

#[test]
fn values_of_parameters_are_never_text_of_the_script() {
    let script = Script {
        text: printing(kubernetes::FORMER),
        ..kubernetes::FORMER
    };
    let value = "a b='$(id)'\n--\n`x`=\\n";
    let parameters = kubernetes::Former {
        restore: value.to_owned(),
        version: "1=2".to_owned(),
        ..Default::default()
    };
    Machine::with_each_shell(|machine| {
        let arguments = parameters.clone().and(["kind=x", "--"]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let printed = machine.done(script.verb("check"), &arguments);
        assert_eq!(printed, format!("check\n{value}\n\n1=2\nkind=x --\n"));
    });
}

/// Returns what reads the parameters of a script, with a script that prints them.
fn printing(script: Script) -> &'static str {
    let start = script.text.split_inclusive("\ndone\n").next().unwrap();
    let text =
        format!("{start}printf '%s\\n' \"$verb\" \"$restore\" \"$kind\" \"$version\" \"$*\"");
    Box::leak(text.into_boxed_str())
}
