//! Parses what the script `status/host.sh` prints on a host.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::etcd::{self, Member};
use super::questions::Question;
use kubexm_types::Version;
use kubexm_types::untrusted::Untrusted;

/// The most characters of a message that a program printed.
const COLUMNS: usize = 300;

/// What a host reports about its programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) units: BTreeMap<String, Unit>,
    /// Whether static pods have their manifests.
    pub(crate) static_pods: BTreeMap<String, bool>,
    /// The versions of programs as installed; `None` if a program has none.
    pub(crate) versions: BTreeMap<String, Option<Version>>,
    /// Health checks of programs.
    pub(crate) health: BTreeMap<String, Reply>,
    /// The versions of servers that answer.
    pub(crate) running: BTreeMap<String, Option<Version>>,
    pub(crate) endpoint: Option<Reply>,
    pub(crate) registries: BTreeMap<String, Reply>,
    /// The member of etcd, or why it does not answer.
    pub(crate) etcd: Option<Result<Member, String>>,
}

/// The state of a systemd unit, with the names of systemd
/// (<https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) load: String,
    pub(crate) active: String,
    pub(crate) sub: String,
    pub(crate) restarts: u64,
}

/// How a program answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Ok,
    /// It did not, or it reports a problem.
    No(String),
}

/// Why the answers of a host cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("line {number} of the state is '{line}': {reason}")]
    Line {
        /// The number of the line, from 1.
        number: usize,
        line: String,
        reason: &'static str,
    },
    /// The last line, or the answer to a question, is missing.
    #[error("the state is incomplete: {0} is missing")]
    Missing(String),
}

/// Parses the answers to these questions.
///
/// # Errors
/// A line has another form, answers another question, or is missing.
pub(super) fn parse(text: &str, asked: &BTreeSet<Question>) -> Result<Answers, AnswerError> {
    let mut answers = Answers::default();
    let mut open: BTreeSet<(&str, &str)> = asked.iter().map(Question::subject).collect();
    let mut members = None;
    let mut is_complete = false;
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason| AnswerError::Line {
            number: at + 1,
            line: Untrusted::one_line(line, COLUMNS).to_string(),
            reason,
        };
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("has no '='"))?;
        let subject = match key {
            "end" => {
                is_complete = true;
                continue;
            }
            // It follows `etcd-status`, which answers the question.
            "etcd-members" => {
                members = etcd::members(&decoded(value).map_err(wrong)?).map_err(wrong)?;
                continue;
            }
            _ => answer(&mut answers, key, value).map_err(wrong)?,
        };
        if !open.remove(&subject) {
            return Err(wrong("does not answer a question"));
        }
    }
    if let Some(Ok(member)) = &mut answers.etcd {
        member.members = members;
    }
    match open.first() {
        Some((kind, name)) => Err(AnswerError::Missing(
            format!("{kind} {name}").trim().to_owned(),
        )),
        None if !is_complete => Err(AnswerError::Missing("its end".to_owned())),
        None => Ok(answers),
    }
}

/// Stores one answer. Returns which question it answers.
fn answer<'a>(
    answers: &mut Answers,
    key: &'a str,
    value: &'a str,
) -> Result<(&'a str, &'a str), &'static str> {
    let (name, rest) = value.split_once(' ').unwrap_or((value, ""));
    let owned = name.to_owned();
    match key {
        "unit" => drop(
            answers
                .units
                .insert(owned, unit(rest).ok_or("is not a state")?),
        ),
        "static-pod" => drop(answers.static_pods.insert(owned, flag(rest)?)),
        "version" => drop(answers.versions.insert(owned, version(rest)?)),
        "running" => drop(answers.running.insert(owned, version(rest)?)),
        "health" => drop(answers.health.insert(owned, reply(rest))),
        "registry" => drop(answers.registries.insert(owned, reply(rest))),
        "endpoint" => {
            answers.endpoint = Some(reply(value));
            return Ok((key, ""));
        }
        "etcd-status" => {
            answers.etcd = Some(Ok(etcd::member(&decoded(value)?)?));
            return Ok(("etcd", ""));
        }
        "etcd-failed" => {
            answers.etcd = Some(Err(shown(value)));
            return Ok(("etcd", ""));
        }
        _ => return Err("the key is unknown"),
    }
    Ok((key, name))
}

