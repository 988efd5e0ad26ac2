//! The hosts of a cluster: connections, facts, and the state directory on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use crate::{CommandError, FileError, data_directories, state};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Journal, LoggedHost, Watch, WatchedHost};
use kubexm_host::known_hosts::{Accepted, HostKeys};
use kubexm_host::{Command, Facts, Host, HostError, Limit, SshHost, SshOptions};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message, Secret, WarningKind};

/// The number of connections that are opened at the same time.
pub const PARALLEL: usize = 20;
/// How long a host may take to answer when kubexm looks for the cause of a failure.
const ANSWER: Limit = Limit::new(Duration::from_secs(10), "an answer");

/// Connections by host name.
pub type Hosts = BTreeMap<HostName, Arc<dyn Host>>;
/// Errors of hosts, in the order of the cluster file.
pub type HostErrors = Vec<(HostName, HostError)>;

/// Returns the first control plane of the cluster file that is connected.
pub fn first_control_plane<'a>(
    cluster: &'a Cluster,
    hosts: &'a Hosts,
) -> Option<(&'a HostName, &'a Arc<dyn Host>)> {
    let mut names = cluster.roles.control_plane.iter();
    names.find_map(|name| Some((name, hosts.get(name)?)))
}

/// How kubexm connects to hosts, and where it keeps the state of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// A file with SSH host keys, in addition to `~/.ssh/known_hosts`.
    pub known_hosts: Option<PathBuf>,
    /// A file in the format of ssh_config(5) with addresses and logins of hosts.
    pub ssh_config: Option<PathBuf>,
    /// Whether to accept and record the key of a host that is not known yet.
    pub accept_new_host_keys: bool,
    /// The state directory with journal, CA and kubeconfig; `None` for `$XDG_STATE_HOME/kubexm/<cluster>`.
    pub state: Option<PathBuf>,
    /// The password for SSH and sudo of hosts without one in the cluster file.
    pub password: Option<Secret>,
    /// The option that gave this password, for commands that kubexm prints.
    pub password_option: PasswordOption,
}

/// The option by which a user gives the password for SSH and sudo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PasswordOption {
    /// None: the environment may have the password.
    #[default]
    None,
    /// `--ask-password`.
    Ask,
    /// `--password-file`.
    File(PathBuf),
}

impl Connection {
    /// Returns the state directory of a cluster. Emits a note if it is where an earlier version created it.
    ///
    /// # Errors
    /// See [`state::default`].
    pub fn state_directory(
        &self,
        cluster: &Cluster,
        events: &Events,
    ) -> Result<PathBuf, CommandError> {
        match &self.state {
            Some(state) => Ok(state.clone()),
            None => state::default(&cluster.name, events),
        }
    }

    /// Warns of a state directory of the options that is not one of a cluster: a command that only reads knows less then.
    pub fn warn_of_lost_state(&self, events: &Events) {
        if let Some(state) = self.state.as_ref().filter(|state| !state::has_state(state)) {
            let what = if state.exists() {
                "has no files of a cluster"
            } else {
                "does not exist"
            };
            let text = format!(
                "the state directory {} {what}, so that kubexm knows neither the ID of the cluster nor timers and commands \
                 that were interrupted",
                state.display()
            );
            events.warn(
                WarningKind::StateDirectory,
                Message::new(text).hint("correct --state"),
            );
        }
    }

    /// Fails if a file of the options does not exist, or the state directory is a file, before work that takes minutes.
    pub fn check(&self) -> Result<(), CommandError> {
        if let Some(state) = self.state.as_ref().filter(|state| state.is_file()) {
            let error = FileError::new("use the state directory", state, "it is a file");
            return Err(error.hint("correct --state").into());
        }
        match &self.known_hosts {
            Some(file) if !file.exists() => {
                let error =
                    FileError::new("read the SSH host keys in", file, "there is no such file");
                Err(error.hint("correct --known-hosts").into())
            }
            _ => Ok(()),
        }
    }

    fn host_keys(&self, state: &Path) -> HostKeys {
        let recorded = state.join("known_hosts");
        let home =
            std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ssh/known_hosts"));
        let files = home
            .into_iter()
            .chain(self.known_hosts.clone())
            .chain([recorded.clone()])
            .collect();
        HostKeys {
            files,
            accept_new: self.accept_new_host_keys.then_some(recorded),
            accepted: Accepted::default(),
        }
    }

    /// Connects to all hosts of the cluster. Accepted host keys are recorded in the state directory and reported,
    /// because the user must be able to compare them.
    ///
    /// # Errors
    /// Lists every unreachable host, with the cause.
    pub async fn connect(
        &self,
        cluster: &Cluster,
        state: &Path,
        events: &Events,
    ) -> Result<Hosts, CommandError> {
        let (hosts, errors) = self.connect_each(cluster, state, events).await?;
        none_failed(hosts, errors)
    }

    /// Connects to the hosts of the cluster that answer. Returns also the errors of the others.
    ///
    /// # Errors
    /// No host can be reached.
    pub async fn connect_reachable(
        &self,
        cluster: &Cluster,
        state: &Path,
        events: &Events,
    ) -> Result<(Hosts, Vec<HostError>), CommandError> {
        let (hosts, errors) = self.connect_each(cluster, state, events).await?;
        let unreachable = errors.into_iter().map(|(_, error)| error).collect();
        if hosts.is_empty() {
            Err(CommandError::Hosts(unreachable))
        } else {
            Ok((hosts, unreachable))
        }
    }

