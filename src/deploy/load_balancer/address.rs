//! The endpoint's address where a program of kubexm's brings it up.

use std::net::IpAddr;

use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Slot;
use kubexm_engine::steps::{Produce, RunScript};

/// Takes an address away from whatever interface has it, where the program that held it died.
const REMOVE: &str = r#"
ip -o addr show to "$1" 2>/dev/null | awk '{ print $2, $4 }' | while read -r interface address; do
  ip addr del "$address" dev "$interface" || :
done
"#;
const IS_NOTED: &str =
    "[ -e \"/var/lib/kubexm/done/address-$1\" ] || { echo 'is not written down'; exit 1; }";
const NOTE: &str =
    "umask 077; mkdir -p /var/lib/kubexm/done; : >\"/var/lib/kubexm/done/address-$1\"";

/// Writes down that the address may come up on a host, so that a reset takes it away for certain.
pub(super) fn note(address: IpAddr) -> RunScript {
    let step = RunScript::new(
        "endpoint address",
        format!("Take note of the address {address}"),
        IS_NOTED,
        NOTE,
    );
    let title = format!("Take {address} away from this host");
    step.arguments([address.to_string()])
        .undo_script(&title, REMOVE)
}

/// Asks a host on which interface it has its own address: the endpoint's comes up there, too.
pub(super) fn interface(host: &HostSpec) -> (Produce<String>, Slot<String>) {
    let slot = Slot::new("load_balancer.interface");
    let address = host.internal_address;
    let produce = Produce {
        title: format!("Find the interface that has {address}"),
        script: format!("ip -o addr show to {address} | awk 'NR == 1 {{ print $2 }}'"),
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
