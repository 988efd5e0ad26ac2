//! How a cluster can go back to the version before a hop of its upgrade.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kubexm_deploy::upgrade_path::Running;
use kubexm_session::CommandError;
use kubexm_session::begun::UpgradeRecord;
use kubexm_types::{HostName, Version};

/// How a cluster goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upgrade) enum Way {
    /// One node after another, while the API servers run. Nothing is lost.
    InPlace,
    /// With the snapshot of etcd: what was stored after it is lost.
    Snapshot,
}

/// Returns the way to a former version of the same upgrade.
///
/// The API servers of two minor versions share an etcd during an upgrade, so each of them can read what the other one stores.
/// As soon as all of them have the newer minor version, it may store objects in a form that the former one does not know.
pub(in crate::upgrade) fn way(running: &Running, to: &Version) -> Way {
    let of_minor = Version::major_minor;
    let mut all = running.api_servers.values();
    if all.any(|version| of_minor(version) == of_minor(to)) {
        Way::InPlace
    } else {
        Way::Snapshot
    }
}

/// A hop of an upgrade that can be rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::upgrade) struct Begun {
    /// The version before the hop.
    pub(in crate::upgrade) former: Version,
    /// The version after the hop.
    pub(in crate::upgrade) version: Version,
    /// What was saved before the hop.
    pub(in crate::upgrade) archive: PathBuf,
}

impl Begun {
    /// Returns whether the hop and `version` have the same minor version.
    pub(in crate::upgrade) fn is_to_minor_of(&self, version: &Version) -> bool {
        self.version.major_minor() == version.major_minor()
    }
}

/// Returns the hops of an upgrade that have begun, the first one first. A hop that continued with another patch version is one
/// hop: what was saved before its first version leads back.
pub(in crate::upgrade) fn begun(record: &UpgradeRecord) -> Vec<Begun> {
    let mut former = record.from.clone();
    let mut begun: Vec<Begun> = Vec::new();
    for (version, archive) in &record.archives {
        if let Some(last) = begun.last_mut().filter(|last| last.is_to_minor_of(version)) {
            last.version = version.clone();
        } else {
            begun.push(Begun {
                former,
                version: version.clone(),
                archive: archive.clone(),
            });
        }
        former = version.clone();
    }
    begun
}

/// Returns the hop that ends a rollback: the one before which the cluster had the version of the cluster file, or the last
/// one if the cluster file still has the version of the upgrade.
///
/// # Errors
/// The upgrade has not begun, or the cluster never had that version.
pub(in crate::upgrade) fn chosen(
    record: &UpgradeRecord,
    cluster_file: &Version,
) -> Result<Begun, CommandError> {
    let hops = begun(record);
    let Some(last) = hops.last() else {
        return Err(CommandError::refused(format!(
            "the upgrade to Kubernetes {} has changed nothing yet, so there is nothing to roll \
             back",
            record.to
        ))
        .hint(format!(
            "set kubernetes.version to {} in the cluster file, and remove upgrade.json from the \
             state directory",
            record.from
        )));
    };
    if *cluster_file == record.to {
        return Ok(last.clone());
    }
    let found = hops.iter().find(|hop| hop.former == *cluster_file);
    found.cloned().ok_or_else(|| {
        let formers: Vec<String> = hops.iter().map(|hop| hop.former.to_string()).collect();
        CommandError::refused(format!(
            "an upgrade from Kubernetes {} to {} has begun, and the cluster file has \
             {cluster_file}",
            record.from, record.to
        ))
        .hint(format!(
            "set kubernetes.version to the version to which the cluster goes back: {}",
            formers.join(" or ")
        ))
    })
}

