//! Asks and changes etcd with the etcdctl of a host that has a member.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::answer::{Listed, MemberHash, Status, Unreadable, keys};
use super::members::Members;
use kubexm_host::{Command, Host, HostError, Limit};
use kubexm_scripts::Parameters;
use kubexm_scripts::etcd::{ASK, Ask};
use kubexm_types::Untrusted;

/// How long a member is asked again, if the caller does not say it, and how long a change is tried: after a change of the members,
/// etcd reports itself unhealthy and refuses another one, and a learner must first copy the data.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long members may have no leader before one of them counts as unhealthy.
const ELECTION: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_secs(2);
/// How many seconds etcdctl waits for an answer.
const ANSWER: u64 = 5;
/// How many seconds it waits for the end of a change.
const CHANGE: u64 = 10;
/// How many seconds it waits until a member has read all its keys.
const ALL_KEYS: u64 = 60;

/// Why etcdctl does not give an answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host was lost.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The member does not answer, etcd has no quorum, or it refuses a change.
    #[error("{what} failed (exit status {status}):\n{complaint}{}", output_in(.log.as_ref()))]
    Failed {
        /// What was tried.
        what: String,
        /// The exit status.
        status: i32,
        /// The last lines that the program printed.
        complaint: Untrusted,
        /// The log file with the whole output.
        log: Option<PathBuf>,
    },
    /// etcdctl printed something else.
    #[error("{what}: the answer {cause}")]
    Unreadable {
        /// What was tried.
        what: String,
        /// What is wrong with the answer.
        cause: Unreadable,
    },
}

fn output_in(log: Option<&PathBuf>) -> String {
    log.map_or_else(String::new, |log| {
        format!("\nthe whole output is in {}", log.display())
    })
}

/// Calls etcdctl on a host with a member, which it asks, or other members.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    host: &'a dyn Host,
    kind: &'a str,
    what: &'a str,
    endpoints: &'a str,
}

impl<'a> Client<'a> {
    /// Returns the client of the member on a host. `kubeadm` or `systemd` runs it. `what` describes for the user what the client
    /// does, as in "list the members of etcd".
    pub fn new(host: &'a dyn Host, kind: &'a str, what: &'a str) -> Self {
        Self {
            host,
            kind,
            what,
            endpoints: "",
        }
    }

    /// Returns a client that asks the members at these addresses, with commas between them.
    #[must_use]
    pub fn asking(self, endpoints: &'a str) -> Self {
        Self { endpoints, ..self }
    }

    /// Calls etcdctl, which waits for so many seconds.
    async fn call(&self, seconds: u64, words: &[&str]) -> Result<String, ClientError> {
        let ask = Ask {
            kind: self.kind.to_owned(),
            endpoints: self.endpoints.to_owned(),
            most: (seconds + 25).to_string(),
        };
        let timeout = format!("--command-timeout={seconds}s");
        let words = [timeout.as_str()].into_iter().chain(words.iter().copied());
        let limit = Limit::new(Duration::from_secs(seconds + 55), "calls of etcdctl");
        let command = Command::from_script(ASK, ask.and(words)).describe(self.what);
        let output = self.host.run(command.limit(limit)).await?;
        if output.success() {
            return Ok(output.text());
        }
        Err(ClientError::Failed {
            what: self.what.to_owned(),
            status: output.status,
            complaint: output.complaint(),
            log: output.log,
        })
    }

    fn parsed<T>(&self, parsed: Result<T, Unreadable>) -> Result<T, ClientError> {
        parsed.map_err(|cause| ClientError::Unreadable {
            what: self.what.to_owned(),
            cause,
        })
    }

    /// Returns all members.
    ///
    /// # Errors
    /// No member answers, or etcd has no quorum.
    pub async fn list(&self) -> Result<Vec<Listed>, ClientError> {
        let text = self.call(ANSWER, &["member", "list", "-w", "json"]).await?;
        self.parsed(Listed::all(text.as_bytes()))
    }

    /// Returns all members. Asks again and again for some time.
    ///
    /// # Errors
    /// See [`Client::list`].
    pub async fn list_within(&self, at_most: Duration) -> Result<Vec<Listed>, ClientError> {
        let deadline = Instant::now() + at_most;
        loop {
            match self.list().await {
                Err(ClientError::Failed { .. }) if Instant::now() < deadline => {
                    sleep(BETWEEN_TRIES).await;
                }
                ended => return ended,
            }
        }
    }

