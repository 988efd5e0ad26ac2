//! Rendering of charts by the `helm` of this machine, if there is one.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::chart::Chart;
use super::wrong;
use crate::FetchError;
use kubexm_types::Version;

/// Timeout for rendering a chart, which takes seconds.
const LONGEST: Duration = Duration::from_secs(120);
/// Maximum size of a rendered chart, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;

/// The result of rendering.
pub enum Rendered {
    /// The rendered documents.
    Text(String),
    /// The reason why the chart could not be rendered, as the start of a sentence.
    No(String),
}

/// Renders a packed chart with its own values, overridden by `values`.
///
/// # Errors
/// A values file does not exist, or a temporary file cannot be created.
pub async fn render(
    path: &Path,
    chart: &Chart,
    values: &[PathBuf],
    kubernetes: Option<&Version>,
) -> Result<Rendered, FetchError> {
    let failed = |error: io::Error| wrong(&"rendering a chart", error);
    for file in values {
        std::fs::metadata(file).map_err(|error| wrong(&file.display(), error))?;
    }
    let home = tempfile::tempdir().map_err(failed)?;
    let mut out = tempfile::tempfile().map_err(failed)?;
    let mut err = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new("helm");
    command.arg("template").arg("kubexm").arg(path);
    command.args(["--include-crds", "--skip-tests", "--namespace", "default"]);
    if let Some(version) = kubernetes {
        command.arg("--kube-version").arg(format!("v{version}"));
    }
    for file in values {
        command.arg("--values").arg(file);
    }
    // A separate home directory, without the user's plugins and repositories.
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::from(out.try_clone().map_err(failed)?))
        .stderr(Stdio::from(err.try_clone().map_err(failed)?))
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Rendered::No("helm is not installed".to_owned()));
        }
        Err(error) => return Ok(Rendered::No(format!("cannot run helm ({error})"))),
    };
    let (name, version) = (&chart.name, &chart.version);
    let Ok(status) = tokio::time::timeout(LONGEST, child.wait()).await else {
        return Ok(Rendered::No(format!(
            "helm did not finish on {name} {version}"
        )));
    };
    if !status.map_err(failed)?.success() {
        let message = text(&mut err, 64 * 1024).map_err(failed)?;
        let message = message.lines().rfind(|line| !line.trim().is_empty());
        let message: String = message.unwrap_or("no message").chars().take(300).collect();
        return Ok(Rendered::No(format!(
            "helm failed to render it ({message})"
        )));
    }
    text(&mut out, LARGEST).map(Rendered::Text).map_err(failed)
}

fn text(file: &mut File, limit: u64) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
