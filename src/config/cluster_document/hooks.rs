//! `spec.system.hooks`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::system::read_source;
use crate::cluster::{Hook, HookPhase, HookRun, HookTime, Role};
use crate::reader::{Fields, accept};
use kubexm_types::HookName;

/// Time limit of a hook without `timeoutSeconds`.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(super) fn read_hooks(system: &Fields<'_>) -> Vec<Hook> {
    let mut names = BTreeSet::new();
    system.sections("hooks", |fields| {
        let hook = read_hook(fields)?;
        if !names.insert(hook.name.clone()) {
            let message = format!("another hook has the name {}", hook.name);
            let hint = "give each hook another name: hosts record by name which hooks they ran";
            fields.problem_here(message, Some(hint));
        }
        Some(hook)
    })
}

fn read_hook(fields: &Fields<'_>) -> Option<Hook> {
    let name = fields
        .required("name")
        .and_then(|_| fields.value::<HookName>("name"));
    let phase = fields
        .required("phase")
        .and_then(|_| fields.one_of("phase", HookPhase::ALL, HookPhase::name));
    let time = fields
        .required("when")
        .and_then(|_| fields.one_of("when", HookTime::ALL, HookTime::name));
    let script = read_source(fields);
    let roles = fields.choices("roles", accept(Role::NAMES));
    let timeout = fields.number("timeoutSeconds", 1, 3600);
    let timeout = timeout.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
    let run = fields.one_of("run", HookRun::ALL, HookRun::name);
    if phase == Some(HookPhase::Reset) {
        let message = "is not accepted with phase: reset";
        let hint = "remove it: every reset runs its hooks";
        fields.problem("run", message, Some(hint));
    }
    Some(Hook {
        name: name?,
        phase: phase?,
        time: time?,
        script: script?,
        roles: roles.into_iter().filter_map(Role::named).collect(),
        timeout: timeout.unwrap_or(TIMEOUT),
        run: run.unwrap_or(HookRun::Changed),
    })
}
