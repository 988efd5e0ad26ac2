//! Every command that a message names is run: by a suite of the lab if it reaches hosts, else by an integration test at least.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Command;
use regex::Regex;

use super::suite::Suite;

/// Commands, or options of commands, that nothing runs, and why.
const OTHERS: &[(&str, &str)] = &[];

/// The folder of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A command with the names of its options.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    path: Vec<String>,
    options: BTreeSet<String>,
}

/// The commands that clap defines.
struct Commands(Command);

impl Commands {
    fn at(&self, path: &[String]) -> &Command {
        path.iter().fold(&self.0, |command, word| {
            command.find_subcommand(word).unwrap()
        })
    }

    fn is_leaf(&self, path: &[String]) -> bool {
        !path.is_empty() && !self.at(path).has_subcommands()
    }

    /// Returns the name of an option that a word is, whichever of its spellings.
    fn option(&self, path: &[String], word: &str) -> Option<String> {
        let word = word.split_once('=').map_or(word, |(name, _)| name);
        let mut all = self.at(path).get_arguments().chain(self.0.get_arguments());
        let is_it = |arg: &clap::Arg| match word.strip_prefix("--") {
            Some(long) => {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(long) || aliases.contains(&long)
            }
            None => {
                word.len() == 2 && word.starts_with('-') && arg.get_short() == word.chars().nth(1)
            }
        };
        Some(all.find(|arg| is_it(arg))?.get_id().to_string())
    }

    /// Returns the command that words name, behind some that name none; `None` if no command, or a group of commands.
    fn call(&self, words: &[String]) -> Option<Call> {
        let names = |path: &[String], word: &String| self.at(path).find_subcommand(word).is_some();
        let first = words.iter().position(|word| names(&[], word))?;
        let mut path = Vec::new();
        let mut rest = words[first..].iter().peekable();
        while let Some(word) = rest.next_if(|word| names(&path, word)) {
            path.push(word.clone());
        }
        let own = words.iter().take_while(|word| *word != "--");
        let options = own.filter_map(|word| self.option(&path, word)).collect();
        self.is_leaf(&path).then_some(Call { path, options })
    }

    /// Returns the commands that words of a message name. The first one may be a value, as in `{job} timer status`.
    fn named(&self, words: &str) -> Vec<Call> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let is_value = words.first().is_some_and(|word| word.starts_with('{'));
        let groups = self
            .0
            .get_subcommands()
            .map(|group| vec![group.get_name().to_owned()]);
        let all = groups.map(|group| [&group[..], &words[1.min(words.len())..]].concat());
        let all: Vec<Vec<String>> = if is_value { all.collect() } else { vec![words] };
        let calls = all.iter().filter_map(|words| {
            let call = self.call(words)?;
            let is_whole = call.path.len() > 1 || !is_value;
            (call.path.first() == words.first() && is_whole).then_some(call)
        });
        calls.collect()
    }
}

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let name = path.strip_prefix(ROOT).unwrap().display().to_string();
            found.push((name, text));
        }
    }
}

fn below(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(&Path::new(ROOT).join(folder), &mut found);
    found
}

/// Returns what suites run. A suite consists of its file, of the folder with its name, and of what all suites share.
fn run_on_the_lab(commands: &Commands) -> BTreeSet<Call> {
    let all = below("tests");
    let part = |folder: &str| -> String {
        let parts = all.iter().filter(|(name, _)| {
            Path::new(name).parent() == Some(Path::new(folder)) && name.ends_with(".sh")
        });
        parts.map(|(_, text)| format!("{text}\n")).collect()
    };
    let shared = part("tests/lab");
    let suites = all.iter().filter_map(|(name, text)| {
        let subject = name
            .strip_prefix("tests/e2e")
            .filter(|rest| !rest.contains('/'))?;
        let own = part(&format!("tests/{}", subject.trim_start_matches('-')));
        Some(Suite::new(&format!("{shared}\n{own}\n{text}")))
    });
    let words = suites.flat_map(|suite| suite.runs());
    words.filter_map(|words| commands.call(&words)).collect()
}