/// Parses load state, active state, substate and number of restarts.
fn unit(text: &str) -> Option<Unit> {
    let words: Vec<&str> = text.split(' ').collect();
    let [load, active, sub, restarts] = words.as_slice() else {
        return None;
    };
    let is_state = |word: &&str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let is_valid = [load, active, sub].into_iter().all(is_state);
    is_valid.then_some(())?;
    Some(Unit {
        load: (*load).to_owned(),
        active: (*active).to_owned(),
        sub: (*sub).to_owned(),
        restarts: restarts.parse().ok()?,
    })
}

fn reply(text: &str) -> Reply {
    match text {
        "ok" => Reply::Ok,
        "" => Reply::No("no reason was given".to_owned()),
        text => Reply::No(shown(text)),
    }
}

fn shown(text: &str) -> String {
    Untrusted::one_line(text, COLUMNS).to_string()
}

fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("is neither yes nor no"),
    }
}

/// Parses a version; `None` for an empty text.
fn version(text: &str) -> Result<Option<Version>, &'static str> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| "is not a version"),
    }
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
        "unit=kubelet.service loaded activating auto-restart 7",
        "static-pod=etcd yes",
        "version=kubelet 1.36.3",
        "health=kubelet The connection was refused",
        "running=kube-apiserver ",
        "endpoint=ok",
        "registry=registry.example:5000 ok",
        "etcd-failed=context deadline exceeded",
    ];

    fn parsed(lines: &[&str]) -> Result<Answers, AnswerError> {
        parse(&format!("{}\nend=\n", lines.join("\n")), &asked())
    }

    #[test]
    fn answers_are_read() {
        let answers = parsed(&LINES).unwrap();
        let unit = &answers.units["kubelet.service"];
        assert_eq!((unit.sub.as_str(), unit.restarts), ("auto-restart", 7));
        assert!(answers.static_pods["etcd"]);
        assert_eq!(answers.versions["kubelet"], Some(Version::new(1, 36, 3)));
        assert_eq!(
            answers.health["kubelet"],
            Reply::No("The connection was refused".to_owned())
        );
        assert_eq!(answers.running["kube-apiserver"], None);
        assert_eq!(answers.endpoint, Some(Reply::Ok));
        assert_eq!(answers.registries["registry.example:5000"], Reply::Ok);
        assert_eq!(
            answers.etcd,
            Some(Err("context deadline exceeded".to_owned()))
        );
    }

    #[test]
    fn missing_answers_are_errors_and_not_zero() {
        for at in 0..LINES.len() {
            let mut lines = LINES.to_vec();
            lines.remove(at);
            let error = parsed(&lines).unwrap_err();
            assert!(matches!(error, AnswerError::Missing(_)), "{at}: {error}");
        }
        let error = parse(&LINES.join("\n"), &asked()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the state is incomplete: its end is missing"
        );
    }

    #[test]
    fn lines_of_another_form_are_errors() {
        for line in [
            "",
            "evil",
            "more=1",
            "end",
            "unit=other.service loaded active running 0",
            "unit=kubelet.service loaded active running 0",
            "unit=kubelet.service loaded active running",
            "unit=kubelet.service loaded active \u{1b}[31m 0",
            "unit=kubelet.service    0",
            "static-pod=etcd perhaps",
            "version=kubelet new",
            "health=other ok",
            "etcd-status=!",
            "etcd-status=e30=",
            "etcd-members=e30=",
        ] {
            let mut lines = vec![line];
            // An answer is accepted once.
            lines.extend(LINES);
            let error = parsed(&lines).unwrap_err();
            assert!(matches!(error, AnswerError::Line { .. }), "{line}: {error}");
        }
    }
}
