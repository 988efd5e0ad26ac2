//! Listeners that receive the events of a command in addition to its caller.

use std::sync::Arc;

use kubexm_engine::plan::{Journal, Plan};
use kubexm_types::event::{Counter, Event, Events, Listener, StepState};

/// Counts the steps of a plan that end.
pub fn with_counter(events: &Events, plan: &Plan) -> Events {
    let tasks = plan.tasks.iter();
    with_count(events, tasks.map(|task| task.steps.len()).sum())
}

/// Counts steps that end, of this number.
pub fn with_count(events: &Events, count: usize) -> Events {
    struct Counted(Events, Counter);
    impl Listener for Counted {
        fn on(&self, event: &Event) {
            if let Event::Step { state, .. } = event
                && *state != StepState::Started
            {
                self.1.advance();
            }
            self.0.emit(event.clone());
        }
    }
    let counter = Counter::new(events.clone(), "steps");
    counter.expect(count);
    Events::new(Arc::new(Counted(events.clone(), counter)))
}

/// Emits events to the caller and to the journal.
pub fn with_journal(events: Events, journal: Arc<Journal>) -> Events {
    struct Both(Events, Arc<Journal>);
    impl Listener for Both {
        fn on(&self, event: &Event) {
            self.0.emit(event.clone());
            if !matches!(event, Event::Progress { .. }) {
                self.1.on(event);
            }
        }
    }
    Events::new(Arc::new(Both(events, journal)))
}
