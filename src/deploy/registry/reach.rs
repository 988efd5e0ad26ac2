//! Proofs that nodes can pull from registries that kubexm runs.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Inputs;
use kubexm_config::cluster::Cluster;
use kubexm_engine::plan::TaskValue;
use kubexm_engine::steps::ProvideValue;
use kubexm_scripts::registry::ANSWERS;
use kubexm_types::{HostName, Message, Untrusted};

/// Prints the addresses of a name as the programs of the host find them, each at the beginning of a line.
const ADDRESSES: &str = "getent ahosts \"$1\" || :";

/// The user of the kubeconfig that asks registries.
const NODE: &str = "node";

/// Returns the step that asks registries from a node, as its container runtime does: over HTTPS, with CA and login.
pub(crate) fn answers(inputs: &Inputs<'_>, endpoints: &[String]) -> ProvideValue<()> {
    let registries = endpoints.join(", ");
    let input = kubeconfig(inputs, endpoints).to_string().into_bytes();
    let hint = format!(
        "let the network and the firewalls carry TCP from this host to {registries}; if a certificate is refused, end the \
         other program that listens there"
    );
    ProvideValue {
        title: format!("Ask {registries} as the container runtime does"),
        script: ANSWERS,
        arguments: endpoints.to_vec(),
        input: Some(Arc::new(move || Ok(input.clone()))),
        parse: Box::new(move |printed| match printed.trim() {
            "" => Ok(()),
            failures => {
                let failures = Untrusted::first(failures);
                let text = format!("this node cannot pull from\n{failures}");
                Err(Message::new(text).hint(&hint))
            }
        }),
        value: TaskValue::new("registry.answers"),
        only_reads: true,
        files: Vec::new(),
    }
}

/// Returns the step that looks up the name of the only registry on a node; `None` if nodes use addresses.
pub(crate) fn resolves(inputs: &Inputs<'_>, node: &HostName) -> Option<ProvideValue<()>> {
    let cluster = inputs.cluster;
    let (name, right) = named(cluster)?;
    let (node, file) = (node.clone(), cluster.system.manage_hosts_file);
    Some(ProvideValue {
        title: format!("Look up {name}"),
        script: ADDRESSES.into(),
        arguments: vec![name.clone()],
        input: None,
        parse: Box::new(move |printed| match found(printed, &right).as_slice() {
            found if !found.is_empty() && found.iter().all(|one| right.contains(one)) => Ok(()),
            found => Err(wrong(&node, &name, found, &right, file)),
        }),
        value: TaskValue::new("registry.resolves"),
        only_reads: true,
        files: Vec::new(),
    })
}

/// Returns the name by which nodes find the only registry of a cluster, and the addresses that it must have; `None` if they
/// use the addresses of several.
pub(crate) fn named(cluster: &Cluster) -> Option<(String, Vec<IpAddr>)> {
    let [only] = cluster.roles.registry.as_slice() else {
        return None;
    };
    let host = cluster.host(only)?;
    let right = host.internal_addresses.iter().collect();
    Some((cluster.registry.host_name.to_string(), right))
}

