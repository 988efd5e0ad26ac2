//! Parses what the script `status/host.sh` prints on a host.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::questions::Question;
use super::reply::{Reply, cause};
use kubexm_etcd::{Listed, Status, Unreadable};
use kubexm_types::Version;
use kubexm_types::untrusted::Untrusted;

/// The most characters of a message that a program printed.
const COLUMNS: usize = 300;

/// What a host reports about its programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub units: BTreeMap<String, Unit>,
    /// Whether static pods have their manifests.
    pub static_pods: BTreeMap<String, bool>,
    /// The versions of programs as installed; `None` if a program has none.
    pub versions: BTreeMap<String, Option<Version>>,
    /// Health checks of programs.
    pub health: BTreeMap<String, Reply>,
    /// The versions of servers that answer.
    pub running: BTreeMap<String, Option<Version>>,
    pub endpoint: Option<Reply>,
    pub registries: BTreeMap<String, Reply>,
    /// The member of etcd, or why it does not answer.
    pub etcd: Option<Result<Status, String>>,
    /// The names of all members of etcd; `None` if the member did not list them, as without a quorum.
    pub etcd_members: Option<Vec<String>>,
    /// What is wrong with answers that are not in the other fields.
    pub faults: Vec<Fault>,
}

/// The state of a systemd unit, with the names of systemd
/// (<https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    pub load: String,
    pub active: String,
    pub sub: String,
    pub restarts: u64,
}

/// Why kubexm does not know an answer of a host whose other answers it knows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The answer to a question has another form.
    #[error("the question '{question}' was not answered: {line}")]
    Unreadable { question: String, line: Line },
    /// No line answers a question.
    #[error("the question '{0}' was not answered: the state has no line about it")]
    Missing(String),
    /// A line answers no question.
    #[error(transparent)]
    Stray(Line),
}

/// A line of a wrong form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number} of the state is '{line}': {reason}")]
pub struct Line {
    /// The number of the line, from 1.
    number: usize,
    line: String,
    reason: &'static str,
}

/// The last line is missing, so that any other line may be missing or cut.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state is incomplete: its end is missing")]
pub struct Incomplete;

/// What a line answers: the kind of a question, and the name of what it is about.
type Subject<'a> = (&'a str, &'a str);

const ETCD: Subject<'static> = ("etcd", "");
/// A second answer to the question about etcd, which a member without a quorum does not give.
const ETCD_MEMBERS: Subject<'static> = ("etcd-members", "");

/// Parses the answers to these questions. What is wrong with one of them is a fault in the result, and the others count.
///
/// # Errors
/// The end is missing.
pub(super) fn parse(text: &str, asked: &BTreeSet<Question>) -> Result<Answers, Incomplete> {
    let mut answers = Answers::default();
    let mut open: BTreeSet<Subject<'_>> = asked.iter().map(Question::subject).collect();
    if open.contains(&ETCD) {
        open.insert(ETCD_MEMBERS);
    }
    let mut stray = None;
    let mut is_complete = false;
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason| Line {
            number: at + 1,
            line: Untrusted::one_line(line, COLUMNS).to_string(),
            reason,
        };
        let Some((key, value)) = line.split_once('=') else {
            stray.get_or_insert_with(|| wrong("has no '='"));
            continue;
        };
        if key == "end" {
            is_complete = true;
            continue;
        }
        let (subject, rest) = subject(key, value);
        // The first answer counts.
        if !open.remove(&subject) {
            stray.get_or_insert_with(|| wrong("does not answer a question"));
            continue;
        }
        let stored = match key {
            "etcd-members" => members(rest).map(|found| answers.etcd_members = found),
            _ => store(&mut answers, key, subject.1, rest),
        };
        if let Err(reason) = stored {
            let (question, line) = (label(subject), wrong(reason));
            answers.faults.push(Fault::Unreadable { question, line });
        }
    }
    if !is_complete {
        return Err(Incomplete);
    }
    open.remove(&ETCD_MEMBERS);
    let missing = open.into_iter().map(label).map(Fault::Missing);
    answers.faults.extend(missing);
    // One of them shows enough about a host that prints something else.
    answers.faults.extend(stray.map(Fault::Stray));
    Ok(answers)
}

