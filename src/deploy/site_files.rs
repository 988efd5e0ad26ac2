//! `spec.system.files`: files of the user on hosts.

use std::collections::BTreeMap;

use kubexm_config::cluster::{Cluster, FileSource, HostSpec, SiteFile};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{Content, WriteFile};
use kubexm_types::HostPath;

use super::{DeployError, Inputs, controller_file};

/// Largest size of a file on the controller, in bytes. Larger content belongs into a bundle.
const LARGEST: u64 = 1024 * 1024;

/// Adds the steps that write the files of a host.
pub(super) fn write(inputs: &Inputs<'_>, host: &HostSpec, task: Task) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    let files = cluster.system.files.iter();
    let mut own = files.filter(|file| file.is_for(&cluster.roles, &host.name));
    own.try_fold(task, |task, file| Ok(task.step(step(file)?)))
}

fn step(file: &SiteFile) -> Result<WriteFile, DeployError> {
    let is_root = file.owner.user.as_str() == "root";
    Ok(WriteFile {
        path: file.path.clone(),
        mode: file.mode,
        user: (!is_root).then(|| file.owner.user.to_string()),
        group: file.owner.group.as_ref().map(ToString::to_string),
        content: Content::Text(content(&file.content)?),
        secret: file.is_secret(),
        removed_elsewhere: false,
    })
}

fn content(source: &FileSource) -> Result<String, DeployError> {
    match source {
        FileSource::Content(text) => Ok(text.0.clone()),
        FileSource::File(path) => controller_file::read_at_most(path, LARGEST),
    }
}

/// Returns the files of the user that the flags of a program name. The program reads them when it starts.
pub(super) fn named_by_flags(cluster: &Cluster, flags: &BTreeMap<String, String>) -> Vec<HostPath> {
    let files = cluster.system.files.iter().map(|file| &file.path);
    let is_named = |path: &&HostPath| {
        let mut values = flags.values().flat_map(|value| value.split([',', '=']));
        values.any(|value| value == path.as_str())
    };
    files.filter(is_named).cloned().collect()
}
