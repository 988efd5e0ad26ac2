//! The tests on a control plane: programs, the run in a systemd unit, and its reports.

use std::sync::Arc;
use std::time::Duration;

use super::ConformanceOptions;
use kubexm_bundle::Blobs;
use kubexm_bundle::lock::LockedFile;
use kubexm_engine::plan::StepError;
use kubexm_engine::steps::{InstallFiles, Payload, Source};
use kubexm_host::{Command, Host, Limit, Output};
use kubexm_scripts::kubernetes::{CONFORMANCE, Conformance};
use kubexm_session::CommandError;
use kubexm_session::stop::Stop;
use kubexm_types::event::{Event, Events};
use kubexm_types::{HostName, HostPath, Message, WarningKind};

/// The directory on the control plane; see `kubernetes/conformance.sh`.
const FOLDER: &str = "/var/lib/kubexm/conformance";
/// How often kubexm looks at the progress.
const INTERVAL: Duration = Duration::from_secs(5);
/// For the end of a run: ginkgo collects what its processes found.
const GRACE: Duration = Duration::from_secs(900);

/// A part of the tests.
pub(super) struct Pass {
    /// The name of the directory with its results.
    pub(super) name: &'static str,
    pub(super) phase: &'static str,
    /// What it runs, for messages.
    pub(super) what: &'static str,
    processes: u16,
    labels: &'static str,
    focus: String,
    skip: String,
}

impl Pass {
    /// Returns both parts: a test with the label Serial disturbs others.
    pub(super) fn all(options: &ConformanceOptions) -> [Self; 2] {
        let (focus, skip) = (options.focus.clone(), options.skip.clone());
        let (focus, skip) = (focus.unwrap_or_default(), skip.unwrap_or_default());
        let parallel = Self {
            name: "parallel",
            phase: "parallel tests",
            what: "parallel conformance tests",
            processes: options.parallel,
            labels: "Conformance && !Serial",
            focus: focus.clone(),
            skip: skip.clone(),
        };
        let serial = Self {
            name: "serial",
            phase: "serial tests",
            what: "serial conformance tests",
            processes: 1,
            labels: "Conformance && Serial",
            focus,
            skip,
        };
        [parallel, serial]
    }
}

/// The control plane on which the tests run.
pub(super) struct TestHost {
    host: Arc<dyn Host>,
    /// How long a part may take.
    limit: Duration,
}

/// What `look` prints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Progress {
    is_running: bool,
    /// The exit status of ginkgo, if it has ended.
    status: Option<i32>,
    total: u64,
    done: u64,
    failed: u64,
}

impl Progress {
    /// Parses the output of the script.
    fn parse(text: &str) -> Option<Self> {
        let mut progress = Self::default();
        let mut has_state = false;
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "state" => {
                    has_state = true;
                    progress.is_running = value == "running";
                }
                "status" => progress.status = value.parse().ok(),
                "total" => progress.total = value.parse().unwrap_or_default(),
                "done" => progress.done = value.parse().ok()?,
                "failed" => progress.failed = value.parse().ok()?,
                _ => return None,
            }
        }
        has_state.then_some(progress)
    }
}

impl TestHost {
    pub(super) fn new(host: Arc<dyn Host>, limit: Duration) -> Self {
        Self { host, limit }
    }

    /// Runs a function of the script, which must succeed.
    async fn call<I>(
        &self,
        verb: &'static str,
        what: &str,
        arguments: I,
    ) -> Result<Output, CommandError>
    where
        I: IntoIterator<Item = String>,
    {
        let command = Command::from_script(CONFORMANCE.verb(verb), arguments);
        let command = command.describe(what).limit(Limit::CHANGE);
        let output = self.host.run(command).await?;
        if output.success() {
            Ok(output)
        } else {
            Err(CommandError::step(format!(
                "{}: cannot {what}: {}",
                self.host.name(),
                output.complaint()
            ))
            .hint("look at the journal of the host (journalctl -u kubexm-conformance)"))
        }
    }

    /// Writes the programs of the tests to the host.
    pub(super) async fn upload(
        &self,
        blobs: &Arc<dyn Blobs>,
        archive: &LockedFile,
        events: &Events,
    ) -> Result<(), CommandError> {
        let payloads = archive.members.iter().map(|member| {
            let name = member.path.rsplit('/').next().unwrap_or(&member.path);
            let path = HostPath::parse(&format!("{FOLDER}/{name}"));
            Ok(Payload {
                source: Source::Member {
                    archive: archive.digest,
                    path: member.path.clone(),
                },
                digest: member.digest,
                size: member.size,
                path: path.map_err(CommandError::defect)?,
                mode: 0o700,
            })
        });
        let programs = InstallFiles {
            title: "the conformance tests".to_owned(),
            payloads: payloads.collect::<Result<_, CommandError>>()?,
            blobs: Arc::clone(blobs),
        };
        let bytes: u64 = archive.members.iter().map(|member| member.size).sum();
        let installed = programs
            .install_unrecorded(self.host.as_ref(), events)
            .await;
        installed.map_err(|error| {
            failure(self.host.name(), error).hint(format!(
                "the programs need {bytes} bytes; free space on the host"
            ))
        })
    }

