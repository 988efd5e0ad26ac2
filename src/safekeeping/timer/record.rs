//! The record of a timer in the state directory: its schedule, and how its last run ended.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::job::Job;
use super::options::absolute;
use super::owned::Folder;
use kubexm_session::begun::StateRecord;
use kubexm_session::{CommandError, FileError};
use kubexm_types::{Message, Untrusted, UtcTime};

/// The most characters of a summary.
const LONGEST: usize = 300;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunResult {
    /// It has not ended.
    Running,
    /// It did its work.
    Done,
    /// There was nothing to do.
    Nothing,
    /// It failed.
    Failed,
}

/// A run of a timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerRun {
    pub began: UtcTime,
    /// `None` while it runs, and for a run that was killed.
    pub ended: Option<UtcTime>,
    pub result: RunResult,
    /// What it did, or why it failed.
    pub message: String,
    /// What the user can do about a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl TimerRun {
    /// Returns the message in one line.
    pub fn summary(&self) -> String {
        let lines = self.message.lines().map(str::trim);
        let text = lines.collect::<Vec<_>>().join(" ");
        Untrusted::one_line(&text, LONGEST).to_string()
    }
}

/// A timer, and how its runs ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimerState {
    pub job: Job,
    /// The calendar of systemd, as in `weekly`.
    pub schedule: String,
    /// The longest time between two runs, in seconds.
    pub interval: u64,
    /// When it was installed.
    pub installed: UtcTime,
    /// When it runs next, as systemd prints it; `None` if systemd does not have it.
    #[serde(default)]
    pub next: Option<String>,
    pub last_run: Option<TimerRun>,
    /// The end of the last run that did not fail.
    pub last_success: Option<UtcTime>,
    /// The last backup.
    pub backup: Option<PathBuf>,
}

impl TimerState {
    /// Returns why the timer needs attention.
    pub fn problem(&self) -> Option<String> {
        self.problem_at(OffsetDateTime::now_utc())
    }

    fn problem_at(&self, now: OffsetDateTime) -> Option<String> {
        let failed = self.last_run.as_ref();
        let failed = failed.filter(|run| run.result == RunResult::Failed);
        if let Some(run) = failed {
            return Some(format!(
                "the last run of the {} timer, {}, failed: {}",
                self.job,
                run.began,
                run.summary()
            ));
        }
        let lost = self.backup.as_ref().filter(|path| !path.exists());
        if let Some(path) = lost {
            return Some(format!(
                "the last backup is not there any more: {}",
                path.display()
            ));
        }
        let since = self.last_success.as_ref().unwrap_or(&self.installed);
        let age = now - since.time();
        let longest = time::Duration::seconds(i64::try_from(self.interval).ok()?.saturating_mul(2));
        if age <= longest {
            return None;
        }
        let (what, is_first) = match self.job {
            Job::Certificates => (
                "run of the certs timer that did not fail",
                &self.last_success,
            ),
            Job::Backup => ("good backup", &self.last_success),
        };
        Some(match is_first {
            Some(time) => format!(
                "the last {what} ended at {time}, more than twice the interval of '{}' ago",
                self.schedule
            ),
            None => format!(
                "there was no {what} since {since}, for more than twice the interval of '{}'",
                self.schedule
            ),
        })
    }
}

/// The record of the timer that renews certificates.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Certificates(TimerState);

impl StateRecord for Certificates {
    const FILE: &'static str = "timer-certs.json";
    const TITLE: &'static str = TITLE;
    const HINT: &'static str = HINT;
}

/// The record of the timer that creates backups.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Backups(TimerState);

impl StateRecord for Backups {
    const FILE: &'static str = "timer-backup.json";
    const TITLE: &'static str = TITLE;
    const HINT: &'static str = HINT;
}

const TITLE: &str = "the record of the timer";
const HINT: &str = "install the timer again";

pub(super) fn path(state: &Path, job: Job) -> PathBuf {
    state.join(match job {
        Job::Certificates => Certificates::FILE,
        Job::Backup => Backups::FILE,
    })
}

/// Reads a record; `None` if the timer is not installed.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub(super) fn load(state: &Path, job: Job) -> Result<Option<TimerState>, CommandError> {
    Ok(match job {
        Job::Certificates => Certificates::read(state)?.map(|record| record.0),
        Job::Backup => Backups::read(state)?.map(|record| record.0),
    })
}

