//! `certs`: the certificates of a cluster.

mod check;
mod clock;
mod expiring;
mod files;
mod renew;
mod rotation;

pub use check::report;
pub use check::{CertificateReport, CheckOptions, CheckedCertificate, Content, Standing, check};
pub use expiring::{
    Expiring, RENEWAL_DAYS, expiring, is_interrupted, nothing_to_renew, renew_expiring,
};
pub use renew::{RenewOptions, RenewReport, renew};
pub use rotation::{OldPods, Phase, RotateOptions, RotateReport, Rotated, rotate};
