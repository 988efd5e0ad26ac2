//! Lines for logs and pipes.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{bytes, warning, word};
use crate::event::{Event, Listener, StepState};

/// A running transfer says something at most this often.
const EVERY: Duration = Duration::from_secs(10);

/// Writes to standard error.
#[derive(Default)]
pub struct Plain {
    transfers: Mutex<BTreeMap<u64, Transfer>>,
}

struct Transfer {
    kind: &'static str,
    label: String,
    total: Option<u64>,
    moved: u64,
    began: Instant,
    said: Instant,
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl Plain {
    fn transfer(&self, event: &Event) {
        let Ok(mut transfers) = self.transfers.lock() else {
            return;
        };
        match event {
            Event::TransferStarted {
                id,
                kind,
                label,
                total,
            } => {
                let now = Instant::now();
                let (label, total) = (label.clone(), *total);
                transfers.insert(
                    *id,
                    Transfer {
                        kind,
                        label,
                        total,
                        moved: 0,
                        began: now,
                        said: now,
                    },
                );
            }
            Event::TransferAdvanced { id, bytes: count } => {
                let Some(transfer) = transfers.get_mut(id) else {
                    return;
                };
                transfer.moved += count;
                if transfer.said.elapsed() >= EVERY {
                    transfer.said = Instant::now();
                    let of = transfer.total.map(|total| format!(" of {}", bytes(total)));
                    let of = of.unwrap_or_default();
                    say(&format!(
                        "{} {}: {}{of}",
                        transfer.kind,
                        transfer.label,
                        bytes(transfer.moved)
                    ));
                }
            }
            Event::TransferEnded { id, ok } => {
                let Some(transfer) = transfers.remove(id) else {
                    return;
                };
                let seconds = transfer.began.elapsed().as_secs_f64();
                let end = if *ok { "done" } else { "stopped" };
                let Transfer {
                    kind, label, moved, ..
                } = transfer;
                say(&format!(
                    "{kind} {label}: {end}, {} in {seconds:.1} s",
                    bytes(moved)
                ));
            }
            _ => {}
        }
    }
}

impl Listener for Plain {
    fn on(&self, event: &Event) {
        match event {
            Event::Phase { name } => say(&format!("== {name}")),
            Event::Warning { message } => say(&format!("warning: {message}")),
            Event::Note { message } => say(message),
            Event::Finding { .. } => warning(event).iter().for_each(|line| say(line)),
            Event::Step {
                host,
                step,
                state,
                elapsed,
                ..
            } => {
                if let Some(word) = word(state) {
                    say(&format!(
                        "{host}: {step}: {word} ({:.1} s)",
                        elapsed.as_secs_f64()
                    ));
                }
                if let StepState::Failed(reason) = state {
                    say(&format!("{host}: {reason}"));
                }
            }
            _ => self.transfer(event),
        }
    }
}
