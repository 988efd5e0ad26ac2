//! What pods leave on their host, such as interfaces and rules: no step made it, a reset takes it
//! away.

use kubexm_engine::steps::RunScript;

/// Takes note, before any such pod runs, of the script that removes `what` once all have ended.
pub(super) fn note(id: &str, what: &str, remove: &str) -> RunScript {
    let mark = format!("/var/lib/kubexm/done/traces-{id}");
    let check = format!("[ -e {mark} ] || {{ echo \"has not been done\"; exit 1; }}");
    let apply = format!("umask 077; mkdir -p /var/lib/kubexm/done; : >{mark}");
    let name = format!("traces {id}");
    RunScript::new(&name, format!("Take note of {what}"), &check, &apply)
        .undo_script(&format!("Remove {what}"), remove)
}
