//! The end of an install: everything answers, nothing secret is left, the kubeconfig comes home.

use std::net::SocketAddr;
use std::time::Duration;

use super::module::Module;
use super::{DeployError, Deployment, Inputs, dns, kubernetes, network};
use kubexm_config::cluster::{HostSpec, LoadBalancer, NetworkPlugin};
use kubexm_engine::plan::{Slot, Task, TaskId, TaskName};
use kubexm_engine::steps::{Produce, RunScript, WaitFor};
use kubexm_scripts::kubernetes as scripts;

/// Waits for the cluster, and fetches the kubeconfig.
pub(crate) const FINISH: TaskName = TaskName::new("cluster", "ready");

/// A local proxy's endpoint leads nodes to themselves; from outside the first control plane is as
/// good as any.
fn kubeconfig_for_home(
    inputs: &Inputs<'_>,
    first: &HostSpec,
) -> impl Fn(&str) -> Result<String, String> + Send + Sync + use<> {
    let local = matches!(inputs.cluster.load_balancer, LoadBalancer::Local { .. });
    let endpoint = format!("https://{}", inputs.cluster.control_plane_endpoint);
    let address = SocketAddr::new(first.internal_address, kubernetes::BIND_PORT);
    let own = format!("https://{address}");
    move |text| {
        Ok(match local {
            true => with_server(text, &endpoint, &own),
            false => text.to_owned(),
        })
    }
}

/// A kubeconfig that leads elsewhere. kubeadm writes addresses as they are, kubexm in quotes.
fn with_server(kubeconfig: &str, from: &str, to: &str) -> String {
    let line = |line: &str| match line.split_once("server: ") {
        Some((indent, url))
            if indent.trim().is_empty() && url.trim_matches(['"', '\'']) == from =>
        {
            format!("{indent}server: {to}\n")
        }
        _ => format!("{line}\n"),
    };
    kubeconfig.lines().map(line).collect()
}

/// The last task, on the first control plane.
pub(super) struct Finish;

impl Module for Finish {
    fn tasks(
        &self,
        inputs: &Inputs<'_>,
        deployment: &Deployment,
    ) -> Result<Vec<Task>, DeployError> {
        let networked = network::ready(&deployment.plan.tasks);
        tasks(inputs, &deployment.kubeconfig, networked)
    }
}

fn tasks(
    inputs: &Inputs<'_>,
    kubeconfig: &Slot<String>,
    networked: Vec<TaskId>,
) -> Result<Vec<Task>, DeployError> {
    let Some(first) = inputs.first() else {
        return Ok(Vec::new());
    };
    let nodes = inputs.cluster.nodes();
    let names: Vec<String> = nodes.iter().map(|host| host.name.to_string()).collect();
    let mut task = FINISH
        .task(&first.name)
        .after(kubernetes::complete(inputs))
        .after([dns::configured(&first.name)])
        .after(networked);
    if inputs.cluster.network.plugin != NetworkPlugin::None {
        task = task.step(WaitFor {
            title: "Wait until every node is Ready".to_owned(),
            script: scripts::NODES.verb("ready"),
            arguments: names,
            at_most: Duration::from_secs(300),
            diagnosis: scripts::NODES.verb("diagnose").into(),
        });
        task = task.step(WaitFor {
            title: "Wait until CoreDNS answers".to_owned(),
            script: kubexm_scripts::dns::ANSWERS,
            arguments: vec![
                inputs.cluster.network.dns_address.to_string(),
                inputs.cluster.kubernetes.dns_domain.clone(),
            ],
            // After a power cut pods come back by the kubelet's back-off, which grows to five minutes.
            at_most: Duration::from_secs(360),
            diagnosis: kubexm_scripts::dns::DIAGNOSIS.into(),
        });
        for wait in dns::waits(inputs) {
            task = task.step(wait);
        }
    }
    let clean = RunScript::new(
        "join secrets",
        "Remove join tokens",
        scripts::JOIN_SECRETS.verb("check"),
        scripts::JOIN_SECRETS.verb("remove"),
    );
    let fetch = Produce {
        title: "Fetch the administrator's kubeconfig".to_owned(),
        script: "cat /etc/kubernetes/admin.conf".into(),
        arguments: Vec::new(),
        input: None,
        parse: Box::new(kubeconfig_for_home(inputs, first)),
        slot: kubeconfig.clone(),
        files: Vec::new(),
    };
    Ok(vec![task.step(clean).step(fetch)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_for_home_leads_to_a_host() {
        let own = "https://192.0.2.11:6443";
        for server in ["https://127.0.0.1:7443", "'https://127.0.0.1:7443'"] {
            let text = format!("clusters:\n- cluster:\n    server: {server}\n  name: a\n");
            assert_eq!(
                with_server(&text, "https://127.0.0.1:7443", own),
                format!("clusters:\n- cluster:\n    server: {own}\n  name: a\n")
            );
        }
        let other = "    server: https://api.example:7443\n";
        assert_eq!(with_server(other, "https://127.0.0.1:7443", own), other);
    }
}
