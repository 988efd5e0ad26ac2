//! When a timer runs: a calendar of systemd (<https://www.freedesktop.org/software/systemd/man/latest/systemd.time.html>).

use std::process::Command;

use time::PrimitiveDateTime;
use time::macros::format_description;

use crate::CommandError;

/// A calendar of systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// As the user wrote it.
    pub text: String,
    /// Seconds between the next two runs.
    pub interval: u64,
    /// The next time, in UTC.
    pub next: String,
}

impl Schedule {
    /// Asks systemd for the next two times.
    ///
    /// # Errors
    /// The text is not a calendar that has two more times, or this machine does not have `systemd-analyze`.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        let mut command = Command::new("systemd-analyze");
        command.args(["calendar", "--iterations=2", "--", text]);
        let output = command.env("LC_ALL", "C").env("TZ", "UTC").output();
        let output = output.map_err(|error| {
            CommandError::Configuration(format!(
                "cannot run systemd-analyze: {error}\nhint: a timer needs a machine with systemd"
            ))
        })?;
        let printed = String::from_utf8_lossy(&output.stdout);
        Self::of(text, &printed).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let complaint = complaint.trim();
            CommandError::Configuration(format!(
                "'{text}' is not a calendar of systemd with another two times{}{complaint}\nhint: write it as in \
                 systemd.time(7): daily, weekly, 'Sun 03:00', '*-*-* 02:30:00'",
                if complaint.is_empty() { "" } else { ": " }
            ))
        })
    }

    /// Reads what `systemd-analyze calendar --iterations=2` prints.
    fn of(text: &str, printed: &str) -> Option<Self> {
        let value = |start: &str| {
            let mut lines = printed.lines().map(str::trim);
            let line = lines.find_map(|line| line.strip_prefix(start))?;
            // As in `Mon 2026-11-30 00:00:00 UTC`, or with fractions of a second.
            let line = line.trim_start_matches([':', ' ']);
            let mut words = line.split(' ').skip(1);
            let (date, time) = (words.next()?, words.next()?);
            let seconds = time.split('.').next()?;
            Some(format!("{date} {seconds}"))
        };
        let (next, second) = (
            value("Next elapse")?,
            value("Iter. #2").or_else(|| value("Iteration #2"))?,
        );
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        let parse = |text: &str| PrimitiveDateTime::parse(text, format).ok();
        let interval = (parse(&second)? - parse(&next)?).whole_seconds();
        Some(Self {
            text: text.to_owned(),
            interval: u64::try_from(interval)
                .ok()
                .filter(|seconds| *seconds > 0)?,
            next: format!("{next} UTC"),
        })
    }

    /// Returns the longest random delay of a run, in seconds: a few percent of the interval. Clusters whose timers have the
    /// same calendar do not run at the same time.
    pub(super) fn delay(&self) -> u64 {
        self.interval / 28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_the_time_between_two_runs() {
        let printed = "  Original form: weekly\nNormalized form: Mon *-*-* 00:00:00\n\
                       \x20   Next elapse: Mon 2026-11-30 00:00:00 UTC\n       From now: 4 days left\n\
                       \x20  Iteration #2: Mon 2026-12-07 00:00:00 UTC\n       From now: 1 week 4 days left\n";
        let schedule = Schedule::of("weekly", printed).unwrap();
        assert_eq!((schedule.interval, schedule.delay()), (604_800, 21_600));
        assert_eq!(schedule.next, "2026-11-30 00:00:00 UTC");
        let old = printed.replace("Iteration #2", "Iter. #2");
        assert_eq!(Schedule::of("weekly", &old), Some(schedule));
        let once = printed.split("   Iteration").next().unwrap();
        assert_eq!(Schedule::of("2026-11-30", once), None);
        assert_eq!(Schedule::of("x", ""), None);
    }
}
