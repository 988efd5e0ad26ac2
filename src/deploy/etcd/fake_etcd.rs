//! A host with a member of etcd, for tests of steps.

use std::sync::Mutex;

use async_trait::async_trait;

use crate::fake_host::{printed, words};
use kubexm_engine::{Command, Host};
use kubexm_host::{HostError, Output};
use kubexm_types::HostName;

/// A member as etcd lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fake {
    pub(super) id: u64,
    /// The last number of its address.
    pub(super) host: u64,
    pub(super) is_started: bool,
    pub(super) is_learner: bool,
}

/// Returns three voters, of which the first one leads.
pub(super) fn three() -> Vec<Fake> {
    [1, 2, 3].map(voter).into()
}

pub(super) fn voter(id: u64) -> Fake {
    Fake {
        id,
        host: id,
        is_started: true,
        is_learner: false,
    }
}

pub(super) fn learner(id: u64, is_started: bool) -> Fake {
    Fake {
        is_started,
        is_learner: true,
        ..voter(id)
    }
}

pub(super) fn peer(host: u64) -> String {
    format!("https://192.0.2.{host}:2380")
}

pub(super) fn client(host: u64) -> String {
    format!("https://192.0.2.{host}:2379")
}

/// The host of the first member. It records what changes something.
pub(super) struct FakeEtcd {
    name: HostName,
    pub(super) members: Mutex<Vec<Fake>>,
    /// Members that do not answer.
    pub(super) silent: Vec<u64>,
    /// Whether etcd has no quorum.
    pub(super) is_down: bool,
    /// Changes that have their effect, and whose answer is lost.
    pub(super) is_unreliable: bool,
    /// What other scripts print.
    pub(super) script_prints: &'static str,
    calls: Mutex<Vec<String>>,
}

impl FakeEtcd {
    pub(super) fn new(members: Vec<Fake>, silent: &[u64]) -> Self {
        Self {
            name: "node1".parse().unwrap(),
            members: Mutex::new(members),
            silent: silent.to_vec(),
            is_down: false,
            is_unreliable: false,
            script_prints: "",
            calls: Mutex::default(),
        }
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        let members = self.members.lock().unwrap();
        members.iter().map(|one| one.id).collect()
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn list(&self) -> String {
        let members = self.members.lock().unwrap();
        let listed = members.iter().map(|one| {
            let peer = peer(one.host);
            let mut json = format!(r#"{{"ID":{},"peerURLs":["{peer}"]"#, one.id);
            if one.is_started {
                let client = client(one.host);
                json += &format!(r#","name":"node{}","clientURLs":["{client}"]"#, one.host);
            }
            if one.is_learner {
                json += r#","isLearner":true"#;
            }
            json + "}"
        });
        let listed: Vec<String> = listed.collect();
        format!("{{\"members\":[{}]}}\n", listed.join(","))
    }

    fn status(&self, address: &str) -> Option<String> {
        let members = self.members.lock().unwrap();
        let mut members = members.iter().filter(|one| one.is_started);
        let one = members.find(|one| client(one.host) == address)?;
        let leader = u64::from(!self.is_down);
        let is_learner = one.is_learner;
        (!self.silent.contains(&one.id)).then(|| {
            format!(
                r#"[{{"Status":{{"header":{{"cluster_id":9,"member_id":{}}},"version":"3.6.8","leader":{leader},"isLearner":{is_learner}}}}}]"#,
                one.id
            )
        })
    }

    fn change(&self, words: &[&str]) -> bool {
        let mut members = self.members.lock().unwrap();
        let id = |text: &str| u64::from_str_radix(text, 16).unwrap();
        match words {
            ["remove", one] => members.retain(|member| member.id != id(one)),
            ["add", _, "--learner", "--peer-urls", address] => {
                if members.iter().any(|one| peer(one.host) == *address) {
                    return false;
                }
                let host = (1..9).find(|host| peer(*host) == *address).unwrap();
                members.push(Fake {
                    host,
                    ..learner(0xabc, false)
                });
            }
            ["promote", one] => {
                let mut found = members.iter_mut().filter(|member| member.id == id(one));
                match found.find(|member| member.is_learner) {
                    Some(member) => member.is_learner = false,
                    None => return false,
                }
            }
            _ => panic!("{words:?}"),
        }
        !self.is_unreliable
    }

    /// Answers etcdctl.
    fn answer(&self, asked: &str, words: &[&str]) -> Option<String> {
        match words {
            ["member", "list", ..] => (!self.is_down).then(|| self.list()),
            ["endpoint", "status", ..] => self.status(asked),
            ["move-leader", _] => self.record(format!("{} at {asked}", words.join(" ")), true),
            ["member", change @ ..] => {
                let is_done = self.change(change);
                self.record(change.join(" "), is_done)
            }
            _ => panic!("{words:?}"),
        }
    }

    fn record(&self, call: String, is_done: bool) -> Option<String> {
        self.calls.lock().unwrap().push(call);
        is_done.then(String::new)
    }
}

#[async_trait]
impl Host for FakeEtcd {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let at = words
            .iter()
            .position(|word| word.starts_with("--command-timeout="));
        let (status, text) = match at {
            Some(at) => {
                let asked = words
                    .iter()
                    .find_map(|word| word.strip_prefix("endpoints="));
                let answer = self.answer(asked.unwrap_or_default(), &words[at + 1..]);
                (i32::from(answer.is_none()), answer.unwrap_or_default())
            }
            None => {
                if matches!(words.first(), Some(&"stop" | &"begin")) {
                    self.record(words.join(" "), true);
                    (0, String::new())
                } else {
                    (0, self.script_prints.to_owned())
                }
            }
        };
        Ok(printed(status, text))
    }
}
