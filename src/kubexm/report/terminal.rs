//! Progress bars and lines for a terminal, without colours.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::text::{keep_end, keep_start, wrap};
use super::{waiting, warning, word};
use kubexm_types::Hint;
use kubexm_types::event::{Event, Listener, StepState};
use kubexm_types::untrusted::printable;

/// The width of lines in columns. A wider terminal is not filled, and a narrower one wraps.
const WIDTH: usize = 80;
const HOST: usize = 20;
const LABEL: usize = 28;

/// Draws progress bars and lines on standard error.
pub struct Terminal {
    screen: MultiProgress,
    bars: Mutex<BTreeMap<u64, ProgressBar>>,
    running: Mutex<BTreeMap<String, ProgressBar>>,
    overall: Mutex<Option<ProgressBar>>,
}

impl Terminal {
    /// Returns a reporter for standard error.
    pub fn new() -> Self {
        Self::on(ProgressDrawTarget::stderr())
    }

    /// Returns a reporter for another device.
    pub(super) fn on(device: ProgressDrawTarget) -> Self {
        Self {
            screen: MultiProgress::with_draw_target(device),
            bars: Mutex::default(),
            running: Mutex::default(),
            overall: Mutex::default(),
        }
    }

    fn print(&self, text: &str) {
        let _ = self.screen.println(wrap(&printable(text), WIDTH));
    }

    fn start(&self, id: u64, kind: &str, label: &str, total: Option<u64>) {
        let bar = match total {
            Some(total) => ProgressBar::new(total).with_style(style(
                "{prefix:8} {msg:28} {bar:12} {bytes:>11}/{total_bytes:11} {eta:>4}",
            )),
            None => ProgressBar::new_spinner().with_style(style(
                "{prefix:8} {msg:28} {spinner} {bytes:>11} {bytes_per_sec}",
            )),
        };
        let bar = self.screen.add(bar);
        bar.set_prefix(kind.to_owned());
        bar.set_message(keep_end(&one_line(label), LABEL));
        if let Ok(mut bars) = self.bars.lock() {
            bars.insert(id, bar);
        }
    }

    fn advance(&self, id: u64, count: u64) {
        if let Ok(bars) = self.bars.lock()
            && let Some(bar) = bars.get(&id)
        {
            bar.inc(count);
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
        let name = format!("{:10}", keep_start(host, HOST));
        let step = one_line(step);
        if *state == StepState::Started {
            let bar = running
                .entry(host.to_owned())
                .or_insert_with(|| self.host_line(&name));
            // Three columns are for the spinner and the spaces around the name.
            bar.set_message(keep_end(&step, WIDTH - 3 - name.chars().count()));
            return;
        }
        if let Some(word) = word(state) {
            let end = format!("({word}, {:.1} s)", elapsed.as_secs_f64());
            let columns = WIDTH - 2 - name.chars().count() - end.chars().count();
            self.print(&format!("{name} {} {end}", keep_end(&step, columns)));
        }
        if let StepState::Failed { reason, hint, .. } = state {
            self.print(&format!("{reason}{}", Hint(hint.as_deref())));
        }
        if let Some(bar) = running.get(host) {
            bar.set_message("waiting");
        }
    }

    /// Shows how much of the command is done: "17 of 45 steps".
    fn progress(&self, what: &str, done: u64, total: u64) {
        let Ok(mut overall) = self.overall.lock() else {
            return;
        };
        let bar = overall.get_or_insert_with(|| {
            let bar = self.screen.add(ProgressBar::new(total));
            bar.set_style(style("{pos} of {len} {msg}"));
            bar
        });
        bar.set_message(what.to_owned());
        bar.set_length(total);
        bar.set_position(done);
    }

    fn host_line(&self, name: &str) -> ProgressBar {
        let bar = self.screen.add(ProgressBar::new_spinner());
        bar.set_style(style("{spinner} {prefix} {msg}"));
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// Removes all bars, so that they do not overwrite the text that follows.
    fn close(&self) {
        if let Ok(mut running) = self.running.lock() {
            running.values().for_each(ProgressBar::finish_and_clear);
            running.clear();
        }
        if let Ok(mut overall) = self.overall.lock()
            && let Some(bar) = overall.take()
        {
            bar.finish_and_clear();
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

fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

impl Listener for Terminal {
    fn on(&self, event: &Event) {
        match event {
            Event::Phase { name } => self.print(&format!("── {name}")),
            Event::TransferStarted {
                id,
                kind,
                label,
                total,
            } => self.start(*id, kind, label, *total),
            Event::TransferAdvanced { id, bytes } => self.advance(*id, *bytes),
            Event::TransferEnded { id, .. } => self.end(*id),
            Event::Step {
                host,
                step,
                state,
                elapsed,
                ..
            } => self.step(host.as_str(), step, state, *elapsed),
            Event::Waiting {
                host,
                what,
                missing,
                elapsed,
            } => {
                let text = waiting(what, missing.as_deref(), *elapsed);
                let host = host.as_ref().map_or("", |host| host.as_str());
                self.print(&format!("{:10} {text}", keep_start(host, HOST)));
            }
            Event::Note { message } => self.print(message),
            Event::Finding { .. } | Event::Warning { .. } => {
                warning(event).iter().for_each(|line| self.print(line));
            }
            // The command prints these itself, after the bars are removed.
            Event::Summary { .. } | Event::Written { .. } | Event::End { .. } => self.close(),
            Event::Progress { what, done, total } => self.progress(what, *done, *total),
            Event::Planned { .. } => {}
        }
    }
}
