//! `config`: templates, schemas and validation of the files that users write.

use std::path::{Path, PathBuf};

use serde::Serialize;

use kubexm_config::{Cluster, DocumentKind, Notice, Problem, Problems};
use kubexm_session::program_settings::findings;
use kubexm_session::{ClusterSource, CommandError, notices};
use kubexm_types::event::Events;

/// The kinds of files that users write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// The hosts and what runs on them.
    Cluster,
    /// The content of a bundle.
    Bundle,
    /// Where to download from.
    Mirrors,
}

/// The result of a validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// The file.
    pub file: PathBuf,
    /// Whether the file is valid.
    pub valid: bool,
    /// What the file contains, if it is valid.
    #[serde(flatten)]
    pub content: Option<Validated>,
    /// What the user should write in another way, in the order of the file.
    pub notices: Vec<FileProblem>,
    /// Everything that is wrong, in the order of the file.
    pub problems: Vec<FileProblem>,
}

/// The content of a valid file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "document")]
pub enum Validated {
    /// A cluster file.
    Cluster {
        /// The name of the cluster.
        name: String,
        /// The number of hosts.
        hosts: usize,
    },
    /// A bundle manifest.
    Bundle {
        /// The name of the bundle.
        name: String,
    },
    /// A mirrors file.
    Mirrors,
}

/// One problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileProblem {
    /// The line, from 1; `None` if the whole file is meant.
    pub line: Option<u64>,
    /// The column, from 1; `None` if the whole file is meant.
    pub column: Option<u64>,
    /// The field, as in `spec.hosts[2].port`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// Returns a commented file to start from.
pub fn template(document: Document) -> &'static str {
    match document {
        Document::Cluster => kubexm_config::schema::TEMPLATE,
        Document::Bundle => kubexm_config::schema::BUNDLE_TEMPLATE,
        Document::Mirrors => kubexm_config::schema::MIRRORS_TEMPLATE,
    }
}

/// Returns the JSON schema of a kind of file.
pub fn schema(document: Document) -> String {
    match document {
        Document::Cluster => kubexm_config::schema::cluster(),
        Document::Bundle => kubexm_config::schema::BUNDLE.to_owned(),
        Document::Mirrors => kubexm_config::schema::MIRRORS.to_owned(),
    }
}

/// Checks a file by the rules of its kind. A file without a known kind is checked as a cluster file.
///
/// # Errors
/// The file is not valid; see [`Validation::of_error`].
pub fn validate(file: &Path, events: &Events) -> Result<Validation, CommandError> {
    let validation = match kubexm_config::kind_of(file)? {
        Some(DocumentKind::Bundle) => {
            let manifest = kubexm_config::load_manifest(file)?;
            notices::emit(&manifest.notices, events);
            let name = manifest.name;
            Validation::valid(file, Validated::Bundle { name }, &manifest.notices)
        }
        Some(DocumentKind::Mirrors) => {
            kubexm_config::load_mirrors(file)?;
            Validation::valid(file, Validated::Mirrors, &[])
        }
        Some(DocumentKind::Cluster) | None => {
            let cluster = kubexm_config::load_cluster(file)?;
            kubexm_deploy::validate(&cluster)?;
            notices::emit_experimental(file, &cluster, events);
            notices::emit(&cluster.notices, events);
            Validation::of_cluster(file, &cluster)
        }
    };
    Ok(validation)
}

/// Checks a cluster file, and asks the programs of a bundle what they refuse of it.
///
/// # Errors
/// The file is not valid for this bundle, or the bundle cannot be opened.
pub async fn validate_for(
    source: &ClusterSource,
    events: &Events,
) -> Result<Validation, CommandError> {
    let (bundle, cluster) = source.open(events)?;
    let refused = findings::refused(&bundle, &cluster, events).await?;
    let refused: Vec<(String, String)> = refused
        .into_iter()
        .map(|refusal| (format!("spec.{}", refusal.field), refusal.reason))
        .collect();
    kubexm_config::refuse_fields(&source.cluster, &refused, findings::HINT)?;
    Ok(Validation::of_cluster(&source.cluster, &cluster))
}

impl Validation {
    fn of_cluster(file: &Path, cluster: &Cluster) -> Self {
        let content = Validated::Cluster {
            name: cluster.name.clone(),
            hosts: cluster.hosts.len(),
        };
        Self::valid(file, content, &cluster.notices)
    }

    fn valid(file: &Path, content: Validated, notices: &[Notice]) -> Self {
        Self {
            file: file.to_owned(),
            valid: true,
            content: Some(content),
            notices: notices
                .iter()
                .map(|notice| (&notice.problem).into())
                .collect(),
            problems: Vec::new(),
        }
    }

    /// Describes the failure of [`validate`] as a result that programs can read.
    pub fn of_error(file: &Path, error: &CommandError) -> Self {
        let problems = match error {
            CommandError::Problems(problems) => list(problems),
            other => vec![FileProblem {
                line: None,
                column: None,
                path: String::new(),
                message: other.to_string(),
                hint: None,
            }],
        };
        Self {
            file: file.to_owned(),
            valid: false,
            content: None,
            notices: Vec::new(),
            problems,
        }
    }
}

fn list(problems: &Problems) -> Vec<FileProblem> {
    problems.list.iter().map(FileProblem::from).collect()
}

impl From<&Problem> for FileProblem {
    fn from(problem: &Problem) -> Self {
        let place = |number: u64| (problem.line > 0).then_some(number);
        Self {
            line: place(problem.line),
            column: place(problem.column),
            path: problem.path.clone(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}
