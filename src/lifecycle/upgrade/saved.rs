//! What an interrupted upgrade has saved before its last hop, and how it can still go back.

use super::former::{self, Former};
use super::rollback::versions::Programs;
use super::rollback::way::{self, Begun, Way};
use crate::restore::text::age;
use kubexm_config::Cluster;
use kubexm_deploy::upgrade_path::Running;
use kubexm_etcd::{Members, members};
use kubexm_session::begun::UpgradeRecord;
use kubexm_session::{CommandError, sealed};
use kubexm_types::Version;

/// The archive of the hop that began last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) hop: Begun,
    /// What the archive has; `None` if it has no snapshot of kubexm.
    pub(super) former: Option<Former>,
    /// Whether a rollback needs the snapshot.
    pub(super) is_passed: bool,
    /// Whether nothing has changed since, so that a newer archive can replace this one.
    pub(super) is_untouched: bool,
}

/// What runs now.
pub(super) struct Present<'a> {
    pub(super) running: &'a Running,
    pub(super) programs: &'a Programs,
    /// `None` if kubexm does not run etcd.
    pub(super) etcd: Option<&'a Members>,
    /// Whether the hop brings another etcd as units. Its files can be on hosts before a member runs it.
    pub(super) changes_units_of_etcd: bool,
}

impl Saved {
    /// Returns what an upgrade that has begun has saved last; `None` before its first hop.
    ///
    /// # Errors
    /// The archive is gone, although hosts have changed since.
    pub(super) fn read(
        record: &UpgradeRecord,
        cluster: &Cluster,
        present: &Present<'_>,
    ) -> Result<Option<Self>, CommandError> {
        let Some(hop) = way::begun(record).pop() else {
            return Ok(None);
        };
        let former = Former::load(&hop.archive)?;
        let is_passed = way::way(present.running, &hop.former) == Way::Snapshot;
        let is_untouched = !is_passed && present.is_before(&hop, former.as_ref(), cluster);
        let is_gone = !hop.archive.is_dir()
            || former.is_some() && sealed::stored(&former::snapshot(&hop.archive)).is_none();
        if is_gone && !is_untouched {
            return Err(CommandError::refused(format!(
                "{}: the archive from before Kubernetes {} is gone or has no snapshot of etcd, \
                 and hosts have changed since",
                hop.archive.display(),
                hop.version
            ))
            .hint(format!(
                "copy it back to this place; or remove upgrade.json from the state directory: the \
                 upgrade then begins with another snapshot of etcd, and cannot go back to \
                 Kubernetes {}",
                hop.former
            )));
        }
        Ok(Some(Self {
            hop,
            former,
            is_passed,
            is_untouched,
        }))
    }

    /// Returns the time of the snapshot and its age, for people.
    pub(super) fn time(&self) -> Option<String> {
        let created = &self.former.as_ref()?.created;
        Some(format!("{created} ({} ago)", age(created)))
    }
}

