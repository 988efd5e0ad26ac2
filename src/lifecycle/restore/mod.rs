//! `backup restore`: brings a cluster back to the state of a backup.

mod content;
mod encryption_keys;
mod etcdutl;
mod prepare;
pub mod proof;
mod replacement;
mod situation;
pub mod text;
pub mod upload;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use time::OffsetDateTime;

use self::content::Content;
use self::prepare::Prepared;
use self::replacement::Replacement;
use self::situation::Situation;
use crate::etcdutl::{self as bundled, BundledEtcdutl};
use crate::install::{self, CaEncryption, InstallOptions};
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_deploy::backup::{NewHosts, PresentCas, RestoreInputs, revision_bump};
use kubexm_engine::cluster::{ClusterRecord, RemovalState};
use kubexm_etcd::initial_cluster;
use kubexm_host::Facts;
use kubexm_safekeeping::backup::BackupIdentity;
use kubexm_safekeeping::backup::manifest::SNAPSHOT;
use kubexm_session::begun::{
    MoveRecord, Operation, RestoreRecord, RestoreStage as Stage, StateRecord,
};
use kubexm_session::change::{Change, Session};
use kubexm_session::session;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{
    BundleAccess, ClusterSource, CommandError, Connection, FileError, Stop, authorities, notices,
};
use kubexm_types::event::Events;
use kubexm_types::{Arch, HostName, Message, UtcTime, WarningKind};

/// What to restore, and how.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    pub backup: PathBuf,
    /// Who reads the backup.
    pub identity: BackupIdentity,
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The bundle, for the program etcdutl and for hosts without a cluster.
    pub bundles: Vec<PathBuf>,
    /// How the bundle is opened.
    pub access: BundleAccess,
    /// Whether to accept a bundle whose signature cannot be verified.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs.
    pub ca_encryption: Option<CaEncryption>,
    /// Whether to accept a backup of which nothing shows that a run with this state directory made it.
    pub unknown_origin: bool,
    /// Whether new hosts may get authorities that a rotation after the backup has replaced.
    pub older_authorities: bool,
    /// What becomes of hosts that the backup has and the cluster file has not, on new hosts.
    pub other_hosts: Option<OtherHosts>,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// What becomes of hosts that the cluster of the backup had and that are not in the cluster file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherHosts {
    /// They are gone, or have other names: the cluster forgets their nodes.
    Remove,
    /// They still run, and join again later.
    Keep,
}

impl RestoreOptions {
    fn source(&self) -> ClusterSource {
        ClusterSource {
            bundles: self.bundles.clone(),
            cluster: self.cluster.clone(),
            access: self.access.clone(),
        }
    }
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// The time of the snapshot.
    pub created: UtcTime,
    /// Where the former data of etcd is on the members; `None` for a dry run.
    pub former: Option<String>,
}

/// Restores etcd from a backup. On hosts without a cluster, it first installs them with the authorities of the backup. Calls
/// `confirm` before it changes anything, after a note with the plan. A restore that was interrupted continues where it
/// stopped.
///
/// # Errors
/// The backup cannot be read or is one of another cluster, the user did not confirm, hosts cannot be reached, or a step failed.
#[tracing::instrument(skip_all, fields(backup = %options.backup.display()))]
pub async fn restore(
    options: &RestoreOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<RestoreReport, CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    kubexm_safekeeping::backup::etcd_deployment(&cluster)?;
    let identity = options.identity.parsed()?;
    let state = options.connection.state_directory(&cluster, events)?;
    events.phase("verify");
    let accepts_unknown = options.unknown_origin;
    let content = Content::read(&options.backup, identity, &state, &cluster, accepts_unknown);
    let content = unless_stopped(stop, content).await?;
    for problem in content.foreign_authorities() {
        let text = format!("{problem}; the restore does not use the authorities of this host");
        events.warn(
            WarningKind::BackupContent,
            Message::new(text).hint("kubexm backup verify"),
        );
    }
    let bundle = open_bundle(options, &state, events)?;
    let version = cluster.kubernetes.version.clone();
    let programs = unless_stopped(stop, bundled::of_bundle(bundle, version)).await?;
    let context = Context {
        options,
        content: &content,
        programs: &programs,
        cluster: &cluster,
        state: &state,
        stop,
        began: OffsetDateTime::now_utc(),
    };
    if options.dry_run {
        let prepared = context.prepare(events).await?;
        context.check_opens(&prepared)?;
        events.note(context.text(&prepared).text());
        events.note("dry run: nothing was touched");
        return Ok(context.report(None));
    }
    let record = context.begin(confirm, events).await?;
    context.install(&record, Stage::Install, events).await?;
    let id = context.replace(Part::Data, events).await?;
    context.install(&record, Stage::Reconcile, events).await?;
    if record.is_new {
        context.replace(Part::PodNetwork, events).await?;
    }
    RestoreRecord::remove(&state)?;
    Ok(context.report(Some(id)))
}

