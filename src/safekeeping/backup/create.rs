//! `backup create`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use super::collect::{self, Collected};
use super::directory::NewBackup;
use super::file::Writer;
use super::gaps::{INCOMPLETE, gaps};
use super::manifest::{BackedUpFile, FORMAT, MANIFEST, Manifest, SNAPSHOT, program};
use super::members;
use super::origin::{SIGNATURE, SigningKey};
use super::programs;
use super::request::{CreateOptions, Request};
use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_etcd::{Failure, Member, RemoteFile, Source, Survey};
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_pki::Recipients;
use kubexm_session::begun::Operation;
use kubexm_session::change::Change;
use kubexm_session::change::Session;
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, FileError, Stop, private_directory};
use kubexm_types::event::Events;
use kubexm_types::{AtomicFile, HostName, Message, UtcTime, Version, WarningKind};

/// A backup that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateReport {
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub size: u64,
    pub manifest: Manifest,
    /// What is missing: the last writes, a file of the state directory, or something that hosts without a cluster need. A complete
    /// backup has no gap.
    pub gaps: Vec<String>,
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
    // A backup of a cluster that changes is not one of a certain time.
    let change = Change {
        operation: Operation::BackupCreate,
        cluster,
        state,
        lock: String::new(),
    };
    let connect = async |events: &Events| {
        private_directory::create(folder, "create the directory of backups")?;
        events.phase("connect");
        let hosts = connect(options, &request, events, stop).await?;
        Ok((hosts, ()))
    };
    let work = async |session: Session<'_>, ()| {
        let (hosts, events) = (&session.observed, session.events);
        let work = Work {
            cluster,
            file: &options.cluster,
            state,
            hosts,
            deployment: request.deployment,
            record: &request.record,
            new: &NewBackup::begin(folder, request.record.identity())?,
            folder,
            events,
        };
        AtomicFile::remove_abandoned(folder);
        let members = Member::on(cluster, hosts);
        // A run that was killed can have left one on each member, with all objects in clear text.
        join_all(members.iter().map(Member::remove)).await;
        let written = work.write(&members, &request.recipients);
        let written = unless_stopped(session.stop, written).await;
        if written.is_err() {
            join_all(members.iter().map(Member::remove)).await;
        }
        let (manifest, gaps) = written?;
        let path = work.new.path(gaps.is_empty());
        let size = path
            .metadata()
            .map_err(|error| FileError::io("read", &path, &error))?
            .len();
        for gap in &gaps {
            events.warn(
                WarningKind::BackupIncomplete,
                gap.clone().within(INCOMPLETE),
            );
        }
        let removed = match options.keep {
            Some(keep) => {
                if !gaps.is_empty() {
                    events.warn(
                        WarningKind::BackupIncomplete,
                        "the backup is not complete, so no complete one is removed",
                    );
                }
                work.new.keep(keep.get(), gaps.is_empty())?
            }
            None => Vec::new(),
        };
        Ok(CreateReport {
            path,
            size,
            manifest,
            gaps: gaps.into_iter().map(|gap| gap.text).collect(),
            removed,
        })
    };
    change.run(events, stop, connect, work).await
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
        events.warn(WarningKind::Host, error);
    }
    Ok(hosts)
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
    new: &'a NewBackup<'a>,
    /// The directory of the backup.
    folder: &'a Path,
    events: &'a Events,
}

/// A snapshot that waits on its host.
pub struct Taken<'a> {
    pub member: &'a Member<'a>,
    pub file: RemoteFile,
    pub etcd: super::EtcdSnapshot,
    /// By how many entries of raft the member was behind, if the snapshot can lack changes for this reason.
    lag: Option<u64>,
}

impl Taken<'_> {
    /// Returns what the snapshot does not have because its member is far behind.
    fn gap(&self) -> Option<Message> {
        let lag = self.lag?;
        let name = self.member.name;
        let text = format!(
            "{name} took the snapshot and was {lag} entries behind the other members of etcd, so the backup may lack the last \
             writes"
        );
        Some(
            Message::new(text).hint(
                "repair the members that took no snapshot, or run the same command again later",
            ),
        )
    }
}

