//! `backup`: saves etcd, keys, configuration and state of a cluster in one encrypted file, checks such files, and brings a
//! cluster back from one.

mod authorities;
pub mod collect;
pub mod create;
mod directory;
mod dry_run;
pub mod file;
mod gaps;
mod identity;
mod list;
pub mod manifest;
pub mod members;
mod origin;
pub mod programs;
mod request;
mod verify;

pub use authorities::Authorities;
pub use request::etcd_deployment;

pub use create::{CreateReport, create};
pub use directory::StoredBackup;
pub use dry_run::create_dry_run;
pub use file::check_file;
pub use identity::{BackupIdentity, BackupRecipients};
pub use kubexm_sandbox::Sandbox;
pub use list::{BackupList, ListOptions, ListedBackup, list};
pub use manifest::{BackedUpFile, EtcdMember, EtcdSnapshot, Manifest};
pub use origin::{Evidence, Origin, PUBLIC};
pub use request::CreateOptions;
pub use verify::{Trial, VerifyOptions, VerifyReport, verify};
