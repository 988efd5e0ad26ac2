//! Rendering of charts by the helm of a bundle, or by that of this machine. Templates are programs of the chart's
//! author, so helm runs in a sandbox.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::chart::Chart;
use super::failure::wrong;
use crate::FetchError;
use kubexm_bundle::Blobs;
use kubexm_bundle::archive::each_member;
use kubexm_bundle::lock::LockedFile;
use kubexm_sandbox::{ProgramRun, Sandbox, SandboxError, Workspace};
use kubexm_types::{Arch, Digest, Version};

/// Timeout for rendering a chart, which takes seconds.
const LONGEST: Duration = Duration::from_secs(120);
/// Maximum size of a rendered chart, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;

/// The component with helm.
pub const COMPONENT: &str = "helm";

/// The helm of a bundle, unpacked.
pub struct Helm {
    program: PathBuf,
    /// Deletes the program at the end.
    _workspace: Workspace,
}

impl Helm {
    /// Unpacks the newest helm among files of a lock that runs on this machine; `None` if there is none.
    ///
    /// # Errors
    /// The archive is damaged, or a temporary file cannot be written.
    pub fn unpack(blobs: &dyn Blobs, files: &[LockedFile]) -> Result<Option<Self>, FetchError> {
        let machine = Arch::of_this_machine().ok();
        let runs = |file: &&LockedFile| file.component == COMPONENT && Some(file.arch) == machine;
        let newest = files
            .iter()
            .filter(runs)
            .max_by_key(|file| &file.version)
            .and_then(|file| Some((file.digest, file.members.first()?)));
        let Some((archive, member)) = newest else {
            return Ok(None);
        };
        let unpacking = || -> io::Result<Self> {
            let workspace = Workspace::create("kubexm-helm-")?;
            let program = workspace.inputs().join(COMPONENT);
            let archive = blobs.open_content(&archive).map_err(io::Error::other)?;
            each_member(archive, |name, content| {
                if name == member.path {
                    io::copy(content, &mut std::fs::File::create(&program)?)?;
                }
                Ok(())
            })?;
            workspace.permit(&program, 0o755)?;
            Ok(Self {
                program,
                _workspace: workspace,
            })
        };
        unpacking()
            .map(Some)
            .map_err(|error| wrong(&"unpacking helm", error.to_string()))
    }
}

/// The result of rendering.
pub enum Rendered {
    /// The rendered documents.
    Text(String),
    /// The reason why the chart could not be rendered, as the start of a sentence.
    No(String),
}

/// Renders a packed chart with its own values, overridden by those of files, and then by those in `own`, which are
/// JSON. Without a helm of the bundle, that of this machine renders it.
///
/// # Errors
/// A values file does not exist, a temporary file cannot be created, or helm cannot be isolated.
pub async fn render(
    (blobs, digest, helm): (&dyn Blobs, &Digest, Option<&Helm>),
    chart: &Chart,
    (values, own): (&[PathBuf], Option<&str>),
    kubernetes: Option<&Version>,
    sandbox: &Sandbox,
) -> Result<Rendered, FetchError> {
    let failed = |error: std::io::Error| wrong(&"rendering a chart", error.to_string());
    let workspace = Workspace::create("kubexm-helm-").map_err(failed)?;
    let mut arguments = vec!["template".to_owned(), "kubexm".to_owned()];
    let packed = workspace.inputs().join("chart.tgz");
    arguments.push(packed.display().to_string());
    let fixed = ["--include-crds", "--skip-tests", "--namespace", "default"];
    arguments.extend(fixed.map(str::to_owned));
    if let Some(version) = kubernetes {
        arguments.extend(["--kube-version".to_owned(), format!("v{version}")]);
    }
    for (number, file) in values.iter().enumerate() {
        let place = copy_values(&workspace, number, file);
        let place = place.map_err(|error| wrong(&file.display(), error.to_string()))?;
        arguments.extend(["--values".to_owned(), place.display().to_string()]);
    }
    if let Some(own) = own {
        let place = workspace.put("own-values.json", own.as_bytes());
        let place = place.map_err(failed)?;
        arguments.extend(["--values".to_owned(), place.display().to_string()]);
    }
    let program = match helm {
        Some(helm) => Some(helm.program.clone()),
        None => find(COMPONENT),
    };
    let Some(program) = program else {
        let reason = "neither the bundle has the component helm, nor is helm installed";
        return Ok(Rendered::No(reason.to_owned()));
    };
    let copied = || -> io::Result<()> {
        let mut content = blobs.open(digest).map_err(io::Error::other)?;
        io::copy(&mut content, &mut std::fs::File::create(&packed)?)?;
        workspace.permit(&packed, 0o644)
    };
    copied().map_err(failed)?;
    // A separate home directory, without the user's plugins and repositories.
    let mut run = ProgramRun::new(&workspace, program.clone()).map_err(failed)?;
    run.arguments = arguments;
    run.readable = vec![program];
    run.limit = LONGEST;
    run.largest_output = LARGEST;
    let (name, version) = (&chart.name, &chart.version);
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
                "helm did not finish on {name} {version} ({error})"
            )));
        }
    };
    if output.is_success {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        return Ok(Rendered::Text(text));
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().rfind(|line| !line.trim().is_empty());
    let message: String = message.unwrap_or("no message").chars().take(300).collect();
    Ok(Rendered::No(format!(
        "helm failed to render it ({message})"
    )))
}

/// Copies a values file under its own name, which helm's messages contain.
fn copy_values(workspace: &Workspace, number: usize, file: &Path) -> std::io::Result<PathBuf> {
    let folder = format!("values-{number}");
    workspace.directory(&folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    workspace.put(&format!("{folder}/{name}"), &std::fs::read(file)?)
}

/// Returns the path of a program in `PATH`, without symbolic links.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| place.is_file())?.canonicalize().ok()
}
