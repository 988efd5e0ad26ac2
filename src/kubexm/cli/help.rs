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
