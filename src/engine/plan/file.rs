//! The files of a plan.

use kubexm_types::{Digest, HostPath};

/// A file that a step writes on its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    pub path: HostPath,
    /// Permission bits, as in 0o644.
    pub mode: u32,
    pub content: FileContent,
}

/// What a plan knows of a file's content before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// The content.
    Text(String),
    /// A preview of a text that depends on values that are known only while the plan runs. The preview has
    /// placeholders such as `<join token>` in their place.
    Deferred(String),
    /// The content is secret.
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
            FileContent::Deferred(_) | FileContent::Secret => None,
        }
    }

    /// Returns the file as `kubexm render` writes it; `None` for a file of the bundle.
    pub fn rendered(self) -> Option<RenderedFile> {
        let content = match self.content {
            FileContent::Text(text) | FileContent::Deferred(text) => text,
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

/// The text of a file, for `kubexm render` and for the completeness check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFile {
    pub path: HostPath,
    /// Permission bits, as in 0o644.
    pub mode: u32,
    /// The text. Placeholders such as `<secret>` replace secrets and values that are known only while the
    /// plan runs.
    pub content: String,
}