    /// Starts a part of the tests.
    pub(super) async fn start(&self, pass: &Pass) -> Result<(), CommandError> {
        let arguments = Conformance {
            run: pass.name.to_owned(),
            processes: pass.processes.to_string(),
            seconds: self.limit.as_secs().to_string(),
            labels: pass.labels.to_owned(),
            focus: pass.focus.clone(),
            skip: pass.skip.clone(),
            ..Default::default()
        };
        let what = format!("start the {}", pass.what);
        self.call("start", &what, arguments).await.map(|_| ())
    }

    /// Waits until a part of the tests has ended, and reports its progress. Returns the exit status of ginkgo.
    pub(super) async fn wait(
        &self,
        pass: &Pass,
        events: &Events,
        stop: &Stop,
    ) -> Result<i32, CommandError> {
        let deadline = tokio::time::Instant::now() + self.limit + GRACE;
        let mut shown = Progress::default();
        loop {
            let what = format!("look at the {}", pass.what);
            let output = self.call("look", &what, []).await?;
            let progress = Progress::parse(&output.text()).ok_or_else(|| {
                CommandError::step(format!(
                    "{}: cannot read the progress of the tests: {}",
                    self.host.name(),
                    output.shown()
                ))
            })?;
            if (progress.done, progress.total) != (shown.done, shown.total) {
                events.emit(Event::Progress {
                    what: "tests".to_owned(),
                    done: progress.done,
                    total: progress.total,
                });
            }
            if progress.failed > shown.failed {
                events.warn(
                    WarningKind::Tests,
                    format!(
                        "{} of {} tests failed so far",
                        progress.failed, progress.done
                    ),
                );
            }
            if !progress.is_running {
                return Ok(progress.status.unwrap_or(1));
            }
            shown = progress;
            if tokio::time::Instant::now() > deadline {
                return Err(CommandError::step(format!(
                    "{}: the {} exceeded the time limit of {} seconds",
                    self.host.name(),
                    pass.what,
                    self.limit.as_secs()
                ))
                .hint("allow more time with --timeout"));
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = stop.cancelled() => {
                    return Err(CommandError::interrupted(format!("the tests were stopped on {}, and their namespaces are being deleted", self.host.name())).hint("run the same command again"));
                }
            }
        }
    }

    /// Returns a file of a run, compressed by gzip.
    pub(super) async fn read(&self, path: &str) -> Result<Vec<u8>, CommandError> {
        let what = format!("read {FOLDER}/{path}");
        let arguments = Conformance {
            file: path.to_owned(),
            ..Default::default()
        };
        let read = self.call("read", &what, arguments).await?;
        Ok(read.stdout)
    }

    /// Returns the last lines of the log.
    pub(super) async fn last(&self) -> Result<String, CommandError> {
        let read = self.call("last", "read the log of the tests", []).await?;
        Ok(kubexm_types::Untrusted::last(&read.text()).to_string())
    }

    /// Ends a run, and removes everything that it left.
    pub(super) async fn remove(&self) -> Result<(), CommandError> {
        let what = "remove the files of the tests";
        self.call("remove", what, []).await.map(|_| ())
    }
}

/// Returns the failure of a step of the engine.
pub(super) fn failure(host: &HostName, error: StepError) -> CommandError {
    match error {
        StepError::Host(error) => error.into(),
        other => CommandError::step(Message::from(&other).within(host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_the_script_is_parsed() {
        let running = "state running\ntotal 406\ndone 12\nfailed 1\n";
        let expected = Progress {
            is_running: true,
            status: None,
            total: 406,
            done: 12,
            failed: 1,
        };
        assert_eq!(Progress::parse(running), Some(expected));
        let ended = "state ended\nstatus 197\ntotal \ndone 0\nfailed 0\n";
        let progress = Progress::parse(ended).unwrap();
        assert!(!progress.is_running);
        assert_eq!((progress.status, progress.total), (Some(197), 0));
    }

    #[test]
    fn other_output_is_not_progress() {
        for text in ["", "done 1\n", "state running\ndone many\n", "hello\n"] {
            assert_eq!(Progress::parse(text), None, "{text}");
        }
    }
}
