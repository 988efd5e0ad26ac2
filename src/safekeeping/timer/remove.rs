//! Removes a timer from this machine.

use std::path::{Path, PathBuf};

use super::checks::check_machine;
use super::options::absolute;
use super::unit::{service_name, timer_name};
use super::{Job, TimerOptions, record, system};
use kubexm_session::{CommandError, FileError};
use kubexm_types::event::Events;
use kubexm_types::remove_if_exists;

/// Which timer to remove.
#[derive(Debug, Clone)]
pub struct RemoveOptions {
    pub timer: TimerOptions,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// Removes a timer. Returns whether there is one.
///
/// # Errors
/// This machine refuses it.
pub fn remove(options: &RemoveOptions, events: &Events) -> Result<bool, CommandError> {
    let (cluster, state) = options.timer.cluster(events)?;
    let job = options.timer.job;
    let found = Found::look(Path::new(system::UNITS), &state, job, &cluster.name);
    if options.dry_run {
        events.note(found.text(job, &cluster.name));
        events.note("dry run: nothing was touched");
        return Ok(found.is_installed());
    }
    if found.is_installed() {
        check_machine()?;
        if found.timer.is_some() {
            system::systemctl([
                "disable",
                "--quiet",
                "--now",
                &timer_name(job, &cluster.name),
            ])?;
        }
        for path in found.units() {
            remove_if_exists(path)
                .map_err(|error| FileError::io("remove the unit", path, &error))?;
        }
        system::systemctl(["daemon-reload"])?;
    }
    record::remove(&state, job)?;
    Ok(found.is_installed())
}

/// The files of a timer that exist.
struct Found {
    timer: Option<PathBuf>,
    service: Option<PathBuf>,
    /// The record in the state directory.
    record: Option<PathBuf>,
}

impl Found {
    fn look(units: &Path, state: &Path, job: Job, cluster: &str) -> Self {
        let existing = |path: PathBuf| Some(path).filter(|path| path.exists());
        Self {
            timer: existing(units.join(timer_name(job, cluster))),
            service: existing(units.join(service_name(job, cluster))),
            record: existing(record::path(&absolute(state), job)),
        }
    }

    fn units(&self) -> impl Iterator<Item = &PathBuf> {
        self.timer.iter().chain(&self.service)
    }

    fn is_installed(&self) -> bool {
        self.units().next().is_some()
    }

    /// Returns the plan for people.
    fn text(&self, job: Job, cluster: &str) -> String {
        let stopped = self
            .timer
            .iter()
            .map(|_| format!("stop and disable {}", timer_name(job, cluster)));
        let files = self.units().chain(&self.record);
        let removed = files.map(|path| format!("remove {}", path.display()));
        let lines: Vec<String> = stopped.chain(removed).collect();
        if lines.is_empty() {
            format!("there is no {job} timer of the cluster '{cluster}' on this machine")
        } else {
            format!(
                "{job} timer of the cluster '{cluster}' on this machine:\n  {}",
                lines.join("\n  ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_of_a_removal_names_what_exists() {
        let (units, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = |job| {
            let found = Found::look(units.path(), state.path(), job, "example");
            let text = found.text(job, "example");
            let text = text.replace(&units.path().display().to_string(), "UNITS");
            text.replace(&state.path().display().to_string(), "STATE")
        };
        for (folder, name) in [
            (&units, "kubexm-certs-example.timer"),
            (&units, "kubexm-certs-example.service"),
            (&units, "kubexm-backup-other.timer"),
            (&state, "timer-certs.json"),
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        insta::assert_snapshot!(text(Job::Certificates), @r"
        certs timer of the cluster 'example' on this machine:
          stop and disable kubexm-certs-example.timer
          remove UNITS/kubexm-certs-example.timer
          remove UNITS/kubexm-certs-example.service
          remove STATE/timer-certs.json
        ");
        assert_eq!(
            text(Job::Backup),
            "there is no backup timer of the cluster 'example' on this machine"
        );
        // A removal that was interrupted left the record alone.
        std::fs::write(state.path().join("timer-backup.json"), "").unwrap();
        assert!(text(Job::Backup).ends_with(":\n  remove STATE/timer-backup.json"));
    }
}
