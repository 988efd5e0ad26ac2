//! The examples in the help of every command. `docs/src/reference/cli.md` pins the other texts.

mod followed;
mod suite;

use clap::Command;

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

/// The text of every file below a folder that is Rust or shell.
fn texts(folder: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, found);
        } else if path
            .extension()
            .is_some_and(|end| end == "rs" || end == "sh")
        {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// What is wrong with the words of a command after `kubexm`. Words in capitals or braces are values.
fn unknown(root: &Command, words: &[&str]) -> Option<String> {
    let mut command = root;
    for word in words {
        if let Some(long) = word.strip_prefix("--") {
            let long = long.split_once('=').map_or(long, |(name, _)| name);
            let mut all = command.get_arguments().chain(root.get_arguments());
            let is_known = |arg: &clap::Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(long) || aliases.contains(&long)
            };
            if !["help", "version"].contains(&long) && !all.any(is_known) {
                return Some(format!("has no option --{long}"));
            }
        } else if word.contains(['{', '…']) {
            return None;
        } else if let Some(below) = command.find_subcommand(word) {
            command = below;
        } else if command.has_subcommands() {
            return Some(format!("has no command {word}"));
        }
    }
    None
}

#[test]
fn commands_in_messages_exist() {
    let mut root = super::command();
    root.build();
    assert!(unknown(&root, &["certs", "renewal"]).is_some());
    assert!(unknown(&root, &["certs", "renew", "--every"]).is_some());
    let mut all = Vec::new();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    texts(std::path::Path::new(sources), &mut all);
    let continued = regex::Regex::new(r"\\\n\s*(?:///? )?").unwrap();
    let command = regex::Regex::new(concat!("`", r"kubexm ([^`\n]+?)\\?`")).unwrap();
    let mut found = 0;
    for text in all {
        let text = continued.replace_all(&text, "");
        for part in command.captures_iter(&text) {
            let words: Vec<&str> = part[1].split_whitespace().collect();
            found += 1;
            let problem = unknown(&root, &words);
            assert!(
                problem.is_none(),
                "`kubexm {}` {}",
                &part[1],
                problem.unwrap()
            );
        }
    }
    assert!(found >= 200, "only {found} commands were found");
}

#[tokio::test]
async fn panic_is_a_defect() {
    let panics = async { panic!("index {} is too large", 3) };
    let failure = super::caught(panics).await.unwrap_err();
    assert_eq!(super::exit::code(failure.kind()).0, 10);
    let said = failure.to_string();
    assert!(
        said.starts_with("a defect of kubexm: index 3 is too large\nhint: "),
        "{said}"
    );
}
