//! The endpoint's address where a program of kubexm's brings it up.

use std::net::IpAddr;

use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Slot;
use kubexm_engine::steps::{Produce, RunScript, Undo};
use kubexm_scripts::{load_balancer as scripts, marks};

/// Writes down that the address may come up on a host, so that a reset takes it away for certain.
pub(super) fn note(address: IpAddr) -> RunScript {
    let step = RunScript::new(
        "endpoint address",
        format!("Take note of the address {address}"),
        marks::CHECK,
        marks::SET,
    );
    let title = format!("Take {address} away from this host");
    step.arguments([format!("address-{address}")])
        .undo(Undo::script(
            title,
            scripts::ADDRESS_REMOVE,
            [address.to_string()],
        ))
}

/// Asks a host on which interface it has its own address: the endpoint's comes up there, too.
pub(super) fn interface(host: &HostSpec) -> (Produce<String>, Slot<String>) {
    let slot = Slot::new("load_balancer.interface");
    let address = host.internal_address;
    let produce = Produce {
        title: format!("Find the interface that has {address}"),
        script: scripts::INTERFACE,
        arguments: vec![address.to_string()],
        input: None,
        parse: Box::new(move |printed| {
            let name = printed.trim();
            let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            match name.len() {
                1..=15 if name.chars().all(sound) => Ok(name.to_owned()),
                _ => Err(format!("no interface has {address}")),
            }
        }),
        slot: slot.clone(),
        files: Vec::new(),
    };
    (produce, slot)
}

/// What stands for the interface's name before it is known.
pub(super) fn interface_in_words(host: &HostSpec) -> String {
    format!("<interface of {}>", host.internal_address)
}

/// As many bits as the address has: it is one, not a network.
pub(super) fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