    /// Connects to all hosts of the cluster. Returns the connections, and the causes of the hosts that cannot be
    /// reached.
    ///
    /// # Errors
    /// A file of the options does not exist.
    pub async fn connect_each(
        &self,
        cluster: &Cluster,
        state: &Path,
        events: &Events,
    ) -> Result<(Hosts, HostErrors), CommandError> {
        self.check()?;
        let host_keys = self.host_keys(state);
        let options = self.logins(cluster, &host_keys)?;
        let connect = async |options: SshOptions| {
            let name = options.name.clone();
            let watch = Watch::new(events, &name, "connect");
            let connected = watch.during(Box::pin(SshHost::connect(options))).await;
            (name, connected.map(|host| Arc::new(host) as Arc<dyn Host>))
        };
        let results: Vec<_> = stream::iter(options)
            .map(connect)
            .buffered(PARALLEL)
            .collect()
            .await;
        for accepted in host_keys.accepted.take() {
            let hint =
                "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host";
            events.warn(
                WarningKind::HostKey,
                Message::new(accepted.to_string()).hint(hint),
            );
        }
        Ok(separated(results))
    }
}

/// Returns the hosts with log files in the state directory of the cluster.
pub fn logged(hosts: Hosts, state: &Path) -> Hosts {
    let logged = hosts.into_iter().map(|(name, host)| {
        let host: Arc<dyn Host> = Arc::new(LoggedHost::new(host, state));
        (name, host)
    });
    logged.collect()
}

/// Returns the hosts with messages about commands that make no progress, for all work outside of a plan.
pub fn watched(hosts: &Hosts, events: &Events) -> Hosts {
    let watched = hosts.iter().map(|(name, host)| {
        let host: Arc<dyn Host> = Arc::new(WatchedHost::new(Arc::clone(host), events));
        (name.clone(), host)
    });
    watched.collect()
}

/// Collects the facts of all hosts.
pub async fn gather(
    cluster: &Cluster,
    hosts: &Hosts,
) -> Result<BTreeMap<HostName, Facts>, CommandError> {
    let (facts, errors) = gather_each(cluster, hosts).await;
    none_failed(facts, errors)
}

/// Collects the facts of all hosts. Returns the facts, and the causes of the hosts that failed.
pub async fn gather_each(
    cluster: &Cluster,
    hosts: &Hosts,
) -> (BTreeMap<HostName, Facts>, HostErrors) {
    let mut paths = kubexm_preflight::paths(cluster, cluster.runtime.data_directory());
    let more = data_directories::paths(cluster).into_iter();
    paths.extend(
        more.filter(|path| !paths.contains(path))
            .collect::<Vec<_>>(),
    );
    gather_with(hosts, &paths).await
}

/// Does the same with the disk space at these paths only.
pub async fn gather_with(
    hosts: &Hosts,
    paths: &[String],
) -> (BTreeMap<HostName, Facts>, HostErrors) {
    let gather = async |name: &HostName, host: &Arc<dyn Host>| {
        (name.clone(), Facts::gather(host.as_ref(), paths).await)
    };
    let results: Vec<_> = stream::iter(hosts)
        .map(|(name, host)| gather(name, host))
        .buffered(PARALLEL)
        .collect()
        .await;
    separated(results)
}

/// Separates what hosts provided from the errors of the others.
pub fn separated<T>(
    results: Vec<(HostName, Result<T, HostError>)>,
) -> (BTreeMap<HostName, T>, HostErrors) {
    let mut values = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, result) in results {
        match result {
            Ok(value) => drop(values.insert(name, value)),
            Err(error) => errors.push((name, error)),
        }
    }
    (values, errors)
}

/// Returns all values, or an error with the causes of all hosts that failed.
fn none_failed<T>(values: T, errors: HostErrors) -> Result<T, CommandError> {
    if errors.is_empty() {
        Ok(values)
    } else {
        Err(CommandError::Hosts(
            errors.into_iter().map(|(_, error)| error).collect(),
        ))
    }
}

/// Warns of hosts that failed and that a renewal of certificates does not need.
///
/// # Errors
/// A host that it needs is one of them.
pub fn none_needed(
    errors: HostErrors,
    needed: &BTreeSet<HostName>,
    events: &Events,
) -> Result<(), CommandError> {
    let (lost, others): (HostErrors, HostErrors) = errors
        .into_iter()
        .partition(|(name, _)| needed.contains(name));
    none_failed((), lost)?;
    for (_, error) in others {
        events.warn(
            WarningKind::Host,
            format!("the renewal does not need this host: {error}"),
        );
    }
    Ok(())
}

/// Opens the journal of a cluster and locks it for this run.
pub fn journal(folder: &Path) -> Result<Journal, CommandError> {
    Ok(Journal::open(folder).map_err(|error| {
        let refused = FileError::io("use the state directory", folder, &error);
        match error.kind() {
            io::ErrorKind::WouldBlock => refused.hint("wait until that process ends"),
            _ => refused,
        }
    })?)
}

/// Returns the error of every host whose connection broke. A task on another host may have failed because it
/// waited for such a host. A host that is only slow to answer is not in the list.
pub async fn unreachable(hosts: &Hosts) -> Vec<HostError> {
    let lost = unreachable_by_name(hosts).await;
    lost.into_iter().map(|(_, error)| error).collect()
}

/// Returns the hosts whose connection broke, with the errors: see [`unreachable`].
pub async fn unreachable_by_name(hosts: &Hosts) -> HostErrors {
    let probes = hosts.iter().map(|(name, host)| {
        let command = Command::new("true").limit(ANSWER);
        async move {
            let error = host.run(command).await.err()?;
            matches!(error, HostError::Unreachable { .. }).then(|| (name.clone(), error))
        }
    });
    let answers = futures_util::future::join_all(probes).await;
    answers.into_iter().flatten().collect()
}