impl Present<'_> {
    /// Returns whether every program is that of the time before a hop.
    fn is_before(&self, hop: &Begun, saved: Option<&Former>, cluster: &Cluster) -> bool {
        let former = &hop.former;
        let mut api_servers = self.running.api_servers.values();
        let mut kubelets = self.running.kubelets.values();
        // Workers can have an older version: they do not take each hop.
        let mut programs = self.programs.versions.iter();
        let is_former = programs.all(|(name, versions)| {
            if cluster.is_control_plane(name) {
                versions.iter().all(|version| version == former)
            } else {
                versions.iter().all(|version| version <= former)
            }
        });
        let saved: Option<Version> = saved.and_then(|saved| saved.etcd.version.parse().ok());
        let has_former_etcd = match (self.etcd, saved) {
            (Some(state), Some(saved)) => {
                let mut answered = state.answered.iter();
                answered.len() == members(cluster).len()
                    && answered.all(|member| member.version().as_ref() == Some(&saved))
            }
            _ => true,
        };
        api_servers.all(|version| version == former)
            && kubelets.all(|version| version <= former)
            && is_former
            && self.programs.cordoned.is_empty()
            && has_former_etcd
            && !self.changes_units_of_etcd
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::etcd::tests::{cluster, list, state, status};
    use super::super::rollback::archive::tests::former;
    use super::*;
    use kubexm_types::HostName;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    /// The upgrade of a cluster from 1.35.4 to 1.36.3, with a control plane and a worker.
    struct Case {
        api_server: &'static str,
        programs: [&'static str; 2],
        etcd: &'static str,
        changes_units_of_etcd: bool,
    }

    const BEFORE: Case = Case {
        api_server: "1.35.4",
        programs: ["1.35.4", "1.34.4"],
        etcd: "3.6.8",
        changes_units_of_etcd: false,
    };

    fn read(archive: &Path, case: &Case) -> Result<Option<Saved>, CommandError> {
        let mut record = UpgradeRecord::new(&version("1.35.4"), &version("1.36.3"));
        record
            .archives
            .insert(version("1.36.3"), archive.to_owned());
        let names: [HostName; 2] = ["node1", "node2"].map(|name| name.parse().unwrap());
        let mut running = Running::default();
        let mut programs = Programs::default();
        running
            .api_servers
            .insert(names[0].clone(), version(case.api_server));
        for (name, text) in names.iter().zip(case.programs) {
            running.kubelets.insert(name.clone(), version(text));
            programs.versions.insert(name.clone(), vec![version(text)]);
        }
        let answer = |id| status(id, "").replace("3.6.8", case.etcd);
        let etcd = state(&[list(""), answer(1), answer(2), answer(3)]);
        let present = Present {
            running: &running,
            programs: &programs,
            etcd: Some(&etcd),
            changes_units_of_etcd: case.changes_units_of_etcd,
        };
        Saved::read(&record, &cluster(), &present)
    }

    fn write(archive: &Path) {
        let saved = serde_json::to_vec(&former("3.6.8", b"data")).unwrap();
        std::fs::write(archive.join("before-upgrade.json"), saved).unwrap();
        std::fs::write(former::snapshot(archive), "data").unwrap();
    }

    #[test]
    fn archive_is_replaced_only_before_the_first_change() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let is_untouched = |case: Case| read(folder.path(), &case).unwrap().unwrap().is_untouched;
        assert!(is_untouched(BEFORE));
        let changed = [
            Case {
                api_server: "1.36.3",
                ..BEFORE
            },
            Case {
                programs: ["1.36.3", "1.34.4"],
                ..BEFORE
            },
            Case {
                programs: ["1.35.4", "1.36.3"],
                ..BEFORE
            },
            Case {
                etcd: "3.6.16",
                ..BEFORE
            },
            Case {
                changes_units_of_etcd: true,
                ..BEFORE
            },
        ];
        for case in changed {
            assert!(!is_untouched(case));
        }
    }

    #[test]
    fn way_back_of_the_last_hop_is_that_of_a_rollback() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let is_passed = |api_server| {
            let case = Case {
                api_server,
                ..BEFORE
            };
            read(folder.path(), &case).unwrap().unwrap().is_passed
        };
        assert!(!is_passed("1.35.4"));
        assert!(is_passed("1.36.3"));
    }

    #[test]
    fn archive_that_is_gone_stops_an_upgrade_that_has_changed_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        assert!(read(&gone, &BEFORE).unwrap().unwrap().is_untouched);
        let changed = Case {
            api_server: "1.36.3",
            ..BEFORE
        };
        let refused = read(&gone, &changed).unwrap_err().to_string();
        assert!(refused.contains("gone: the archive from before Kubernetes 1.36.3 is gone"));
        write(folder.path());
        read(folder.path(), &changed).unwrap();
        std::fs::remove_file(former::snapshot(folder.path())).unwrap();
        read(folder.path(), &changed).unwrap_err();
    }
}
