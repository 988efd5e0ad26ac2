//! Pipeline ► Module ► Task ► Step: the plan is made first and whole, then it runs.
//!
//! A [`Step`] is the smallest unit of work on one host. There are three kinds:
//! - [`Ensure`] checks a state, applies it where it is needed, and records how to revert it;
//! - [`Action`] runs once in a plan, and its result goes into a [`Slot`] or into the cluster;
//! - [`Wait`] polls until a condition holds or a limit is reached.
//!
//! A [`Task`] is a list of steps on one host. Tasks form a graph by `after` and by the typed values
//! ([`Slot`]) that some give and others need. A module is a group of tasks with a name.

pub mod diff;
pub mod document;
pub mod executor;
mod file;
pub mod graph;
pub mod journal;
mod perform;
mod progress;
pub mod receipt;
pub mod show;
pub mod slot;
pub mod step;
pub mod task;

pub use executor::{AT_ONCE, GRACE, Stop, execute};
pub use file::{FileContent, PlannedFile, RenderedFile};
pub use graph::BrokenPlan;
pub use journal::Journal;
pub use perform::{Done, perform};
pub use progress::{Outcome, Skip};
pub use receipt::Receipt;
pub use slot::Slot;
pub use step::{
    Action, Check, Condition, Describe, Ensure, Kind, Step, StepContext, StepError, UndoLog, Wait,
};
pub use task::{Plan, Task, TaskId, TaskName};
