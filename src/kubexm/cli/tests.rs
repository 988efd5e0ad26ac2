//! The help of every command, in `tests/golden/snapshots/help`.

use std::collections::BTreeSet;
use std::path::Path;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use super::Arguments;

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
    let both = match short == long {
        true => format!("$ {name} -h, --help\n{long}"),
        false => format!("$ {name} -h\n{short}\n$ {name} --help\n{long}"),
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
    let mut command = Arguments::command().term_width(80);
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
