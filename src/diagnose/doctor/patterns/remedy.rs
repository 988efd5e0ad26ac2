//! The commands for what logs lead to.

use std::net::IpAddr;

use crate::doctor::check::Found;
use crate::doctor::kernel::{self, CONNECTIONS, INSTANCES, WATCHES};
use crate::doctor::report::Certainty;
use crate::doctor::seen::Seen;
use kubexm_config::cluster::Etcd;
use kubexm_operate::logs::LogEntry;
use kubexm_session::quoting::quoted;
use kubexm_types::HostName;

/// What the commands of a fix do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Remedy {
    /// They write the files of the install again.
    Install,
    RestartKubelet,
    /// They remove the flag that the kubelet does not know.
    RemoveFlag,
    RenewKubelet,
    SwapOff,
    ShowBridges,
    CountLeases,
    ShowDisks,
    ReadEtcd,
    /// They give a host a new member of etcd.
    NewMember,
    MoreInstances,
    MoreWatches,
    MoreConnections,
    /// They turn off the checksum offload of the VXLAN device.
    NoOffload,
}

/// Counts leases of host-local, and the pods of the runtime.
const COUNTS: &str =
    "find /var/lib/cni/networks -type f -name \"[0-9a-f]*[.:]*\" | wc -l; crictl pods -q | wc -l";

impl Remedy {
    /// Adds the commands for what an entry of a host's log shows.
    pub(super) fn add(self, seen: &Seen, host: &HostName, entry: &LogEntry, found: Found) -> Found {
        let line = &seen.line;
        match self {
            Self::Install => found.run(line.install()),
            Self::RestartKubelet => found.run(line.on(host, "systemctl restart kubelet")),
            Self::RemoveFlag => without_flag(seen, host, entry, found),
            Self::RenewKubelet => found.run(line.kubexm(&format!("certs renew --host {host}"))),
            Self::SwapOff => found
                .run(line.on(host, "swapoff -a"))
                .run(line.on(host, "systemctl restart kubelet")),
            Self::ShowBridges => found.run(line.on(host, "ip -br addr show type bridge")),
            Self::CountLeases => found.run(line.shell(host, COUNTS)),
            Self::ShowDisks => found
                .run(line.on(host, "df -h"))
                .run(line.on(host, "df -i")),
            Self::ReadEtcd => found.run(line.logs("etcd", host)),
            Self::NewMember => new_member(seen, host, found),
            Self::MoreInstances => raised(seen, host, INSTANCES, 8192, found),
            Self::MoreWatches => raised(seen, host, WATCHES, 524_288, found),
            Self::MoreConnections => raised(seen, host, CONNECTIONS, 131_072, found),
            Self::NoOffload => without_offload(seen, host, entry, found),
        }
    }
}

/// Adds the limit of the kernel that is too small, and the command that raises it at least to `least`.
fn raised(seen: &Seen, host: &HostName, name: &str, least: u64, found: Found) -> Found {
    let answers = seen.hosts.get(host);
    let present = answers.and_then(|answers| kernel::number(answers, name));
    let present = present.map(|value| format!("{} is {value}", name.replace('/', ".")));
    let found = found.evidence(present);
    found.run(kernel::raise(seen, host, name, least))
}

/// Adds how a host gets a new member of etcd. An install replaces members that are units, and no static pods.
fn new_member(seen: &Seen, host: &HostName, found: Found) -> Found {
    let line = &seen.line;
    let found = found.run(line.logs("etcd", host));
    match seen.cluster.etcd {
        Etcd::Kubeadm { .. } => found
            .fix("replace the node: its new member of etcd gets the data of the others")
            .run(line.kubexm(&format!("node replace {host} --bundle BUNDLE"))),
        _ => found.run(line.install()),
    }
}

/// Finds the file with the flag that the kubelet does not know.
fn without_flag(seen: &Seen, host: &HostName, entry: &LogEntry, mut found: Found) -> Found {
    let line = &seen.line;
    let words = entry.message.split([' ', '"', '\'', ',', '=']);
    let flag = words.filter(|word| word.starts_with("--")).find(|word| {
        word.len() > 2
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    let files = seen
        .hosts
        .get(host)
        .map_or(&[][..], |answers| answers.all("kubelet_flags"));
    if let Some(flag) = flag
        && let Some(entry) = files.iter().find(|entry| entry.contains(flag))
        && let Some((file, text)) = entry.split_once(' ')
    {
        found.certainty = Certainty::Certain;
        found.add_evidence([format!("{file}: {text}")]);
        let sed = format!("sed -i -E 's/ ?{flag}(=[^ \"]*)?//' {}", quoted(file));
        return found
            .run(line.shell(host, &sed))
            .run(line.shell(host, "systemctl daemon-reload; systemctl restart kubelet"));
    }
    found.run(line.logs("kubelet", host)).run(line.install())
}

/// Adds the command for the host that sent the packet; for the one that received it, if the sender is not in the cluster.
fn without_offload(seen: &Seen, host: &HostName, entry: &LogEntry, found: Found) -> Found {
    let host = sender(seen, &entry.message).unwrap_or(host);
    let answers = seen.hosts.get(host);
    match answers.and_then(|answers| answers.one("overlay")) {
        Some(link) => {
            let words = format!("ethtool -K {} tx-checksum-ip-generic off", quoted(link));
            found.run(seen.line.on(host, &words))
        }
        None => found,
    }
}

/// Returns the host that sent the packet of a message of the kernel, as in `From 192.0.2.11:1234 to 192.0.2.12:8472`.
fn sender<'a>(seen: &'a Seen, message: &str) -> Option<&'a HostName> {
    let (_, rest) = message.split_once("From ")?;
    let (from, _) = rest.split_once(" to ")?;
    let (address, _) = from.rsplit_once(':')?;
    let address: IpAddr = address.parse().ok()?;
    Some(&seen.cluster.host_at(address)?.name)
}
