//! Locks of hosts: a host admits one kubexm that changes it at a time, also from another machine and from
//! another state directory.
//!
//! A lock is a lease in `/run/kubexm.lock` on the host. It ends [`VALID`] after its holder renewed it last, by
//! the host's time since boot, so no clock needs to be correct. A lock that a process of the SSH session holds
//! would live as long as sshd believes in a broken connection, which can be hours.
//!
//! A killed run must not make its own user wait. The lock of a state directory excludes other runs of the same
//! directory on this machine, so that a lease with the same origin ([`Journal::origin`]) belongs to a process
//! that no longer runs. [`HostLocks::take`] takes over such a lease at once.
//!
//! [`Journal::origin`]: crate::plan::Journal::origin

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::plan::Stop;
use kubexm_host::{Command, Host, HostError, Limit, Output, TunnelError, TunnelStream};
use kubexm_scripts::host as scripts;
use kubexm_types::event::Events;
use kubexm_types::untrusted::Untrusted;
use kubexm_types::{ClusterId, Digest, HostName, Message, UtcTime};

/// Time after the last renewal until a lock ends.
pub const VALID: Duration = Duration::from_secs(120);
/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(20);
/// Time that a host has to answer.
pub(super) const ANSWER: Limit = Limit::new(Duration::from_secs(60), "locks of hosts");
/// The exit status of the script if another kubexm has the lock.
const LOCKED: i32 = 3;
/// The exit status of the script that records what has begun, on a host without a cluster.
const NO_CLUSTER: i32 = 3;

/// What hosts record of commands that have begun, a line each.
pub type Documents = BTreeMap<HostName, Arc<str>>;
/// Returns the line that hosts have to record now; `None` if there is nothing to record.
pub type BegunRecord = Arc<dyn Fn() -> io::Result<Option<Arc<str>>> + Send + Sync>;

/// Who has a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The user on the controller.
    pub user: String,
    /// The host name of the controller.
    pub machine: String,
    /// The process on the controller.
    pub pid: u32,
    /// The command, as in `install`.
    pub command: String,
    /// The state directory on the controller.
    pub state: String,
    /// When the command began, by the controller's clock.
    pub since: UtcTime,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = |text: &str| Untrusted::one_line(text, 200);
        write!(
            f,
            "`kubexm {}` of {}@{} (process {}, state directory {}) since {}",
            printable(&self.command),
            printable(&self.user),
            printable(&self.machine),
            self.pid,
            printable(&self.state),
            self.since
        )
    }
}

/// A host whose lock another kubexm has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub host: HostName,
    /// Who has the lock; `None` if the host's record is not readable.
    pub holder: Option<Holder>,
    /// Seconds until the lock ends, if its holder does not renew it.
    pub seconds: u64,
}

/// Why hosts cannot be locked.
#[derive(Debug)]
pub enum LockError {
    /// Other runs have the locks.
    Refused(Vec<Refusal>),
    /// Hosts failed or were lost.
    Hosts(Vec<HostError>),
}

/// The locks of hosts that this process has. They are renewed until they are released.
pub struct HostLocks {
    hosts: BTreeMap<HostName, Arc<dyn Host>>,
    lease: Lease,
    begun: Documents,
    renewal: JoinHandle<()>,
}

