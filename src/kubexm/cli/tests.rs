//! The help of every command, in `tests/golden/snapshots/help`.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Command;
use clap::builder::StyledStr;

/// Short and long help of a command and of all below it, by their names.
fn pages(command: &mut Command, name: &str, pages: &mut Vec<(String, String)>) {
    // Values of the environment differ from machine to machine.
    let mut page = command.clone().mut_args(|arg| arg.hide_env_values(true));
    let text = |page: StyledStr| -> String {
        let lines = page.to_string();
        let lines = lines.lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    };
    let (short, long) = (text(page.render_help()), text(page.render_long_help()));
    let both = if short == long {
        format!("$ {name} -h, --help\n{long}")
    } else {
        format!("$ {name} -h\n{short}\n$ {name} --help\n{long}")
    };
    pages.push((name.replace(' ', "-"), both));
    let below = command.get_subcommands_mut();
    for command in below.filter(|command| command.get_name() != "help") {
        let name = format!("{name} {}", command.get_name());
        self::pages(command, &name, pages);
    }
}

#[test]
fn help_of_every_command() {
    let mut command = super::command().term_width(80);
    command.build();
    let mut all = Vec::new();
    pages(&mut command, "kubexm", &mut all);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/snapshots/help");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(&folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut names = BTreeSet::new();
    let mut failed = Vec::new();
    for (name, text) in all {
        let assertion = || settings.bind(|| insta::assert_snapshot!(name.as_str(), text));
        // All changes at once, not the first one only.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertion)).is_err() {
            failed.push(name.clone());
        }
        names.insert(format!("{name}.snap"));
    }
    assert!(failed.is_empty(), "these pages differ: {failed:#?}");
    let files = std::fs::read_dir(&folder).unwrap();
    let unused: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".snap") && !names.contains(name))
        .collect();
    assert!(unused.is_empty(), "no command has these pages: {unused:#?}");
}

/// Every command without commands below it.
fn leaves(command: &Command, found: &mut Vec<Command>) {
    let below = command.get_subcommands();
    let mut below = below
        .filter(|command| command.get_name() != "help")
        .peekable();
    if below.peek().is_none() {
        found.push(command.clone());
    }
    for command in below {
        leaves(command, found);
    }
}

#[test]
fn every_long_help_has_examples_that_parse() {
    let mut root = super::command();
    root.build();
    let mut found = Vec::new();
    leaves(&root, &mut found);
    assert!(
        found.len() >= 35,
        "only {} commands were found",
        found.len()
    );
    for mut command in found {
        let name = command.get_bin_name().unwrap().to_owned();
        let help = command.render_long_help().to_string();
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{name} has none"));
        let lines = examples.lines().map(str::trim);
        let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(!lines.is_empty(), "{name}");
        for line in lines {
            assert!(line.starts_with(&name), "{name}: {line}");
            let words = line.split(' ').take_while(|word| *word != ">");
            let result = super::command().try_get_matches_from(words);
            let error = result.err().filter(|error| {
                // Files of the examples do not exist.
                error.kind() != clap::error::ErrorKind::ValueValidation
            });
            assert!(error.is_none(), "{line}: {}", error.unwrap());
        }
    }
}
