//! Runtimes besides the container runtime's own (`spec.containerRuntime.runtimes`).

use crate::Inputs;
use kubexm_render::cri;

/// Returns the runtimes that the configuration of the container runtime has besides its own.
pub(super) fn others(inputs: &Inputs<'_>) -> Vec<cri::OciRuntime> {
    let classes = inputs.cluster.runtime.classes.iter();
    classes
        .filter_map(|class| {
            Some(cri::OciRuntime {
                name: class.name.to_string(),
                program: class.program.as_ref()?.to_string(),
            })
        })
        .collect()
}
