//! What a restore looks at before its first change.

use std::collections::BTreeMap;
use std::path::Path;

use super::etcdutl;
use super::situation::{self, Situation};
use super::text::{self, names};
use super::{Context, OtherHosts};
use crate::etcdutl::BundledEtcdutl;
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_engine::cluster::ClusterRecord;
use kubexm_etcd::initial_cluster;
use kubexm_host::Facts;
use kubexm_session::begun::{self, RestoreRecord, RestoreStage as Stage, StateRecord};
use kubexm_session::session::{self, HostErrors, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, FileError, site_ca};
use kubexm_types::event::Events;
use kubexm_types::{Authority, HostName, WarningKind};

/// What is known before the first change.
pub(super) struct Prepared<'a> {
    pub(super) hosts: Hosts,
    pub(super) unreachable: HostErrors,
    pub(super) facts: BTreeMap<HostName, Facts>,
    /// The program etcdutl for each member.
    pub(super) programs: Vec<(&'a HostSpec, BundledEtcdutl)>,
    pub(super) situation: Situation,
    /// Hosts of the backup whose nodes the restore deletes.
    pub(super) gone: Vec<HostName>,
    /// The authorities of the backup that a rotation has replaced, and that new hosts get because the user accepts it.
    pub(super) replaced: Vec<Authority>,
    pub(super) begun: Option<RestoreRecord>,
    /// Whether the restore that has begun, also of another backup, has stopped the cluster.
    pub(super) is_down: bool,
}

impl<'a> Context<'a> {
    /// Connects to the hosts, and compares backup, cluster file, state directory and hosts.
    ///
    /// # Errors
    /// They do not belong together, hosts are missing, or the backup has not what they need.
    pub(super) async fn prepare(&self, events: &Events) -> Result<Prepared<'a>, CommandError> {
        let (cluster, content) = (self.cluster, self.content);
        let record = ClusterRecord::read(self.state)?;
        let snapshot = self.snapshot()?;
        let former = RestoreRecord::read(self.state)?;
        let is_of_another = |former: &RestoreRecord| former.snapshot != snapshot;
        let has_new_hosts = former.as_ref().is_some_and(RestoreRecord::has_new_hosts);
        if former.as_ref().is_some_and(is_of_another) {
            events.warn(
                WarningKind::EarlierRestore,
                "a restore of another backup has begun; this one takes its place",
            );
        }
        events.phase("connect");
        let connecting = self
            .options
            .connection
            .connect_each(cluster, self.state, events);
        let (hosts, unreachable) = unless_stopped(self.stop, connecting).await?;
        let observed = session::watched(&hosts, events);
        let gathering = async { Ok(session::gather_each(cluster, &observed).await) };
        let (facts, failed) = unless_stopped(self.stop, gathering).await?;
        let unreachable: HostErrors = unreachable.into_iter().chain(failed).collect();
        let found = situation::of(&content.manifest, cluster, &facts, &unreachable);
        let is_blank = matches!(found, Ok(Situation::New));
        let is_down = !is_blank && former.as_ref().is_some_and(RestoreRecord::is_down);
        let members = initial_cluster(cluster);
        let is_same = former.as_ref().is_some_and(|former| !is_of_another(former));
        let begun =
            former.and_then(|former| former.continued(snapshot, &members, is_blank, self.began));
        if begun.is_none() && is_same && is_down {
            events.warn(
                WarningKind::EarlierRestore,
                "the members of etcd are not those of the restore that has begun; it begins again",
            );
        }
        let situation = match &begun {
            None if has_new_hosts && !is_blank => Situation::New,
            // The install has begun on some hosts.
            Some(begun) if begun.stage == Stage::Install => Situation::New,
            Some(begun) if begun.is_new => found.map(|_| Situation::New)?,
            _ => found?,
        };
        if situation == Situation::New {
            self.check_new(&unreachable)?;
            begun::permit_new_hosts(cluster, self.state)?;
            if is_blank {
                situation::without_workers(cluster, &facts)?;
            }
        } else {
            self.check_keys(record.is_some())?;
            if begun
                .as_ref()
                .is_none_or(|begun| begun.stage <= Stage::Prepare)
            {
                situation::no_other_members(cluster, &observed).await?;
            }
        }
        let (gone, replaced) = match situation {
            Situation::New => (self.gone()?, self.replaced(record.as_ref())?),
            Situation::Existing => (Vec::new(), Vec::new()),
        };
        let programs = etcdutl::of_members(self.programs, cluster, &facts)?;
        for (_, error) in &unreachable {
            events.warn(WarningKind::Host, error);
        }
        Ok(Prepared {
            hosts,
            unreachable,
            facts,
            programs,
            situation,
            gone,
            replaced,
            begun,
            is_down,
        })
    }

    /// Returns the authorities that a rotation has replaced since the backup, and that the user accepts.
    ///
    /// # Errors
    /// See [`accepted`].
    fn replaced(&self, record: Option<&ClusterRecord>) -> Result<Vec<Authority>, CommandError> {
        let is_kubeadm = self.cluster.kubernetes.kind == KubernetesKind::Kubeadm;
        // The state directory keeps its own authorities.
        let record = record.filter(|_| is_kubeadm);
        let replaced = record.map(|record| self.content.replaced_authorities(record));
        let replaced = replaced.unwrap_or_default();
        accepted(replaced, self.options.older_authorities, &self.content.path)
    }

    /// Returns the hosts of the backup that the user calls gone.
    ///
    /// # Errors
    /// The backup has hosts that the cluster file has not, and the user does not state what becomes of them.
    fn gone(&self) -> Result<Vec<HostName>, CommandError> {
        // The state directory can have another record: hosts left after the backup, or were reset.
        let record = self.content.cluster_record()?;
        let others = record.hosts();
        let others = others.filter(|name| self.cluster.host(name).is_none());
        let others: Vec<&HostName> = others.collect();
        match self.options.other_hosts {
            _ if others.is_empty() => Ok(Vec::new()),
            Some(OtherHosts::Keep) => Ok(Vec::new()),
            Some(OtherHosts::Remove) => Ok(others.into_iter().cloned().collect()),
            None => Err(CommandError::configuration(format!(
                "the cluster of the backup has hosts that the cluster file has not: {}",
                names(others)
            ))
            .hint(
                "pass --other-hosts remove if they are gone or have other names now, or --other-hosts keep if they still run",
            )),
        }
    }

    /// Checks what hosts without a cluster need.
    fn check_new(&self, unreachable: &HostErrors) -> Result<(), CommandError> {
        if let Some((_, error)) = unreachable.first() {
            return Err(
                CommandError::host(format!("cannot install all hosts: {error}"))
                    .hint("repair the host, or remove it from the cluster file"),
            );
        }
        let known = self.content.cluster_record()?;
        let known = known.authorities().get(&Authority::Kubernetes);
        let named = site_ca::fingerprint(self.cluster)?;
        if named
            .zip(known)
            .is_some_and(|(named, known)| named != *known)
        {
            return Err(CommandError::configuration(
                "kubernetes.certificates.ca is not the CA of the cluster in the backup",
            )
            .hint("remove the field, or name that CA; `kubexm certs rotate-ca` can replace it after the restore"));
        }
        if self.cluster.kubernetes.kind != KubernetesKind::Kubeadm {
            return Ok(());
        }
        let missing = self.content.missing_authorities();
        if missing.as_ref().is_none_or(|names| !names.is_empty()) {
            let what = match missing {
                Some(names) => format!("no control plane in it has {}", names.join(", ")),
                None => "it has the files of no control plane".to_owned(),
            };
            let cause = format!("{what}, so new hosts cannot become the same cluster");
            let error = FileError::new("restore from the backup", &self.content.path, cause);
            return Err(error.hint("use another backup").into());
        }
        Ok(())
    }

    /// Checks that the API servers can decrypt the Secrets of the backup.
    fn check_keys(&self, has_record: bool) -> Result<(), CommandError> {
        let encryption = self.options.ca_encryption.as_ref();
        let missing = self.content.missing_keys(self.state, encryption)?;
        if !has_record || missing.is_empty() {
            return Ok(());
        }
        Err(CommandError::configuration(format!(
            "the state directory {} has no longer the keys of the Secrets in the backup: {}",
            self.state.display(),
            missing.join(", ")
        ))
        .hint(
            "take these files out of the backup (age -d -i IDENTITY FILE | zstd -d | tar -x \
             state), put them back, and run kubexm install; with --ca-identity or the passphrase, kubexm compares encrypted keys",
        ))
    }
}