/// Writes a record. It belongs to the owner of the state directory, who runs the timer.
///
/// # Errors
/// The file cannot be written.
pub(super) fn save(state: &Path, record: &TimerState) -> Result<(), CommandError> {
    let path = path(state, record.job);
    let name = match record.job {
        Job::Certificates => Certificates::FILE,
        Job::Backup => Backups::FILE,
    };
    let text = serde_json::to_vec_pretty(record).map_err(CommandError::defect)?;
    let folder = state.canonicalize().and_then(|state| Folder::open(&state));
    let saved = folder.and_then(|folder| folder.write(name, &text));
    saved.map_err(|error| FileError::io(format!("write {TITLE}"), &path, &error).into())
}

/// Removes a record.
///
/// # Errors
/// The file cannot be removed.
pub(super) fn remove(state: &Path, job: Job) -> Result<(), CommandError> {
    match job {
        Job::Certificates => Certificates::remove(state),
        Job::Backup => Backups::remove(state),
    }
}

/// Returns the timers of a state directory, and an error for each record that is not readable.
pub fn states(state: &Path) -> (Vec<TimerState>, Vec<CommandError>) {
    let (mut timers, mut errors) = (Vec::new(), Vec::new());
    for job in Job::ALL {
        match load(state, job) {
            Ok(found) => timers.extend(found),
            Err(error) => errors.push(error),
        }
    }
    (timers, errors)
}

/// Records a run: that it began, and how it ended. A run without the timer leaves no record.
pub struct Recorder<'a> {
    state: &'a Path,
    record: Option<TimerState>,
}

impl<'a> Recorder<'a> {
    /// Records that a run begins.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn begin(state: &'a Path, job: Job) -> Result<Self, CommandError> {
        let mut record = load(state, job)?;
        if let Some(record) = &mut record {
            record.last_run = Some(TimerRun {
                began: now(),
                ended: None,
                result: RunResult::Running,
                message: String::new(),
                hint: None,
            });
            save(state, record)?;
        }
        Ok(Self { state, record })
    }

    /// Records how the run ended.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn end(
        self,
        result: RunResult,
        message: Message,
        backup: Option<&Path>,
    ) -> Result<(), CommandError> {
        let Some(begun) = self.record else {
            return Ok(());
        };
        // The timer may have been installed again since, or removed.
        let Some(mut record) = load(self.state, begun.job)? else {
            return Ok(());
        };
        let time = now();
        record.last_run = begun.last_run.map(|run| TimerRun {
            ended: Some(time.clone()),
            result,
            message: message.text,
            hint: message.hint,
            ..run
        });
        if matches!(result, RunResult::Done | RunResult::Nothing) {
            record.last_success = Some(time);
        }
        if let Some(backup) = backup {
            record.backup = Some(absolute(backup));
        }
        save(self.state, &record)
    }
}

