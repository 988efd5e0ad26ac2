//! Rollback protection: an install refuses a signed bundle that is older than the newest one that the
//! cluster was installed from, and another bundle with the same sequence number. The record is in the state
//! directory. Hosts have no copy: a controller that can change the state directory has the cluster's CA keys.

use std::cmp::Ordering;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::CommandError;
use crate::error::older_bundle::{OlderBundle, Reason};
use crate::state_record::StateRecord;
use kubexm_bundle::{Bundle, CreationTime, Revision, Sequence};
use kubexm_engine::plan::Journal;
use kubexm_types::event::Events;
use kubexm_types::{Digest, Message, WarningKind};

/// The newest signed bundle that a cluster was installed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Newest {
    /// The name of the bundle.
    pub name: String,
    /// The digest of its lock.
    pub lock: Digest,
    /// When it was created.
    pub created: CreationTime,
    /// Its sequence number.
    pub sequence: Sequence,
}

/// The newest signed bundle of each other name, as those of applications, whose content came into a cluster.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherBundles {
    bundles: Vec<Newest>,
}

impl StateRecord for OtherBundles {
    const FILE: &'static str = "other-bundles.json";
    const TITLE: &'static str = "the newest bundles of applications";
    const HINT: &'static str = Newest::HINT;
}

impl StateRecord for Newest {
    const FILE: &'static str = "newest-bundle.json";
    const TITLE: &'static str = "the newest bundle of the cluster";
    const HINT: &'static str =
        "restore the file from a backup; without it, kubexm accepts older bundles";
}

/// Returns the revision of a bundle, if a trusted key signed it.
fn revision(bundle: &Bundle) -> Option<Revision> {
    let signature = bundle.signature().filter(|signature| signature.verified);
    signature.and_then(|signature| signature.revision)
}

/// Compares a bundle with the newest one that the cluster was installed from. Reports a verified signature
/// without a sequence number as a note.
///
/// # Errors
/// The bundle is older, has no sequence number, or has the number of another bundle, and `allow_older` is
/// false. The record cannot be read.
pub fn check(
    state: &Path,
    bundle: &Bundle,
    allow_older: bool,
    events: &Events,
) -> Result<(), CommandError> {
    note_without_revision(bundle, events);
    match Newest::read(state)? {
        Some(newest) => compare(
            bundle,
            &newest,
            &state.join(Newest::FILE),
            allow_older,
            events,
        ),
        None => Ok(()),
    }
}

/// Compares a bundle with the newest one of its name whose content came into the cluster: another name, as that of a bundle of
/// applications, has its own numbers. A bundle with Kubernetes is compared with that of the cluster, whatever its name is: it has
/// images of the same names.
///
/// # Errors
/// As of [`check`].
pub fn check_of_its_name(
    state: &Path,
    bundle: &Bundle,
    allow_older: bool,
    events: &Events,
) -> Result<(), CommandError> {
    let name = &bundle.lock().name;
    let newest = Newest::read(state)?;
    let has_kubernetes = !bundle.lock().kubernetes.is_empty();
    if has_kubernetes || newest.is_none_or(|newest| newest.name == *name) {
        return check(state, bundle, allow_older, events);
    }
    note_without_revision(bundle, events);
    let record = state.join(OtherBundles::FILE);
    let others = OtherBundles::read(state)?.unwrap_or_default().bundles;
    match others.iter().find(|other| other.name == *name) {
        Some(newest) => compare(bundle, newest, &record, allow_older, events),
        None => Ok(()),
    }
}

fn note_without_revision(bundle: &Bundle, events: &Events) {
    let is_verified = |bundle: &Bundle| bundle.signature().is_some_and(|it| it.verified);
    if revision(bundle).is_none() && is_verified(bundle) {
        events.note(format!(
            "{}: its signature has no creation time and no sequence number, so kubexm cannot recognize an \
             older bundle; `kubexm bundle sign` of this version writes both",
            bundle.path().display()
        ));
    }
}

/// Compares a bundle with the newest one of a record.
fn compare(
    bundle: &Bundle,
    newest: &Newest,
    record: &Path,
    allow_older: bool,
    events: &Events,
) -> Result<(), CommandError> {
    let given = revision(bundle);
    let lock = bundle.lock_digest();
    let reason = match given.map(|given| given.sequence.cmp(&newest.sequence)) {
        Some(Ordering::Greater) => return Ok(()),
        Some(Ordering::Equal) if lock == newest.lock => return Ok(()),
        Some(Ordering::Equal) => Reason::SameNumber,
        Some(Ordering::Less) | None => Reason::Older,
    };
    // The name and the number can be equal, so that only the digest of the lock shows the difference.
    let with_lock = |text: String, lock: &Digest| match reason {
        Reason::SameNumber => format!("{text}, lock {lock}"),
        Reason::Older => text,
    };
    let given = given.map(|Revision { created, sequence }| {
        let text = format!("this one has sequence number {sequence}, created {created}");
        with_lock(text, &lock)
    });
    let text = format!(
        "sequence number {} of the bundle '{}', created {}",
        newest.sequence, newest.name, newest.created
    );
    let older = OlderBundle {
        bundle: bundle.path().to_owned(),
        reason,
        given,
        newest: with_lock(text, &newest.lock),
        record: record.to_owned(),
    };
    if !allow_older {
        return Err(older.into());
    }
    let text = Message::from(&older).text;
    events.warn(
        WarningKind::OlderBundle,
        format!("{text}\n--allow-older accepts it"),
    );
    Ok(())
}

