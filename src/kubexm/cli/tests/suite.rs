//! Which commands a suite of the lab runs: what follows the program in its text, through functions, arrays and loops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// The words behind the program in what the functions of a suite run, by name. Some are arguments of the function.
type Functions = BTreeMap<String, BTreeSet<Vec<String>>>;

/// Splits shell into words, without quotes, and operators.
fn words(text: &str) -> Vec<String> {
    static WORD: LazyLock<Regex> = LazyLock::new(|| {
        let word = r#""(?:[^"\\]|\\.)*"|'[^']*'|\$\(|[^\s;|&()<>"']+|[;|&()\n<>]"#;
        Regex::new(word).unwrap()
    });
    let all = WORD.find_iter(text).map(|word| word.as_str());
    all.map(|word| word.trim_matches(['"', '\'']).to_owned())
        .collect()
}

/// Returns the words up to the end of a command.
fn command(words: &[String]) -> &[String] {
    let mut depth = 0;
    let is_end = |word: &String| {
        match word.as_str() {
            "(" | "$(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth < 0 || [";", "|", "&", "\n"].contains(&word.as_str())
    };
    &words[..words.iter().position(is_end).unwrap_or(words.len())]
}

/// A suite, or a part of it.
pub(super) struct Suite {
    words: Vec<String>,
    functions: Vec<(String, Vec<String>)>,
    arrays: BTreeMap<String, Vec<Vec<String>>>,
    /// The values of variables of loops, each as the variable is written in a command.
    loops: BTreeMap<String, Vec<String>>,
}

impl Suite {
    pub(super) fn new(text: &str) -> Self {
        let text = text.replace("\\\n", " ");
        let comment = Regex::new(r"(?m)(^|\s)# .*$").unwrap();
        let text = comment.replace_all(&text, "");
        let begin = Regex::new(r"^( *)(\w+)\(\) [{(](.*)$").unwrap();
        let mut functions = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(parts) = begin.captures(line) else {
                continue;
            };
            let mut body = parts[3].to_owned();
            if !body.trim_end().ends_with(['}', ')']) {
                let ends = ["}", ")"].map(|end| format!("{}{end}", &parts[1]));
                let is_inner = |line: &&str| !ends.iter().any(|end| line.starts_with(end));
                for line in lines.clone().take_while(is_inner) {
                    body = format!("{body}\n{line}");
                }
            }
            functions.push((parts[2].to_owned(), words(&body)));
        }
        let array = Regex::new(r"(\w+)=\(([^)]*)\)").unwrap();
        let mut arrays: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
        for parts in array.captures_iter(&text) {
            arrays
                .entry(parts[1].to_owned())
                .or_default()
                .push(words(&parts[2]));
        }
        let each = Regex::new(r"\bfor (\w+) in ([\w .-]+)").unwrap();
        let mut loops: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for parts in each.captures_iter(&text) {
            let values = parts[2].split_whitespace().map(str::to_owned);
            let name = format!("${}", &parts[1]);
            loops.entry(name).or_default().extend(values);
        }
        Self {
            words: words(&text),
            functions,
            arrays,
            loops,
        }
    }

    /// Replaces the first variable of a loop by each of its values.
    fn in_loops(&self, words: &[String]) -> Vec<Vec<String>> {
        let found = words.iter().find_map(|word| self.loops.get_key_value(word));
        let Some((name, values)) = found else {
            return vec![words.to_vec()];
        };
        let with = |value: &String| {
            let words = words
                .iter()
                .map(|word| if word == name { value } else { word });
            words.cloned().collect()
        };
        values.iter().map(with).collect()
    }

    /// Returns the words behind the program, where some words call it, or a function that calls it.
    fn calls(&self, words: &[String], functions: &Functions) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        let mut end = 0;
        for (at, word) in words.iter().enumerate() {
            // Neither words behind the program nor the name of a function that begins call it.
            if at < end || words.get(at + 1).is_some_and(|word| word == "(") {
                continue;
            }
            let rest = command(&words[at + 1..]);
            if word == "$kubexm" || word.rsplit('/').next() == Some("kubexm") {
                let array = rest
                    .first()
                    .and_then(|word| word.strip_prefix("${")?.strip_suffix("[@]}"));
                let arrays = array
                    .and_then(|name| self.arrays.get(name))
                    .into_iter()
                    .flatten();
                found.extend(arrays.map(|array| [array, &rest[1..]].concat()));
                found.insert(rest.to_vec());
                end = at + 1 + rest.len();
            } else if let Some(known) = functions.get(word) {
                found.extend(known.iter().map(|words| with_arguments(words, rest)));
            }
        }
        found
    }

    /// Returns the words behind the program in each of its calls.
    pub(super) fn runs(&self) -> Vec<Vec<String>> {
        let mut functions = Functions::new();
        // A function may call one that is defined below it.
        for _ in 0..5 {
            let mut next = Functions::new();
            for (name, body) in &self.functions {
                let calls = self.calls(body, &functions);
                if !calls.is_empty() {
                    next.entry(name.clone()).or_default().extend(calls);
                }
            }
            functions = next;
        }
        let calls = self.calls(&self.words, &functions);
        calls
            .iter()
            .flat_map(|words| self.in_loops(words))
            .collect()
    }
}

/// Replaces `$1`, `$@` and `${@:2}` by arguments of a function. Words of options stay, so that a `shift` has no effect.
fn with_arguments(words: &[String], arguments: &[String]) -> Vec<String> {
    let from = |first: usize| arguments.get(first.saturating_sub(1)..).unwrap_or_default();
    let words = words.iter().map(|word| {
        let number = word.strip_prefix('$').and_then(|rest| rest.parse().ok());
        let first = word
            .strip_prefix("${@:")
            .and_then(|rest| rest.strip_suffix('}')?.parse().ok());
        match (word.as_str(), number, first) {
            ("$@" | "$*", ..) => arguments.to_vec(),
            (_, _, Some(first)) => from(first).to_vec(),
            (_, Some(at), _) => from(at).first().cloned().into_iter().collect(),
            _ => vec![word.clone()],
        }
    });
    words.flatten().collect()
}

#[test]
fn functions_arrays_and_loops_of_suites_are_followed() {
    let text = r#"
run() { # COMMAND…
  "$kubexm" "$@" --output plain -f "$cluster" >"$work/said"
}
none() { true; } # NAME
app() { run app "$@" || return 1; }
timer() { on node4 "$place/kubexm" "$1" timer "$2" --state "$state" "${@:3}"; }
go=(install --bundle "$bundle" \
  --dry-run)
"$kubexm" "${go[@]}" && kubexm status | grep upgrade
must "an application: doctor" app remove shop --namespace shop --yes
# kubexm plan
for job in certs backup; do check "$job timer remove" timer "$job" remove; done
check "the timer" ends 0 "^schedule" timer certs status --output json
"$kubexm" exec -f "$cluster" --host node1 -- kubexm --unsigned
"#;
    let lines: Vec<String> = Suite::new(text)
        .runs()
        .iter()
        .map(|words| words.join(" "))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    $1 timer $2 --state $state ${@:3}
    $@ --output plain -f $cluster > $work/said
    certs timer remove --state $state
    backup timer remove --state $state
    ${go[@]}
    app $@ --output plain -f $cluster > $work/said
    app remove shop --namespace shop --yes --output plain -f $cluster > $work/said
    certs timer status --state $state --output json
    exec -f $cluster --host node1 -- kubexm --unsigned
    install --bundle $bundle --dry-run
    status
    ");
}
