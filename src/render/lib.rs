//! Every file that kubexm writes: one small context a template, and no logic in templates beyond
//! loops and presence. What only one runtime or load balancer writes has its context there.

pub mod cri;
pub mod dns;
pub mod etcd;
pub mod filters;
pub mod kubeadm;
pub mod kubelet;
pub mod kubernetes;
pub mod load_balancer;
pub mod merge;
pub mod network;
pub mod objects;
pub mod os;
pub mod registry;

/// A template could not be rendered, or settings could not be merged into it.
#[derive(Debug, thiserror::Error)]
#[error("cannot render {what}: {reason}")]
pub struct RenderError {
    /// The template.
    pub what: &'static str,
    /// Why.
    pub reason: String,
}

impl RenderError {
    pub fn new(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self {
            what,
            reason: reason.to_string(),
        }
    }
}

/// Renders a template.
pub fn text(what: &'static str, template: &impl askama::Template) -> Result<String, RenderError> {
    let mut text = template
        .render()
        .map_err(|error| RenderError::new(what, error))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