/// Returns the current time in seconds.
pub(super) fn now() -> UtcTime {
    UtcTime::now().whole_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> UtcTime {
        UtcTime::parse(text).unwrap()
    }

    fn timer(job: Job) -> TimerState {
        TimerState {
            job,
            schedule: "weekly".to_owned(),
            interval: 7 * 86_400,
            installed: time("2026-01-01T00:00:00Z"),
            next: None,
            last_run: None,
            last_success: None,
            backup: None,
        }
    }

    fn problem(timer: &TimerState, day: &str) -> String {
        let now = time(&format!("{day}T00:00:01Z"));
        timer
            .problem_at(now.time())
            .unwrap_or_else(|| "none".to_owned())
    }

    #[test]
    fn timer_that_is_late_or_has_failed_needs_attention() {
        let mut certs = timer(Job::Certificates);
        assert_eq!(problem(&certs, "2026-01-14"), "none");
        insta::assert_snapshot!(problem(&certs, "2026-01-15"), @"there was no run of the certs timer that did not fail since 2026-01-01T00:00:00Z, for more than twice the interval of 'weekly'");
        certs.last_success = Some(time("2026-01-10T00:00:00Z"));
        assert_eq!(problem(&certs, "2026-01-15"), "none");
        certs.last_run = Some(TimerRun {
            began: time("2026-01-11T00:00:00Z"),
            ended: Some(time("2026-01-11T00:01:00Z")),
            result: RunResult::Failed,
            message: "not healthy:\n  node2: kubelet".to_owned(),
            hint: Some("x".to_owned()),
        });
        insta::assert_snapshot!(problem(&certs, "2026-01-15"), @"the last run of the certs timer, 2026-01-11T00:00:00Z, failed: not healthy: node2: kubelet");
        let mut backup = timer(Job::Backup);
        backup.last_success = Some(time("2026-01-10T00:00:00Z"));
        insta::assert_snapshot!(problem(&backup, "2026-01-25"), @"the last good backup ended at 2026-01-10T00:00:00Z, more than twice the interval of 'weekly' ago");
        backup.backup = Some(PathBuf::from("/nothing/here"));
        insta::assert_snapshot!(problem(&backup, "2026-01-11"), @"the last backup is not there any more: /nothing/here");
    }

    #[test]
    fn run_is_recorded_for_an_installed_timer_only() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let run = |result, message: &str, backup| {
            let recorder = Recorder::begin(state, Job::Backup).unwrap();
            recorder.end(result, message.into(), backup).unwrap();
            load(state, Job::Backup).unwrap()
        };
        assert_eq!(run(RunResult::Done, "x", None), None);
        save(state, &timer(Job::Backup)).unwrap();
        let done = run(RunResult::Done, "6 MiB", Some(Path::new("/b"))).unwrap();
        assert!(done.last_success.is_some() && done.backup == Some(PathBuf::from("/b")));
        let failed = run(RunResult::Failed, "no", None).unwrap();
        assert_eq!(failed.last_success, done.last_success);
        assert_eq!(failed.last_run.unwrap().result, RunResult::Failed);
        assert_eq!(states(state).0.len(), 1);
        remove(state, Job::Backup).unwrap();
        remove(state, Job::Backup).unwrap();
        assert!(states(state).0.is_empty());
        std::fs::write(state.join("timer-certs.json"), "x").unwrap();
        let damaged = load(state, Job::Certificates).unwrap_err().to_string();
        assert!(
            damaged.contains("\nhint: install the timer again"),
            "{damaged}"
        );
        let (timers, errors) = states(state);
        assert!(timers.is_empty() && errors[0].to_string() == damaged);
    }

    #[test]
    fn timer_that_is_removed_or_installed_during_a_run_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        save(state, &timer(Job::Backup)).unwrap();
        let begin = || Recorder::begin(state, Job::Backup).unwrap();
        let recorder = begin();
        let hourly = TimerState {
            interval: 3600,
            ..timer(Job::Backup)
        };
        save(state, &hourly).unwrap();
        recorder.end(RunResult::Done, "x".into(), None).unwrap();
        let found = load(state, Job::Backup).unwrap().unwrap();
        assert_eq!(found.interval, 3600);
        assert_eq!(found.last_run.unwrap().result, RunResult::Done);
        let recorder = begin();
        remove(state, Job::Backup).unwrap();
        recorder.end(RunResult::Done, "x".into(), None).unwrap();
        assert_eq!(load(state, Job::Backup).unwrap(), None);
    }

    /// A record of a version whose times were texts.
    const EARLIER: &str = r#"{"job": "backup", "schedule": "daily", "interval": 86400,
        "installed": "2026-01-30T12:00:00Z", "lastRun": {"began": "2026-01-31T09:30:00Z",
        "ended": "2026-01-31T09:30:10Z", "result": "done", "message": "x"},
        "lastSuccess": "2026-01-31T09:30:10Z", "backup": null}"#;

    #[test]
    fn record_of_an_earlier_version_keeps_its_times() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let file = path(state, Job::Backup);
        std::fs::write(&file, EARLIER).unwrap();
        save(state, &load(state, Job::Backup).unwrap().unwrap()).unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let mut expected = json(EARLIER);
        expected["next"] = serde_json::Value::Null;
        assert_eq!(json(&std::fs::read_to_string(&file).unwrap()), expected);
        for wrong in ["2026-02-31T12:00:00Z", "yesterday", ""] {
            let text = EARLIER.replace("2026-01-30T12:00:00Z", wrong);
            std::fs::write(&file, text).unwrap();
            let refused = load(state, Job::Backup).unwrap_err().to_string();
            assert!(refused.contains("expected a time in UTC"), "{refused}");
        }
    }
}
