//! One context struct for each template in `templates/`. A template has loops and conditions on presence,
//! and no other logic.

pub mod containerd;
pub mod cri;
pub mod crio;
pub mod dns;
pub mod docker;
pub mod etcd;
pub mod filters;
pub mod isulad;
pub mod kubeadm;
pub mod kubelet;
pub mod kubernetes;
pub mod load_balancer;
pub mod merge;
pub mod network;
pub mod objects;
pub mod os;
pub mod registry;
pub mod security;

/// A template could not be rendered, or settings could not be merged into it.
#[derive(Debug, thiserror::Error)]
#[error("cannot render {what}: {reason}")]
pub struct RenderError {
    /// What the template renders, as in "kubelet configuration".
    pub what: &'static str,
    pub reason: String,
}

impl RenderError {
    /// Creates an error from its cause.
    pub fn new(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self {
            what,
            reason: reason.to_string(),
        }
    }
}

/// Renders a template. The text ends with a line feed.
///
/// # Errors
/// The template fails; the error names `what`.
pub fn text(what: &'static str, template: &impl askama::Template) -> Result<String, RenderError> {
    let mut text = template
        .render()
        .map_err(|error| RenderError::new(what, error))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
