//! Networks of the site that have addresses of pods or services.

use std::net::IpAddr;

use ipnet::IpNet;
use kubexm_config::cluster::PluginKind;
use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const NETWORKS: HostCheck = HostCheck {
    kind: FindingKind::Routes,
    when: When::BeforeInstall,
    read: "networks and routes of the host",
    find: networks,
};

/// Interfaces of networks of pods and services besides those that plugins name.
const OF_PODS: [&str; 5] = ["cni0", "kube-ipvs0", "nodelocaldns", "veth*", "lo"];

/// A line that the script prints: destination, interface, and gateway; `-` without one.
struct Route<'a> {
    line: &'a str,
    net: IpNet,
    interface: &'a str,
    gateway: Option<&'a str>,
}

impl<'a> Route<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [destination, interface, gateway] = words[..] else {
            return None;
        };
        let address = || destination.parse::<IpAddr>().ok().map(IpNet::from);
        Some(Self {
            line,
            net: destination.parse().ok().or_else(address)?,
            interface,
            gateway: Some(gateway).filter(|gateway| *gateway != "-"),
        })
    }

    /// Returns whether the interface is one of an earlier cluster.
    fn is_of_pods(&self) -> bool {
        let plugins = PluginKind::all_properties();
        let mut patterns = plugins.flat_map(|plugin| plugin.interfaces).chain(&OF_PODS);
        patterns.any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => self.interface.starts_with(beginning),
            None => *pattern == self.interface,
        })
    }
}

fn networks(asked: &Asked<'_>) -> Vec<Problem> {
    if !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    let lines = asked.answers.all("network").iter();
    let routes = lines.filter_map(|line| Route::parse(line));
    let routes = routes.filter(|route| !route.is_of_pods());
    let routes: Vec<Route<'_>> = routes.collect();
    let own = asked.cluster.network.ranges();
    own.flat_map(|(field, net)| {
        let inside = routes.iter().filter(move |route| net.contains(&route.net));
        let (connected, routed): (Vec<_>, Vec<_>) =
            inside.partition(|route| route.gateway.is_none());
        [connected, routed]
            .map(|all| problem(field, net, &all))
            .into_iter()
            .flatten()
    })
    .collect()
}

/// Returns the problem of the first of these routes: a host can have thousands.
fn problem(field: &str, net: IpNet, all: &[&Route<'_>]) -> Option<Problem> {
    let route = all.first()?;
    let Route {
        net: own,
        interface,
        ..
    } = route;
    let what = match route.gateway {
        None => format!("is in the network {own} by {interface}, which is part of {field} {net}"),
        Some(gateway) => {
            format!("has a route to {own} by {gateway}, which is part of {field} {net}")
        }
    };
    let what = match all.len() - 1 {
        0 => what,
        more => format!("{what}, and {more} more"),
    };
    Some(Problem {
        breaks: route.gateway.is_none(),
        is_later: false,
        what,
        evidence: all.iter().take(20).map(|route| route.line.to_owned()).collect(),
        cause: "the hosts cannot reach machines there, because the cluster gives the same addresses to pods or services".to_owned(),
        fix: format!("set network.{field} to a network that the site does not use"),
        commands: Vec::new(),
    })
}
