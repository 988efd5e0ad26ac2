//! Settings of the programs in `spec.highAvailability`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::contradiction::refuse;
use super::controller_file::read_file;
use super::password::{check_password_file, read_elsewhere};
use crate::cluster::{
    AddressHolder, Cluster, ControlPlanePod, HighAvailability, KeepalivedSettings, KubeVipSettings,
    LoadBalancer, PasswordSource, ProxySettings,
};
use crate::reader::Fields;
use kubexm_types::HostName;

/// The greatest difference between the priorities of two hosts.
const MAX_DIFFERENCE: u8 = 200;

/// Reads the section without the load balancer. `kind` is its type.
pub(super) fn read_settings(fields: &Fields<'_>, kind: Option<&str>) -> HighAvailability {
    let settings = HighAvailability {
        kind: LoadBalancer::default(),
        interface: fields.value("interface"),
        interfaces: fields.map("interfaces"),
        keepalived: fields
            .section("keepalived")
            .map_or_else(KeepalivedSettings::default, read_keepalived),
        haproxy: read_proxy(fields.section("haproxy"), true),
        nginx: read_proxy(fields.section("nginx"), false),
        kube_vip: fields
            .section("kubeVip")
            .map_or_else(KubeVipSettings::default, read_kube_vip),
    };
    let types_with = |program: &str| -> Vec<&str> {
        let types = LoadBalancer::types().filter(|(_, programs)| programs.contains(&program));
        types.map(|(name, _)| name).collect()
    };
    let with_address = [AddressHolder::NAMES, ControlPlanePod::NAMES].concat();
    let users = [
        ("interface", with_address.clone()),
        ("interfaces", with_address),
        ("keepalived", types_with("keepalived")),
        ("haproxy", types_with("haproxy")),
        ("nginx", types_with("nginx")),
        ("kubeVip", types_with("kube-vip")),
    ];
    for (name, kinds) in users {
        if kind.is_some_and(|kind| !kinds.contains(&kind)) {
            let message = format!("is only accepted with type: {}", kinds.join(" or "));
            let hint = "remove it: the programs of this type do not use it";
            fields.problem(name, message, Some(hint));
        }
    }
    settings
}

fn read_keepalived(fields: Fields<'_>) -> KeepalivedSettings {
    let (file, variable) = read_elsewhere(&fields);
    check_password_file(&fields, file.as_ref());
    let settings = KeepalivedSettings {
        priorities: read_priorities(&fields),
        password: file.or(variable),
        notify_script: read_file(&fields, "notifyScript"),
        extra_config: fields.text("extraConfig").unwrap_or_default(),
    };
    fields.finish();
    settings
}

fn read_priorities(keepalived: &Fields<'_>) -> BTreeMap<HostName, u8> {
    let Some(fields) = keepalived.section("priorities") else {
        return BTreeMap::new();
    };
    let mut priorities = BTreeMap::new();
    for (name, key, node) in fields.keyed() {
        let path = fields.path(name);
        let number = match node.value {
            crate::yaml::Value::Integer(number) => u8::try_from(number).ok(),
            _ => None,
        };
        match (
            HostName::parse(name),
            number.filter(|number| (1..=254).contains(number)),
        ) {
            (Err(error), _) => fields.reader().problem(key, &path, error, None),
            (_, None) => {
                let message = "expected a whole number from 1 to 254";
                fields.reader().problem(node, &path, message, None);
            }
            (Ok(name), Some(number)) => {
                priorities.insert(name, number);
            }
        }
    }
    priorities
}

fn read_proxy(fields: Option<Fields<'_>>, logs: bool) -> ProxySettings {
    let Some(fields) = fields else {
        return ProxySettings::default();
    };
    let settings = ProxySettings {
        log: logs && fields.flag("log", false),
        extra_config: fields.text("extraConfig").unwrap_or_default(),
    };
    fields.finish();
    settings
}

fn read_kube_vip(fields: Fields<'_>) -> KubeVipSettings {
    let settings = KubeVipSettings {
        services: fields.flag("services", false),
        env: fields.map("env"),
    };
    fields.finish();
    settings
}

