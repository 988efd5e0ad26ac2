//! Files over HTTP, with mirrors, retries and the cache.

mod optional;
mod publisher;
mod requests;
mod stated_by;

pub(crate) use requests::Small;
pub use requests::{Http, Wanted};
pub use stated_by::StatedBy;
