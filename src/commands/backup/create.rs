//! `backup create`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;

use super::collect::{self, Collected};
use super::directory;
use super::file::Writer;
use super::manifest::{BackedUpFile, FORMAT, MANIFEST, Manifest, SNAPSHOT, program};
use super::members::{MemberStatus, Survey};
use super::request::{CreateOptions, Request};
use crate::identity::KnownCluster;
use crate::session::{self, Hosts};
use crate::snapshot::{self, Failure, Member, RemoteFile, Source};
use crate::stop::unless_stopped;
use crate::{CommandError, FileError, Stop, listeners, private_directory};
use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_host::Facts;
use kubexm_pki::Recipients;
use kubexm_types::event::Events;
use kubexm_types::{Arch, HostName, UtcTime};

/// A backup that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateReport {
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub size: u64,
    pub manifest: Manifest,
    /// Whether it has the last writes, and everything that hosts without a cluster need.
    pub is_complete: bool,
    /// Old backups that were removed.
    pub removed: Vec<PathBuf>,
}

/// Saves a snapshot of etcd, keys, configuration and state in an encrypted file. Changes nothing in the cluster.
///
/// # Errors
/// The cluster file is wrong, etcd is an external one or has different data on its members, no member provides a
/// snapshot, or the file cannot be written.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn create(
    options: &CreateOptions,
    events: &Events,
    stop: &Stop,
) -> Result<CreateReport, CommandError> {
    let request = Request::read(options, events)?;
    let (cluster, state, folder) = (&request.cluster, &request.state, &request.folder);
    // Held until the end: a backup of a cluster that changes is not one of a certain time.
    let journal = Arc::new(session::journal(state)?);
    journal.begin("backup create", "");
    let events = &listeners::with_journal(events.clone(), Arc::clone(&journal));
    private_directory::create(folder, "create the directory of backups")?;
    events.phase("connect");
    let hosts = connect(options, &request, events, stop).await?;
    let hosts = session::watched(&session::logged(hosts, state), events);
    let locks = session::lock(cluster, &hosts, &journal, "backup create", events, stop).await?;
    let work = Work {
        cluster,
        file: &options.cluster,
        state,
        hosts: &hosts,
        deployment: request.deployment,
        record: &request.record,
        events,
    };
    let path = directory::path_for_now(folder, &cluster.name)?;
    let members = snapshot::members(cluster, &hosts);
    // A run that was killed can have left one on each member, with all objects in clear text.
    join_all(members.iter().map(Member::remove)).await;
    let written = unless_stopped(stop, work.write(&members, &path, &request.recipients)).await;
    if written.is_err() {
        join_all(members.iter().map(Member::remove)).await;
    }
    locks.release().await;
    let manifest = written?;
    let size = path
        .metadata()
        .map_err(|error| FileError::io("read", &path, &error))?
        .len();
    let is_complete = is_complete(manifest.etcd.quorum, manifest.hosts.iter(), cluster);
    let removed = match options.keep {
        Some(keep) if is_complete => directory::keep(&path, &cluster.name, keep.get())?,
        Some(_) => {
            events.warn("the backup is not complete, so no old one is removed");
            Vec::new()
        }
        None => Vec::new(),
    };
    Ok(CreateReport {
        path,
        size,
        manifest,
        is_complete,
        removed,
    })
}

/// Connects to the hosts that answer, and warns about the others.
pub(super) async fn connect(
    options: &CreateOptions,
    request: &Request,
    events: &Events,
    stop: &Stop,
) -> Result<Hosts, CommandError> {
    let connecting = options
        .connection
        .connect_reachable(&request.cluster, &request.state, events);
    let (hosts, unreachable) = unless_stopped(stop, connecting).await?;
    for error in &unreachable {
        events.warn(error.to_string());
    }
    Ok(hosts)
}

/// Whether a backup can take the place of an older one. Without a control plane, it does not have the authorities of kubeadm.
pub(super) fn is_complete<'a>(
    has_quorum: bool,
    mut hosts: impl Iterator<Item = &'a HostName>,
    cluster: &Cluster,
) -> bool {
    let has_authorities = match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => hosts.any(|host| cluster.is_control_plane(host)),
        KubernetesKind::Systemd => true,
    };
    has_quorum && has_authorities
}

/// What a backup works with.
struct Work<'a> {
    cluster: &'a Cluster,
    /// The cluster file.
    file: &'a Path,
    state: &'a Path,
    hosts: &'a Hosts,
    deployment: &'static str,
    record: &'a ClusterRecord,
    events: &'a Events,
}

/// A snapshot that waits on its host.
pub(crate) struct Taken<'a> {
    pub(crate) member: &'a Member<'a>,
    pub(crate) file: RemoteFile,
    pub(crate) etcd: super::EtcdSnapshot,
}