/// Returns the nodes that an upgrade has changed, or has begun to change.
pub(in crate::upgrade) fn touched<'a>(
    nodes: impl IntoIterator<Item = (&'a HostName, &'a [Version])>,
    cordoned: &BTreeSet<HostName>,
    to: &Version,
) -> BTreeSet<HostName> {
    let changed = nodes.into_iter().filter(|(name, versions)| {
        cordoned.contains(*name) || versions.iter().any(|version| version != to)
    });
    changed.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn way_from(api_servers: &[&str], to: &str) -> Way {
        let mut running = Running::default();
        for (at, text) in api_servers.iter().enumerate() {
            let name = format!("node{at}").parse().unwrap();
            running.api_servers.insert(name, version(text));
        }
        way(&running, &version(to))
    }

    /// The API servers of a former minor version must have run beside the newer ones all the time.
    #[test]
    fn only_a_complete_minor_version_needs_the_snapshot() {
        assert_eq!(way_from(&["1.35.4", "1.34.4"], "1.34.4"), Way::InPlace);
        assert_eq!(
            way_from(&["1.35.4", "1.35.4", "1.34.4"], "1.34.4"),
            Way::InPlace
        );
        assert_eq!(way_from(&["1.35.4", "1.35.4"], "1.34.4"), Way::Snapshot);
        assert_eq!(way_from(&["1.36.3", "1.35.4"], "1.34.4"), Way::Snapshot);
        assert_eq!(way_from(&["1.34.4"], "1.34.4"), Way::InPlace);
        assert_eq!(way_from(&["1.36.3", "1.36.3"], "1.36.1"), Way::InPlace);
        assert_eq!(way_from(&["1.35.4"], "1.34.4"), Way::Snapshot);
    }

    fn record() -> UpgradeRecord {
        let mut record = UpgradeRecord::new(&version("1.9.4"), &version("1.11.3"));
        for hop in ["1.10.4", "1.11.3"] {
            record.archives.insert(version(hop), PathBuf::from(hop));
        }
        record
    }

    #[test]
    fn cluster_file_chooses_the_former_version() {
        let chosen =
            |text: &str| chosen(&record(), &version(text)).map(|hop| (hop.former, hop.archive));
        let last = (version("1.10.4"), PathBuf::from("1.11.3"));
        assert_eq!(chosen("1.11.3").unwrap(), last);
        assert_eq!(chosen("1.10.4").unwrap(), last);
        let first = (version("1.9.4"), PathBuf::from("1.10.4"));
        assert_eq!(chosen("1.9.4").unwrap(), first);
        let refused = chosen("1.8.0").unwrap_err().to_string();
        assert!(refused.ends_with("goes back: 1.9.4 or 1.10.4"), "{refused}");
        let none = UpgradeRecord::new(&version("1.9.4"), &version("1.11.3"));
        let refused = super::chosen(&none, &version("1.9.4")).unwrap_err();
        assert!(refused.to_string().contains("nothing to roll back"));
    }

    #[test]
    fn hop_that_continued_with_another_patch_leads_back_before_its_first_one() {
        let mut record = record();
        record
            .archives
            .insert(version("1.10.6"), PathBuf::from("later"));
        let hops = begun(&record);
        let text =
            |hop: &Begun| format!("{} {} {}", hop.former, hop.version, hop.archive.display());
        let texts: Vec<String> = hops.iter().map(text).collect();
        assert_eq!(texts, ["1.9.4 1.10.6 1.10.4", "1.10.6 1.11.3 1.11.3"]);
    }

    #[test]
    fn nodes_without_a_change_stay_as_they_are() {
        let names = ["a", "b", "c"].map(|name| name.parse::<HostName>().unwrap());
        let versions = [
            vec![version("1.35.4"), version("1.34.4")],
            vec![version("1.34.4")],
            vec![version("1.34.4")],
        ];
        let nodes = names.iter().zip(versions.iter().map(Vec::as_slice));
        let cordoned = BTreeSet::from([names[2].clone()]);
        let found = touched(nodes, &cordoned, &version("1.34.4"));
        assert_eq!(found, BTreeSet::from([names[0].clone(), names[2].clone()]));
    }
}
