//! Runs the downloaded tests of Kubernetes to obtain the list of images that they run.

use std::fs::File;
use std::io;

use super::cache::failed;
use super::{Cache, FetchError, program};
use kubexm_bundle::Blobs;
use kubexm_bundle::archive::each_member;
use kubexm_sandbox::{ProgramRun, Sandbox, Workspace};
use kubexm_types::{Digest, ImageRef, Version};

/// The program in the published archive.
const PROGRAM: &str = "kubernetes/test/bin/e2e.test";

/// Returns the images that the tests in a cached archive of `kubernetes-test` may run. The archive does not run
/// unless it has its digest.
///
/// # Errors
/// The archive is damaged or has no tests for this machine, or the program fails.
pub(crate) async fn images(
    cache: Cache,
    digest: Digest,
    version: &Version,
    sandbox: &Sandbox,
) -> Result<Vec<ImageRef>, FetchError> {
    let what = format!("the tests of Kubernetes {version}");
    let wrong = |reason: String| FetchError::Content {
        what: what.clone(),
        reason: reason.into(),
    };
    let unpacked = tokio::task::spawn_blocking(move || unpack(&cache, &digest)).await;
    let workspace = unpacked.map_err(|error| wrong(error.to_string()))??;
    let program = workspace.inputs().join("e2e.test");
    let run = ProgramRun::new(&workspace, program);
    let mut run = run.map_err(|error| failed(&workspace.inputs(), error))?;
    run.arguments = vec!["--list-images".to_owned()];
    let list = program::printed(run, sandbox, &what).await?;
    let images: Result<Vec<ImageRef>, _> = list.split_whitespace().map(str::parse).collect();
    images.map_err(|error| wrong(format!("cannot parse their list of images: {error}")))
}

/// Writes the program of an archive into a directory for a sandbox.
fn unpack(cache: &Cache, digest: &Digest) -> Result<Workspace, FetchError> {
    let failed = |source| failed(&std::env::temp_dir(), source);
    let workspace = Workspace::create("kubexm-conformance-").map_err(failed)?;
    let program = workspace.inputs().join("e2e.test");
    let archive = cache.open_content(digest)?;
    // Reading to the end verifies the digest: an error here means that the program must not run.
    each_member(archive, |path, content| {
        if path == PROGRAM {
            io::copy(content, &mut File::create(&program)?)?;
        }
        Ok(())
    })
    .map_err(failed)?;
    workspace.permit(&program, 0o755).map_err(failed)?;
    Ok(workspace)
}
