//! The commands that save what cannot be created again: backups, certificates, their timers.

pub mod archive;
pub mod backup;
pub mod certs;
pub mod timer;
