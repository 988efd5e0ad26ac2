//! etcd: which hosts have members, the client of these, whether they have a quorum, and their snapshots.

mod answer;
mod client;
mod members;
mod placement;
mod quorum;
mod snapshot;
mod survey;
mod version;

pub use answer::{CORRUPT, Listed, MemberHash, SnapshotStatus, Status, Unreadable};
pub use client::{Client, ClientError};
pub use members::Members;
pub use placement::{
    client_url, has_member, initial_cluster, kind, local_endpoint, member_names, members, peer_url,
};
pub use quorum::{Voters, missing as missing_quorum, needed};
pub use snapshot::{Content, Failure, Member, RemoteFile, Source};
pub use survey::{Disagreement, Part, Survey, by_preference};
pub use version::{Refusal, is_older, refusal};