/// Returns the lowest version that API servers of the cluster have.
///
/// Before an upgrade, the cluster file has the next version already. During one, control planes have two versions, and objects can
/// have the form of the former one only.
fn installed(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Version {
    let control_planes = cluster.roles.control_plane.iter();
    let facts = control_planes.filter_map(|name| facts.get(name));
    let stated = facts.filter_map(|facts| facts.applied(Setting::Version).next());
    let versions = stated.filter_map(|text| text.parse().ok());
    let lowest = versions.min();
    lowest.unwrap_or_else(|| cluster.kubernetes.version.clone())
}

impl Work<'_> {
    /// Writes the backup. Returns what it contains, and what is missing.
    async fn write(
        &self,
        members: &[Member<'_>],
        recipients: &Recipients,
    ) -> Result<(Manifest, Vec<Message>), CommandError> {
        // The backup contains the key, too.
        let key = SigningKey::of(self.state)?;
        let facts = session::gather(self.cluster, self.hosts).await?;
        KnownCluster::read(self.cluster, self.state)?.origins(self.cluster, &facts, self.events)?;
        self.events.phase("snapshot");
        let taken = take(members, self.deployment, self.events).await?;
        let (mut files, of_state) =
            collect::of_controller(self.file, self.state, self.folder, self.events)?;
        files.extend(collect::of_hosts(self.cluster, self.hosts, self.events).await?);
        files.extend(programs::of_members(&facts, members, self.folder, self.events).await?);
        let manifest = self.manifest(&taken, &files, &facts);
        let has_program = |arch| manifest.file(&program(arch)).is_some();
        let (quorum, control_planes) = (
            manifest.etcd.quorum,
            collect::control_planes(self.cluster, &files)?,
        );
        let mut gaps = gaps(self.cluster, quorum, &control_planes, &facts, has_program);
        gaps.extend(taken.gap().into_iter().chain(of_state));
        let path = &self.new.path(gaps.is_empty());
        self.events.phase("write");
        let unwritable = |error: io::Error| FileError::io("write the backup", path, &error);
        let text = serde_json::to_vec_pretty(&manifest).map_err(CommandError::defect)?;
        let signature = key.sign(&text)?;
        let writing = || -> io::Result<Writer> {
            let mut writer = Writer::create(path, recipients)?;
            writer.add(MANIFEST, &text)?;
            writer.add(SIGNATURE, signature.as_bytes())?;
            for file in &files {
                writer.add(&file.path, &file.content)?;
            }
            writer.begin(SNAPSHOT, taken.file.size)?;
            Ok(writer)
        };
        let writer = writing().map_err(unwritable)?;
        let Taken { member, file, .. } = &taken;
        let copying = member.copy(Source::Snapshot, file, writer).await;
        let mut writer = copying.map_err(|failure| failed(member, failure, path))?;
        member.remove().await;
        writer.end(file.size).map_err(unwritable)?;
        writer.commit().map_err(unwritable)?;
        Ok((manifest, gaps))
    }

    fn manifest(
        &self,
        taken: &Taken<'_>,
        files: &[Collected],
        facts: &BTreeMap<HostName, Facts>,
    ) -> Manifest {
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
            created: UtcTime::now().whole_seconds(),
            kubexm: env!("CARGO_PKG_VERSION").to_owned(),
            kubernetes: installed(self.cluster, facts).to_string(),
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
            control_planes: Some(self.cluster.roles.control_plane.clone()),
            files: entries.chain([snapshot]).collect(),
        }
    }
}

/// Takes a snapshot on the first member that provides one. The caller copies and removes it.
///
/// # Errors
/// No member provides one, or members have different data.
pub async fn take<'a>(
    members: &'a [Member<'a>],
    deployment: &str,
    events: &Events,
) -> Result<Taken<'a>, CommandError> {
    let survey = survey(members, events).await?;
    if !survey.has_quorum() {
        events.warn(
            WarningKind::EtcdSnapshot,
            "etcd has no quorum: the snapshot has what one member knows, which can lack the last writes",
        );
    }
    let mut failures = Vec::new();
    for member in survey.order(members) {
        let taken = async {
            let file = member.save().await?;
            let content = member.describe().await?;
            let etcd = members::describe(&survey, member.name, deployment, content)?;
            let lag = survey.lag(member.name);
            Ok::<_, String>(Taken {
                member,
                file,
                etcd,
                lag,
            })
        };
        match taken.await {
            Ok(taken) => return Ok(taken),
            Err(cause) => {
                member.remove().await;
                let name = member.name;
                events.warn(
                    WarningKind::EtcdSnapshot,
                    format!("{name}: no snapshot of etcd: {cause}"),
                );
                failures.push(format!("{name}: {cause}"));
            }
        }
    }
    Err(CommandError::refused(format!(
        "no snapshot of etcd could be taken:\n{}",
        failures.join("\n")
    ))
    .hint("repair etcd on one of these hosts, then run the same command again"))
}

pub(super) async fn survey(
    members: &[Member<'_>],
    events: &Events,
) -> Result<Survey, CommandError> {
    let asked = join_all(members.iter().map(Member::status)).await;
    let (mut statuses, mut silent) = (Vec::new(), Vec::new());
    for (member, answer) in members.iter().zip(asked) {
        match answer {
            Ok(status) => statuses.push((member.name.clone(), status)),
            Err(cause) => silent.push(format!("{}: {cause}", member.name)),
        }
    }
    for line in &silent {
        events.warn(
            WarningKind::EtcdSnapshot,
            format!("etcd does not answer: {line}"),
        );
    }
    Survey::new(statuses).map_err(|disagreement| members::refused(disagreement, &silent))
}

/// Returns the error of a copy to a file of this machine.
pub fn failed(member: &Member<'_>, failure: Failure, path: &Path) -> CommandError {
    match failure {
        Failure::Here(error) => FileError::io("write", path, &error).into(),
        Failure::Member(cause) => CommandError::step(format!(
            "{}: cannot copy from the host: {cause}",
            member.name
        ))
        .hint("run the same command again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster_of_four;

    /// A timer that ran between the change of the cluster file and the upgrade wrote the next version.
    #[test]
    fn version_of_the_backup_is_the_lowest_of_the_api_servers() {
        let of = |versions: &[(&str, &str)]| {
            let facts = versions.iter().map(|(name, version)| {
                let applied = [(Setting::Version, [(*version).to_owned()].into())].into();
                let facts = Facts {
                    applied,
                    ..Facts::default()
                };
                (name.parse().unwrap(), facts)
            });
            installed(&cluster_of_four(), &facts.collect()).to_string()
        };
        assert_eq!(of(&[("node1", "1.34.10")]), "1.34.10");
        let all = [
            ("node1", "1.35.0"),
            ("node2", "1.34.9"),
            ("node3", "1.34.10"),
        ];
        assert_eq!(of(&all), "1.34.9");
        // A worker has no API server.
        assert_eq!(of(&[("node4", "1.30.0")]), "1.36.3");
        assert_eq!(of(&[]), "1.36.3");
    }
}