    /// Returns all members, and the status of each one that answers. Asks again and again for some time, which is a minute if it is
    /// not stated.
    ///
    /// # Errors
    /// See [`Client::list`].
    pub async fn members(&self, at_most: Option<Duration>) -> Result<Members, ClientError> {
        let listed = self.list_within(at_most.unwrap_or(PATIENCE)).await?;
        let clients = listed.iter().filter_map(|one| one.clients.first());
        let clients = clients.filter(|client| client.starts_with("https://"));
        // crictl prints nothing of a command that fails, as with one member that does not answer: each is asked alone.
        let asked = clients.map(async |client| self.asking(client).status_with_leader().await);
        let mut answered = Vec::new();
        for status in join_all(asked).await {
            match status {
                Err(ClientError::Failed { .. }) => {}
                found => answered.push(found?),
            }
        }
        Ok(Members { listed, answered })
    }

    /// Returns what the member reports about itself.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn status(&self) -> Result<Status, ClientError> {
        let words = ["endpoint", "status", "-w", "json"];
        let text = self.call(ANSWER, &words).await?;
        self.parsed(Status::one(text.as_bytes()))
    }

    /// Returns what the member reports about itself, after some seconds for an election if it knows no leader.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn status_with_leader(&self) -> Result<Status, ClientError> {
        let deadline = Instant::now() + ELECTION;
        loop {
            let status = self.status().await?;
            if status.leader.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }

    /// Returns the hash of the data of the member at a revision.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn hash(&self, revision: u64) -> Result<MemberHash, ClientError> {
        let revision = format!("--rev={revision}");
        let words = ["endpoint", "hashkv", &revision, "-w", "json"];
        let text = self.call(ALL_KEYS, &words).await?;
        self.parsed(MemberHash::one(text.as_bytes()))
    }

    /// Returns the number of keys at a revision.
    ///
    /// # Errors
    /// The member does not answer.
    pub async fn keys(&self, revision: u64) -> Result<u64, ClientError> {
        let revision = format!("--rev={revision}");
        // etcdctl counts in this format only. Without a quorum, only the member itself answers.
        let words = ["get", "", "--from-key", "--count-only", &revision];
        let how = ["--consistency=s", "-w", "fields"];
        let text = self.call(ALL_KEYS, &[&words[..], &how].concat()).await?;
        self.parsed(keys(&text))
    }

    /// Lets another member lead, if the member that the client asks is the leader. A member that does not lead refuses, and one that
    /// does not answer does not lead.
    ///
    /// # Errors
    /// The host was lost.
    pub async fn hand_over(&self, to: &Listed) -> Result<(), ClientError> {
        match self.call(ANSWER, &["move-leader", &hexadecimal(to)]).await {
            Err(error @ ClientError::Host(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a member. The caller knows that the others have a quorum.
    ///
    /// # Errors
    /// etcd refuses for a minute.
    pub async fn remove(&self, member: &Listed) -> Result<(), ClientError> {
        let is_gone = |list: &[Listed]| list.iter().all(|one| one.id != member.id);
        self.change(&["remove", &hexadecimal(member)], is_gone)
            .await
    }

    /// Adds a member that does not vote yet, at an address for other members.
    ///
    /// # Errors
    /// etcd refuses for a minute.
    pub async fn add_learner(&self, name: &str, peer: &str) -> Result<(), ClientError> {
        let is_there = |list: &[Listed]| list.iter().any(|one| one.is_new_at(peer));
        let words = ["add", name, "--learner", "--peer-urls", peer];
        self.change(&words, is_there).await
    }

    /// Lets a learner vote, as soon as it has the data of the others.
    ///
    /// # Errors
    /// etcd refuses for a minute.
    pub async fn promote(&self, learner: &Listed) -> Result<(), ClientError> {
        let votes = |list: &[Listed]| {
            let mut found = list.iter().filter(|one| one.id == learner.id);
            found.any(|one| !one.is_learner)
        };
        self.change(&["promote", &hexadecimal(learner)], votes)
            .await
    }

    /// Changes the members. A change without an answer can have an effect, so that each failure is compared with the list.
    async fn change(
        &self,
        words: &[&str],
        is_done: impl Fn(&[Listed]) -> bool,
    ) -> Result<(), ClientError> {
        let words = [&["member"], words].concat();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match self.call(CHANGE, &words).await {
                Err(error @ ClientError::Failed { .. }) => error,
                ended => return ended.map(drop),
            };
            if self.list().await.is_ok_and(|list| is_done(&list)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }
}

/// Returns the ID of a member as etcdctl reads it. It prints decimal numbers as JSON.
fn hexadecimal(member: &Listed) -> String {
    format!("{:x}", member.id)
}