/// Environment variables of kube-vip that kubexm sets. The rights of kube-vip name its namespace and its leases.
const OF_KUBEXM: [&str; 10] = [
    "address",
    "port",
    "vip_interface",
    "svc_enable",
    "cp_enable",
    "vip_nodename",
    "cp_namespace",
    "kubernetes_addr",
    "svc_leasename",
    "vip_leasename",
];

/// Returns the names of the hosts that can have the address of the endpoint.
pub(super) fn holders(cluster: &Cluster) -> &[HostName] {
    let roles = &cluster.roles;
    match cluster.high_availability.kind {
        LoadBalancer::Holder { .. } if !roles.load_balancer.is_empty() => &roles.load_balancer,
        _ => &roles.control_plane,
    }
}

/// Checks settings against the hosts and the endpoint.
pub(super) fn check(spec: &Fields<'_>, cluster: &Cluster) {
    let names = cluster.high_availability.kube_vip.env.keys();
    let mut names = names.map(ToString::to_string);
    if let Some(name) = names.find(|name| OF_KUBEXM.contains(&name.as_str())) {
        let hint = "remove it; highAvailability.interface, kubeVip.services and controlPlaneEndpoint set what users can choose";
        let message = format!("'{name}' is set by kubexm");
        refuse(spec, "spec.highAvailability.kubeVip.env", &message, hint);
    }
    let is = |name: &str, value: &str| {
        let mut env = cluster.high_availability.kube_vip.env.iter();
        env.any(|(own, given)| own.to_string() == name && given.to_string() == value)
    };
    let mut names = ["vip_arp", "vip_leaderelection"].into_iter();
    if let Some(name) = names.find(|name| is(name, "false"))
        && !is("bgp_enable", "true")
    {
        let message = format!("turns {name} off: one control plane must announce the address");
        let hint = "remove it, or set bgp_enable: \"true\"";
        refuse(spec, "spec.highAvailability.kubeVip.env", &message, hint);
    }
    let hosts = holders(cluster);
    let path = "spec.highAvailability.keepalived";
    let settings = &cluster.high_availability.keepalived;
    let refuse_others = |path: &str, names: Vec<&HostName>| {
        if let Some(name) = names.into_iter().find(|name| !hosts.contains(name)) {
            let message = format!("names {name}, which never has the address of the endpoint");
            let hint =
                "name hosts of roleGroups.loadbalancer, or of the control planes without that role";
            refuse(spec, path, &message, hint);
        }
    };
    let with_interface = cluster.high_availability.interfaces.keys().collect();
    refuse_others("spec.highAvailability.interfaces", with_interface);
    if !matches!(cluster.high_availability.kind, LoadBalancer::Holder { .. }) {
        return;
    }
    let with_priority = settings.priorities.keys().collect();
    refuse_others(&format!("{path}.priorities"), with_priority);
    if settings.decrease(hosts) > MAX_DIFFERENCE + 20 {
        let message = format!("differ by more than {MAX_DIFFERENCE}");
        let hint = "a host whose proxy fails must get a lower priority than every other host";
        refuse(spec, &format!("{path}.priorities"), &message, hint);
    }
    let is_ipv6 = cluster
        .control_plane_endpoint
        .ip()
        .is_some_and(|ip: IpAddr| ip.is_ipv6());
    if is_ipv6 && settings.password.is_some() {
        let hint = "remove passwordFile: VRRP version 2 has a password, and does not support IPv6";
        let message = "has a password, and the endpoint has an IPv6 address";
        refuse(spec, path, message, hint);
    }
    if let Some(PasswordSource::File(file)) = &settings.password
        && let Ok(text) = std::fs::read_to_string(file)
    {
        let password = text.trim_end_matches(['\n', '\r']);
        if !KeepalivedSettings::is_password(password) {
            let message = "expected 1 to 8 letters and digits in the file";
            let hint = "keepalived cuts off a longer password";
            refuse(spec, &format!("{path}.passwordFile"), message, hint);
        }
    }
}
