//! `certs`: the certificates of a cluster.

mod check;
mod files;
mod record;
mod renew;

pub(crate) use check::report;
pub use check::{
    CertificateReport, CheckOptions, CheckedCertificate, Content, Standing, UncheckedHost, check,
};
pub use renew::{RenewOptions, RenewReport, renew};
