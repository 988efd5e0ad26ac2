//! The address of the endpoint on hosts where keepalived or kube-vip configures it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::DeployError;
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::Limit;
use kubexm_engine::plan::TaskValue;
use kubexm_engine::steps::{ProvideValue, RunScript, Undo};
use kubexm_scripts::load_balancer::{self as scripts, ADDRESS_LEAVE};
use kubexm_scripts::markers;
use kubexm_scripts::undo::ADDRESS_REMOVE;
use kubexm_types::InterfaceName;

/// Prints the names of the network interfaces. `/sys/class/net` may have those of another network namespace.
const INTERFACES: &str = "ip -o link show | awk -F': ' '{ sub(/@.*/, \"\", $2); print $2 }'";

/// How long kube-vip on another host may take until the endpoint answers.
const LEAVE: Limit = Limit::new(Duration::from_secs(300), "the containers of kube-vip");

/// Records that a host may have the address, so that a reset removes it.
pub(super) fn register_cleanup(address: IpAddr) -> RunScript {
    let step = RunScript::new(
        "endpoint address",
        format!("Record the address {address} for a reset"),
        markers::CHECK,
        markers::SET,
    );
    step.arguments([format!("address-{address}")])
        .undo(Undo::run(ADDRESS_REMOVE, [address.to_string()]))
}

/// Returns the step after which kube-vip on another host has the address, and this host does not take it for five minutes.
pub(super) fn leaving(address: IpAddr, port: u16) -> RunScript {
    let title = format!("Let another control plane have {address}");
    let (check, apply) = (ADDRESS_LEAVE.verb("check"), ADDRESS_LEAVE.verb("apply"));
    let step = RunScript::new("endpoint leaves", title, check, apply).limit(LEAVE);
    let server = format!("https://{}", SocketAddr::new(address, port));
    step.arguments([address.to_string(), server])
}

/// Returns the step after which kube-vip on this host can take the address again.
pub(super) fn returning(address: IpAddr) -> RunScript {
    let title = format!("Let this control plane take {address} again");
    let (check, apply) = (ADDRESS_LEAVE.verb("returned"), ADDRESS_LEAVE.verb("return"));
    let step = RunScript::new("endpoint returns", title, check, apply);
    step.arguments([address.to_string()])
}

/// Returns a step that finds the network interface with the host's own address, and the value that it
/// provides. This interface also gets the address of the endpoint.
///
/// With an interface in the cluster file, the step checks that the host has it.
pub(super) fn interface(
    cluster: &Cluster,
    host: &HostSpec,
) -> (ProvideValue<InterfaceName>, TaskValue<InterfaceName>) {
    let interface = TaskValue::new("load_balancer.interface");
    let address = host.internal_address();
    if let Some(name) = cluster.high_availability.interface_of(&host.name) {
        let missing = format!("the host has no network interface {name}");
        let step = ProvideValue {
            title: format!("Check the network interface {name}"),
            script: INTERFACES.into(),
            arguments: Vec::new(),
            input: None,
            parse: Box::new({
                let name = name.clone();
                move |printed| {
                    if printed.lines().any(|line| line.trim() == name.as_str()) {
                        Ok(name.clone())
                    } else {
                        Err(missing.clone().into())
                    }
                }
            }),
            value: interface.clone(),
            only_reads: true,
            files: Vec::new(),
        };
        return (step, interface);
    }
    let step = ProvideValue {
        title: format!("Find the network interface with {address}"),
        script: scripts::INTERFACE,
        arguments: vec![address.to_string()],
        input: None,
        parse: Box::new(move |printed| {
            let missing = |_| format!("no network interface has {address}").into();
            InterfaceName::parse(printed.trim()).map_err(missing)
        }),
        value: interface.clone(),
        only_reads: true,
        files: Vec::new(),
    };
    (step, interface)
}

/// Returns the address of the endpoint.
pub(super) fn endpoint(cluster: &Cluster) -> Result<IpAddr, DeployError> {
    let address = cluster.control_plane_endpoint.ip();
    address.ok_or(DeployError::Unsupported("an endpoint without an address"))
}

/// Returns the placeholder for the interface's name.
pub(super) fn interface_placeholder(cluster: &Cluster, host: &HostSpec) -> String {
    match cluster.high_availability.interface_of(&host.name) {
        Some(name) => name.to_string(),
        None => format!("<interface of {}>", host.internal_address()),
    }
}

/// Returns the prefix length of a network that has only this address.
pub(super) fn prefix_length(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
