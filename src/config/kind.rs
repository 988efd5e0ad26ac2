//! The kind of document that a file contains.

use std::path::Path;

use super::problem::{Problem, Problems};
use super::yaml::{self, Node, Value};

/// The kinds of documents that users write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// The hosts of a cluster and what runs on them.
    Cluster,
    /// The content of a bundle.
    Bundle,
    /// Where to download from.
    Mirrors,
}

impl DocumentKind {
    const ALL: [Self; 3] = [Self::Cluster, Self::Bundle, Self::Mirrors];

    /// Returns the value of `kind` in the document.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Bundle => "Bundle",
            Self::Mirrors => "Mirrors",
        }
    }

    /// Returns the option that takes a document of this kind.
    fn option(self) -> &'static str {
        match self {
            Self::Cluster => "`kubexm install --cluster`",
            Self::Bundle => "`kubexm bundle build --manifest`",
            Self::Mirrors => "`kubexm bundle build --mirrors`",
        }
    }
}

/// Returns the kind of a file; `None` if the file does not contain a known kind.
///
/// # Errors
/// The file cannot be read or is not YAML.
pub fn kind_of(path: &Path) -> Result<Option<DocumentKind>, Problems> {
    let text = super::read_text(path, "kubexm config init > cluster.yaml")?;
    let root = yaml::parse(&path.display().to_string(), &text)?;
    Ok(kind(&root).map(|(kind, _)| kind))
}

/// Refuses a document of another kind with one problem instead of one for each unknown field.
pub(crate) fn refuse_other(
    file: &str,
    root: &Node,
    expected: DocumentKind,
) -> Result<(), Problems> {
    let generated = [
        ("lockVersion", "is the lock of a bundle"),
        ("inventoryVersion", "is the inventory of a site"),
    ];
    let (node, found, hint) = match kind(root) {
        Some((found, _)) if found == expected => return Ok(()),
        Some((found, node)) => {
            let hint = format!("{} takes this file", found.option());
            (node, format!("has `kind: {}`", found.name()), hint)
        }
        None => {
            let given = |(name, what)| Some((root.entry(name)?.1, what));
            let Some((node, what)) = generated.into_iter().find_map(given) else {
                return Ok(());
            };
            let hint = "kubexm writes such files; give a file that you wrote".to_owned();
            (node, what.to_owned(), hint)
        }
    };
    Err(Problems {
        file: file.to_owned(),
        list: vec![Problem {
            line: node.line,
            column: node.column,
            path: String::new(),
            message: format!("the file {found}, expected `kind: {}`", expected.name()),
            hint: Some(hint),
        }],
    })
}

/// Returns the known kind of a document and its node.
fn kind(root: &Node) -> Option<(DocumentKind, &Node)> {
    let (_, node) = root.entry("kind")?;
    let Value::Text(text) = &node.value else {
        return None;
    };
    let mut known = DocumentKind::ALL.into_iter();
    let kind = known.find(|kind| kind.name() == text)?;
    Some((kind, node))
}
