//! NetworkManager, where a host has it: it must leave the interfaces of pods alone, which it would else
//! take addresses and routes from.

use super::{DeployError, Inputs};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{FileContent, PlannedFile};
use kubexm_engine::steps::RunScript;
use kubexm_render::os;
use kubexm_types::HostPath;

const PATH: &str = "/etc/NetworkManager/conf.d/kubexm.conf";
/// Interfaces that runtimes, kube-proxy and network plugins make.
const INTERFACES: [&str; 11] = [
    "cni*",
    "veth*",
    "flannel*",
    "cali*",
    "tunl*",
    "vxlan.calico",
    "cilium*",
    "lxc*",
    "kube-ipvs0",
    "nodelocaldns",
    "docker0",
];

/// Arguments: the file, its text.
const IS_TOLD: &str = r#"
[ "$(cat "$1" 2>/dev/null)" = "$2" ] || { echo "is not told"; exit 1; }
"#;
const TELL: &str = r#"
umask 022
mkdir -p "$(dirname "$1")"
printf '%s\n' "$2" >"$1.partial"
mv -f "$1.partial" "$1"
systemctl reload NetworkManager
"#;
const FORGET: &str = r#"
rm -f "$1" "$1.partial"
systemctl reload NetworkManager 2>/dev/null || :
"#;

/// Tells NetworkManager; `None` where a host runs none.
pub(super) fn step(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Option<RunScript>, DeployError> {
    if !inputs.machine(&host.name).has_network_manager {
        return Ok(None);
    }
    let interfaces = INTERFACES.to_vec();
    let content = kubexm_render::text("NetworkManager", &os::NetworkManager { interfaces })?;
    let title = "Keep NetworkManager from the interfaces of pods";
    let step = RunScript::new("NetworkManager", title, IS_TOLD, TELL)
        .arguments([PATH, content.trim_end()])
        .undo_script("Give NetworkManager all interfaces again", FORGET);
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
