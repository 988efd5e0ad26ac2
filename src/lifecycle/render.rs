//! `render`: writes every file that an install would put on the hosts.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::plan::plan;
use kubexm_session::{ClusterSource, CommandError, FileError};
use kubexm_types::event::Events;

/// What `render` wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// The paths of the files, in the order of the plan.
    pub files: Vec<PathBuf>,
}

/// Writes `<out>/<host>/<absolute path>` for every file of every host. Secrets are placeholders.
///
/// # Errors
/// The cluster cannot be planned, or a file cannot be written.
pub fn render(
    source: &ClusterSource,
    out: &Path,
    events: &Events,
) -> Result<Rendered, CommandError> {
    let planned = plan(source, events)?;
    let mut written = Vec::new();
    for (host, files) in kubexm_deploy::rendered(&planned.plan) {
        for file in files {
            let relative = file.path.as_str().trim_start_matches('/');
            let path = out.join(host.as_str()).join(relative);
            let folder = path.parent().unwrap_or(out);
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, &file.content))
                .map_err(|error| FileError::new("write", &path, error))?;
            written.push(path);
        }
    }
    Ok(Rendered { files: written })
}