/// Returns what a line answers, and the answer.
fn subject<'a>(key: &'a str, value: &'a str) -> (Subject<'a>, &'a str) {
    match key {
        "endpoint" | "etcd-members" => ((key, ""), value),
        "etcd-status" | "etcd-failed" => (ETCD, value),
        _ => {
            let (name, rest) = value.split_once(' ').unwrap_or((value, ""));
            ((key, name), rest)
        }
    }
}

/// Returns a question for people, in the words of the script.
fn label((kind, name): Subject<'_>) -> String {
    format!("{kind} {name}").trim_end().to_owned()
}

/// Stores one answer.
fn store(answers: &mut Answers, key: &str, name: &str, text: &str) -> Result<(), &'static str> {
    let name = name.to_owned();
    match key {
        "unit" => drop(
            answers
                .units
                .insert(name, unit(text).ok_or("is not a state")?),
        ),
        "static-pod" => drop(answers.static_pods.insert(name, flag(text)?)),
        "version" => drop(answers.versions.insert(name, version(text)?)),
        "running" => drop(answers.running.insert(name, server_version(text)?)),
        "health" => drop(answers.health.insert(name, reply(text)?)),
        "registry" => {
            // One with a login refuses everyone without one.
            let reply = match reply(text)? {
                Reply::Refused => Reply::Ok,
                other => other,
            };
            drop(answers.registries.insert(name, reply));
        }
        "endpoint" => answers.endpoint = Some(reply(text)?),
        "etcd-status" => {
            answers.etcd = Some(Ok(Status::one(&decoded(text)?).map_err(Unreadable::as_str)?))
        }
        "etcd-failed" => answers.etcd = Some(Err(cause(&said_by(text)?))),
        _ => return Err("the key is unknown"),
    }
    Ok(())
}

/// Parses the list of members of etcd; `None` for an empty text.
fn members(text: &str) -> Result<Option<Vec<String>>, &'static str> {
    let json = decoded(text)?;
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let members = Listed::all(&json).map_err(Unreadable::as_str)?.into_iter();
    Ok(Some(members.map(|member| member.name).collect()))
}

/// Parses properties of a unit, in any order. A unit that is not a service has no restarts.
fn unit(text: &str) -> Option<Unit> {
    let properties = text.split(' ').filter_map(|word| word.split_once('='));
    let properties: BTreeMap<&str, &str> = properties.collect();
    let state = |name| {
        let word = *properties.get(name)?;
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        (!word.is_empty() && word.bytes().all(is_part)).then(|| word.to_owned())
    };
    let restarts = properties
        .get("NRestarts")
        .filter(|count| !count.is_empty());
    Some(Unit {
        load: state("LoadState")?,
        active: state("ActiveState")?,
        sub: state("SubState")?,
        restarts: restarts.map_or(Ok(0), |count| count.parse()).ok()?,
    })
}

fn reply(text: &str) -> Result<Reply, &'static str> {
    Ok(match text {
        "ok" => Reply::Ok,
        said => Reply::of_failure(&said_by(said)?),
    })
}

/// Reads what a program printed.
fn said_by(text: &str) -> Result<String, &'static str> {
    Ok(String::from_utf8_lossy(&decoded(text)?).into_owned())
}

fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("is neither yes nor no"),
    }
}

/// Parses what a program prints about its version, or the image of a static pod; `None` for an empty text.
fn version(text: &str) -> Result<Option<Version>, &'static str> {
    match text {
        "" => Ok(None),
        text => Version::printed(text).map(Some).ok_or("is not a version"),
    }
}

