//! Sends the snapshot of a backup, and the program etcdutl of the bundle, to the members.

use std::io::{self, Cursor, Read};

use futures_util::future::try_join_all;

use super::content::Content;
use crate::etcdutl::BundledEtcdutl;
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Host, Input, Limit};
use kubexm_safekeeping::backup::file;
use kubexm_safekeeping::backup::manifest::SNAPSHOT;
use kubexm_scripts::host as scripts;
use kubexm_session::session::Hosts;
use kubexm_session::{CommandError, FileError};
use kubexm_types::Digest;

/// Sends the files of a restore to all members that do not have their new data yet.
///
/// # Errors
/// A host was lost, has no space, or the backup cannot be read any more.
pub(super) async fn to_members(
    content: &Content,
    programs: &[(&HostSpec, BundledEtcdutl)],
    hosts: &Hosts,
    id: &str,
) -> Result<(), CommandError> {
    let folder = format!("/var/lib/kubexm/restore/{id}");
    let sends = programs.iter().map(async |(spec, program)| {
        let Some(host) = hosts.get(&spec.name) else {
            return Ok(());
        };
        let text = "test -e \"$1/prepared\" || test -e \"$1/replaced\"";
        let is_ready =
            Command::script(text, [folder.clone()]).describe("look for the new data of etcd");
        if host.run(is_ready).await?.success() {
            return Ok(());
        }
        let host = host.as_ref();
        let unreadable = |error: io::Error| FileError::io("read the backup", &content.path, &error);
        let stream = program
            .open()
            .map_err(|error| FileError::io("read etcdutl in", &std::env::temp_dir(), &error))?;
        let about = (program.size, program.digest);
        let to = format!("{folder}/etcdutl");
        write(host, &to, "700", about, Box::new(stream)).await?;
        if let Some(file) = content.manifest.file(SNAPSHOT) {
            let stream = file::stream(&content.path, &content.identity, &file.path);
            let stream = stream.map_err(unreadable)?;
            let about = (file.size, file.digest);
            write(host, &format!("{folder}/snapshot.db"), "600", about, stream).await?;
        }
        Ok::<(), CommandError>(())
    });
    try_join_all(sends).await.map(|_| ())
}

/// Writes a file on a host that is still unchanged. The digest is compared there.
///
/// # Errors
/// The host was lost, has no space, or the stream fails.
pub async fn write(
    host: &dyn Host,
    to: &str,
    mode: &str,
    (size, digest): (u64, Digest),
    stream: Box<dyn Read + Send>,
) -> Result<(), CommandError> {
    let digest = Cursor::new(format!("{}\n", digest.hex()).into_bytes());
    let what = format!("write {to}");
    let parameters = scripts::Upload {
        path: to.to_owned(),
        mode: mode.to_owned(),
        ..Default::default()
    };
    let command = Command::from_script(scripts::UPLOAD, parameters)
        .describe(what.clone())
        .limit(Limit::transfer(size))
        .input(Input::Stream(Box::new(digest.chain(stream))));
    let output = host.run(command).await?;
    StepError::unless_done(&what, output).map_err(|error| {
        CommandError::step(format!("{}: {error}", host.name()))
            .hint("no data of etcd was replaced; run the same command again when the host is ready")
    })?;
    Ok(())
}
