//! Uploads of files: a file gets its name when all of it has arrived and its digest matches.

use super::{Command, Host, HostError, Input, Output};
use kubexm_scripts::host as scripts;
use kubexm_types::{Digest, HostPath};

/// Writes a file to a host. The exit status of the output is 0 if the file is complete.
pub async fn upload(
    host: &dyn Host,
    path: &HostPath,
    mode: u32,
    digest: &Digest,
    content: Input,
) -> Result<Output, HostError> {
    let arguments = [path.to_string(), format!("{mode:o}"), digest.hex()];
    let command = Command::of(scripts::UPLOAD, arguments).input(content);
    host.run(command.describe(format!("write {path}"))).await
}
