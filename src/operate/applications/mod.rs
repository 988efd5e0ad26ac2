//! The applications of a running cluster. `registry add` applies those of a cluster file.

mod diff;
mod list;
mod remove;
mod values;

use kubexm_types::event::Events;
pub(crate) use list::control_plane;

pub use diff::{ApplicationDiff, DiffOptions, diff};
pub use list::{ApplicationList, ListOptions, ListedApplication, list};
pub use remove::{RemoveOptions, remove};
pub use values::{ApplicationValues, ValuesOptions, values};

/// Names the parts of applications that stay as they are, because the bundle does not have these parts.
pub fn note_left(parts: &[String], events: &Events) {
    for part in parts {
        events.note(format!(
            "left as it is, because the bundle does not have it: {part}"
        ));
    }
}
