//! What a reset is going to delete, for the user who confirms it.

use std::fmt::Write;
use std::time::Duration;

use futures_util::future::join_all;
use time::OffsetDateTime;
use time::macros::format_description;

use kubexm_config::Cluster;
use kubexm_engine::reset::HostReset;
use kubexm_host::{Command, Host, HostError, Limit};
use kubexm_scripts::kubernetes::SURVEY;
use kubexm_session::session::Hosts;
use kubexm_types::HostName;

/// How long a host measures its data. A reset does not depend on the result.
const LIMIT: Limit = Limit::new(Duration::from_secs(120), "measuring data");

/// What a host loses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Loss {
    /// When kubexm installed the host first, in seconds since the epoch.
    since: Option<i64>,
    /// Kinds of data with their size.
    data: Vec<String>,
}

/// Returns the text that lists the hosts, what each loses, and the hosts that do not answer.
pub(super) async fn survey(
    cluster: &Cluster,
    hosts: &Hosts,
    resets: &[HostReset],
    unreachable: &[HostError],
) -> String {
    let losses = join_all(
        hosts
            .iter()
            .map(|(name, host)| look(cluster, name, host.as_ref())),
    )
    .await;
    let mut text = format!(
        "a reset deletes the cluster '{}' and its data from these hosts:",
        cluster.name
    );
    for ((name, loss), reset) in hosts.keys().zip(losses).zip(resets) {
        let changes = reset.changes();
        let _ = write!(text, "\n  {name}: {}", roles(cluster, name));
        match (changes, loss.since.and_then(date)) {
            (0, _) => text.push_str(", has no receipt of kubexm"),
            (_, Some(since)) => {
                let _ = write!(text, ", installed {since}, {changes} changes");
            }
            (_, None) => {
                let _ = write!(text, ", {changes} changes");
            }
        }
        if !loss.data.is_empty() {
            let _ = write!(text, ", {}", loss.data.join(", "));
        }
    }
    if !unreachable.is_empty() {
        text.push_str("\nthese hosts do not answer and keep everything until another reset:");
        for error in unreachable {
            let _ = write!(text, "\n  {error}");
        }
    }
    text
}

/// Returns the directories with data that cannot be created again, by kind.
fn directories(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let etcd = cluster.etcd.data_directory();
    let mut all: Vec<_> = etcd
        .map(|path| ("etcd", path.to_owned()))
        .into_iter()
        .collect();
    all.push(("local-volumes", "/var/lib/kubelet/pods".to_owned()));
    all.push(("registry", cluster.registry.data_dir.to_string()));
    all
}

async fn look(cluster: &Cluster, name: &HostName, host: &dyn Host) -> Loss {
    let arguments = directories(cluster).into_iter();
    let arguments = arguments.flat_map(|(kind, path)| [kind.to_owned(), path]);
    let command = Command::from_script(SURVEY, arguments);
    let command = command
        .describe("measure what a reset deletes")
        .limit(LIMIT);
    match host.run(command).await {
        Ok(output) if output.success() => parse(&output.text()),
        _ => {
            tracing::warn!(host = %name, "cannot measure the data of the host");
            Loss::default()
        }
    }
}

fn parse(text: &str) -> Loss {
    let mut loss = Loss::default();
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["since", seconds] => loss.since = seconds.parse().ok(),
            ["data", kind @ ("etcd" | "registry" | "local-volumes"), size] => {
                let kind = kind.replace('-', " ");
                loss.data.push(match size.parse::<u64>() {
                    Ok(kib) => format!("{kind} {}", size_of(kib)),
                    Err(_) => format!("{kind} of unknown size"),
                });
            }
            _ => {}
        }
    }
    loss
}

/// Returns a size in KiB with a binary unit.
fn size_of(kib: u64) -> String {
    match kib {
        0..1024 => format!("{kib} KiB"),
        1024..1_048_576 => format!("{} MiB", kib / 1024),
        _ => format!("{} GiB", kib / 1_048_576),
    }
}

fn date(seconds: i64) -> Option<String> {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    time.format(format).ok()
}

pub fn roles(cluster: &Cluster, host: &HostName) -> String {
    let all = &cluster.roles;
    let groups = [
        ("control-plane", &all.control_plane),
        ("worker", &all.worker),
        ("etcd", &all.etcd),
        ("registry", &all.registry),
        ("loadbalancer", &all.load_balancer),
    ];
    let of_host = groups.iter().filter(|(_, hosts)| hosts.contains(host));
    let names: Vec<&str> = of_host.map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_parsed_and_other_lines_are_ignored() {
        let loss = parse(
            "since 1763719200\ndata etcd 25600\ndata registry 3145728\ndata local-volumes unknown\ndata x 1\nevil\n",
        );
        assert_eq!(
            loss.data,
            [
                "etcd 25 MiB",
                "registry 3 GiB",
                "local volumes of unknown size"
            ]
        );
        assert_eq!(loss.since.and_then(date).unwrap(), "2025-11-21 10:00 UTC");
        assert_eq!(parse("since x\n"), Loss::default());
    }
}
