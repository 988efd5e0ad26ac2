//! `logs --follow`: entries as programs log them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use time::OffsetDateTime;

use super::lost::{Connect, Lost, PAUSE};
use super::printed::Printed;
use super::read::{self, Source, Wanted};
use super::{LogEntry, LogsOptions, ProgramName, Site, read_first};
use kubexm_host::HostError;
use kubexm_session::session::Hosts;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Stop};
use kubexm_types::event::Events;
use kubexm_types::untrusted::{COLUMNS, Untrusted};
use kubexm_types::{HostName, WarningKind};

/// How much a host's clock may be behind the one of this machine. It counts until the host has an entry.
const SKEW: time::Duration = time::Duration::minutes(5);
/// The number of lines of each source in one read.
const LINES: u32 = 5000;
/// By how much fewer lines are read from a host that could not print them, because they are too long together.
const FEWER: u32 = 8;

/// Reads the new entries of a program again and again.
pub struct Follower {
    program: ProgramName,
    hosts: Hosts,
    lost: Lost,
    /// The earliest time of entries that the user named.
    since: Option<OffsetDateTime>,
    /// When the first read began, by the clock of this machine.
    began: OffsetDateTime,
    printed: Printed,
    /// Hosts that did not answer the last time.
    silent: BTreeSet<HostName>,
    /// The number of lines in a read of hosts that could not print more.
    lines: BTreeMap<HostName, u32>,
}

impl Follower {
    /// Connects to the hosts and reads the entries that exist. They are in the order of time.
    ///
    /// # Errors
    /// As [`super::logs`].
    pub async fn begin(
        options: LogsOptions,
        events: &Events,
        stop: &Stop,
    ) -> Result<(Self, Vec<LogEntry>), CommandError> {
        let site = Site::load(&options, events)?;
        let (hosts, unreachable) = site.connect(events, stop).await?;
        let lost = Lost::new(connect_with(site, events), PAUSE);
        let mut follower = Self::of(options.program.clone(), options.since, hosts, lost);
        let mut read = read_first(&options, &follower.hosts, unreachable, stop).await?;
        follower.listen(std::mem::take(&mut read.errors), events);
        warn_of_cut(&read.cut, events);
        let entries = follower.printed.begin(read);
        Ok((follower, entries))
    }

    fn of(program: ProgramName, since: Option<OffsetDateTime>, hosts: Hosts, lost: Lost) -> Self {
        Self {
            program,
            hosts,
            lost,
            since,
            began: OffsetDateTime::now_utc(),
            printed: Printed::default(),
            silent: BTreeSet::new(),
            lines: BTreeMap::new(),
        }
    }

    /// Returns the entries that are new since the last time. A host that does not answer is reported once, and once more when
    /// it answers again.
    ///
    /// # Errors
    /// The unit or container does not exist any more on any host.
    pub async fn next(
        &mut self,
        events: &Events,
        stop: &Stop,
    ) -> Result<Vec<LogEntry>, CommandError> {
        let (found, given_up) = self.lost.found();
        self.hosts.extend(found);
        for error in given_up {
            events.warn(
                WarningKind::Host,
                format!("kubexm does not connect again: {error}"),
            );
        }
        let wanted = |host: &HostName| self.wanted(host);
        let reading = async { Ok(read::all(&self.hosts, &self.program, wanted).await) };
        let mut read = unless_stopped(stop, reading).await?;
        self.listen(std::mem::take(&mut read.errors), events);
        if self.silent.is_empty() {
            read.check(&self.program)?;
        }
        warn_of_cut(&read.cut, events);
        let (entries, incomplete) = self.printed.add(read);
        warn_about(&incomplete, events);
        Ok(entries)
    }

    fn wanted(&self, host: &HostName) -> Wanted {
        let since = self.printed.since(host).unwrap_or(self.began - SKEW);
        Wanted {
            since: self.since.max(Some(since)),
            lines: self.lines.get(host).copied().unwrap_or(LINES),
        }
    }

    /// Reports hosts that ceased to answer, and hosts that answer again.
    fn listen(&mut self, errors: Vec<HostError>, events: &Events) {
        let mut failed = BTreeSet::new();
        for error in errors {
            let host = error.host().clone();
            if self.silent.insert(host.clone()) {
                events.warn(WarningKind::Host, &error);
            }
            self.adapt(&error);
            failed.insert(host);
        }
        let (hosts, lines) = (&self.hosts, &mut self.lines);
        self.silent.retain(|host| {
            let answers = hosts.contains_key(host) && !failed.contains(host);
            if answers {
                events.note(format!("{host}: answers again"));
                lines.remove(host);
            }
            !answers
        });
    }

