//! NetworkManager and systemd-networkd, if a host runs them. They must not manage the interfaces of pods, because they would
//! remove their addresses and routes.

use super::{DeployError, Inputs};
use kubexm_config::cluster::{HostSpec, PluginKind};
use kubexm_engine::plan::{FileContent, PlannedFile};
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_render::os;
use kubexm_scripts::undo::{NETWORK_MANAGER_FILE, NETWORKD_FILE, NETWORKD_NETWORK_FILE};
use kubexm_scripts::{os as scripts, undo};
use kubexm_types::HostPath;

/// Interfaces of pods.
const OF_PODS: [&str; 2] = ["cni*", "veth*"];
/// Interfaces that kube-proxy, the DNS cache and Docker create.
const OF_NODES: [&str; 3] = ["kube-ipvs0", "nodelocaldns", "docker0"];

/// Returns the steps that configure the programs that the host runs.
pub(super) fn steps(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Vec<RunScript>, DeployError> {
    let facts = inputs.host_facts(&host.name);
    // Those of each plugin: the cluster may have had another one.
    let of_plugins = PluginKind::all_properties().flat_map(|plugin| plugin.interfaces);
    let interfaces: Vec<&'static str> = OF_PODS
        .iter()
        .chain(of_plugins)
        .chain(&OF_NODES)
        .copied()
        .collect();
    let mut steps = Vec::new();
    if facts.has_network_manager {
        let interfaces = interfaces.clone();
        let content = kubexm_render::text("NetworkManager", &os::NetworkManager { interfaces })?;
        let title = "Exclude the interfaces of pods from NetworkManager";
        steps.push(step(
            "NetworkManager",
            title,
            NETWORK_MANAGER_FILE,
            content,
        )?);
    }
    if facts.has_networkd {
        let content = kubexm_render::text("networkd.conf", &os::NetworkdConf)?;
        let title = "Keep routes of pods when systemd-networkd starts";
        steps.push(step("networkd routes", title, NETWORKD_FILE, content)?);
        let content = kubexm_render::text("networkd", &os::NetworkdNetwork { interfaces })?;
        let title = "Exclude the interfaces of pods from systemd-networkd";
        steps.push(step("networkd", title, NETWORKD_NETWORK_FILE, content)?);
    }
    Ok(steps)
}

fn step(
    id: &'static str,
    title: &str,
    path: &str,
    content: String,
) -> Result<RunScript, DeployError> {
    let (check, apply) = (
        scripts::NETWORK_MANAGER.verb("check"),
        scripts::NETWORK_MANAGER.verb("apply"),
    );
    let step = RunScript::new(id, title, check, apply)
        .arguments([path, content.trim_end()])
        .undo(Undo::run(undo::NETWORK_MANAGER_FORGET, [path]));
    let file = PlannedFile {
        path: HostPath::parse(path)?,
        mode: 0o644,
        content: FileContent::Text(content),
    };
    Ok(RunScript {
        files: vec![file],
        ..step
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NetworkManager merges files: a plain list would replace that of an earlier file, and a later one would replace it.
    #[test]
    fn lists_of_the_site_stay_and_do_not_replace_that_of_the_cluster() {
        let interfaces = vec!["cni*", "veth*"];
        let text = kubexm_render::text("NetworkManager", &os::NetworkManager { interfaces });
        let text = text.unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let list = "interface-name:cni*;interface-name:veth*;";
        assert_eq!(
            lines,
            [
                "[keyfile]",
                &format!("unmanaged-devices+={list}"),
                "",
                "[device-kubexm]",
                &format!("match-device={list}"),
                "managed=0",
            ]
        );
    }

    #[test]
    fn file_for_networkd_comes_before_those_of_sites() {
        let (folder, name) = NETWORKD_NETWORK_FILE.rsplit_once('/').unwrap();
        assert_eq!(folder, "/etc/systemd/network");
        for other in [
            "0-all.network",
            "00-all.network",
            "000-all.network",
            "10-netplan-a.network",
        ] {
            assert!(name < other, "{other}");
        }
    }
}
