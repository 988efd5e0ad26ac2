//! Rendering of charts by the helm of a bundle, or by that of this machine. Templates are programs of the chart's
//! author, so helm runs in a sandbox.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::images;
use super::unpacked::{Unpacked, or_of_machine};
use crate::FetchError;
use crate::error::wrong;
use kubexm_bundle::Blobs;
use kubexm_bundle::archive::each_member;
use kubexm_bundle::lock::LockedFile;
use kubexm_sandbox::{ProgramRun, Sandbox, SandboxError, Workspace};
use kubexm_types::{Digest, Version};

/// Timeout for rendering a chart, which takes seconds.
const LONGEST: Duration = Duration::from_secs(120);
/// Maximum size of a rendered chart, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;

/// The component with helm.
pub const COMPONENT: &str = "helm";

/// The helm of a bundle, unpacked.
pub struct Helm(Unpacked);

impl Helm {
    /// Unpacks the newest helm among files of a lock that runs on this machine; `None` if there is none.
    ///
    /// # Errors
    /// The archive is damaged, or a temporary file cannot be written.
    pub fn unpack(blobs: &dyn Blobs, files: &[LockedFile]) -> Result<Option<Self>, FetchError> {
        let newest = Unpacked::newest(COMPONENT, files);
        let Some((file, member)) = newest.and_then(|file| Some((file, file.members.first()?)))
        else {
            return Ok(None);
        };
        let unpacked = Unpacked::create(COMPONENT, |program| {
            let archive = blobs.open_content(&file.digest).map_err(io::Error::other)?;
            each_member(archive, |name, content| {
                if name == member.path {
                    io::copy(content, &mut File::create(program)?)?;
                }
                Ok(())
            })
        });
        Ok(Some(Self(unpacked?)))
    }
}

/// The result of rendering.
pub enum Rendered {
    /// The rendered documents.
    Text(String),
    /// The reason why the chart could not be rendered, as the start of a sentence.
    No(String),
}

/// A chart that helm renders.
pub enum Content<'a> {
    /// An archive.
    Packed(&'a dyn Blobs, &'a Digest),
    /// Files by their paths in the directory of the chart.
    Files(&'a [(String, String)]),
}

/// The release that helm renders.
pub struct Release<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// Whether the release exists.
    pub exists: bool,
    /// The API versions of the cluster, as in `apps/v1` and `apps/v1/Deployment`.
    pub api_versions: &'a [String],
}

/// How helm renders a chart: with its own values, overridden by those of files, and then by those in `own`, which are JSON.
pub struct Rendering<'a> {
    pub content: Content<'a>,
    /// The chart in messages, as in `shop 1.0.0`.
    pub title: String,
    /// The helm of a bundle; `None` for that of this machine.
    pub helm: Option<&'a Helm>,
    pub values: &'a [PathBuf],
    pub own: Option<&'a str>,
    pub kubernetes: Option<&'a Version>,
    /// The release whose manifest helm prints; `None` for everything that a chart can install, with definitions of custom
    /// resources and hooks.
    pub release: Option<Release<'a>>,
}