    /// Reads from a host in another way the next time, because this one failed.
    fn adapt(&mut self, error: &HostError) {
        let host = error.host();
        match error {
            HostError::Unreachable { .. } => {
                self.hosts.remove(host);
                self.lost.search(host.clone());
            }
            HostError::Command { .. } => {
                let lines = self.lines.entry(host.clone()).or_insert(LINES);
                *lines = (*lines / FEWER).max(1);
            }
            _ => {}
        }
    }
}

fn connect_with(site: Site, events: &Events) -> Connect {
    let (site, events) = (Arc::new(site), events.clone());
    Arc::new(move |host| {
        let (site, events) = (Arc::clone(&site), events.clone());
        Box::pin(async move { site.connect_to(&host, &events).await })
    })
}

/// Reports hosts with more entries than kubexm keeps. They answer, so that the next time is like this one.
fn warn_of_cut(cut: &[HostError], events: &Events) {
    for error in cut {
        events.warn(WarningKind::Logs, error);
    }
}

/// Reports sources of which lines are missing.
fn warn_about(incomplete: &BTreeMap<Source, u32>, events: &Events) {
    for ((host, source), lines) in incomplete {
        let source = Untrusted::one_line(source, COLUMNS);
        events.warn(
            WarningKind::Logs,
            format!(
                "{host}: {source} logged more than {lines} lines since the last read; the oldest of them are missing here"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use kubexm_host::{Command, Host, Output};
    use kubexm_types::event::{Event, Listener};

    /// What a host does at each read; it cannot be reached after the last one.
    struct FakeHost {
        name: HostName,
        reads: Mutex<Vec<Result<String, HostError>>>,
        /// The numbers of lines that it was asked for.
        asked: Mutex<Vec<String>>,
    }

    impl FakeHost {
        fn new(reads: impl IntoIterator<Item = Result<String, HostError>>) -> Arc<Self> {
            let mut reads: Vec<_> = reads.into_iter().collect();
            reads.reverse();
            Arc::new(Self {
                name: name(),
                reads: reads.into(),
                asked: Mutex::default(),
            })
        }
    }

    #[async_trait::async_trait]
    impl Host for FakeHost {
        fn name(&self) -> &HostName {
            &self.name
        }

        async fn run(&self, command: Command) -> Result<Output, HostError> {
            let words = command.into_parts().0;
            let lines = words[words.len() - 2].clone();
            self.asked.lock().unwrap().push(lines);
            let read = self.reads.lock().unwrap().pop();
            read.unwrap_or_else(|| Err(unreachable()))
                .map(|text| Output {
                    status: 0,
                    stdout: text.into_bytes(),
                    stderr: Vec::new(),
                    log: None,
                })
        }
    }

    #[derive(Default)]
    struct Messages(Mutex<Vec<String>>);

    impl Listener for Messages {
        fn on(&self, event: &Event) {
            if let Event::Warning { message, .. } | Event::Note { message } = event {
                self.0.lock().unwrap().push(message.clone());
            }
        }
    }

    fn name() -> HostName {
        "node1".parse().unwrap()
    }

    fn unreachable() -> HostError {
        HostError::Unreachable {
            host: name(),
            address: "192.0.2.1:22".to_owned(),
            reason: "the connection broke".into(),
        }
    }

    fn too_much() -> HostError {
        HostError::Command {
            host: name(),
            command: "read the log of kubelet".to_owned(),
            reason: "the command printed more than 16 MiB, which is not a result".into(),
        }
    }

    fn unit(lines: &[&str]) -> Result<String, HostError> {
        let now = OffsetDateTime::now_utc().unix_timestamp() as u64;
        let entry = |line: &&str| {
            format!("|{{\"__REALTIME_TIMESTAMP\":\"{now}000000\",\"MESSAGE\":\"{line}\"}}\n")
        };
        let entries: String = lines.iter().map(entry).collect();
        Ok(format!("= unit kubelet\n{entries}"))
    }

    fn follower(host: &Arc<FakeHost>, connect: Connect) -> Follower {
        let hosts = Hosts::from([(name(), Arc::clone(host) as Arc<dyn Host>)]);
        let lost = Lost::new(connect, Duration::from_millis(1));
        Follower::of(ProgramName::parse("kubelet").unwrap(), None, hosts, lost)
    }

    /// Returns what a follower prints until it has printed `last`, and its messages.
    async fn followed(mut follower: Follower, last: &str) -> (Vec<String>, Vec<String>) {
        let messages = Arc::new(Messages::default());
        let events = Events::new(Arc::clone(&messages) as _);
        let mut printed: Vec<String> = Vec::new();
        let following = async {
            while printed.last().is_none_or(|line| line != last) {
                let entries = follower.next(&events, &Stop::new()).await.unwrap();
                printed.extend(entries.into_iter().map(|entry| entry.message));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let limit = Duration::from_secs(30);
        tokio::time::timeout(limit, following).await.unwrap();
        let messages = messages.0.lock().unwrap().clone();
        (printed, messages)
    }

    #[tokio::test]
    async fn host_that_was_lost_is_connected_again() {
        let attempts = Mutex::new(0);
        let connect: Connect = Arc::new(move |host| {
            let mut attempts = attempts.lock().unwrap();
            *attempts += 1;
            let found = match *attempts {
                1 => (Hosts::new(), vec![(host, unreachable())]),
                _ => {
                    let again = FakeHost::new([unit(&["a", "b"])]) as Arc<dyn Host>;
                    (Hosts::from([(host, again)]), Vec::new())
                }
            };
            Box::pin(async { Ok(found) })
        });
        let before = FakeHost::new([unit(&["a"])]);
        let (printed, messages) = followed(follower(&before, connect), "b").await;
        assert_eq!(printed, ["a", "b"]);
        let expected = [
            "node1: cannot reach 192.0.2.1:22: the connection broke",
            "node1: answers again",
        ];
        assert_eq!(messages, expected);
    }

    #[tokio::test]
    async fn lines_that_are_left_out_are_reported() {
        let connect: Connect = Arc::new(|_| Box::pin(async { Ok((Hosts::new(), Vec::new())) }));
        let many: Vec<String> = (0..5000).map(|line| line.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let host = FakeHost::new([unit(&many)]);
        let (_, messages) = followed(follower(&host, connect), "4999").await;
        let expected = "node1: kubelet logged more than 5000 lines since the last read; the oldest of them are missing here";
        assert_eq!(messages, [expected]);
    }

    #[tokio::test]
    async fn lines_before_the_time_of_the_user_do_not_follow() {
        let connect: Connect = Arc::new(|_| Box::pin(async { Ok((Hosts::new(), Vec::new())) }));
        let host = FakeHost::new([unit(&["before"])]);
        let mut follower = follower(&host, connect);
        follower.since = Some(OffsetDateTime::now_utc() + time::Duration::minutes(1));
        let entries = follower.next(&Events::silent(), &Stop::new()).await;
        assert!(entries.unwrap().is_empty());
    }

    #[tokio::test]
    async fn host_with_another_key_is_not_connected_again() {
        let connect: Connect = Arc::new(|host: HostName| {
            let error = HostError::HostKey {
                host: host.clone(),
                reason: "the host key differs".into(),
            };
            Box::pin(async { Ok((Hosts::new(), vec![(host, error)])) })
        });
        let messages = Arc::new(Messages::default());
        let events = Events::new(Arc::clone(&messages) as _);
        let mut follower = follower(&FakeHost::new([]), connect);
        for _ in 0..1000 {
            follower.next(&events, &Stop::new()).await.unwrap();
            if messages.0.lock().unwrap().len() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let expected = "kubexm does not connect again: node1: the host key differs";
        assert_eq!(messages.0.lock().unwrap()[1..], [expected]);
    }

    #[tokio::test]
    async fn lines_that_are_too_long_together_are_read_in_smaller_number() {
        let connect: Connect = Arc::new(|_| Box::pin(async { Ok((Hosts::new(), Vec::new())) }));
        let many = vec!["x"; 625];
        let host = FakeHost::new([Err(too_much()), unit(&many), unit(&["last"])]);
        let (_, messages) = followed(follower(&host, connect), "last").await;
        assert_eq!(
            *host.asked.lock().unwrap(),
            ["count=5000", "count=625", "count=5000"]
        );
        assert_eq!(messages[0], too_much().to_string());
        assert_eq!(messages[1..], ["node1: answers again"]);
    }
}
