//! What all commands share: connections, the state directory, which command may run, and errors.

pub mod absent_applications;
pub mod application_changes;
pub mod application_images;
pub mod archives;
pub mod authorities;
pub mod background;
pub mod begun;
pub mod bundle_access;
mod ca_encryption;
pub mod certificate_names;
pub mod certificates;
pub mod change;
pub mod clear_text;
pub mod command_line;
pub mod data_directories;
pub mod downloads;
pub mod error;
#[cfg(any(test, feature = "example"))]
pub mod example;
pub mod expiry;
pub mod failed_workers;
pub mod identity;
pub mod kubeconfigs;
pub mod listeners;
mod logins;
pub mod notices;
pub mod older_etcd;
pub mod outcome;
pub mod plan_inputs;
pub mod preflight;
pub mod private_directory;
pub mod program_settings;
pub mod quoting;
pub mod rollback;
pub mod sealed;
pub mod selection;
pub mod session;
pub mod share;
pub mod site_ca;
pub mod ssh_config;
pub mod state;
pub mod state_record;
pub mod stop;
pub mod text_file;
pub mod verified;

pub use bundle_access::{BundleAccess, ClusterSource};
pub use certificates::load_or_issue as certificates_of;
pub use command_line::CommandLine;
pub use error::older_bundle::OlderBundle;
pub use error::{CommandError, FileError, LeftOver, StepFailures, WorkersLeftOut};
pub use kubexm_types::ErrorKind;
pub use preflight::of_existing as findings_of_existing;
pub use selection::{HostSelection, Role};
pub use session::{Connection, PasswordOption};
pub use stop::{Hopeless, Stop};

/// Returns the number of threads for work that keeps a core busy.
pub fn threads() -> usize {
    kubexm_bundle::cores().get()
}
