//! The commands of kubexm as functions: typed options in, a typed result or a [`CommandError`] out.
//!
//! Each module is one command, or a few that share their work. Nothing here parses arguments or prints:
//! progress goes to [`Events`](kubexm_types::event::Events), and the caller prints the result.

mod bundle_access;
mod certificates;
mod error;
pub mod install;
pub mod plan;
mod preflight;
pub mod render;
pub mod reset;
mod session;
pub mod stop;

pub use bundle_access::{BundleAccess, ClusterSource};
pub use error::{CommandError, ErrorKind};
pub use session::Connection;
pub use stop::Stop;

/// Returns the number of threads for work that keeps a core busy.
fn threads() -> usize {
    kubexm_bundle::cores().get()
}