impl Rendering<'_> {
    /// Renders the chart.
    ///
    /// # Errors
    /// A values file does not exist or has a field twice, a temporary file cannot be created, or helm cannot be isolated.
    pub async fn run(&self, sandbox: &Sandbox) -> Result<Rendered, FetchError> {
        let failed = |error: io::Error| wrong(&"rendering a chart", error.to_string());
        let workspace = Workspace::create("kubexm-helm-").map_err(failed)?;
        let chart = match self.content {
            Content::Packed(..) => "chart.tgz",
            Content::Files(_) => "chart",
        };
        let chart = workspace.inputs().join(chart);
        let mut arguments = self.arguments(&chart);
        for (number, file) in self.values.iter().enumerate() {
            let failed = |error: io::Error| wrong(&file.display(), error.to_string());
            let text = std::fs::read(file).map_err(failed)?;
            // Helm would use the last one.
            if let Some(twice) = images::field_twice(&String::from_utf8_lossy(&text)) {
                return Err(twice.refused(&file.display()));
            }
            let place = put_values(&workspace, number, file, &text).map_err(failed)?;
            arguments.extend(["--values".to_owned(), place.display().to_string()]);
        }
        if let Some(own) = self.own {
            let place = workspace.put("own-values.json", own.as_bytes());
            let place = place.map_err(failed)?;
            arguments.extend(["--values".to_owned(), place.display().to_string()]);
        }
        let unpacked = self.helm.map(|helm| &helm.0);
        let Some(program) = or_of_machine(unpacked, COMPONENT) else {
            let reason = "neither the bundle has the component helm, nor is helm installed";
            return Ok(Rendered::No(reason.to_owned()));
        };
        self.place(&workspace, &chart).map_err(failed)?;
        // A separate home directory, without the user's plugins and repositories.
        let mut run = ProgramRun::new(&workspace, program.clone()).map_err(failed)?;
        run.arguments = arguments;
        run.readable = vec![program];
        run.limit = LONGEST;
        run.largest_output = LARGEST;
        let output = match run.output(sandbox).await {
            Ok(output) => output,
            Err(error @ (SandboxError::Start(_) | SandboxError::Unavailable(_))) => {
                return Err(FetchError::Program {
                    what: "helm".to_owned(),
                    source: error,
                });
            }
            Err(error) => {
                return Ok(Rendered::No(format!(
                    "helm did not finish on {} ({error})",
                    self.title
                )));
            }
        };
        if output.is_success {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            return Ok(Rendered::Text(text));
        }
        let message = String::from_utf8_lossy(&output.stderr);
        // Helm 4 ends with a line about its options.
        let says = |line: &&str| !line.trim().is_empty() && !line.starts_with("Use --debug");
        let message = message.lines().rfind(says);
        let message: String = message.unwrap_or("no message").chars().take(300).collect();
        Ok(Rendered::No(format!(
            "helm failed to render it ({message})"
        )))
    }

    fn arguments(&self, chart: &Path) -> Vec<String> {
        let (name, namespace) = match &self.release {
            Some(release) => (release.name, release.namespace),
            None => ("kubexm", "default"),
        };
        let chart = chart.display().to_string();
        let mut arguments = vec!["template", name, &chart, "--namespace", namespace];
        match &self.release {
            Some(release) => {
                arguments.push("--no-hooks");
                if release.exists {
                    arguments.push("--is-upgrade");
                }
                // An argument has at most 128 KiB.
                let versions = release.api_versions.iter();
                arguments.extend(versions.flat_map(|one| ["--api-versions", one.as_str()]));
            }
            None => arguments.extend(["--include-crds", "--skip-tests"]),
        }
        let version = self.kubernetes.map(|version| format!("v{version}"));
        if let Some(version) = &version {
            arguments.extend(["--kube-version", version]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// Writes the chart to the workspace.
    fn place(&self, workspace: &Workspace, chart: &Path) -> io::Result<()> {
        match &self.content {
            Content::Packed(blobs, digest) => {
                let mut content = blobs.open(digest).map_err(io::Error::other)?;
                io::copy(&mut content, &mut std::fs::File::create(chart)?)?;
                workspace.permit(chart, 0o644)
            }
            Content::Files(files) => {
                for (name, text) in *files {
                    let path = Path::new("chart").join(name);
                    let folder = path.parent().unwrap_or(Path::new("chart"));
                    workspace.directory("chart")?;
                    workspace.directory(&folder.display().to_string())?;
                    workspace.put(&path.display().to_string(), text.as_bytes())?;
                }
                Ok(())
            }
        }
    }
}

/// Writes the text of a values file under its own name, which helm's messages contain.
fn put_values(
    workspace: &Workspace,
    number: usize,
    file: &Path,
    text: &[u8],
) -> io::Result<PathBuf> {
    let folder = format!("values-{number}");
    workspace.directory(&folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    workspace.put(&format!("{folder}/{name}"), text)
}
