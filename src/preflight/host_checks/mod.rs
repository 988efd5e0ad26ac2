//! Checks of hosts that preflight and doctor share: what decides whether a cluster works, now and after the next boot.

mod boot;
mod check;
mod disks;
mod leftovers;
mod modules;
mod mounts;
mod names;
mod network;
mod overlaps;
mod packet_filter;
mod resolvers;
mod rules;
mod swap;
mod system;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use kubexm_config::Cluster;
use kubexm_config::cluster::PluginKind;
use kubexm_host::{Answers, Command, Facts, Host, Limit};
use kubexm_scripts::Parameters;
use kubexm_scripts::preflight::{CHECKS as SCRIPT, Checks};
use kubexm_types::{FindingKind, HostName, Message};

use crate::finding::Finding;
use crate::probe::PARALLEL;

pub use check::{Asked, HostCheck, Problem, When};
pub use disks::{Mount, mounts};
pub(crate) use mounts::directories;
pub use names::is_loopback;
pub use network::before;
pub use rules::{Fit, Packets};

/// How long the questions may take. Each has a limit of its own.
const LIMIT: Limit = Limit::new(Duration::from_secs(75), "the questions of the checks");

/// Keys of `preflight/checks.sh`.
pub const KEYS: &[&str] = &[
    "dead_mount",
    "inodes",
    "mount",
    "next_mount",
    "xfs",
    "etcd_entry",
    "link",
    "swap",
    "swap_fstab",
    "swap_unit",
    "swap_setting",
    "cgroup",
    "sysctl",
    "masked_unit",
    "next_sysctl",
    "resolver",
    "resolved",
    "cni0",
    "cni_file",
    "rule",
    "accept",
    "input",
    "rule6",
    "accept6",
    "input6",
    "forward",
    "route",
    "no_route",
    "network",
    "not_loaded",
    "modprobe_line",
    "unsaved_mount",
    "noauto_mount",
    "proxy",
    "no_proxy",
    "unit_proxy",
    "unit_no_proxy",
    "unit_unknown",
    "unit_setting",
    "kubelet_flag",
    "crio_setting",
    "resolv_writer",
    "immutable",
    "fapolicyd",
    "cloud_hosts",
    "packages",
    "rpm_database",
];

/// Every check.
pub const CHECKS: [&HostCheck; 26] = [
    &network::CNI,
    &network::FORWARD,
    &packet_filter::INPUT,
    &packet_filter::FORWARDED,
    &leftovers::BRIDGE,
    &network::ROUTES,
    &overlaps::NETWORKS,
    &network::PROXIES,
    &boot::KERNEL_SETTINGS,
    &boot::HOST_NAMES,
    &boot::MASKED,
    &names::NAME_SERVERS,
    &swap::SWAP,
    &modules::MODULES,
    &modules::LOCKED,
    &mounts::UNSAVED,
    &mounts::NEXT_OPTIONS,
    &disks::MOUNT_OPTIONS,
    &disks::KINDS,
    &disks::LINKS,
    &disks::ETCD_DATA,
    &system::IMMUTABLE,
    &system::FAPOLICYD,
    &system::PACKAGES,
    &units::UNITS,
    &resolvers::RESOLVERS,
];

/// Asks a host what the checks read.
///
/// # Errors
/// The host does not answer, or answers in another form.
pub async fn ask(cluster: &Cluster, host: &dyn Host) -> Result<Answers, Message> {
    let chains = PluginKind::all_properties().flat_map(|own| own.chains);
    let chains: Vec<&str> = chains.copied().collect();
    let parameters = Checks {
        data: cluster.runtime.data_directory().to_owned(),
        etcd: disks::etcd_directory(cluster, host.name()).unwrap_or_default(),
        directories: mounts::directories(cluster, host.name()).join(" "),
        files: system::files(cluster, host.name()).join(" "),
        chains: chains.join(" "),
        units: network::units(cluster, host.name()).join(" "),
    };
    let addresses = cluster.network.first_service_addresses();
    let addresses = addresses.filter(|_| cluster.is_node(host.name()));
    let arguments = parameters.and(addresses.map(|address| address.to_string()));
    let command = Command::from_script(SCRIPT, arguments);
    let command = command.describe("ask what the checks read").limit(LIMIT);
    let output = host.run(command).await.map_err(|error| error.message())?;
    Answers::parse(&output.text(), KEYS).map_err(Message::new)
}

/// Asks all hosts, and returns what is wrong before an install changes them. A host that has a part of the cluster already gets no
/// errors: its programs run, and other commands may mend it.
pub async fn check(
    cluster: &Cluster,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    let known = hosts.iter().filter_map(|(name, host)| {
        let facts = facts.get(name)?;
        Some((name, host.as_ref(), facts))
    });
    let asked = stream::iter(known.collect::<Vec<_>>())
        .map(async |(name, host, facts)| (name, facts, ask(cluster, host).await))
        .buffered(PARALLEL);
    let answers: Vec<_> = asked.collect().await;
    let mut findings = Vec::new();
    for (host, facts, answers) in answers {
        match answers {
            Ok(answers) => {
                let asked = Asked {
                    cluster,
                    host,
                    facts,
                    answers: &answers,
                };
                findings.extend(judge(&asked));
            }
            Err(message) => {
                let message = unanswered(message).or_hint(Some(UNANSWERED));
                let hint = message.hint.unwrap_or_default();
                findings.push(Finding::new(
                    FindingKind::Host,
                    host,
                    false,
                    message.text,
                    &hint,
                ));
            }
        }
    }
    findings
}

/// Returns the message about a host that [`ask`] could not ask.
pub fn unanswered(cause: Message) -> Message {
    cause.within("does not answer the questions of the checks")
}

const UNANSWERED: &str = "log in to the host, and look for what is slow or broken";

/// Returns what the checks find on a host that `is_made` selects.
pub fn found<'a>(
    asked: &'a Asked<'_>,
    is_made: impl Fn(&HostCheck) -> bool + 'a,
) -> impl Iterator<Item = (FindingKind, Problem)> + 'a {
    let checks = CHECKS.into_iter().filter(move |check| is_made(check));
    checks.flat_map(|check| {
        let found = check.find(asked).into_iter();
        found.map(|problem| (check.kind, problem))
    })
}

/// Returns the findings about a host.
fn judge(asked: &Asked<'_>) -> Vec<Finding> {
    let all = found(asked, |_| true);
    all.map(|(kind, problem)| {
        let fatal = problem.breaks && !asked.is_used();
        Finding::new(kind, asked.host, fatal, problem.text(), &problem.hint())
    })
    .collect()
}

#[cfg(test)]
mod tests;
