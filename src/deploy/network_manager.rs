//! NetworkManager, if a host runs it. It must not manage the interfaces of pods, because it would remove
//! their addresses and routes.

use super::{DeployError, Inputs};
use kubexm_config::cluster::{HostSpec, PluginKind};
use kubexm_engine::plan::{FileContent, PlannedFile};
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_render::os;
use kubexm_scripts::{os as scripts, undo};
use kubexm_types::HostPath;

const PATH: &str = undo::NETWORK_MANAGER_FILE;
/// Interfaces of pods.
const OF_PODS: [&str; 2] = ["cni*", "veth*"];
/// Interfaces that kube-proxy, the DNS cache and Docker create.
const OF_NODES: [&str; 3] = ["kube-ipvs0", "nodelocaldns", "docker0"];

/// Returns the step that configures NetworkManager; `None` if the host does not run it.
pub(super) fn step(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Option<RunScript>, DeployError> {
    if !inputs.host_facts(&host.name).has_network_manager {
        return Ok(None);
    }
    // Those of each plugin: the cluster may have had another one.
    let of_plugins = PluginKind::all_properties().flat_map(|plugin| plugin.interfaces);
    let interfaces = OF_PODS.iter().chain(of_plugins).chain(&OF_NODES);
    let interfaces = interfaces.copied().collect();
    let content = kubexm_render::text("NetworkManager", &os::NetworkManager { interfaces })?;
    let title = "Exclude the interfaces of pods from NetworkManager";
    let (check, apply) = (
        scripts::NETWORK_MANAGER.verb("check"),
        scripts::NETWORK_MANAGER.verb("apply"),
    );
    let step = RunScript::new("NetworkManager", title, check, apply)
        .arguments([PATH, content.trim_end()])
        .undo(Undo::run(undo::NETWORK_MANAGER_FORGET, [PATH]));
    let file = PlannedFile {
        path: HostPath::parse(PATH)?,
        mode: 0o644,
        content: FileContent::Text(content),
    };
    Ok(Some(RunScript {
        files: vec![file],
        ..step
    }))
}
