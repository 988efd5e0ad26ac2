//! The revisions of restored data.

use time::OffsetDateTime;

/// The least that a restore adds to the revisions of its data, so that no client trusts a cache.
pub const LEAST_BUMP: u64 = 1_000_000_000;
/// For how many writes in each second since 1970 revisions have room.
const WRITES_PER_SECOND: u64 = 1000;

/// Returns the revision of the data of a restore that begins now. It does not depend on the snapshot and grows with time: a later
/// restore of the same snapshot has larger revisions than clients have seen after this one. A client that knows a larger one would
/// wait for it, and see no change until then.
pub fn target_revision(now: OffsetDateTime) -> u64 {
    let seconds = u64::try_from(now.unix_timestamp()).unwrap_or_default();
    seconds.saturating_mul(WRITES_PER_SECOND)
}

/// Returns what is added to the revision of a snapshot for a [target](target_revision); at least [`LEAST_BUMP`].
pub fn revision_bump(target: u64, revision: u64) -> u64 {
    target.saturating_sub(revision).max(LEAST_BUMP)
}
