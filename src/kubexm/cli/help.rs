//! Adjusts what clap derives: groups of commands in the help of `kubexm` and of `kubexm bundle`.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::bundle;

/// The commands of a help, by heading.
pub type Groups = [(&'static str, &'static [&'static str])];

/// The groups of `kubexm --help`.
pub const GROUPS: &Groups = &[
    ("Bundle", &["bundle", "inventory", "cache"]),
    (
        "Cluster",
        &[
            "config", "plan", "render", "install", "upgrade", "node", "reset",
        ],
    ),
    (
        "Operate",
        &["app", "status", "exec", "logs", "kubeconfig", "registry"],
    ),
    (
        "Maintain",
        &["doctor", "support-bundle", "certs", "backup", "conformance"],
    ),
    ("Tools", &["completions", "man", "version"]),
];

/// The heading of options that every command accepts.
pub const GLOBAL: &str = "Global options";

/// The width of a help, in characters.
const WIDTH: usize = 80;

/// Returns the definition of all commands, with groups in the help of `kubexm` and of `kubexm bundle`.
pub fn grouped<T: CommandFactory>() -> Command {
    let bundle = |bundle| with_groups(bundle, bundle::GROUPS);
    with_groups(T::command().mut_subcommand("bundle", bundle), GROUPS)
}

fn with_groups(command: Command, all: &Groups) -> Command {
    let groups = groups(&command, all);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

/// Lists the commands by group, each with its purpose.
fn groups(command: &Command, all: &Groups) -> String {
    let mut text = String::new();
    for (heading, names) in all {
        let _ = writeln!(text, "{heading}:");
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let mut line = format!("  {name:15}  ");
            let indentation = line.len();
            for word in about.split(' ') {
                if line.len() + word.len() > WIDTH {
                    let _ = writeln!(text, "{}", line.trim_end());
                    line = " ".repeat(indentation);
                }
                line.push_str(word);
                line.push(' ');
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }
    text
}

/// Old names of `kubexm bundle` commands and options, each with the command that has it and its new name.
/// They are hidden aliases.
const OLD_NAMES: [(&str, &str, &str); 4] = [
    ("apply", "bundle apply", "bundle merge"),
    ("build", "--layers", "--gzip"),
    ("verify", "--alone", "--volume-only"),
    ("verify", "--quick", "--metadata-only"),
];

/// Returns the old names on the command line, each with its new name.
pub fn old_names(arguments: impl Iterator<Item = String>) -> Vec<(&'static str, &'static str)> {
    let words: Vec<String> = arguments.skip(1).collect();
    let mut commands = words.iter().filter(|word| !word.starts_with('-'));
    if !commands.any(|word| word == "bundle") {
        return Vec::new();
    }
    let Some(command) = commands.next() else {
        return Vec::new();
    };
    let is_used = |old: &str| {
        let option = |word: &String| word == old || word.starts_with(&format!("{old}="));
        !old.starts_with('-') || words.iter().any(option)
    };
    let names = OLD_NAMES.iter();
    names
        .filter(|(of, old, _)| of == command && is_used(old))
        .map(|(_, old, new)| (*old, *new))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::connection;
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let root = super::super::command();
        let bundle = root.find_subcommand("bundle").unwrap();
        for (command, groups) in [(&root, GROUPS), (bundle, bundle::GROUPS)] {
            let mut defined: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let grouped = groups.iter().flat_map(|(_, names)| *names);
            let mut grouped: Vec<&str> = grouped.copied().collect();
            defined.sort_unstable();
            grouped.sort_unstable();
            assert_eq!(defined, grouped);
        }
    }

    /// Checks that a command has options of the connection only below their heading, which stands after its own options.
    fn check_headings(command: &Command, seen: &mut usize) {
        for id in ["known_hosts", "ssh_config", "accept_new_host_keys"] {
            let option = command.get_arguments().find(|option| option.get_id() == id);
            let Some(option) = option else { continue };
            let name = command.get_name();
            let heading = option.get_help_heading();
            assert_eq!(heading, Some(connection::HEADING), "{name} --{id}");
            *seen += 1;
        }
        for below in command.get_subcommands() {
            check_headings(below, seen);
        }
    }

    #[test]
    fn own_options_stand_before_those_of_the_connection() {
        let mut seen = 0;
        check_headings(&super::super::command(), &mut seen);
        assert!(seen > 60, "only {seen} options were found");
        let mut root = super::super::command();
        root.build();
        let upgrade = root.find_subcommand_mut("upgrade").unwrap();
        let help = upgrade.render_help().to_string();
        let at = |text: &str| help.find(text).unwrap();
        assert!(at("--drain-timeout") < at(connection::HEADING), "{help}");
        assert!(at(connection::HEADING) < at("--known-hosts"), "{help}");
    }

    #[test]
    fn only_old_names_are_reported() {
        let old = |line: &str| old_names(line.split(' ').map(str::to_owned));
        let merge = ("bundle apply", "bundle merge");
        assert_eq!(old("kubexm bundle apply a b -o c"), [merge]);
        assert_eq!(old("kubexm -v bundle apply a b -o c"), [merge]);
        assert_eq!(old("kubexm bundle merge apply b -o c"), []);
        assert_eq!(old("kubexm install apply"), []);
        assert_eq!(
            old("kubexm bundle verify a --quick"),
            [("--quick", "--metadata-only")]
        );
        assert_eq!(
            old("kubexm bundle build --layers=open -o c"),
            [("--layers", "--gzip")]
        );
        assert_eq!(old("kubexm bundle verify a --metadata-only"), []);
    }
}
