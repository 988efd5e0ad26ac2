//! The page of all commands, from clap's definitions. It pins the help of every command.

use std::fmt::Write;

use clap::{Arg, Command};

use super::table::escaped;
use crate::cli::help::GROUPS;

/// A section per command and per group of commands, with its usage and its arguments.
pub fn page() -> String {
    let mut root = crate::cli::command();
    root.build();
    let mut out = String::new();
    let globals: Vec<&Arg> = root
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .collect();
    writeln!(out, "These options are accepted by every command:\n").unwrap();
    arguments(&mut out, &globals);
    contents(&mut out, &root);
    sections(&mut out, &root);
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Visible subcommands, without clap's own `help`.
fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

fn leaves<'a>(command: &'a Command, found: &mut Vec<&'a Command>) {
    for inner in subcommands(command) {
        match subcommands(inner).next() {
            None => found.push(inner),
            Some(_) => leaves(inner, found),
        }
    }
}

fn title(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_owned()
}

/// A table of commands for each group of `kubexm --help`.
fn contents(out: &mut String, root: &Command) {
    for (heading, names) in GROUPS {
        writeln!(out, "{heading}:\n\n| command | purpose |\n| --- | --- |").unwrap();
        let mut found = Vec::new();
        for name in *names {
            let command = root.find_subcommand(name).unwrap();
            leaves(command, &mut found);
            if subcommands(command).next().is_none() {
                found.push(command);
            }
        }
        for command in found {
            let name = title(command);
            let about = command.get_about().map(ToString::to_string);
            let about = escaped(&about.unwrap_or_default());
            writeln!(out, "| [`{name}`](#{}) | {about} |", name.replace(' ', "-")).unwrap();
        }
        out.push('\n');
    }
}

/// Writes a section for a command and for each command below it.
fn sections(out: &mut String, command: &Command) {
    writeln!(out, "## {}\n", title(command)).unwrap();
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        for paragraph in about.to_string().split("\n\n") {
            writeln!(out, "{}\n", escaped(paragraph)).unwrap();
        }
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    writeln!(out, "```text\n{usage}\n```\n").unwrap();
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_global_set())
        .collect();
    arguments(out, &own);
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        writeln!(out, "```text\n{}\n```\n", after.to_string().trim_end()).unwrap();
    }
    subcommands(command).for_each(|inner| sections(out, inner));
}

/// A table of arguments, and one more for each group of options that has a heading.
fn arguments(out: &mut String, all: &[&Arg]) {
    let visible =
        |arg: &&&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let visible: Vec<&Arg> = all.iter().filter(visible).copied().collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &visible {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            writeln!(out, "{heading}:\n").unwrap();
        }
        out.push_str("| argument | meaning |\n| --- | --- |\n");
        for arg in visible
            .iter()
            .filter(|arg| arg.get_help_heading() == heading)
        {
            writeln!(out, "| {} | {} |", name(arg), meaning(arg)).unwrap();
        }
        out.push('\n');
    }
}

fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values: Vec<String> = values.iter().map(|value| format!("<{value}>")).collect();
    let values = if arg.get_action().takes_values() {
        values.join(" ")
    } else {
        String::new()
    };
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("`-{short}`")));
    names.extend(
        arg.get_long()
            .map(|long| format!("`{}`", format!("--{long} {values}").trim_end())),
    );
    if names.is_empty() {
        format!("`{values}`")
    } else {
        names.join(", ")
    }
}

/// Help, accepted values, default and environment variable.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<String> = help.split("\n\n").map(escaped).collect();
    let mut text = paragraphs.join("<br>");
    if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        let values = arg.get_possible_values();
        let shown = values.iter().filter(|value| !value.is_hide_set());
        let shown: Vec<String> = shown
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}`: {}", value.get_name(), escaped(&help.to_string())),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        if !shown.is_empty() {
            write!(text, "<br>Values: {}", shown.join("; ")).unwrap();
        }
    }
    let defaults = arg.get_default_values();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let defaults: Vec<_> = defaults
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        write!(text, "<br>Default: `{}`", defaults.join(" ")).unwrap();
    }
    if let Some(variable) = arg.get_env() {
        write!(text, "<br>Environment: `{}`", variable.to_string_lossy()).unwrap();
    }
    if arg.is_required_set() {
        text.push_str("<br>Required");
    }
    text
}
