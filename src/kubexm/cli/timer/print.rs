//! Prints a timer, as text and as JSON.

use kubexm_types::ErrorKind;
use serde::Serialize;

use super::super::{Failure, output};
use crate::report::Output;
use kubexm_safekeeping::timer::{self, Job, TimerOptions, TimerState};
use kubexm_types::event::Events;

/// A timer as a JSON document.
#[derive(Serialize)]
pub struct TimerDocument {
    /// `None` if it is not installed.
    pub timer: Option<TimerState>,
    /// Why it needs attention.
    pub problem: Option<String>,
}

/// Prints a timer.
///
/// # Errors
/// Fails with the exit code 9 if it needs attention.
pub(super) fn print(
    options: &TimerOptions,
    format: Output,
    events: &Events,
) -> Result<(), Failure> {
    let timer = timer::state(options, events)?;
    let problem = timer.as_ref().and_then(TimerState::problem);
    let document = TimerDocument { timer, problem };
    match format {
        Output::Json => output::document("Timer", &document)?,
        Output::Auto | Output::Plain => output::text(&text(options.job, &document)),
    }
    match document.problem {
        Some(_) => Err(Failure::found(ErrorKind::Attention)),
        None => Ok(()),
    }
}

/// Returns a timer for people.
fn text(job: Job, document: &TimerDocument) -> String {
    let Some(timer) = &document.timer else {
        return format!("the {job} timer is not installed\n");
    };
    let mut lines = vec![format!(
        "schedule  {}, next {}",
        timer.schedule,
        timer
            .next
            .as_deref()
            .unwrap_or("unknown: systemd does not have the timer")
    )];
    lines.push(format!("last run  {}", last_run(timer)));
    if let Some(backup) = &timer.backup {
        lines.push(format!("backup    {}", backup.display()));
    }
    lines.push(match &document.problem {
        Some(problem) => format!("problem   {problem}"),
        None => "no problem".to_owned(),
    });
    lines.join("\n") + "\n"
}

/// Returns how the last run of a timer ended, in one line.
pub fn last_run(timer: &TimerState) -> String {
    let Some(run) = &timer.last_run else {
        return format!("none since {}", timer.installed);
    };
    let first = run.summary();
    match run.result {
        timer::RunResult::Running => format!("{}, has not ended", run.began),
        timer::RunResult::Failed => format!("{}, failed: {first}", run.began),
        timer::RunResult::Done | timer::RunResult::Nothing => format!("{}, {first}", run.began),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::example;

    #[test]
    fn timer_is_printed_with_its_last_run() {
        let document = |timer: Option<TimerState>| TimerDocument {
            problem: None,
            timer,
        };
        let shown = |timer| text(Job::Backup, &document(timer));
        insta::assert_snapshot!(shown(Some(example::timers().remove(1))), @"
        schedule  daily, next Sun 2026-02-08 00:00:00 UTC
        last run  2026-01-31T12:00:00Z, /srv/backups/example-20260131T120000Z.tar.zst.age
        backup    /srv/backups/example-20260131T120000Z.tar.zst.age
        no problem
        ");
        insta::assert_snapshot!(shown(None), @"the backup timer is not installed");
    }
}
