//! The commands of kubexm as functions: typed options in, a typed result or a [`CommandError`] out.
//!
//! Each module is one command, or a few that share their work. Nothing here parses arguments or prints:
//! progress goes to [`Events`](kubexm_types::event::Events), and the caller prints the result.

pub mod add;
mod archive;
mod authorities;
mod background;
pub mod backup;
mod base;
mod begun;
pub mod build;
mod bundle_access;
pub mod cache;
mod certificate_names;
mod certificates;
pub mod certs;
mod change;
mod command_line;
mod completeness;
pub mod config;
pub mod conformance;
mod data_directories;
pub mod diff;
pub mod doctor;
pub mod downloads;
mod error;
#[cfg(any(test, feature = "example"))]
pub mod example;
pub mod exec;
mod expiry;
pub mod export;
pub mod extract;
mod failed_workers;
mod identity;
pub mod inspect;
pub mod install;
pub mod inventory;
pub mod kubeconfig;
mod kubeconfigs;
mod listeners;
mod lock_file;
pub mod logs;
pub mod merge;
pub mod node;
mod notices;
mod older_etcd;
mod outcome;
pub mod outdated;
pub mod plan;
mod plan_inputs;
mod preflight;
mod private_directory;
mod program_settings;
pub mod pull;
pub mod push;
mod quoting;
pub mod registry;
pub mod remove;
pub mod render;
pub mod repack;
pub mod reset;
pub mod restore;
mod rollback;
pub mod sbom;
mod selection;
mod session;
mod share;
pub mod sign;
mod sources;
pub mod split_join;
mod ssh_config;
mod state;
pub mod status;
pub mod stop;
pub mod support_bundle;
mod text_file;
pub mod timer;
pub mod timer_run;
pub mod trust;
pub mod upgrade;
pub mod verify;
mod version_skew;
mod volume_size;
pub mod vulnerabilities;
mod written;

pub use bundle_access::{BundleAccess, ClusterSource};
pub use certificates::load_or_issue as certificates_of;
pub use command_line::CommandLine;
pub use error::{CommandError, ErrorKind, FileError, LeftOver, StepFailures, WorkersLeftOut};
pub use kubexm_bundle::{CreationTime, Level, Revision, Sequence};
pub use preflight::of_existing as findings_of_existing;
pub use rollback::OlderBundle;
pub use selection::{HostSelection, Role};
pub use session::{Connection, PasswordOption};
pub use stop::Stop;
pub use volume_size::VolumeSize;
pub use written::{Volumes, WrittenBundle};

/// Returns the number of threads for work that keeps a core busy.
fn threads() -> usize {
    kubexm_bundle::cores().get()
}
