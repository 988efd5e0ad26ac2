//! Lines for logs and pipes.

use std::collections::BTreeMap;
use std::io::{Stderr, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{bytes, waiting, warning, word};
use kubexm_types::Hint;
use kubexm_types::event::{Event, Listener, StepState};
use kubexm_types::untrusted::printable;

/// The least time between two lines about a running transfer.
const EVERY: Duration = Duration::from_secs(10);

/// Writes to standard error, or to `W`.
pub struct Plain<W = Stderr> {
    out: Mutex<W>,
    transfers: Mutex<BTreeMap<u64, Transfer>>,
    overall: Mutex<Overall>,
}

/// A download or upload of fewer bytes gets no line when it succeeds.
const SMALL: u64 = 1024 * 1024;

/// How much of the command is done.
#[derive(Default)]
struct Overall {
    /// "17 of 45", once it is known.
    text: Option<String>,
    /// When the last line about downloads was written.
    reported: Option<Instant>,
}

impl Overall {
    /// Stores new numbers. Returns a line if one is due: each step has its own line, downloads do not.
    fn update(&mut self, what: &str, done: u64, total: u64) -> Option<String> {
        let text = format!("{done} of {total}");
        if what == "steps" {
            self.text = Some(text);
            return None;
        }
        let now = Instant::now();
        let since = *self.reported.get_or_insert(now);
        if now.duration_since(since) < EVERY {
            return None;
        }
        self.reported = Some(now);
        Some(format!("{text} {what}"))
    }
}

struct Transfer {
    kind: &'static str,
    label: String,
    total: Option<u64>,
    moved: u64,
    began: Instant,
    reported: Instant,
}

impl Transfer {
    fn advance(&mut self, count: u64) -> Option<String> {
        self.moved += count;
        if self.reported.elapsed() < EVERY {
            return None;
        }
        self.reported = Instant::now();
        let of = self.total.map(|total| format!(" of {}", bytes(total)));
        let (kind, label, moved) = (self.kind, &self.label, bytes(self.moved));
        Some(format!("{kind} {label}: {moved}{}", of.unwrap_or_default()))
    }

    /// Returns the last line. A build has hundreds of small downloads, which get none.
    fn end(&self, ok: bool) -> Option<String> {
        let is_small = self.moved < SMALL && ["download", "push"].contains(&self.kind);
        if ok && is_small {
            return None;
        }
        let end = if ok { "done" } else { "stopped" };
        let (kind, label, moved) = (self.kind, &self.label, bytes(self.moved));
        let seconds = self.began.elapsed().as_secs_f64();
        Some(format!("{kind} {label}: {end}, {moved} in {seconds:.1} s"))
    }
}

impl<W: Write> Plain<W> {
    /// Returns a reporter that writes lines to `out`.
    pub fn to(out: W) -> Self {
        Self {
            out: Mutex::new(out),
            transfers: Mutex::default(),
            overall: Mutex::default(),
        }
    }

    fn print(&self, line: &str) {
        if let Ok(mut out) = self.out.lock() {
            // A closed pipe must not stop an install halfway.
            let _ = writeln!(out, "{}", printable(line));
        }
    }

    /// Records an event of a transfer. Returns a line if one is due.
    fn transfer(&self, event: &Event) -> Option<String> {
        let mut transfers = self.transfers.lock().ok()?;
        match event {
            Event::TransferStarted {
                id,
                kind,
                label,
                total,
            } => {
                let now = Instant::now();
                let transfer = Transfer {
                    kind,
                    label: label.clone(),
                    total: *total,
                    moved: 0,
                    began: now,
                    reported: now,
                };
                transfers.insert(*id, transfer);
                None
            }
            Event::TransferAdvanced { id, bytes } => transfers.get_mut(id)?.advance(*bytes),
            Event::TransferEnded { id, ok } => transfers.remove(id)?.end(*ok),
            _ => None,
        }
    }
}

impl<W: Write + Send> Listener for Plain<W> {
    fn on(&self, event: &Event) {
        match event {
            Event::Phase { name } => self.print(&format!("== {name}")),
            Event::Note { message } => self.print(message),
            Event::Progress { what, done, total } => {
                let overall = self.overall.lock().ok();
                let line = overall.and_then(|mut overall| overall.update(what, *done, *total));
                line.iter().for_each(|line| self.print(line));
            }
            Event::Waiting {
                host,
                what,
                missing,
                elapsed,
            } => {
                let text = waiting(what, missing.as_deref(), *elapsed);
                self.print(&match host {
                    Some(host) => format!("{host}: {text}"),
                    None => text,
                });
            }
            Event::Finding { .. } | Event::Warning { .. } => {
                warning(event).iter().for_each(|line| self.print(line));
            }
            Event::Step {
                host,
                step,
                state,
                elapsed,
                ..
            } => {
                if let Some(word) = word(state) {
                    let seconds = elapsed.as_secs_f64();
                    let overall = self.overall.lock().ok();
                    let overall = overall.and_then(|overall| overall.text.clone());
                    let overall = overall.map(|text| format!(" [{text}]"));
                    let overall = overall.unwrap_or_default();
                    self.print(&format!("{host}: {step}: {word} ({seconds:.1} s){overall}"));
                }
                if let StepState::Failed { reason, hint, .. } = state {
                    self.print(&format!("{host}: {reason}{}", Hint(hint.as_deref())));
                }
            }
            _ => {
                if let Some(line) = self.transfer(event) {
                    self.print(&line);
                }
            }
        }
    }
}
