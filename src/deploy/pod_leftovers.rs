//! Leftovers of pods on their host, such as network interfaces and rules. No step created them, and a reset
//! removes them.

use kubexm_engine::steps::{RunScript, Undo};
use kubexm_scripts::markers;
use kubexm_scripts::undo::LEFTOVERS_REMOVE;

/// Records, before such a pod runs, that a reset must remove `what`. `owner` is an argument of
/// `network/remove-leftovers.sh`.
pub(super) fn register_cleanup(id: &str, what: &str, owner: &'static str) -> RunScript {
    let name = format!("traces {id}");
    let title = format!("Record {what} for a reset");
    RunScript::new(&name, title, markers::CHECK, markers::SET)
        .arguments([format!("traces-{id}")])
        .undo(remove(owner))
}

/// Returns the undo record that removes the leftovers of an owner.
pub(super) fn remove(owner: &'static str) -> Undo {
    Undo::run(LEFTOVERS_REMOVE, [owner])
}