impl HostLocks {
    /// Takes the locks of all hosts, or none. `stop` is cancelled if another kubexm takes a lock over, after
    /// this process could not renew it in time.
    ///
    /// # Errors
    /// See [`LockError`].
    pub async fn take(
        hosts: &BTreeMap<HostName, Arc<dyn Host>>,
        holder: &Holder,
        origin: Digest,
        events: &Events,
        stop: &Stop,
    ) -> Result<Self, LockError> {
        let hosts = hosts.clone();
        let lease = Lease::new(holder, origin);
        let taking = hosts.values().map(|host| lease.ask(host, "take"));
        let (mut refusals, mut errors) = (Vec::new(), Vec::new());
        let mut begun = Documents::new();
        for (name, answer) in hosts.keys().zip(join_all(taking).await) {
            match answer {
                Ok(Answer::Has(text)) if text.is_empty() => {}
                Ok(Answer::Has(text)) => drop(begun.insert(name.clone(), text.into())),
                Ok(Answer::Refused(refusal)) => refusals.push(refusal),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() && refusals.is_empty() {
            let renewing = renew(hosts.clone(), lease.clone(), events.clone(), stop.clone());
            let renewal = tokio::spawn(renewing);
            return Ok(Self {
                hosts,
                lease,
                begun,
                renewal,
            });
        }
        lease.release(&hosts).await;
        Err(if errors.is_empty() {
            LockError::Refused(refusals)
        } else {
            LockError::Hosts(errors)
        })
    }

    /// Returns what hosts record of commands that have begun. A host without a record is not in it.
    pub fn begun(&self) -> &Documents {
        &self.begun
    }

    /// Returns hosts that run commands only while they have the lock of this run. A run that was suspended can go on after its lock
    /// has ended, and another one has changed the host.
    ///
    /// No command reaches a host of `carriers` before the host has `record`. After the last command, [`Host::settle`] sends what
    /// has changed.
    pub fn guard(
        &self,
        hosts: BTreeMap<HostName, Arc<dyn Host>>,
        carriers: &[HostName],
        record: &BegunRecord,
    ) -> BTreeMap<HostName, Arc<dyn Host>> {
        let token: Arc<str> = self.lease.token.as_str().into();
        let guarded = hosts.into_iter().map(|(name, host)| {
            let recorded = self.begun.get(&name).cloned();
            let host: Arc<dyn Host> = Arc::new(LockedHost {
                host,
                token: Arc::clone(&token),
                record: carriers.contains(&name).then(|| Arc::clone(record)),
                recorded: Mutex::new(recorded),
            });
            (name, host)
        });
        guarded.collect()
    }

    /// Releases the locks after the hosts have received the requests to end commands that were cancelled. The lock of a
    /// host that does not answer ends by itself.
    pub async fn release(self) {
        self.renewal.abort();
        join_all(self.hosts.values().map(|host| host.settle())).await;
        self.lease.release(&self.hosts).await;
    }
}

impl Drop for HostLocks {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// A host that runs commands only while its lock has a token.
struct LockedHost {
    host: Arc<dyn Host>,
    token: Arc<str>,
    record: Option<BegunRecord>,
    /// The record that the host has.
    recorded: Mutex<Option<Arc<str>>>,
}

impl LockedHost {
    /// Sends the record of commands that have begun, if it has changed.
    async fn send_record(&self) -> Result<(), HostError> {
        let Some(record) = &self.record else {
            return Ok(());
        };
        let action = "record on the host what has begun";
        let refused = |reason: Message| HostError::Command {
            host: self.name().clone(),
            command: action.to_owned(),
            reason,
        };
        let mut recorded = self.recorded.lock().await;
        let record = record().map_err(|error| refused(error.to_string().into()))?;
        let Some(record) = record.filter(|record| recorded.as_ref() != Some(record)) else {
            return Ok(());
        };
        let command = Command::from_script(scripts::BEGUN, [&*record]).describe(action);
        let command = command.limit(ANSWER).under_lock(Arc::clone(&self.token));
        let output = self.host.run(command).await?;
        match output.status {
            0 => *recorded = Some(record),
            // An install has not yet recorded the cluster on the host, or a reset has removed it.
            NO_CLUSTER => {}
            _ => return Err(refused(output.complaint().to_string().into())),
        }
        Ok(())
    }
}

#[async_trait]
impl Host for LockedHost {
    fn name(&self) -> &HostName {
        self.host.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        self.send_record().await?;
        let command = command.under_lock(Arc::clone(&self.token));
        self.host.run(command).await
    }

    async fn settle(&self) {
        // The next run sends the record to a host that is lost.
        let _: Result<(), HostError> = self.send_record().await;
        self.host.settle().await;
    }

    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        self.host.open_tunnel(target, port).await
    }
}

/// What a host answers to a run that asks for its lock.
enum Answer {
    /// The run has the lock. The record of commands that have begun; empty if there is none.
    Has(String),
    /// Another run has it.
    Refused(Refusal),
}

/// What a run sends to the script.
#[derive(Clone)]
struct Lease {
    token: String,
    origin: String,
    holder: String,
}

impl Lease {
    fn new(holder: &Holder, origin: Digest) -> Self {
        // An ID of its own for each run. Without random numbers SSH would have failed before.
        let token = ClusterId::random().map_or_else(|_| origin.hex(), |id| id.to_string());
        Self {
            token,
            origin: origin.hex(),
            holder: serde_json::to_string(holder).unwrap_or_default(),
        }
    }

    fn command(&self, verb: &'static str) -> Command {
        let parameters = scripts::Lock {
            token: self.token.clone(),
            origin: self.origin.clone(),
            seconds: VALID.as_secs().to_string(),
            holder: self.holder.clone(),
        };
        Command::from_script(scripts::LOCK.verb(verb), parameters)
            .describe(format!("{verb} the lock of the host"))
            .limit(ANSWER)
    }

    /// Takes or renews the lock of a host.
    async fn ask(&self, host: &Arc<dyn Host>, verb: &'static str) -> Result<Answer, HostError> {
        let command = self.command(verb);
        let description = command.description();
        let output = host.run(command).await?;
        match output.status {
            0 => Ok(Answer::Has(output.text().trim_end().to_owned())),
            LOCKED => Ok(Answer::Refused(refusal(host.name(), &output))),
            _ => Err(HostError::Command {
                host: host.name().clone(),
                command: description,
                reason: output.complaint().to_string().into(),
            }),
        }
    }

    async fn release(&self, hosts: &BTreeMap<HostName, Arc<dyn Host>>) {
        let releasing = hosts.values().map(|host| host.run(self.command("release")));
        // A lock that is not released ends by itself.
        let _: Vec<Result<Output, HostError>> = join_all(releasing).await;
    }
}

/// Parses the script's answer: seconds, and the holder as JSON.
fn refusal(host: &HostName, output: &Output) -> Refusal {
    let text = output.text();
    let (seconds, holder) = text.split_once(' ').unwrap_or_default();
    Refusal {
        host: host.clone(),
        holder: serde_json::from_str(holder.trim()).ok(),
        seconds: seconds.parse().unwrap_or(VALID.as_secs()),
    }
}

/// Renews the locks until another run has one of them.
async fn renew(hosts: BTreeMap<HostName, Arc<dyn Host>>, lease: Lease, events: Events, stop: Stop) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        // A lost host is the concern of the work on it.
        let answers = join_all(hosts.values().map(|host| lease.ask(host, "renew"))).await;
        let taken: Vec<Refusal> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Ok(Answer::Refused(refusal)) => Some(refusal),
                Ok(Answer::Has(_)) | Err(_) => None,
            })
            .collect();
        for refusal in &taken {
            let holder = refusal.holder.as_ref();
            events.note(format!(
                "{}: this process did not renew its lock in time, and {} has it now: stopping",
                refusal.host,
                holder.map_or("another kubexm".to_owned(), Holder::to_string)
            ));
        }
        if !taken.is_empty() {
            return stop.cancel();
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => write!(f, "is locked by {holder}"),
            None => f.write_str("is locked by another kubexm"),
        }
    }
}
