//! The users that run the services of kubexm.

use kubexm_engine::plan::Describe;
use kubexm_engine::steps::{RunScript, TrackNewDirs, Undo};
use kubexm_scripts::os::USER;
use kubexm_scripts::undo::USER_REMOVE;

/// Creates a system user and its group, unless they exist. A reset removes what the step created, after all steps of the
/// task that follow `dirs`, which is the first of them.
pub(crate) fn create(name: &'static str, dirs: &TrackNewDirs) -> RunScript {
    RunScript::new(
        &format!("user {name}"),
        format!("Create the user {name}"),
        USER.verb("check"),
        USER.verb("apply"),
    )
    .arguments([name])
    .undo(Undo::run(USER_REMOVE, [name]))
    .undo_with(&dirs.id())
}
