//! What users write, and the values it is made of.
//!
//! [`cluster`] and [`manifest`] are the two documents; the small modules beside them are the
//! types that keep wrong values out of the rest of the program.

pub mod arch;
pub mod cluster;
pub mod cluster_document;
pub mod debian_version;
pub mod digest;
pub mod host_name;
pub mod host_path;
pub mod host_range;
pub mod image;
pub mod manifest;
pub mod manifest_document;
pub mod mirrors;
pub mod name_server;
pub mod own;
mod own_document;
mod package_source;
pub mod problem;
pub mod public_key;
mod reader;
pub mod schema;
mod signature_document;
pub mod signature_policy;
#[cfg(test)]
mod tests;
pub mod verifying_key;
pub mod version;
mod yaml;

pub use arch::Arch;
pub use cluster::Cluster;
pub use cluster_document::{
    default_cluster, load_cluster, load_cluster_for, load_trust, parse_cluster, parse_cluster_for,
};
pub use digest::{Digest, DigestReader, DigestWriter};
pub use host_name::HostName;
pub use host_path::HostPath;
pub use image::ImageRef;
pub use manifest_document::{load_manifest, parse_manifest};
pub use mirrors::{Mirrors, load_mirrors, parse_mirrors};
pub use name_server::NameServer;
pub use problem::{Problem, Problems};
pub use public_key::PublicKey;
pub use verifying_key::VerifyingKey;
pub use version::Version;

/// A value that does not have the form its type wants; the text says which form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} '{value}': {reason}")]
pub struct InvalidValue {
    /// Kind of value, in the field's terms: "digest", "host name".
    pub what: &'static str,
    /// What was given.
    pub value: String,
    /// What is wrong and what is wanted.
    pub reason: String,
}

impl InvalidValue {
    pub(crate) fn new(what: &'static str, value: &str, reason: impl Into<String>) -> Self {
        // Hostile input may be megabytes long; the message must not be.
        let shown: String = value.chars().take(120).collect();
        Self {
            what,
            value: shown,
            reason: reason.into(),
        }
    }
}

/// The only API version of kubexm's documents.
const API_VERSION: &str = "kubexm.io/v1alpha1";

/// Checks `apiVersion` and `kind` of a document.
fn check_kind(top: &reader::Fields<'_>, kind: &'static str) {
    if top.required("apiVersion").is_some() {
        top.choice("apiVersion", &[API_VERSION], &[]);
    }
    if top.required("kind").is_some() {
        top.choice("kind", &[kind], &[]);
    }
}

/// Reads a configuration file that must be text; `start` makes one to start from.
fn read_text(path: &std::path::Path, start: &str) -> Result<String, Problems> {
    use std::io::Read;
    let file = path.display().to_string();
    let fail = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => format!("`{start}` makes one to start from"),
            _ => "give the path of a YAML file that you may read".to_owned(),
        };
        let message = format!("cannot be read: {error}");
        Problems::whole_file(&file, message, Some(hint))
    };
    let mut bytes = Vec::new();
    // One byte more than is taken, so that the parser can say that the file is too large.
    let limit = 16 * 1024 * 1024;
    std::fs::File::open(path)
        .map_err(fail)?
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let last = good.rsplit(|byte| *byte == b'\n').next().unwrap_or(good);
        let column = String::from_utf8_lossy(last).chars().count() as u64 + 1;
        let problem = Problem {
            line,
            column,
            path: String::new(),
            message: "is no text in UTF-8 from here on".to_owned(),
            hint: Some("is this the right file? Save it as UTF-8".to_owned()),
        };
        Problems {
            file: file.clone(),
            list: vec![problem],
        }
    })
}

/// Implements the conversions that make a string-backed value type usable with serde and `{}`.
macro_rules! string_value {
    ($type:ty) => {
        impl std::str::FromStr for $type {
            type Err = $crate::spec::InvalidValue;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use string_value;
