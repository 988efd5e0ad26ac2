//! Name, name servers and time servers of a host.

use kubexm_config::cluster::{Cluster, HostSpec, Resolvers, Time};
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_scripts::undo::{HOSTNAME_RESTORE, RESOLVERS_RESTORE, TIME_SERVERS_RESTORE};
use kubexm_scripts::{Script, os as scripts, undo::UndoScript};

/// Returns the steps of the settings that the cluster file has.
pub(super) fn steps(cluster: &Cluster, host: &HostSpec) -> Vec<RunScript> {
    let system = &cluster.system;
    let mut steps = Vec::new();
    if system.set_host_names {
        let title = format!("Name the host {}", host.name);
        let step = step("host name", title, scripts::HOSTNAME, HOSTNAME_RESTORE);
        steps.push(step.arguments([host.name.as_str()]));
    }
    if let Some(resolvers) = &system.resolvers {
        steps.push(name_servers(resolvers));
    }
    if let Some(time) = &system.time {
        steps.push(time_servers(cluster, host, time));
    }
    steps
}

fn step(id: &str, title: String, script: Script, undo: UndoScript) -> RunScript {
    let (check, apply) = (script.verb("check"), script.verb("apply"));
    RunScript::new(id, title, check, apply).undo(Undo::run(undo, [""; 0]))
}

fn name_servers(resolvers: &Resolvers) -> RunScript {
    let servers = joined(&resolvers.servers);
    let title = format!("Set the name servers {servers}");
    let step = step("resolvers", title, scripts::RESOLVERS, RESOLVERS_RESTORE);
    let searches = joined(&resolvers.searches);
    step.arguments(scripts::Resolvers { servers, searches })
}

fn time_servers(cluster: &Cluster, host: &HostSpec, time: &Time) -> RunScript {
    let source = time.source.as_ref().and_then(|name| cluster.host(name));
    let external = joined(&time.servers);
    let (role, servers, clients) = match source {
        None => ("client", external, String::new()),
        Some(source) if source.name == host.name => {
            let others = cluster.hosts.iter().filter(|other| other.name != host.name);
            let addresses: Vec<_> = others.map(|other| other.internal_address()).collect();
            ("source", external, joined(&addresses))
        }
        Some(source) => (
            "client",
            source.internal_address().to_string(),
            String::new(),
        ),
    };
    let title = match servers.as_str() {
        "" => "Serve the time to the other hosts".to_owned(),
        servers => format!("Set the time servers {servers}"),
    };
    let script = scripts::TIME_SERVERS;
    let step = step("time servers", title, script, TIME_SERVERS_RESTORE);
    step.arguments(scripts::TimeServers {
        role: role.to_owned(),
        servers,
        clients,
    })
}

fn joined<T: ToString>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    values.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::cluster;

    /// Returns the titles and arguments of the steps of each host.
    fn steps_with(system: &str) -> Vec<String> {
        let cluster = cluster("", &format!("system: {{{system}}}"));
        let of_host = |host: &HostSpec| {
            let steps = steps(&cluster, host).into_iter();
            steps.map(|step| format!("{}: {}", step.title, step.arguments.join("|")))
        };
        cluster.hosts.iter().flat_map(of_host).collect()
    }

    #[test]
    fn hosts_keep_what_the_cluster_file_does_not_set() {
        assert!(steps_with("setHostname: false").is_empty());
    }

    #[test]
    fn names_and_name_servers_of_hosts_are_arguments() {
        let settings = "setHostname: true, resolvers: {servers: [192.0.2.53, \"2001:db8::53\"], searches: [corp.example, example]}";
        let servers = "Set the name servers 192.0.2.53 2001:db8::53: servers=192.0.2.53 2001:db8::53|searches=corp.example example";
        let expected = [
            "Name the host node1: node1",
            servers,
            "Name the host node2: node2",
            servers,
        ];
        assert_eq!(steps_with(settings), expected);
    }

    #[test]
    fn one_host_serves_the_time_to_all_others() {
        let servers = "Set the time servers ntp.example: role=client|servers=ntp.example";
        let settings = "time: {servers: [ntp.example]}";
        assert_eq!(steps_with(settings), [servers, servers]);
        let client = "Set the time servers 192.0.2.11: role=client|servers=192.0.2.11";
        let source = "Serve the time to the other hosts: role=source|clients=192.0.2.12";
        assert_eq!(steps_with("time: {source: node1}"), [source, client]);
        let source =
            "Set the time servers ntp.example: role=source|servers=ntp.example|clients=192.0.2.12";
        let settings = "time: {servers: [ntp.example], source: node1}";
        assert_eq!(steps_with(settings), [source, client]);
    }
}
