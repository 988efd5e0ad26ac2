//! Pipeline ► Module ► Task ► Step: the plan is made first and whole, then it runs.
//!
//! A [`Step`] is an atom on one host: it checks, applies, and records how to take itself back. A
//! [`Task`] is a list of steps on one host; tasks form a graph by `after` and by the typed values
//! ([`Slot`]) that some give and others need. A module is a group of tasks with a name.

pub mod executor;
pub mod graph;
pub mod journal;
mod progress;
pub mod receipt;
pub mod show;
pub mod slot;
pub mod step;
pub mod task;

pub use executor::{AT_ONCE, GRACE, Stop, execute};
pub use graph::BrokenPlan;
pub use journal::Journal;
pub use progress::{Outcome, Skip};
pub use receipt::Receipt;
pub use slot::Slot;
pub use step::{Check, RenderedFile, Step, StepContext, StepError, UndoLog};
pub use task::{Plan, Task, TaskId};