/// Returns what integration tests run: arrays whose first words are those of a command, or that are behind its name.
fn run_by_tests(commands: &Commands) -> BTreeSet<Call> {
    let array = Regex::new(concat!(
        r#"(?:\(\s*"([a-z -]+)",[^\[\]"]*(?:"[^"]*"\),\s*)?vec!)?"#,
        r#"\[\s*((?:"[^"\n]*"|[^\]\[;"])*)"#
    ));
    let (array, literal) = (array.unwrap(), Regex::new(r#""([^"\n]*)""#).unwrap());
    let mut found = BTreeSet::new();
    for (_, text) in below("tests/integration") {
        for part in array.captures_iter(&text) {
            let words = literal
                .captures_iter(&part[2])
                .map(|word| word[1].to_owned());
            let words: Vec<String> = words.collect();
            // Another program may start it.
            let program = words.iter().position(|word| word == "CARGO_BIN_EXE_kubexm");
            let words = words[program.map_or(0, |at| at + 1)..].join(" ");
            let name = part.get(1).map_or("", |name| name.as_str());
            found.extend(commands.named(format!("{name} {words}").trim()));
        }
    }
    found
}

/// Returns the commands in messages, with the file of each.
fn named(commands: &Commands) -> BTreeMap<Call, String> {
    let comment = Regex::new(r"(?m)^\s*(//|#[^!\[]).*$").unwrap();
    let continued = Regex::new(r"\\\n\s*").unwrap();
    let quoted = Regex::new(concat!("`", r"kubexm ([^`\n]+?)\\?`")).unwrap();
    // Commands that doctor prints with the options of its run.
    let built = Regex::new(r#"\b(kubexm|with_bundle)\(\s*"([^"\n]+)""#).unwrap();
    let mut found = BTreeMap::new();
    for (name, text) in below("src") {
        let is_test = name.contains("/tests") || name.ends_with("example.rs");
        if is_test || ![".rs", ".sh"].iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let text = comment.replace_all(text, "");
        let text = continued.replace_all(&text, "");
        let quoted = quoted.captures_iter(&text).map(|part| part[1].to_owned());
        let built = built.captures_iter(&text).map(|part| match &part[1] {
            "with_bundle" => format!("{} --bundle BUNDLE", &part[2]),
            _ => part[2].to_owned(),
        });
        let is_doctor = name.starts_with("src/diagnose/");
        let all = quoted.chain(built.filter(|_| is_doctor));
        let calls = all.flat_map(|words| commands.named(&words));
        found.extend(calls.map(|call| (call, name.clone())));
    }
    found
}

impl Call {
    /// Returns whether this call has at least all options of another one of the same command.
    fn covers(&self, other: &Self) -> bool {
        self.path == other.path && self.options.is_superset(&other.options)
    }

    fn words(&self) -> String {
        let options = self.options.iter();
        let options = options.map(|name| format!(" --{}", name.replace('_', "-")));
        self.path.join(" ") + &options.collect::<String>()
    }
}

#[test]
fn commands_in_messages_are_run() {
    let mut root = crate::cli::command();
    root.build();
    let commands = Commands(root);
    let (lab, tests) = (run_on_the_lab(&commands), run_by_tests(&commands));
    let named = named(&commands);
    assert!(
        named.len() >= 40,
        "only {} commands were found",
        named.len()
    );
    let mut missing = BTreeMap::new();
    for (call, file) in &named {
        let known_hosts = commands.option(&call.path, "--known-hosts");
        let reaches_hosts = known_hosts.is_some();
        let is_run = lab.iter().any(|one| one.covers(call))
            || !reaches_hosts && tests.iter().any(|one| one.covers(call));
        if !is_run {
            missing.insert(call.words(), file.as_str());
        }
    }
    for (words, _) in OTHERS {
        assert!(missing.remove(*words).is_some(), "{words} needs no reason");
    }
    assert!(
        missing.is_empty(),
        "messages name commands that no suite runs: {missing:#?}"
    );
}