/// Parses what an API server says at `/version`; `None` if it has not answered.
fn server_version(text: &str) -> Result<Option<Version>, &'static str> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Said {
        git_version: String,
    }
    let said: Option<Said> = serde_json::from_slice(&decoded(text)?).ok();
    version(&said.map(|said| said.git_version).unwrap_or_default())
}

fn decoded(value: &str) -> Result<Vec<u8>, &'static str> {
    STANDARD.decode(value).map_err(|_| "is not base64")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> BTreeSet<Question> {
        BTreeSet::from([
            Question::new(["unit", "kubelet.service"]),
            Question::new(["static-pod", "etcd"]),
            Question::new(["version", "kubelet"]),
            Question::new(["health", "kubelet", "http://127.0.0.1:10248/healthz"]),
            Question::new(["running", "kube-apiserver", "https://192.0.2.11:6443"]),
            Question::new(["endpoint", "/etc/kubernetes/kubelet.conf"]),
            Question::new(["registry", "registry.example:5000"]),
            Question::new(["etcd", "kubeadm"]),
        ])
    }

    const LINES: [&str; 8] = [
        "unit=kubelet.service NRestarts=7 LoadState=loaded ActiveState=activating SubState=auto-restart ",
        "static-pod=etcd yes",
        "version=kubelet Kubernetes v1.36.3",
        "health=kubelet VGhlIGNvbm5lY3Rpb24gd2FzIHJlZnVzZWQK",
        "running=kube-apiserver ",
        "endpoint=ok",
        "registry=registry.example:5000 ok",
        "etcd-failed=Y29udGV4dCBkZWFkbGluZSBleGNlZWRlZApudWxsCg==",
    ];

    fn parsed(lines: &[&str]) -> Answers {
        parse(&format!("{}\nend=\n", lines.join("\n")), &asked()).unwrap()
    }

    fn faults(lines: &[&str]) -> Vec<String> {
        let faults = parsed(lines).faults.into_iter();
        faults.map(|fault| fault.to_string()).collect()
    }

    #[test]
    fn answers_are_read() {
        let answers = parsed(&LINES);
        let unit = &answers.units["kubelet.service"];
        assert_eq!((unit.sub.as_str(), unit.restarts), ("auto-restart", 7));
        assert!(answers.static_pods["etcd"]);
        assert_eq!(answers.versions["kubelet"], Some(Version::new(1, 36, 3)));
        assert_eq!(
            answers.health["kubelet"],
            Reply::Silent("The connection was refused".to_owned())
        );
        assert_eq!(answers.running["kube-apiserver"], None);
        let said = "eyJtYWpvciI6ICIxIiwgImdpdFZlcnNpb24iOiAidjEuMzYuMyJ9";
        assert_eq!(server_version(said), Ok(Some(Version::new(1, 36, 3))));
        let absent =
            super::unit("LoadState=not-found ActiveState=inactive SubState=dead ").unwrap();
        assert_eq!((absent.load.as_str(), absent.restarts), ("not-found", 0));
        assert_eq!(answers.endpoint, Some(Reply::Ok));
        assert_eq!(answers.registries["registry.example:5000"], Reply::Ok);
        assert_eq!(
            answers.etcd,
            Some(Err("context deadline exceeded".to_owned()))
        );
        assert_eq!(answers.faults, []);
    }

    #[test]
    fn registry_that_refuses_a_token_answers() {
        let mut lines = LINES.to_vec();
        lines[6] = "registry=registry.example:5000 ZXJyb3I6IFlvdSBtdXN0IGJlIGxvZ2dlZCBpbiB0byB0aGUgc2VydmVyIChVbmF1dGhvcml6ZWQpCg==";
        let registries = parsed(&lines).registries;
        assert_eq!(registries["registry.example:5000"], Reply::Ok);
        lines[6] = "registry=registry.example:5000 VW5hYmxlIHRvIGNvbm5lY3QgdG8gdGhlIHNlcnZlcjogdGxzOiBmYWlsZWQgdG8gdmVyaWZ5IGNlcnRpZmljYXRlOiB4NTA5OiBjZXJ0aWZpY2F0ZSBzaWduZWQgYnkgdW5rbm93biBhdXRob3JpdHkK";
        let Reply::Untrusted(cause) = &parsed(&lines).registries["registry.example:5000"] else {
            panic!("the certificate is accepted");
        };
        assert!(cause.ends_with("unknown authority"), "{cause}");
    }

    #[test]
    fn missing_answers_are_faults_and_not_zero() {
        for at in 0..LINES.len() {
            let mut lines = LINES.to_vec();
            lines.remove(at);
            let found = parsed(&lines).faults;
            assert!(matches!(found[..], [Fault::Missing(_)]), "{at}: {found:?}");
        }
        insta::assert_snapshot!(faults(&LINES[1..]).join("\n"), @"the question 'unit kubelet.service' was not answered: the state has no line about it");
        assert_eq!(parse(&LINES.join("\n"), &asked()), Err(Incomplete));
    }

    /// systemd did not answer the first question in time.
    #[test]
    fn unreadable_answer_leaves_the_others() {
        let mut lines = LINES;
        lines[0] = "unit=kubelet.service ";
        let answers = parsed(&lines);
        assert!(answers.units.is_empty());
        let others = Answers {
            units: BTreeMap::new(),
            ..parsed(&LINES)
        };
        let found = Answers {
            faults: Vec::new(),
            ..parsed(&lines)
        };
        assert_eq!(found, others);
        insta::assert_snapshot!(faults(&lines).join("\n"), @"the question 'unit kubelet.service' was not answered: line 1 of the state is 'unit=kubelet.service': is not a state");
    }

    #[test]
    fn answers_of_another_form_are_faults() {
        for (at, line) in [
            (
                0,
                "unit=kubelet.service LoadState=loaded ActiveState=active",
            ),
            (
                0,
                "unit=kubelet.service LoadState=loaded ActiveState=active SubState=\u{1b}[31m",
            ),
            (
                0,
                "unit=kubelet.service LoadState=loaded ActiveState=active SubState=dead NRestarts=-1",
            ),
            (0, "unit=kubelet.service loaded active running 0"),
            (4, "running=kube-apiserver !"),
            (4, "running=kube-apiserver eyJnaXRWZXJzaW9uIjogInYxLngifQ=="),
            (1, "static-pod=etcd perhaps"),
            (2, "version=kubelet new"),
            (7, "etcd-status=!"),
            (7, "etcd-status=e30="),
        ] {
            let mut lines = LINES;
            lines[at] = line;
            let found = parsed(&lines).faults;
            let is_one = matches!(found[..], [Fault::Unreadable { .. }]);
            assert!(is_one, "{line}: {found:?}");
        }
        let mut lines = LINES.to_vec();
        lines.push("etcd-members=e30=");
        let found = faults(&lines);
        assert!(
            found[0].starts_with("the question 'etcd-members' was not answered: "),
            "{found:?}"
        );
    }

    #[test]
    fn lines_that_answer_nothing_are_one_fault() {
        for line in [
            "",
            "evil",
            "more=1",
            "end",
            "unit=other.service LoadState=loaded",
            "unit=kubelet.service LoadState=loaded",
            "health=other ok",
            "etcd-failed=again",
        ] {
            let mut lines = LINES.to_vec();
            // An answer is accepted once.
            lines.extend([line, line]);
            let found = parsed(&lines);
            assert!(
                matches!(found.faults[..], [Fault::Stray(Line { number: 9, .. })]),
                "{line}: {found:?}"
            );
            assert_eq!(found.units["kubelet.service"].restarts, 7);
        }
        let asked = BTreeSet::new();
        let found = parse("etcd-members=\nend=\n", &asked).unwrap().faults;
        assert!(matches!(found[..], [Fault::Stray(_)]), "{found:?}");
    }
}
