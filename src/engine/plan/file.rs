//! The files of a plan.

use kubexm_types::{Digest, HostPath};

/// A file that a step puts on its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path on the host.
    pub path: HostPath,
    /// Permission bits, as in 0o644.
    pub mode: u32,
    /// What is known of its content before the run.
    pub content: FileContent,
}

/// What is known of a file's content before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// The text.
    Text(String),
    /// The text depends on values that are known only while the plan runs. The preview has `<words in
    /// angle brackets>` in their place.
    Late(String),
    /// The text is secret.
    Secret,
    /// The file comes from the bundle and has this digest.
    Bundled(Digest),
}

impl PlannedFile {
    /// Returns the digest of the content, if it is known and not secret.
    ///
    /// A text that is a single placeholder, such as `<certificate>`, has no digest.
    pub fn digest(&self) -> Option<Digest> {
        match &self.content {
            FileContent::Text(text) if is_placeholder(text) => None,
            FileContent::Text(text) => Some(Digest::of(text.as_bytes())),
            FileContent::Bundled(digest) => Some(*digest),
            FileContent::Late(_) | FileContent::Secret => None,
        }
    }

    /// Returns the file as `kubexm render` writes it; `None` for a file of the bundle.
    pub fn rendered(self) -> Option<RenderedFile> {
        let content = match self.content {
            FileContent::Text(text) | FileContent::Late(text) => text,
            FileContent::Secret => "<secret>\n".to_owned(),
            FileContent::Bundled(_) => return None,
        };
        Some(RenderedFile {
            path: self.path,
            mode: self.mode,
            content,
        })
    }
}

fn is_placeholder(text: &str) -> bool {
    let text = text.trim_end();
    text.starts_with('<') && text.ends_with('>') && !text.contains('\n')
}

/// A file's text, for `kubexm render` and for the proofs at build time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    /// Its path on the host.
    pub path: HostPath,
    /// Permission bits, as in 0o644.
    pub mode: u32,
    /// Its text. Secrets and values that are known only while the plan runs appear as `<words in angle
    /// brackets>`.
    pub content: String,
}