/// Records a bundle as the newest one, unless the record has a newer one or no trusted key signed it.
///
/// # Errors
/// The record cannot be read or written.
pub fn record(journal: &Journal, bundle: &Bundle) -> Result<(), CommandError> {
    let Some(revision) = revision(bundle) else {
        return Ok(());
    };
    let newest = Newest::read(journal.folder())?;
    if newest.is_some_and(|newest| newest.sequence >= revision.sequence) {
        return Ok(());
    }
    write(journal, bundle, revision)
}

/// Records the bundle of a complete rollback, unless no trusted key signed it: from now on, the cluster has the programs of this
/// bundle, and only older ones are refused. The user has chosen the older version.
///
/// # Errors
/// The record cannot be written.
pub fn record_rollback(journal: &Journal, bundle: &Bundle) -> Result<(), CommandError> {
    match revision(bundle) {
        Some(revision) => write(journal, bundle, revision),
        None => Ok(()),
    }
}

/// Records a bundle as the newest one of its name, unless it has the name of the cluster's, which an install records, or no trusted
/// key signed it.
///
/// # Errors
/// A record cannot be read or written.
pub fn record_of_its_name(state: &Path, bundle: &Bundle) -> Result<(), CommandError> {
    let name = &bundle.lock().name;
    let is_of_cluster = !bundle.lock().kubernetes.is_empty()
        || Newest::read(state)?.is_none_or(|newest| newest.name == *name);
    let Some(revision) = revision(bundle).filter(|_| !is_of_cluster) else {
        return Ok(());
    };
    let mut others = OtherBundles::read(state)?.unwrap_or_default();
    let has = |other: &Newest| other.name == *name;
    let former = others.bundles.iter().find(|other| has(other));
    if former.is_some_and(|former| former.sequence >= revision.sequence) {
        return Ok(());
    }
    others.bundles.retain(|other| !has(other));
    others.bundles.push(newest(bundle, revision));
    others.save(state)
}

fn write(journal: &Journal, bundle: &Bundle, revision: Revision) -> Result<(), CommandError> {
    newest(bundle, revision).save(journal.folder())
}