/// Returns the addresses that a node found, of the address families that the host of the registry has.
fn found(printed: &str, right: &[IpAddr]) -> Vec<IpAddr> {
    let words = printed.lines().filter_map(|line| line.split(' ').next());
    let mut found: Vec<IpAddr> = words.filter_map(|word| word.parse().ok()).collect();
    found.retain(|address| right.iter().any(|one| one.is_ipv4() == address.is_ipv4()));
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns why a node would not pull from the registry.
fn wrong(
    node: &HostName,
    name: &str,
    found: &[IpAddr],
    right: &[IpAddr],
    is_managed: bool,
) -> Message {
    let list = |addresses: &[IpAddr]| -> String {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        addresses.join(", ")
    };
    let found = match found {
        [] => format!("{node} finds no address for {name}"),
        found => format!("{node} finds {} for {name}", list(found)),
    };
    let right = list(right);
    let hint = if is_managed {
        format!("remove lines with {name} outside of the block of kubexm from /etc/hosts of {node}")
    } else {
        format!(
            "change the DNS record of {name}, or its line in /etc/hosts of {node}, to {right}: system.manageHostsFile is \
         false, so kubexm changes neither"
        )
    };
    Message::new(format!("{found}, but the registry has {right}")).hint(hint)
}

/// Returns a kubeconfig with a context for each registry, named as its endpoint. Secret.
fn kubeconfig(inputs: &Inputs<'_>, endpoints: &[String]) -> Value {
    let ca = STANDARD.encode(&inputs.certificates.ca);
    let cluster = |endpoint: &String| {
        json!({
            "name": endpoint,
            "cluster": {"server": format!("https://{endpoint}"), "certificate-authority-data": ca},
        })
    };
    let context = |endpoint: &String| json!({"name": endpoint, "context": {"cluster": endpoint, "user": NODE}});
    let login = inputs.certificates.registry_login.as_ref();
    let user = match login.and_then(|login| login.pair.0.split_once(':')) {
        Some((user, password)) => json!({"username": user, "password": password}),
        // Without credentials, kubectl would ask for them.
        None => json!({"token": "none"}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": endpoints.iter().map(cluster).collect::<Vec<_>>(),
        "contexts": endpoints.iter().map(context).collect::<Vec<_>>(),
        "users": [{"name": NODE, "user": user}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, with_inputs};

    /// Returns what a node reports that finds these addresses for the name of the registry, which moves to node2.
    fn reported(section: &str, printed: &str) -> Result<(), String> {
        let mut cluster = cluster("", section);
        cluster.roles.registry = vec!["node2".parse().unwrap()];
        with_inputs(&cluster, &[], "", |inputs| {
            let step = resolves(inputs, &"node1".parse().unwrap()).unwrap();
            (step.parse)(printed).map_err(|reason| reason.to_string())
        })
    }

    #[test]
    fn node_that_finds_the_former_registry_by_its_name_is_refused() {
        let unmanaged = "system: {manageHostsFile: false}";
        let right =
            "192.0.2.12 STREAM registry.kubexm.internal\n192.0.2.12 DGRAM\n192.0.2.12 RAW\n";
        assert_eq!(reported(unmanaged, right), Ok(()));
        // The registry does not have an address of this family.
        assert_eq!(
            reported(unmanaged, &format!("2001:db8::1 STREAM\n{right}")),
            Ok(())
        );
        assert_eq!(
            reported(unmanaged, "192.0.2.11 STREAM x\n192.0.2.11 DGRAM\n").unwrap_err(),
            "node1 finds 192.0.2.11 for registry.kubexm.internal, but the registry has 192.0.2.12\nhint: change the DNS record \
             of registry.kubexm.internal, or its line in /etc/hosts of node1, to 192.0.2.12: system.manageHostsFile is false, \
             so kubexm changes neither"
        );
        let both = reported(unmanaged, &format!("192.0.2.11 STREAM x\n{right}")).unwrap_err();
        assert!(
            both.starts_with("node1 finds 192.0.2.11, 192.0.2.12 for"),
            "{both}"
        );
        let none = reported("", "").unwrap_err();
        assert!(
            none.starts_with("node1 finds no address for") && none.contains("hint: remove lines"),
            "{none}"
        );
    }

    #[test]
    fn registries_are_asked_with_the_ca_and_the_login_of_the_nodes() {
        let asked = |section: &str| {
            with_inputs(&cluster("", section), &[], "", |inputs| {
                let step = answers(inputs, &["192.0.2.12:5000".to_owned()]);
                let input = step.input.as_ref().unwrap()().unwrap();
                let shown = format!("{} {}", step.title, step.arguments.join(" "));
                assert!(!shown.contains("password"), "{shown}");
                let refused = (step.parse)("192.0.2.12:5000: no route to host\n");
                let refused = refused.unwrap_err().to_string();
                assert!(
                    refused.contains("192.0.2.12:5000: no route to host\nhint: "),
                    "{refused}"
                );
                assert_eq!((step.parse)("\n"), Ok(()));
                serde_json::from_slice::<Value>(&input).unwrap()
            })
        };
        let config = asked("");
        let registry = &config["clusters"][0];
        assert_eq!(registry["cluster"]["server"], "https://192.0.2.12:5000");
        let ca = STANDARD.encode("<kubexm's CA>\n");
        assert_eq!(registry["cluster"]["certificate-authority-data"], ca);
        assert_eq!(
            registry["name"],
            config["contexts"][0]["context"]["cluster"]
        );
        let login = json!({"username": "kubexm", "password": "<password>"});
        assert_eq!(config["users"][0]["user"], login);
        let config = asked("registry: {login: false}");
        assert_eq!(config["users"][0]["user"], json!({"token": "none"}));
    }
}
