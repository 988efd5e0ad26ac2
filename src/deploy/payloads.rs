//! Programs of the bundle as files on hosts, and the journals of their units.

use kubexm_bundle::lock::LockedFile;
use kubexm_engine::steps::{Payload, Source};
use kubexm_scripts::Call;
use kubexm_scripts::systemd::JOURNAL;
use kubexm_types::{Digest, HostPath};

use crate::error::DeployError;

/// The directory of kubexm's files on hosts.
pub(crate) const ETC: &str = "/etc/kubexm";
pub(crate) const BIN: &str = "/usr/local/bin";

/// Returns the payload of a program that is a file of the bundle.
pub(crate) fn binary(file: &LockedFile, path: &str) -> Result<Payload, DeployError> {
    let path = HostPath::parse(path)?;
    Ok(Payload {
        source: Source::Blob,
        digest: file.digest,
        size: file.size,
        path,
        mode: 0o755,
    })
}

/// Returns the payloads of the programs in an archive of the bundle, for one directory on a host.
pub(crate) fn members(
    file: &LockedFile,
    dir: &str,
    is_selected: impl Fn(&str) -> bool,
) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = Vec::new();
    for member in &file.members {
        let name = member.path.rsplit('/').next().unwrap_or(&member.path);
        if is_selected(name) {
            let source = Source::Member {
                archive: file.digest,
                path: member.path.clone(),
            };
            let path = HostPath::parse(&format!("{dir}/{name}"))?;
            let (digest, size): (Digest, u64) = (member.digest, member.size);
            payloads.push(Payload {
                source,
                digest,
                size,
                path,
                mode: 0o755,
            });
        }
    }
    Ok(payloads)
}

/// Returns the call that prints the end of a unit's journal, as the diagnosis of a wait.
pub(crate) fn journal(unit: &str, lines: u32) -> Call {
    JOURNAL.with([unit.to_owned(), lines.to_string()])
}
