//! Writes what a task changed to the disk of its host.

use std::collections::BTreeSet;

use super::step::StepError;
use super::task::Task;
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::steps::FLUSH;

/// What the command does, for errors.
pub(super) const ACTION: &str = "write the changes to the disk";
/// Directories that can be file systems of their own and that steps change. Scripts and package managers do not name
/// the files that they write.
const FOLDERS: [&str; 7] = [
    "/",
    "/etc",
    "/usr",
    "/usr/local",
    "/opt",
    "/var",
    "/var/lib",
];

/// Waits until the file systems that the task can have changed are on disk, so that a power failure does not undo
/// a task that is done.
pub(super) async fn flush(host: &dyn Host, task: &Task) -> Result<(), StepError> {
    let files = task.steps.iter().flat_map(|step| step.files());
    let folders = files.filter_map(|file| {
        let (folder, _) = file.path.as_str().rsplit_once('/')?;
        (!folder.is_empty()).then(|| folder.to_owned())
    });
    let folders: BTreeSet<String> = folders.collect();
    let all = FOLDERS.map(str::to_owned).into_iter().chain(folders);
    let command = Command::from_script(FLUSH, all).limit(Limit::CHANGE);
    let command = command.describe(ACTION);
    StepError::unless_done(ACTION, host.run(command).await?).map(|_| ())
}

/// Waits until the file systems of a host that a reset changes are on disk.
pub(crate) async fn flush_reset(host: &dyn Host) -> Result<(), StepError> {
    let command = Command::from_script(FLUSH, FOLDERS).limit(Limit::CHANGE);
    let command = command.describe(ACTION);
    StepError::unless_done(ACTION, host.run(command).await?).map(|_| ())
}
