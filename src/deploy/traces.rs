//! What pods leave on their host, such as interfaces and rules: no step made it, and a reset removes it.

use kubexm_engine::steps::{RunScript, Undo};
use kubexm_scripts::{marks, network};

/// Records, before any such pod runs, that a reset must remove `what`. `whose` selects the traces in
/// `network/remove-traces.sh`.
pub(super) fn note(id: &str, what: &str, whose: &'static str) -> RunScript {
    let name = format!("traces {id}");
    let title = format!("Take note of {what}");
    RunScript::new(&name, title, marks::CHECK, marks::SET)
        .arguments([format!("traces-{id}")])
        .undo(remove(&format!("Remove {what}"), whose))
}

/// Removes traces.
pub(super) fn remove(title: &str, whose: &'static str) -> Undo {
    Undo::script(title, network::REMOVE_TRACES.verb(whose), [""; 0])
}
