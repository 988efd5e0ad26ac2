//! When a timer runs: a calendar of systemd (<https://www.freedesktop.org/software/systemd/man/latest/systemd.time.html>).

use std::process::Command;

use time::PrimitiveDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use kubexm_session::CommandError;
use kubexm_types::Untrusted;

/// A calendar of systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// As the user wrote it.
    pub text: String,
    /// The longest time between two of the next runs, in seconds.
    pub interval: u64,
    /// The shortest time between two of the next runs, in seconds.
    pub shortest: u64,
    /// The next time, in UTC.
    pub next: String,
}

/// How many runs systemd names. They include a weekend of a calendar that runs each hour of a working day.
const RUNS: &str = "--iterations=200";

impl Schedule {
    /// Asks systemd for the next times. As in a timer, they are those of the time zone of this machine.
    ///
    /// # Errors
    /// The text is not a calendar that has two more times, or this machine does not have `systemd-analyze`.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        let mut command = Command::new("systemd-analyze");
        command.args(["calendar", RUNS, "--", text]);
        let output = command.env("LC_ALL", "C").env_remove("TZ").output();
        let output = output.map_err(|error| {
            CommandError::machine(format!("cannot run systemd-analyze: {error}"))
                .hint("a timer needs a machine with systemd")
        })?;
        let printed = String::from_utf8_lossy(&output.stdout);
        Self::of(text, &printed).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let what = if output.status.success() {
                format!("the calendar '{text}' has less than two more runs")
            } else {
                format!(
                    "systemd does not accept the calendar '{text}': {}",
                    Untrusted::last(complaint.trim())
                )
            };
            CommandError::configuration(what).hint(
                "write it as in systemd.time(7): daily, weekly, 'Sun 03:00', '*-*-* 02:30:00'",
            )
        })
    }

    /// Reads what `systemd-analyze calendar --iterations` prints.
    fn of(text: &str, printed: &str) -> Option<Self> {
        let times = times(printed)?;
        let gaps = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).whole_seconds());
        let gaps = gaps.map(|seconds| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0));
        let gaps = regular(gaps.collect::<Option<_>>()?);
        let next = times.first()?.format(FORMAT).ok()?;
        Some(Self {
            text: text.to_owned(),
            interval: *gaps.iter().max()?,
            shortest: *gaps.iter().min()?,
            next: format!("{next} UTC"),
        })
    }

    /// Returns the time between two runs for people, as in `every 604800 seconds`.
    pub(super) fn intervals(&self) -> String {
        if self.shortest == self.interval {
            format!("every {} seconds", self.interval)
        } else {
            format!("after {} to {} seconds", self.shortest, self.interval)
        }
    }

    /// Returns the longest random delay of a run, in seconds: a few percent of the shortest interval. Clusters whose timers have the
    /// same calendar do not run at the same time.
    pub(super) fn delay(&self) -> u64 {
        self.shortest / 28
    }
}

const FORMAT: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// Leaves out what occurs once or twice in many gaps, as the days on which clocks change to summer time, or on which a time does
/// not exist.
fn regular(gaps: Vec<u64>) -> Vec<u64> {
    let count = |gap: &u64| gaps.iter().filter(|other| *other == gap).count();
    let often: Vec<u64> = gaps.iter().filter(|gap| count(gap) > 2).copied().collect();
    if often.is_empty() { gaps } else { often }
}

/// Returns the times in UTC; `None` if one cannot be read. Outside UTC, each one is on the line below the local time.
fn times(printed: &str) -> Option<Vec<PrimitiveDateTime>> {
    let mut times = Vec::new();
    for line in printed.lines().map(str::trim) {
        let Some((label, value)) = line.split_once(':') else {
            continue;
        };
        let is_next = label == "Next elapse" || label.starts_with("Iter");
        if !is_next && label != "(in UTC)" {
            continue;
        }
        // As in `Mon 2026-11-30 00:00:00 UTC`, or with fractions of a second.
        let mut words = value.split_whitespace().skip(1);
        let (date, time) = (words.next()?, words.next()?);
        let seconds = time.split('.').next()?;
        let time = PrimitiveDateTime::parse(&format!("{date} {seconds}"), FORMAT).ok()?;
        if !is_next {
            times.pop();
        }
        times.push(time);
    }
    Some(times)
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

    /// A Friday is not late on the Sunday after it.
    #[test]
    fn longest_interval_of_an_uneven_calendar_counts() {
        let printed = "    Next elapse: Thu 2026-11-26 02:00:00 UTC\n    Iteration #2: Fri 2026-11-27 02:00:00 UTC\n\
                       \x20   Iteration #3: Mon 2026-11-30 02:00:00 UTC\n";
        let schedule = Schedule::of("Mon..Fri 02:00", printed).unwrap();
        assert_eq!((schedule.interval, schedule.shortest), (259_200, 86_400));
        assert_eq!(schedule.delay(), 3085);
    }

    /// In Berlin, `*-*-* 02:30` skips a day in March.
    #[test]
    fn rare_gap_does_not_count() {
        let mut gaps = vec![86_400; 198];
        gaps.push(169_200);
        assert_eq!(regular(gaps).iter().max(), Some(&86_400));
        assert_eq!(regular(vec![86_400, 259_200]), [86_400, 259_200]);
    }

    #[test]
    fn times_are_in_utc_on_a_machine_of_another_time_zone() {
        let printed = "  Original form: Sun 03:00\n\
                       \x20   Next elapse: Sun 2026-11-29 03:00:00 CST\n       (in UTC): Sat 2026-11-28 19:00:00 UTC\n\
                       \x20      From now: 1 day 3h left\n\
                       \x20  Iteration #2: Sun 2026-12-06 03:00:00 CST\n       (in UTC): Sat 2026-12-05 19:00:00 UTC\n";
        let schedule = Schedule::of("Sun 03:00", printed).unwrap();
        assert_eq!(schedule.next, "2026-11-28 19:00:00 UTC");
        assert_eq!(schedule.interval, 604_800);
    }
}
