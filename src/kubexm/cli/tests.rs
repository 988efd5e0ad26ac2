//! The examples in the help of every command. `docs/src/reference/cli.md` pins the other texts.

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