fn newest(bundle: &Bundle, Revision { created, sequence }: Revision) -> Newest {
    Newest {
        name: bundle.lock().name.clone(),
        lock: bundle.lock_digest(),
        created,
        sequence,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use kubexm_bundle::signature::new_keys;
    use kubexm_bundle::{
        Access, Blobs, BundleError, CreationTime, Level, Lock, PackOptions, Placement, Signed,
        Signer,
    };

    use super::*;

    struct NoBlobs;

    impl Blobs for NoBlobs {
        fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
            Err(BundleError::Missing(digest.to_string().into()))
        }
    }

    /// Writes empty bundles with these names and sequence numbers, and opens them as trusted.
    pub(crate) fn signed<const N: usize>(folder: &Path, bundles: [(&str, u64); N]) -> [Bundle; N] {
        let keys = new_keys(None).unwrap();
        std::fs::write(folder.join("own.key"), &keys.secret).unwrap();
        bundles.map(|(name, sequence)| {
            let lock = Lock::from_yaml(&format!(
                "lockVersion: 1\nname: {name}\nkubernetes: []\narchitectures: []\nfiles: []\n\
                 images: []\npackages: []\nkubeadm: []\n",
            ));
            let lock = lock.unwrap();
            let revision = Revision::new(CreationTime::now(), Some(sequence.try_into().unwrap()));
            let signer = Signer::load(&folder.join("own.key"), revision, || unreachable!());
            let options = PackOptions {
                signed: Signed::By(&signer.unwrap()),
                ..PackOptions::new(Level::FAST, 1)
            };
            let path = folder.join(format!("{name}-{sequence}.tar.zst"));
            let (places, events) = (Placement::plain(&lock), Events::silent());
            kubexm_bundle::write(&path, &lock, &places, &NoBlobs, options, &events).unwrap();
            let access = Access {
                trust: vec![keys.public.parse().unwrap()],
                ..Access::default()
            };
            Bundle::open_with(&path, &access).unwrap()
        })
    }

    #[test]
    fn record_keeps_the_newest_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let [fifth, sixth, seventh] = signed(folder.path(), [5, 6, 7].map(|n| ("example", n)));
        let events = Events::silent();
        let journal = Journal::open(&state).unwrap();
        check(&state, &sixth, false, &events).unwrap();
        record(&journal, &sixth).unwrap();
        check(&state, &sixth, false, &events).unwrap();
        check(&state, &seventh, false, &events).unwrap();
        let refused = check(&state, &fifth, false, &events);
        assert!(
            matches!(refused, Err(CommandError::Older(_))),
            "{refused:?}"
        );
        check(&state, &fifth, true, &events).unwrap();
        // An older bundle that the user accepted does not lower the number.
        record(&journal, &fifth).unwrap();
        check(&state, &fifth, false, &events).unwrap_err();
        record(&journal, &seventh).unwrap();
        check(&state, &sixth, false, &events).unwrap_err();
    }

    #[test]
    fn complete_rollback_records_its_older_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let [fifth, sixth, seventh] = signed(folder.path(), [5, 6, 7].map(|n| ("example", n)));
        let events = Events::silent();
        let journal = Journal::open(&state).unwrap();
        record(&journal, &seventh).unwrap();
        check(&state, &sixth, false, &events).unwrap_err();
        record_rollback(&journal, &sixth).unwrap();
        check(&state, &sixth, false, &events).unwrap();
        check(&state, &seventh, false, &events).unwrap();
        check(&state, &fifth, false, &events).unwrap_err();
        // A bundle without a trusted signature does not lower the number.
        let path = folder.path().join("example-5.tar.zst");
        record_rollback(&journal, &Bundle::open(&path).unwrap()).unwrap();
        assert_eq!(
            Newest::read(&state).unwrap().unwrap().sequence.to_string(),
            "6"
        );
    }

    #[test]
    fn bundles_of_another_name_have_their_own_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let [cluster, second, third, fourth] = signed(
            folder.path(),
            [("cluster", 9), ("apps", 2), ("apps", 3), ("apps", 4)],
        );
        let events = Events::silent();
        let journal = Journal::open(&state).unwrap();
        record(&journal, &cluster).unwrap();
        for bundle in [&third, &second, &cluster] {
            record_of_its_name(&state, bundle).unwrap();
        }
        check_of_its_name(&state, &third, false, &events).unwrap();
        check_of_its_name(&state, &fourth, false, &events).unwrap();
        check_of_its_name(&state, &cluster, false, &events).unwrap();
        let refused = check_of_its_name(&state, &second, false, &events).unwrap_err();
        let refused = refused.to_string();
        for part in [
            "sequence number 3 of the bundle 'apps'",
            "other-bundles.json",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        check_of_its_name(&state, &second, true, &events).unwrap();
    }

    #[test]
    fn another_bundle_with_the_same_number_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let [first, second] = signed(folder.path(), [("first", 6), ("second", 6)]);
        let events = Events::silent();
        let journal = Journal::open(&state).unwrap();
        record(&journal, &first).unwrap();
        check(&state, &first, false, &events).unwrap();
        let refused = check(&state, &second, false, &events).unwrap_err();
        assert!(matches!(refused, CommandError::Older(_)), "{refused}");
        let refused = refused.to_string();
        for part in [
            "installed from another bundle with the same sequence number: this one has sequence number 6",
            &format!("lock {}; ", second.lock_digest()),
            "records sequence number 6 of the bundle 'first'",
            &format!("lock {}\nhint: ", first.lock_digest()),
            "or accept this one with --allow-older",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        check(&state, &second, true, &events).unwrap();
        // The record keeps the bundle that was installed first.
        record(&journal, &second).unwrap();
        check(&state, &first, false, &events).unwrap();
        check(&state, &second, false, &events).unwrap_err();
    }

    #[test]
    fn bundle_without_a_trusted_signature_is_not_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        signed(folder.path(), [("example", 7)]);
        let claimed = Bundle::open(&folder.path().join("example-7.tar.zst")).unwrap();
        assert!(
            claimed
                .signature()
                .is_some_and(|signature| !signature.verified)
        );
        let journal = Journal::open(&state).unwrap();
        record(&journal, &claimed).unwrap();
        assert!(!state.join(Newest::FILE).exists());
    }

    #[test]
    fn record_of_an_earlier_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |created: &str| {
            let lock = Digest::of(b"lock");
            let text = format!(
                r#"{{"name": "example", "lock": "{lock}", "created": "{created}", "sequence": 6}}"#
            );
            std::fs::write(folder.path().join(Newest::FILE), text).unwrap();
            Newest::read(folder.path())
        };
        let read = write("2026-01-31T09:30:00Z").unwrap().unwrap();
        assert_eq!(read.created.to_string(), "2026-01-31T09:30:00Z");
        let refused = write("yesterday").unwrap_err().to_string();
        assert!(
            refused.contains("expected a time in whole seconds"),
            "{refused}"
        );
    }
}
