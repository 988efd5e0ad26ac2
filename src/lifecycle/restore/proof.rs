//! Proves that restored data is complete and the same on all members, and that the API servers work with it.

use futures_util::future::try_join_all;

use kubexm_config::Cluster;
use kubexm_deploy::backup::{self, RestoreInputs};
use kubexm_deploy::objects::{ConfigMap, Object, Server, delete};
use kubexm_engine::plan::StepError;
use kubexm_etcd::{Client, ClientError};
use kubexm_host::{Command, Host, Limit};
use kubexm_safekeeping::backup::EtcdSnapshot;
use kubexm_scripts::kubernetes::RESTORED;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message, Untrusted, WarningKind};

/// How long an API server may take for a few requests.
const LIMIT: Limit = Limit::new(
    std::time::Duration::from_secs(120),
    "requests to an API server",
);

/// What a member has at the revision of the restore.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Data {
    /// The hash of all keys and values.
    hash: u64,
    keys: u64,
    /// Alarms and other problems.
    errors: Vec<String>,
}

/// Compares the data of all members with each other and with the backup, before the first API server starts.
///
/// # Errors
/// A member has other data, or an alarm.
pub async fn of_members(
    given: &RestoreInputs<'_>,
    snapshot: &EtcdSnapshot,
    hosts: &Hosts,
    events: &Events,
) -> Result<(), CommandError> {
    let Some(kind) = kubexm_etcd::kind(given.cluster) else {
        return Ok(());
    };
    let revision = snapshot.revision + given.bump;
    let reads = kubexm_etcd::members(given.cluster)
        .into_iter()
        .map(async |spec| {
            let Some(host) = hosts.get(&spec.name) else {
                return Ok(None);
            };
            let client = Client::new(host.as_ref(), kind, "compare the data of etcd");
            let data = Data::read(client, revision).await;
            let data = data.map_err(|error| refused_read(&spec.name, error))?;
            Ok::<_, CommandError>(Some((spec, data)))
        });
    let found: Vec<_> = try_join_all(reads).await?.into_iter().flatten().collect();
    for (spec, data) in &found {
        if !data.errors.is_empty() {
            return Err(refused(format!(
                "{}: {}",
                spec.name,
                data.errors.join(", ")
            )));
        }
        if data.keys != snapshot.keys {
            return Err(refused(format!(
                "{}: etcd has {} keys, and the backup has {}",
                spec.name, data.keys, snapshot.keys
            )));
        }
    }
    if let Some((first, data)) = found.first()
        && let Some((other, _)) = found.iter().find(|(_, other)| other.hash != data.hash)
    {
        return Err(refused(format!(
            "the members {} and {} have different data",
            first.name, other.name
        )));
    }
    events.note(format!(
        "etcd has the data of the backup: {} keys, the same on {} members",
        snapshot.keys,
        found.len()
    ));
    Ok(())
}

impl Data {
    async fn read(client: Client<'_>, revision: u64) -> Result<Self, ClientError> {
        Ok(Self {
            errors: client.status().await?.problems(),
            hash: client.hash(revision).await?.hash,
            keys: client.keys(revision).await?,
        })
    }
}

/// Returns the error about a member that does not state its data.
fn refused_read(name: &HostName, error: ClientError) -> CommandError {
    match error {
        error @ ClientError::Unreadable { .. } => refused(format!("{name}: {error}")),
        ClientError::Failed {
            what, complaint, ..
        } => unanswered(name, Message::quoting(complaint.to_string()).within(what)),
        ClientError::Host(error) => error.into(),
    }
}

fn refused(cause: String) -> CommandError {
    CommandError::step(format!("the restored etcd is not usable: {cause}"))
        .hint("no API server runs; restore from another backup with the same command")
}

fn unanswered(name: &HostName, cause: Message) -> CommandError {
    let hint = "run the same command again to go on";
    CommandError::step(cause.within(name).or_hint(Some(hint)))
}

/// Proves that an API server returns an object that it has stored. Returns its nodes.
async fn of_api_server(host: &dyn Host, url: &str, name: &str) -> Result<Vec<Object>, StepError> {
    let what = "store an object with the API server";
    let command = Command::from_script(RESTORED, [url, name]).describe(what);
    StepError::unless_done(what, host.run(command.limit(LIMIT)).await?)?;
    let server = Server::of(host).at(url).limit(LIMIT);
    let words = ["configmap", name, "-n", "kube-system"];
    let found = server.find::<ConfigMap>(what, &words).await?;
    if found
        .unwrap_or_default()
        .data
        .get("restored")
        .map(String::as_str)
        != Some("yes")
    {
        let text = "an object that it has stored does not come back";
        return Err(StepError::Other(Message::new(text).within(what)));
    }
    delete(host, what, words.map(str::to_owned)).await?;
    server.list(what, &["nodes"]).await
}

/// Proves that each API server stores objects. Reports nodes that the backup has and the cluster file has not.
///
/// # Errors
/// An API server does not work.
pub async fn of_api_servers(
    cluster: &Cluster,
    id: &str,
    hosts: &Hosts,
    events: &Events,
) -> Result<(), CommandError> {
    let mut nodes = Vec::new();
    for name in &cluster.roles.control_plane {
        let (Some(host), Some(spec)) = (hosts.get(name), cluster.host(name)) else {
            continue;
        };
        let object = format!("kubexm-restore-{}-{name}", id.to_lowercase());
        let url = backup::api_server(cluster, spec);
        let found = of_api_server(host.as_ref(), &url, &object).await;
        nodes = found.map_err(|error| unanswered(name, Message::from(&error)))?;
    }
    let known = |name: &&str| {
        cluster
            .nodes()
            .iter()
            .any(|host| host.name.as_str() == *name)
    };
    let names = nodes.iter().map(|node| node.metadata.name.as_str());
    let (known, others): (Vec<&str>, Vec<&str>) = names.partition(known);
    for name in others {
        let name = Untrusted::one_line(name, 100);
        let text = format!("the node {name} is in the backup, and not in the cluster file");
        events.warn(
            WarningKind::Kept,
            Message::new(text).hint(format!("kubectl delete node {name}")),
        );
    }
    events.note(format!(
        "{} API servers store objects; {} nodes of the cluster file are registered",
        cluster.roles.control_plane.len(),
        known.len()
    ));
    Ok(())
}
