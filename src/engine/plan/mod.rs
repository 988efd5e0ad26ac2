//! Plans and their execution. kubexm makes the whole plan before it runs the first step.
//!
//! A [`Step`] is the smallest unit of work on one host. There are three kinds:
//! - [`Ensure`] checks a state, applies it where it is needed, and records how to revert it;
//! - [`Action`] runs once in a plan, and its result goes into a [`TaskValue`] or into the cluster;
//! - [`Wait`] polls until a condition holds or a limit is reached.
//!
//! A [`Task`] is a list of steps on one host. Tasks form a graph by `after` and by the typed values
//! ([`TaskValue`]) that some provide and others require. A module is a named group of tasks.

pub mod diff;
pub mod document;
pub mod executor;
mod file;
pub(crate) mod flush;
pub mod graph;
mod host_log;
pub mod journal;
pub mod notice;
mod perform;
mod progress;
pub mod receipt;
pub mod restrict;
pub mod show;
pub mod step;
mod stop;
pub mod task;
pub mod value;
mod watched_host;

pub use executor::{AT_ONCE, GRACE, execute};
pub use file::{FileContent, PlannedFile, RenderedFile};
pub use graph::InvalidPlan;
pub use host_log::LoggedHost;
pub use journal::Journal;
pub use notice::Watch;
pub use perform::{Done, perform};
pub use progress::{Outcome, SkipReason};
pub use receipt::{Receipt, Record};
pub use step::{
    About, Action, Check, Condition, Describe, Ensure, Kind, Step, StepContext, StepError, UndoLog,
    Wait,
};
pub use stop::{Hopeless, Stop};
pub use task::{Plan, Task, TaskId, TaskName};
pub use value::TaskValue;
pub use watched_host::WatchedHost;