/// Returns authorities that a rotation has replaced since the backup. After a compromise, others have the keys of them.
///
/// # Errors
/// There are some, and the user does not accept them.
fn accepted(
    replaced: Vec<Authority>,
    accepts: bool,
    backup: &Path,
) -> Result<Vec<Authority>, CommandError> {
    if replaced.is_empty() || accepts {
        return Ok(replaced);
    }
    let cause = format!(
        "a rotation after it has replaced authorities that new hosts would get again: {}",
        text::authorities(&replaced)
    );
    let error = FileError::new("restore from the backup", backup, cause);
    let hint = format!(
        "use a backup of after the rotation; or pass --accept-older-authorities, and run {} after the restore",
        text::rotations(&replaced)
    );
    Err(error.hint(hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rotation after a compromise was reverted without a word.
    #[test]
    fn replaced_authorities_come_back_only_if_the_user_accepts_it() {
        let of = |replaced: &[Authority], accepts| {
            let accepted = accepted(replaced.to_vec(), accepts, Path::new("backup"));
            accepted.map_err(|error| error.to_string())
        };
        let replaced = [Authority::Kubernetes];
        assert_eq!(of(&replaced, true).unwrap(), replaced);
        assert_eq!(of(&[], false).unwrap(), []);
        insta::assert_snapshot!(of(&replaced, false).unwrap_err(), @"
        cannot restore from the backup backup: a rotation after it has replaced authorities that new hosts would get again: Kubernetes CA
        hint: use a backup of after the rotation; or pass --accept-older-authorities, and run `kubexm certs rotate-ca` after the restore
        ");
    }
}
