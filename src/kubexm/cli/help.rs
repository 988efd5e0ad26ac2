//! Adjusts what clap derives: groups of commands in the help of `kubexm bundle`.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::bundle::GROUPS;

/// Returns the definition of all commands, with groups in the help of `kubexm bundle`.
pub fn grouped<T: CommandFactory>() -> Command {
    T::command().mut_subcommand("bundle", |bundle| {
        let groups = groups(&bundle);
        bundle.help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
        ))
    })
}

/// Lists the commands by group, each with its purpose.
fn groups(bundle: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{heading}:");
        for name in names {
            let about = bundle.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:15}  {about}");
        }
        text.push('\n');
    }
    text
}

/// Returns whether the command line uses `bundle apply`, the old name of `bundle merge`.
pub fn is_old_name(arguments: impl Iterator<Item = String>) -> bool {
    let words: Vec<String> = arguments.skip(1).collect();
    let bundle = words.iter().position(|word| word == "bundle");
    bundle.is_some_and(|at| {
        words[at + 1..]
            .iter()
            .find(|word| !word.starts_with('-'))
            .is_some_and(|word| word == "apply")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_bundle_command_is_in_one_group() {
        let command = super::super::command();
        let bundle = command.find_subcommand("bundle").unwrap();
        let mut defined: Vec<&str> = bundle.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        defined.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(defined, grouped);
    }

    #[test]
    fn only_the_old_name_of_merge_is_reported() {
        let is_old = |line: &str| is_old_name(line.split(' ').map(str::to_owned));
        assert!(is_old("kubexm bundle apply a b -o c"));
        assert!(is_old("kubexm -v bundle apply a b -o c"));
        assert!(!is_old("kubexm bundle merge apply b -o c"));
        assert!(!is_old("kubexm install apply"));
    }
}
