//! `-v`, `-vv` and `--log FILE`: what kubexm does, for people who look for the cause of a problem.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::{ArgAction, Args};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::Failure;
use super::help::GLOBAL;
use kubexm_types::event::{Event, Events, Listener};
use kubexm_types::untrusted::printable;

/// Only kubexm's own crates write to the log: other libraries might log what they send.
const TARGET: &str = "kubexm";

/// What to log, and where.
#[derive(Debug, Args)]
pub struct LoggingArgs {
    /// Log to standard error; -vv logs every detail
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GLOBAL)]
    verbose: u8,
    /// Append a log with every detail to this file
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    log: Option<PathBuf>,
}

impl LoggingArgs {
    /// Returns whether log lines go to standard error, where they would destroy progress bars.
    pub fn to_terminal(&self) -> bool {
        self.verbose > 0
    }

    /// Installs the subscriber of `tracing`.
    pub fn start(&self) -> Result<(), Failure> {
        let level = match self.verbose {
            0 => LevelFilter::OFF,
            1 => LevelFilter::INFO,
            _ => LevelFilter::DEBUG,
        };
        let terminal = fmt::layer()
            .with_writer(|| Printable(std::io::stderr()))
            .with_ansi(false)
            .with_filter(Targets::new().with_target(TARGET, level));
        let file = match &self.log {
            None => None,
            Some(path) => {
                let open = File::options().create(true).append(true).open(path);
                let file = open.map_err(|error| {
                    Failure::configuration(format!(
                        "cannot write the log {}: {error}",
                        path.display()
                    ))
                })?;
                let filter = Targets::new().with_target(TARGET, LevelFilter::DEBUG);
                let file = Mutex::new(Printable(file));
                let layer = fmt::layer().with_writer(file).with_ansi(false);
                Some(layer.with_filter(filter))
            }
        };
        let subscriber = tracing_subscriber::registry().with(terminal).with(file);
        subscriber.try_init().map_err(Failure::defect)
    }
}

/// A writer that removes control sequences: fields of log lines may quote hosts and servers.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The layer writes each line at once.
        let text = printable(&String::from_utf8_lossy(line));
        self.0.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Emits events to the reporter and to the log. No event contains a secret.
pub fn with_log(events: Events) -> Events {
    struct Logged(Events);
    impl Listener for Logged {
        fn on(&self, event: &Event) {
            match event {
                Event::TransferAdvanced { .. } | Event::Progress { .. } => {}
                Event::Phase { name } => tracing::info!(phase = name),
                Event::Warning { message, hint, .. } => {
                    tracing::warn!(hint, "{message}");
                }
                other => tracing::debug!(event = serde_json::to_string(other).unwrap_or_default()),
            }
            self.0.emit(event.clone());
        }
    }
    Events::new(Arc::new(Logged(events)))
}
