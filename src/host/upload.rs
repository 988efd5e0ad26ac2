//! Uploads files. A file gets its final name only when it is complete and its digest matches.

use std::io::{Cursor, Read};

use super::{Command, Host, HostError, Input, Output};
use kubexm_scripts::host as scripts;
use kubexm_types::{Digest, HostPath};

/// Writes a file to a host. It belongs to `owner`, an argument of `chown`, by default to root. The exit status of the output
/// is 0 if the file is complete and its digest matches.
pub async fn upload(
    host: &dyn Host,
    path: &HostPath,
    mode: u32,
    owner: Option<&str>,
    digest: &Digest,
    content: Input,
) -> Result<Output, HostError> {
    let parameters = scripts::Upload {
        path: path.to_string(),
        mode: format!("{mode:o}"),
        owner: owner.unwrap_or_default().to_owned(),
    };
    let command = Command::from_script(scripts::UPLOAD, parameters).input(after(digest, content));
    host.run(command.describe(format!("write {path}"))).await
}

/// Returns the input of the script: a line with the digest, then the content. Arguments are visible to every user
/// of the host, and the digest of a password is enough to guess it.
fn after(digest: &Digest, content: Input) -> Input {
    let mut line = format!("{}\n", digest.hex()).into_bytes();
    match content {
        Input::None => Input::Bytes(line),
        Input::Bytes(bytes) => {
            line.extend(bytes);
            Input::Bytes(line)
        }
        Input::Stream(stream) => Input::Stream(Box::new(Cursor::new(line).chain(stream))),
    }
}