/// Opens the bundle.
fn open_bundle(
    options: &RestoreOptions,
    state: &Path,
    events: &Events,
) -> Result<Arc<BundleSet>, CommandError> {
    // The restore, or its install, emits the notices about the cluster file.
    let opened = options
        .source()
        .open_at_any_version(options.unsigned, &Events::silent())?;
    let (bundle, _) = opened.unless_older(state, options.allow_older, events)?;
    Ok(bundle)
}

/// Returns the CAs of the first control plane that has them.
fn present_cas(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Option<PresentCas> {
    let mut names = cluster.roles.control_plane.iter();
    names.find_map(|name| {
        let read = |file: &str| {
            let path = format!("/etc/kubernetes/pki/{file}.crt");
            facts.get(name)?.certificates.get(&path).cloned()
        };
        Some(PresentCas {
            kubernetes: read("ca")?,
            front_proxy: read("front-proxy-ca")?,
        })
    })
}

/// What a restore changes on hosts that have a cluster.
#[derive(Clone, Copy)]
enum Part {
    Data,
    /// The pod network, after the install of new hosts.
    PodNetwork,
}

/// What a restore works with.
struct Context<'a> {
    options: &'a RestoreOptions,
    content: &'a Content,
    /// The program etcdutl of the bundle, by architecture.
    programs: &'a BTreeMap<Arch, BundledEtcdutl>,
    cluster: &'a Cluster,
    state: &'a Path,
    stop: &'a Stop,
    /// When the command began.
    began: OffsetDateTime,
}

