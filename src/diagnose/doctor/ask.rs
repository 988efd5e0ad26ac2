//! Asks hosts and the API server, after `status` has asked its questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use time::OffsetDateTime;

use super::answers::{self, Answers};
use super::api::Api;
use super::network::Label;
use super::seen::{Logs, Seen, Way};
use crate::status::{self, Checked, Looked};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind, PluginKind, RuntimeKind};
use kubexm_config::ports;
use kubexm_deploy::expected;
use kubexm_deploy::objects::Server;
use kubexm_host::{Command, Host, Limit};
use kubexm_operate::logs::entry;
use kubexm_preflight::host_checks;
use kubexm_scripts::Script;
use kubexm_scripts::doctor::{HOST, LOGS, RUNTIME, WAYS};
use kubexm_session::command_line::CommandLine;
use kubexm_session::session::PARALLEL;
use kubexm_types::HostName;

/// How long a script may take. Each of its questions has a limit of its own.
const LIMIT: Limit = Limit::new(Duration::from_secs(75), "the questions of doctor");
/// The largest number of entries of each log.
const ENTRIES: u32 = 300;
/// The age in minutes up to which entries of logs count.
const MINUTES: u32 = 15;
/// The most connections that a host tries.
const MOST_WAYS: usize = 240;

/// What one host answered.
#[derive(Default)]
struct Own {
    host: Option<Answers>,
    runtime: Option<Answers>,
    logs: Option<Logs>,
    unanswered: Vec<String>,
}

