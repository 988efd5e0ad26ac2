//! Bars and lines for a person at a terminal.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{warning, word};
use crate::event::{Event, Listener, StepState};

/// Draws on standard error.
pub struct Terminal {
    screen: MultiProgress,
    bars: Mutex<BTreeMap<u64, ProgressBar>>,
    running: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Terminal {
    /// A screen without bars.
    pub fn new() -> Self {
        Self {
            screen: MultiProgress::new(),
            bars: Mutex::default(),
            running: Mutex::default(),
        }
    }

    fn say(&self, line: &str) {
        let _ = self.screen.println(line);
    }

    fn start(&self, id: u64, kind: &str, label: &str, total: Option<u64>) {
        let bar = match total {
            Some(total) => ProgressBar::new(total).with_style(style(
                "{prefix:8} {msg:28} {bar:14} {bytes:>10}/{total_bytes:10} {eta:>4}",
            )),
            None => ProgressBar::new_spinner().with_style(style(
                "{prefix:8} {msg:28} {spinner} {bytes:>10} {bytes_per_sec}",
            )),
        };
        let bar = self.screen.add(bar);
        bar.set_prefix(kind.to_owned());
        bar.set_message(shorten(label, 28));
        if let Ok(mut bars) = self.bars.lock() {
            bars.insert(id, bar);
        }
    }

    fn end(&self, id: u64) {
        if let Ok(mut bars) = self.bars.lock()
            && let Some(bar) = bars.remove(&id)
        {
            bar.finish_and_clear();
            self.screen.remove(&bar);
        }
    }

    fn step(&self, host: &str, step: &str, state: &StepState, elapsed: Duration) {
        let Ok(mut running) = self.running.lock() else {
            return;
        };
        if *state == StepState::Started {
            let bar = running.entry(host.to_owned()).or_insert_with(|| {
                let bar = self.screen.add(ProgressBar::new_spinner());
                bar.set_style(style("{spinner} {prefix:10} {msg}"));
                bar.set_prefix(host.to_owned());
                bar.enable_steady_tick(Duration::from_millis(120));
                bar
            });
            bar.set_message(shorten(step, 64));
            return;
        }
        if let Some(word) = word(state) {
            let line = format!(
                "{host:10} {} ({word}, {:.1} s)",
                shorten(step, 50),
                elapsed.as_secs_f64()
            );
            self.say(&line);
        }
        if let StepState::Failed(reason) = state {
            self.say(reason);
        }
        if let Some(bar) = running.get(host) {
            bar.set_message("waiting");
        }
    }

    /// Takes all bars away, so that what is written next is not drawn over.
    fn close(&self) {
        if let Ok(mut running) = self.running.lock() {
            running.values().for_each(ProgressBar::finish_and_clear);
            running.clear();
        }
        if let Ok(mut bars) = self.bars.lock() {
            bars.values().for_each(ProgressBar::finish_and_clear);
            bars.clear();
        }
        let _ = self.screen.clear();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.close();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Keeps the end of a long label: it tells more than the beginning.
fn shorten(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(count - width + 1).collect();
    format!("…{tail}")
}

impl Listener for Terminal {
    fn on(&self, event: &Event) {
        match event {
            Event::Phase { name } => self.say(&format!("── {name}")),
            Event::TransferStarted {
                id,
                kind,
                label,
                total,
            } => self.start(*id, kind, label, *total),
            Event::TransferAdvanced { id, bytes } => {
                if let Ok(bars) = self.bars.lock()
                    && let Some(bar) = bars.get(id)
                {
                    bar.inc(*bytes);
                }
            }
            Event::TransferEnded { id, .. } => self.end(*id),
            Event::Step {
                host,
                step,
                state,
                elapsed,
                ..
            } => {
                self.step(host.as_str(), step, state, *elapsed);
            }
            Event::Warning { message } => self.say(&format!("warning: {message}")),
            Event::Note { message } => self.say(message),
            Event::Finding { .. } => warning(event).iter().for_each(|line| self.say(line)),
            // The command itself writes these for people, below where the bars were.
            Event::Summary { .. } | Event::End { .. } => self.close(),
            Event::Planned { .. } => {}
        }
    }
}