impl Context<'_> {
    fn report(&self, id: Option<String>) -> RestoreReport {
        let data = self.cluster.etcd.data_directory().unwrap_or_default();
        RestoreReport {
            created: self.content.manifest.created.clone(),
            former: id.map(|id| format!("{data}/member.before-{id}")),
        }
    }

    fn snapshot(&self) -> Result<kubexm_types::Digest, CommandError> {
        let file = self.content.manifest.file(SNAPSHOT);
        let missing = || {
            let path = &self.content.path;
            CommandError::from(FileError::new(
                "restore from the backup",
                path,
                "it has no snapshot",
            ))
        };
        file.map(|file| file.digest).ok_or_else(missing)
    }

    fn text<'b>(&'b self, prepared: &'b Prepared) -> text::Plan<'b> {
        text::Plan {
            backup: &self.content.path,
            is_own: self.content.is_own(),
            manifest: &self.content.manifest,
            cluster: self.cluster,
            situation: prepared.situation,
            gone: &prepared.gone,
            replaced: &prepared.replaced,
            begun: prepared.begun.as_ref(),
            is_down: prepared.is_down && prepared.begun.is_none(),
        }
    }

    /// Fails if new hosts need encrypted keys that the options do not open.
    fn check_opens(&self, prepared: &Prepared) -> Result<(), CommandError> {
        match prepared.situation {
            Situation::New => {
                let encryption = self.options.ca_encryption.as_ref();
                self.content.check_opens(self.state, encryption)
            }
            Situation::Existing => Ok(()),
        }
    }

    /// Asks the user, and writes the files of the state directory and the record of the restore.
    async fn begin(
        &self,
        confirm: impl AsyncFn() -> bool,
        events: &Events,
    ) -> Result<RestoreRecord, CommandError> {
        let prepared = self.prepare(events).await?;
        self.check_opens(&prepared)?;
        events.note(self.text(&prepared).text());
        if !unless_stopped(self.stop, async { Ok(confirm().await) }).await? {
            return Err(CommandError::configuration(
                "the restore was not confirmed; nothing was touched",
            )
            .hint("type the cluster's name, or pass --yes"));
        }
        if !prepared.replaced.is_empty() {
            let text = format!(
                "the cluster gets authorities of before a rotation: {}",
                text::authorities(&prepared.replaced)
            );
            let hint = format!("after the restore: {}", text::rotations(&prepared.replaced));
            events.warn(WarningKind::BackupContent, Message::new(text).hint(hint));
        }
        // No other command may use the state directory meanwhile.
        let journal = session::journal(self.state)?;
        journal.begin(Operation::BackupRestore.name(), "");
        let is_new = prepared.situation == Situation::New;
        let with_authorities = is_new && self.cluster.kubernetes.kind == KubernetesKind::Kubeadm;
        let former = ClusterRecord::read(self.state)?;
        if let Some(begun) = prepared.begun {
            if begun.stage == Stage::Install {
                // Without the authorities of the backup, an install would create another cluster.
                self.put_back(with_authorities)?;
                self.note_hosts(&prepared.gone, former.as_ref())?;
            }
            return Ok(begun);
        }
        let record = RestoreRecord::new(self.snapshot()?, is_new)
            .of_members(initial_cluster(self.cluster))
            .after(prepared.is_down);
        if is_new {
            // Commands that had begun on the former hosts.
            content::forget_commands(self.state)?;
        }
        self.put_back(with_authorities)?;
        if is_new {
            MoveRecord::remove(self.state)?;
        }
        record.save(self.state)?;
        if is_new {
            self.note_hosts(&prepared.gone, former.as_ref())?;
        }
        Ok(record)
    }

    fn put_back(&self, with_authorities: bool) -> Result<(), CommandError> {
        let encryption = self.options.ca_encryption.as_ref();
        self.content
            .put_back(self.state, with_authorities, encryption)
    }

    /// Notes in the record of the cluster which hosts left it, and that those of the cluster file are new. `former` is the record
    /// before the restore.
    fn note_hosts(
        &self,
        gone: &[HostName],
        former: Option<&ClusterRecord>,
    ) -> Result<(), CommandError> {
        let Some(mut record) = ClusterRecord::read(self.state)? else {
            return Ok(());
        };
        let hosts = self.cluster.hosts.iter();
        record.readmit(hosts.map(|host| &host.name));
        for name in gone {
            if !record.has_host(name) {
                continue;
            }
            let state = if former.is_some_and(|former| former.has_host(name)) {
                // No reset has reached it: it can come back with everything of the cluster.
                RemovalState::WithoutContact
            } else {
                RemovalState::Complete
            };
            record.begin_removal(name);
            record.end_removal(name, state);
        }
        record.save(self.state)
    }

    /// Installs hosts that had no cluster, before or after the data of etcd is replaced.
    async fn install(
        &self,
        record: &RestoreRecord,
        stage: Stage,
        events: &Events,
    ) -> Result<(), CommandError> {
        let current = RestoreRecord::read(self.state)?;
        if !record.is_new || current.is_none_or(|current| current.stage != stage) {
            return Ok(());
        }
        let options = self.options;
        let install = InstallOptions {
            source: options.source(),
            connection: options.connection.clone(),
            unsigned: options.unsigned,
            allow_failed: false,
            allow_older: options.allow_older,
            ca_encryption: options.ca_encryption.clone(),
            admitted: None,
        };
        install::install(&install, events, self.stop).await?;
        if stage == Stage::Install {
            authorities::remove(self.state);
            self.reached(record, Stage::Prepare)?;
        }
        Ok(())
    }

    fn reached(&self, record: &RestoreRecord, stage: Stage) -> Result<(), CommandError> {
        record.reaches(stage).save(self.state)
    }

    /// Replaces the data of etcd, or lets the network follow it. Returns the ID of the restore.
    async fn replace(&self, part: Part, events: &Events) -> Result<String, CommandError> {
        let change = Change {
            operation: Operation::BackupRestore,
            cluster: self.cluster,
            state: self.state,
            lock: String::new(),
        };
        let connect = async |events: &Events| {
            let mut prepared = self.prepare(events).await?;
            Ok((std::mem::take(&mut prepared.hosts), prepared))
        };
        let work = async |session: Session<'_>, prepared: Prepared| {
            let absent: BTreeSet<HostName> = prepared
                .unreachable
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            let (cluster, manifest) = (self.cluster, &self.content.manifest);
            let cas = present_cas(cluster, &prepared.facts);
            let record = prepared.begun.ok_or_else(|| {
                CommandError::refused("the record of the restore is gone")
                    .hint("run the same command again")
            })?;
            let work = Replacement {
                context: self,
                record: &record,
                session: &session,
                given: RestoreInputs {
                    cluster,
                    id: &record.id,
                    absent: &absent,
                    new_hosts: record.is_new.then_some(NewHosts {
                        gone: &prepared.gone,
                    }),
                    bump: revision_bump(record.target, manifest.etcd.revision),
                    cas: cas.as_ref(),
                },
            };
            match part {
                Part::Data => work.run(&prepared.programs).await?,
                Part::PodNetwork => work.settle().await?,
            }
            Ok(record.id.clone())
        };
        change.run(events, self.stop, connect, work).await
    }
}