impl Work<'_> {
    async fn write(
        &self,
        members: &[Member<'_>],
        path: &Path,
        recipients: &Recipients,
    ) -> Result<Manifest, CommandError> {
        let facts = session::gather(self.cluster, self.hosts).await?;
        KnownCluster::read(self.cluster, self.state)?.origins(self.cluster, &facts, self.events)?;
        self.events.phase("snapshot");
        let taken = take(members, self.deployment, self.events).await?;
        let mut files = collect::of_controller(self.file, self.state)?;
        files.extend(collect::of_hosts(self.cluster, self.hosts, self.events).await?);
        files.extend(programs(&facts, members, path).await?);
        let manifest = self.manifest(&taken, &files);
        self.events.phase("write");
        let unwritable = |error: io::Error| FileError::io("write the backup", path, &error);
        let text = serde_json::to_vec_pretty(&manifest).map_err(CommandError::configuration)?;
        let writing = || -> io::Result<Writer> {
            let mut writer = Writer::create(path, recipients)?;
            writer.add(MANIFEST, &text)?;
            for file in &files {
                writer.add(&file.path, &file.content)?;
            }
            writer.begin(SNAPSHOT, taken.file.size)?;
            Ok(writer)
        };
        let writer = writing().map_err(unwritable)?;
        let Taken { member, file, .. } = &taken;
        let copying = member.copy(Source::Snapshot, file, writer, path).await;
        let mut writer = copying.map_err(|failure| failed(member, failure))?;
        member.remove().await;
        writer.end(file.size).map_err(unwritable)?;
        writer.commit().map_err(unwritable)?;
        Ok(manifest)
    }

    fn manifest(&self, taken: &Taken<'_>, files: &[Collected]) -> Manifest {
        let snapshot = BackedUpFile {
            path: SNAPSHOT.to_owned(),
            size: taken.file.size,
            digest: taken.file.digest,
        };
        let entries = files.iter().map(Collected::entry);
        let kept = collect::kept_hosts(self.cluster).into_iter();
        Manifest {
            format: FORMAT,
            cluster: self.record.identity().clone(),
            created: UtcTime::now().whole_seconds().to_string(),
            kubexm: env!("CARGO_PKG_VERSION").to_owned(),
            kubernetes: self.cluster.kubernetes.version.to_string(),
            deployment: match self.cluster.kubernetes.kind {
                KubernetesKind::Kubeadm => "kubeadm",
                KubernetesKind::Systemd => "systemd",
            }
            .to_owned(),
            etcd: taken.etcd.clone(),
            hosts: kept
                .filter(|name| self.hosts.contains_key(*name))
                .cloned()
                .collect(),
            files: entries.chain([snapshot]).collect(),
        }
    }
}

/// Takes a snapshot on the first member that provides one. The caller copies and removes it.
///
/// # Errors
/// No member provides one, or members have different data.
pub(crate) async fn take<'a>(
    members: &'a [Member<'a>],
    deployment: &str,
    events: &Events,
) -> Result<Taken<'a>, CommandError> {
    let survey = survey(members, events).await?;
    if !survey.has_quorum() {
        events.warn(
            "etcd has no quorum: the snapshot has what one member knows, which can lack the last writes",
        );
    }
    let mut failures = Vec::new();
    for member in survey.order(members) {
        let taken = async {
            let file = member.save().await?;
            let printed = member.describe().await?;
            let etcd = survey.describe(member.name, deployment, &printed)?;
            Ok::<_, String>(Taken { member, file, etcd })
        };
        match taken.await {
            Ok(taken) => return Ok(taken),
            Err(cause) => {
                member.remove().await;
                let name = member.name;
                events.warn(format!("{name}: no snapshot of etcd: {cause}"));
                failures.push(format!("{name}: {cause}"));
            }
        }
    }
    Err(CommandError::Configuration(format!(
        "no snapshot of etcd could be taken:\n{}\nhint: repair etcd on one of these hosts, then run the same command \
         again",
        failures.join("\n")
    )))
}

pub(super) async fn survey(
    members: &[Member<'_>],
    events: &Events,
) -> Result<Survey, CommandError> {
    let asked = join_all(members.iter().map(Member::status)).await;
    let (mut statuses, mut silent) = (Vec::new(), Vec::new());
    for (member, answer) in members.iter().zip(asked) {
        match answer.and_then(|text| MemberStatus::parse(member.name, &text)) {
            Ok(status) => statuses.push(status),
            Err(cause) => silent.push(format!("{}: {cause}", member.name)),
        }
    }
    for line in &silent {
        events.warn(format!("etcd does not answer: {line}"));
    }
    Survey::new(statuses, &silent)
}

pub(crate) fn failed(member: &Member<'_>, failure: Failure) -> CommandError {
    match failure {
        Failure::Here(error) => error.into(),
        Failure::Member(cause) => CommandError::Configuration(format!(
            "{}: cannot copy from the host: {cause}\nhint: run the same command again",
            member.name
        )),
    }
}

/// Returns the program etcdutl of the members, for each architecture. A restore needs the one that fits the snapshot.
pub(crate) async fn programs(
    facts: &BTreeMap<HostName, Facts>,
    members: &[Member<'_>],
    path: &Path,
) -> Result<Vec<Collected>, CommandError> {
    let arch = |name: &HostName| facts.get(name).and_then(Facts::arch);
    let arches: BTreeSet<Arch> = members
        .iter()
        .filter_map(|member| arch(member.name))
        .collect();
    let mut files = Vec::new();
    let mut failures = Vec::new();
    for wanted in arches {
        let of_arch = members
            .iter()
            .filter(|member| arch(member.name) == Some(wanted));
        for member in of_arch {
            let found = match member.program().await {
                Ok(found) => found,
                Err(cause) => {
                    failures.push(format!("{}: {cause}", member.name));
                    continue;
                }
            };
            let content = Vec::new();
            let copied = member.copy(Source::Program, &found, content, path).await;
            let content = copied.map_err(|failure| failed(member, failure))?;
            files.push(Collected {
                path: program(wanted),
                content,
            });
            break;
        }
    }
    match files.is_empty() {
        false => Ok(files),
        true => Err(CommandError::Configuration(format!(
            "cannot copy the program etcdutl of the members, without which a backup cannot be restored:\n{}",
            failures.join("\n")
        ))),
    }
}
