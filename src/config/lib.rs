//! The files that users write: cluster files, bundle manifests and mirror files.
//!
//! The modules `*_document` read a file into its checked form in [`cluster`], [`manifest`] and [`mirrors`]. All problems
//! of a file are reported at once.

mod artifact_document;
pub mod cluster;
pub mod cluster_document;
// Not behind a feature: with one, tests would compile every crate above this one a second time.
#[doc(hidden)]
pub mod example;
pub mod experimental;
pub mod host_range;
mod image_list;
mod kind;
pub mod manifest;
pub mod manifest_document;
pub mod mirrors;
mod package_source;
pub mod problem;
mod reader;
pub mod schema;
mod signature_document;
#[cfg(test)]
mod tests;
pub mod urls;
mod yaml;

pub use cluster::Cluster;
pub use cluster_document::{
    HostMention, WithoutHosts, default_cluster, load_cluster, load_cluster_for,
    load_cluster_without, load_trust, parse_cluster, parse_cluster_for, refuse_fields,
};
pub use image_list::load_image_list;
pub use kind::{DocumentKind, kind_of};
pub use kubexm_kinds::{load_balancer, ports};
pub use manifest_document::{load_manifest, parse_manifest};
pub use mirrors::{Mirrors, load_mirrors, parse_mirrors};
pub use problem::{Notice, Problem, Problems};

/// The API version of all documents.
const API_VERSION: &str = "kubexm.io/v1alpha1";

/// Checks `apiVersion` and `kind` of a document.
fn check_kind(top: &reader::Fields<'_>, kind: &'static str) {
    if top.required("apiVersion").is_some() {
        top.choice("apiVersion", reader::accept(&[API_VERSION]));
    }
    if top.required("kind").is_some() {
        top.choice("kind", reader::accept(&[kind]));
    }
}

/// Reads a text file. `start` is the command that prints a template.
fn read_text(path: &std::path::Path, start: &str) -> Result<String, Problems> {
    use std::io::Read;
    let file = path.display().to_string();
    let fail = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => format!("`{start}` writes a file to start from"),
            _ => "give the path of a YAML file that you may read".to_owned(),
        };
        let message = format!("cannot be read: {error}");
        Problems::whole_file(&file, message, Some(hint))
    };
    let mut bytes = Vec::new();
    // More than the parser accepts, so that the parser reports a file that is too large.
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
            message: "the file is not valid UTF-8 from here on".to_owned(),
            hint: Some("check that this is the right file, and save it as UTF-8".to_owned()),
        };
        Problems {
            file: file.clone(),
            list: vec![problem],
        }
    })
}
