//! What happens to the operating system of a host first: packages, kernel modules and settings, swap, names, time, `/etc/hosts`.

use std::sync::Arc;

use super::os::{PREPARE, own_directories, packages};
use super::{DeployError, Inputs, host_settings, load_balancer, network_manager, site_files};
use kubexm_config::cluster::{HostSpec, kernel_settings};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallPackages, ManagedBlock, RunScript, Undo, WriteFile};
use kubexm_render::os as template;
use kubexm_scripts::{os as scripts, undo};
use kubexm_types::{HostName, HostPath, InvalidValue};

/// Reports the lines of an earlier install in a file that kubexm no longer manages.
const HAS_BLOCK: &str = "! grep -qs '^# kubexm begin$' /etc/hosts || { \
    echo 'system.manageHostsFile is not applied: /etc/hosts has the lines of an earlier install'; \
    echo 'hint: remove the lines from \"# kubexm begin\" to \"# kubexm end\", if the host finds these names elsewhere'; \
    exit 78; }";

/// Returns the task that prepares a host, without the steps of modules.
pub(super) fn prepare(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let mut task = PREPARE.task(&host.name);
    let system = &inputs.cluster.system;
    // The first step is the last that a reset reverts: later steps write files in these directories.
    task = task.step(own_directories()?);
    if system.install_packages
        && let Some(set) = packages(inputs, &host.name)
    {
        let mut set = set.clone();
        let own = load_balancer::packages_on(inputs, host, set.format);
        set.requested
            .retain(|name| !load_balancer::is_load_balancer(name) || own.contains(&name.as_str()));
        if let Some(step) = load_balancer::mask_services(inputs, host) {
            task = task.step(step);
        }
        task = task.step(InstallPackages {
            set,
            blobs: Arc::clone(&inputs.blobs),
        });
    }
    if system.disable_swap {
        let (check, apply) = (
            scripts::SWAP_OFF.verb("check"),
            scripts::SWAP_OFF.verb("apply"),
        );
        let swap = RunScript::new("swap", "Turn swap off", check, apply);
        task = task.step(swap.undo(Undo::run(undo::SWAP_ON, [""; 0])));
    }
    if let Some(zone) = &system.time_zone {
        let (check, apply) = (
            scripts::TIME_ZONE.verb("check"),
            scripts::TIME_ZONE.verb("apply"),
        );
        let name = format!("Set the time zone {zone}");
        let step = RunScript::new("time-zone", &name, check, apply);
        let step = step.arguments([zone.to_string()]);
        task = task.step(step.undo(Undo::run(undo::TIME_ZONE_RESTORE, [""; 0])));
    }
    let settings = host_settings::steps(inputs.cluster, host);
    task = settings.into_iter().fold(task, Task::step);
    for step in network_manager::steps(inputs, host)? {
        task = task.step(step);
    }
    let modules = inputs.cluster.kernel_modules();
    let text = template::Modules {
        modules: modules.clone(),
    };
    let text = kubexm_render::text("modules", &text)?;
    task = task
        .step(WriteFile::new(
            HostPath::parse("/etc/modules-load.d/kubexm.conf")?,
            text,
        ))
        .step(
            RunScript::new(
                "modules",
                "Load kernel modules",
                scripts::MODULES.verb("check"),
                scripts::MODULES.verb("apply"),
            )
            .arguments(modules)
            .undo(Undo::run(undo::MODULES_UNLOAD, [""; 0])),
        );
    let settings = inputs.cluster.kernel_settings();
    let arguments: Vec<String> = settings
        .iter()
        .flat_map(|(key, value)| [key.clone(), value.clone()])
        .collect();
    let text = kubexm_render::text("sysctl", &template::Sysctl { settings })?;
    task = task
        .step(WriteFile::new(
            HostPath::parse(kernel_settings::FILE)?,
            text,
        ))
        .step(
            RunScript::new(
                "sysctl",
                "Set kernel settings",
                scripts::SYSCTL.verb("check"),
                scripts::SYSCTL.verb("apply"),
            )
            .arguments(arguments)
            .undo(Undo::run(undo::SYSCTL_RESTORE, [""; 0])),
        );
    if system.manage_hosts_file {
        task = task.step(hosts_block(inputs)?);
    } else {
        let title = "Compare /etc/hosts with system.manageHostsFile";
        task = task.step(RunScript::new("hosts block", title, HAS_BLOCK, HAS_BLOCK));
    }
    site_files::write(inputs, host, task)
}

/// Returns the step that writes the names of the cluster into `/etc/hosts`.
pub(super) fn hosts_block(inputs: &Inputs<'_>) -> Result<ManagedBlock, InvalidValue> {
    Ok(ManagedBlock {
        path: HostPath::parse("/etc/hosts")?,
        lines: hosts_file_lines(inputs),
    })
}

/// Returns the lines of `/etc/hosts`: every host, the registry, the control plane's endpoint, and those of the cluster
/// file.
fn hosts_file_lines(inputs: &Inputs<'_>) -> Vec<String> {
    let cluster = inputs.cluster;
    let mut lines: Vec<String> = cluster
        .hosts
        .iter()
        .map(|host| format!("{} {}", host.internal_address(), host.name))
        .collect();
    let address = |name: &HostName| cluster.host(name).map(|host| host.internal_address());
    for address in cluster.roles.registry.iter().filter_map(address) {
        lines.push(format!("{address} {}", cluster.registry.host_name));
    }
    let endpoint = &cluster.control_plane_endpoint;
    if let Some(address) = endpoint
        .address
        .filter(|address| address.to_string() != endpoint.host)
    {
        lines.push(format!("{address} {}", endpoint.host));
    }
    for (address, names) in &cluster.system.hosts {
        lines.extend(names.iter().map(|name| format!("{address} {name}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, with_inputs};

    #[test]
    fn modules_and_names_of_the_user_follow_those_of_the_cluster() {
        let section = "network: {plugin: none}\nsystem: {modules: [dm-crypt, overlay], hosts: {192.0.2.5: [a.example, b.example], \"2001:db8::1\": c.example}}";
        let cluster = cluster("", section);
        assert_eq!(
            cluster.kernel_modules(),
            ["overlay", "br_netfilter", "dm_crypt"]
        );
        with_inputs(&cluster, &[], "", |inputs| {
            let lines = hosts_file_lines(inputs);
            let own = [
                "192.0.2.5 a.example",
                "192.0.2.5 b.example",
                "2001:db8::1 c.example",
            ];
            assert!(lines.ends_with(&own.map(str::to_owned)), "{lines:?}");
        });
    }

    #[test]
    fn hosts_file_has_the_hosts_the_registry_and_the_endpoint() {
        let section = "network: {plugin: none}\nhighAvailability: {type: external}\n\
                       controlPlaneEndpoint: {domain: api.example, address: 192.0.2.10, port: 6443}";
        let cluster = cluster("", section);
        with_inputs(&cluster, &[], "", |inputs| {
            let expected = [
                "192.0.2.11 node1",
                "192.0.2.12 node2",
                "192.0.2.11 registry.kubexm.internal",
                "192.0.2.10 api.example",
            ];
            assert_eq!(hosts_file_lines(inputs), expected);
        });
    }
}
