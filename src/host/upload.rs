//! Uploads files. A file gets its final name only when it is complete and its digest matches.

use super::{Command, Host, HostError, Input, Output};
use kubexm_scripts::host as scripts;
use kubexm_types::{Digest, HostPath};

/// Writes a file to a host. The exit status of the output is 0 if the file is complete and its digest
/// matches.
pub async fn upload(
    host: &dyn Host,
    path: &HostPath,
    mode: u32,
    digest: &Digest,
    content: Input,
) -> Result<Output, HostError> {
    let arguments = [path.to_string(), format!("{mode:o}"), digest.hex()];
    let command = Command::from_script(scripts::UPLOAD, arguments).input(content);
    host.run(command.describe(format!("write {path}"))).await
}
