//! Events without control sequences.

use super::{Event, StepState};
use crate::untrusted::message;

impl Event {
    /// Returns the event with printable texts of limited length. Paths stay: a program that reads events needs
    /// them as they are.
    pub(super) fn printable(mut self) -> Self {
        match &mut self {
            Self::Phase { name: text }
            | Self::TransferStarted { label: text, .. }
            | Self::Progress { what: text, .. }
            | Self::Note { message: text } => clean(text),
            Self::Warning { message, hint, .. } => {
                clean(message);
                hint.iter_mut().for_each(clean);
            }
            Self::End {
                message,
                hint,
                problems,
                ..
            } => {
                message.iter_mut().chain(hint).for_each(clean);
                for problem in problems {
                    clean(&mut problem.message);
                    problem.hint.iter_mut().for_each(clean);
                }
            }
            Self::Step {
                module,
                task,
                step,
                state,
                ..
            } => {
                [module, task, step].into_iter().for_each(clean);
                if let StepState::Failed { reason, hint, .. } = state {
                    std::iter::once(reason).chain(hint).for_each(clean);
                }
            }
            Self::Planned {
                module,
                task,
                steps,
                ..
            } => {
                [module, task].into_iter().chain(steps).for_each(clean);
            }
            Self::Finding { what, hint, .. } => [what, hint].into_iter().for_each(clean),
            Self::Waiting { what, missing, .. } => {
                std::iter::once(what).chain(missing).for_each(clean);
            }
            Self::TransferAdvanced { .. }
            | Self::TransferEnded { .. }
            | Self::Summary { .. }
            | Self::Written { .. } => {}
        }
        self
    }
}

fn clean(text: &mut String) {
    *text = message(text);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use crate::Message;
    use crate::event::{Events, Listener};

    use super::*;

    #[derive(Default)]
    struct Book(Mutex<Vec<String>>);

    impl Listener for Book {
        fn on(&self, event: &Event) {
            let line = serde_json::to_string(event).unwrap();
            self.0.lock().unwrap().push(line);
        }
    }

    #[test]
    fn every_listener_gets_printable_texts() {
        let hostile = "\u{1b}]0;PWNED\u{7}\u{1b}[2Jwell\u{202e}";
        let text = || hostile.to_owned();
        let host: crate::HostName = "node1".parse().unwrap();
        let step = |state| Event::Step {
            host: host.clone(),
            module: text(),
            task: text(),
            step: text(),
            state,
            elapsed: std::time::Duration::ZERO,
        };
        let book = Arc::new(Book::default());
        let events = Events::new(Arc::clone(&book) as _);
        events.phase(hostile);
        let said = || Message::new(hostile).hint(hostile);
        events.warn(crate::WarningKind::Host, said());
        events.note(hostile);
        events.end(1, None, Some(said()));
        events.transfer("seed", hostile, None).done();
        events.emit(step(StepState::failed(crate::ErrorKind::Step, said())));
        events.emit(step(StepState::Started));
        events.emit(Event::Finding {
            host: host.clone(),
            kind: crate::FindingKind::Swap,
            fatal: true,
            what: text(),
            hint: text(),
        });
        events.emit(Event::Planned {
            host: host.clone(),
            module: text(),
            task: text(),
            steps: vec![text()],
        });
        let lines = book.0.lock().unwrap();
        assert_eq!(lines.len(), 10);
        for line in lines.iter() {
            let bad = ["PWNED", "\\u001b", "\u{202e}"];
            assert!(!bad.iter().any(|bad| line.contains(bad)), "{line}");
        }
    }
}