/// Asks all hosts with a connection, then the API server, then the hosts for each other.
pub(super) async fn all(looked: Looked, line: CommandLine) -> Seen {
    let Looked {
        cluster,
        report,
        hosts,
        facts,
        answers: status,
        mut checked,
        nodes,
    } = looked;
    let asking: Vec<_> = hosts
        .iter()
        .map(|(name, host)| (name, host, checked.remove(name)))
        .collect();
    let owns: Vec<(HostName, Own)> = stream::iter(asking)
        .map(async |(name, host, checked)| {
            let own = own(&cluster, host.as_ref(), checked).await;
            (name.clone(), own)
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    let mut seen = Seen {
        cluster,
        line,
        report,
        facts,
        status,
        hosts: BTreeMap::new(),
        runtimes: BTreeMap::new(),
        logs: BTreeMap::new(),
        api: None,
        nodes,
        ways: BTreeMap::new(),
        unanswered: Vec::new(),
    };
    for (name, own) in owns {
        let causes = own.unanswered.into_iter();
        seen.unanswered
            .extend(causes.map(|cause| (name.clone(), cause)));
        own.host
            .map(|answers| seen.hosts.insert(name.clone(), answers));
        own.runtime
            .map(|answers| seen.runtimes.insert(name.clone(), answers));
        own.logs.map(|logs| seen.logs.insert(name, logs));
    }
    seen.api = Box::pin(api(&seen, &hosts)).await;
    let tried: Vec<_> = stream::iter(hosts.iter())
        .map(async |(name, host)| {
            let arguments = ways(&seen, name);
            let answer = if arguments.is_empty() {
                None
            } else {
                asked(host.as_ref(), WAYS, arguments, answers::WAYS)
                    .await
                    .ok()
            };
            (name.clone(), answer)
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    for (name, answer) in tried {
        if let Some(answer) = answer {
            let rows = answer
                .all("way")
                .iter()
                .filter_map(|row| row.split_once(' '));
            let rows = rows.filter_map(|(label, way)| Some((label.to_owned(), Way::parse(way)?)));
            let rows: BTreeMap<String, Way> = rows.collect();
            if !rows.is_empty() {
                seen.ways.insert(name, rows);
            }
        }
    }
    seen
}

/// Asks a host about itself.
async fn own(cluster: &Cluster, host: &dyn Host, checked: Option<Checked>) -> Own {
    let is_node = cluster.is_node(host.name());
    let kind = match cluster.runtime.kind {
        RuntimeKind::Containerd => "containerd",
        _ => "other",
    };
    let mut runtime = vec![kind.to_owned(), cluster.kubernetes.version.to_string()];
    runtime.extend(expected::registries(cluster));
    let asking_runtime = async {
        if is_node {
            Some(asked(host, RUNTIME, runtime, answers::RUNTIME).await)
        } else {
            None
        }
    };
    let (answers, runtime, logs) = tokio::join!(
        about_host(cluster, host, checked),
        asking_runtime,
        logs(cluster, host)
    );
    let mut own = Own::default();
    match answers {
        Ok(answers) => own.host = Some(answers),
        Err(cause) => own.unanswered.push(cause),
    }
    match runtime {
        Some(Ok(answers)) => own.runtime = Some(answers),
        Some(Err(cause)) => own.unanswered.push(cause),
        None => {}
    }
    match logs {
        Ok(logs) => own.logs = Some(logs),
        Err(cause) => own.unanswered.push(cause),
    }
    own
}

/// Asks what only doctor reads, and adds what preflight and status read, too. A host without facts was not asked before.
async fn about_host(
    cluster: &Cluster,
    host: &dyn Host,
    checked: Option<Checked>,
) -> Result<Answers, String> {
    let shared = async {
        let answers = match checked {
            Some(answers) => answers,
            None => host_checks::ask(cluster, host).await,
        };
        answers.map_err(|message| message.to_string())
    };
    let overlays = PluginKind::all_properties().flat_map(|plugin| plugin.overlays);
    let overlays = overlays.map(|(device, _)| (*device).to_owned()).collect();
    let own = asked(host, HOST, overlays, answers::HOST);
    let (own, shared) = tokio::try_join!(own, shared)?;
    Ok(own.with(shared))
}

async fn printed(
    host: &dyn Host,
    script: Script,
    arguments: Vec<String>,
) -> Result<String, String> {
    let command = Command::from_script(script, arguments);
    let command = command
        .describe(format!("ask the questions of {}", script.name))
        .limit(LIMIT);
    let output = host.run(command).await.map_err(|error| error.to_string())?;
    if output.success() {
        Ok(output.text())
    } else {
        Err(format!("{}: {}", script.name, output.complaint()))
    }
}

async fn asked(
    host: &dyn Host,
    script: Script,
    arguments: Vec<String>,
    keys: &'static [&'static str],
) -> Result<Answers, String> {
    let text = printed(host, script, arguments).await?;
    Answers::parse(&text, keys).map_err(|error| format!("{}: {error}", script.name))
}

async fn logs(cluster: &Cluster, host: &dyn Host) -> Result<Logs, String> {
    let mut arguments = vec![ENTRIES.to_string(), MINUTES.to_string()];
    if let Some(spec) = cluster.host(host.name()) {
        let units = expected::units(cluster, spec).into_iter();
        arguments
            .extend(units.map(|unit| unit.strip_suffix(".service").unwrap_or(&unit).to_owned()));
    }
    let text = printed(host, LOGS, arguments).await?;
    let now = text.lines().find_map(|line| line.strip_prefix("now="));
    let now = now.and_then(|now| now.parse().ok());
    Ok(Logs {
        now: now.ok_or("doctor/logs.sh: the clock is missing")?,
        entries: entry::parse(host.name(), &text),
    })
}

/// Asks the first API server that is ready and answers. The answers of one without a list of its namespaces are the last resort.
async fn api(seen: &Seen, hosts: &BTreeMap<HostName, Arc<dyn Host>>) -> Option<Api> {
    let is_of_kubeadm = seen.cluster.kubernetes.kind == KubernetesKind::Kubeadm;
    let mut last = None;
    for name in &seen.cluster.roles.control_plane {
        let is_ready = seen.status.get(name).and_then(status::is_ready);
        let (Some(true), Some(host), Some(spec)) =
            (is_ready, hosts.get(name), seen.cluster.host(name))
        else {
            continue;
        };
        let url = expected::api_server(&seen.cluster, spec);
        let server = Server::of(host.as_ref()).at(&url);
        // Ages are by the clock of the control plane.
        let ahead = seen.facts.get(name).map_or(0.0, |facts| facts.clock_ahead);
        let now = OffsetDateTime::now_utc()
            .unix_timestamp()
            .saturating_add(ahead as i64);
        let api = Api::ask(server, is_of_kubeadm, now).await;
        if api.namespaces.is_ok() {
            return Some(api);
        }
        last = Some(api);
    }
    last
}

/// Returns the connections that a host tries: labels, addresses and ports.
fn ways(seen: &Seen, from: &HostName) -> Vec<String> {
    let cluster = &seen.cluster;
    let mut arguments = Vec::new();
    let mut try_to = |purpose: &str, target: &str, address: &str, port: u16| {
        if arguments.len() < 3 * MOST_WAYS {
            let label = Label {
                purpose,
                target,
                port,
            };
            arguments.extend([label.text(), address.to_owned(), port.to_string()]);
        }
    };
    let others = cluster.hosts.iter().filter(|host| host.name != *from);
    for host in others {
        let address = host.internal_address().to_string();
        if let Some(port) = cluster.api_server_port(&host.name)
            && cluster.is_node(from)
        {
            try_to("server", host.name.as_str(), &address, port);
        }
        if cluster.is_control_plane(from) && cluster.is_node(&host.name) {
            try_to("kubelet", host.name.as_str(), &address, ports::KUBELET);
        }
        let members = match cluster.etcd {
            Etcd::Kubeadm { .. } => &cluster.roles.control_plane,
            Etcd::Systemd { .. } => &cluster.roles.etcd,
            Etcd::External { .. } => continue,
        };
        if members.contains(&host.name) {
            if members.contains(from) {
                try_to("etcd", host.name.as_str(), &address, ports::ETCD_PEER);
            }
            if cluster.is_control_plane(from) && matches!(cluster.etcd, Etcd::Systemd { .. }) {
                try_to("etcd", host.name.as_str(), &address, ports::ETCD_CLIENT);
            }
        }
    }
    if cluster.is_node(from) {
        // Only pods that are ready answer.
        for pod in seen.asked(|api| &api.dns).into_iter().flatten() {
            let address = &pod.status.pod_ip;
            if pod.is_ready() && address.parse::<std::net::IpAddr>().is_ok() {
                try_to("pod", &pod.spec.node_name, address, 53);
            }
        }
        if seen.api.is_some() {
            let address = cluster.network.dns_address.to_string();
            try_to("service", "dns", &address, 53);
        }
    }
    arguments
}
