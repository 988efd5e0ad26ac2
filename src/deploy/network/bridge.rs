//! A bridge on each node, and routes to the pods of the other nodes. CNI plugins create the bridge, and a
//! unit on each host maintains the routes. There is no network daemon.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::Plugin;
use super::subnets::{self, ReadSubnets, Subnets};
use crate::kubernetes::nodes::NodesWait;
use crate::{DeployError, Inputs, kubernetes, network, pod_leftovers};
use kubexm_config::Cluster;
use kubexm_config::cluster::{HostSpec, IpFamilies, POD_ROUTES_UNIT};
use kubexm_engine::Limit;
use kubexm_engine::plan::{StepError, Task, TaskValue};
use kubexm_engine::steps::{Content, DeferredArguments, ManageUnit, RunScript, WriteFile};
use kubexm_render::RenderError;
use kubexm_render::network::{Bridge as Conflist, PodRoutes, PodRoutesService, Route};
use kubexm_scripts::network::{POD_BRIDGE, POD_ROUTES};
use kubexm_types::{HostName, HostPath, ImageRef};

/// The bridge plugin.
pub(super) struct Bridge;

const CONFLIST: &str = "/etc/cni/net.d/10-kubexm-bridge.conflist";
const SCRIPT: &str = "/etc/kubexm/pod-routes.sh";
const CONFIG: &str = "/etc/kubexm/pod-routes.conf";
/// How long pods and kubelet may take to stop.
const SETTLING: Limit = Limit::new(Duration::from_secs(900), "the pod network");

impl Plugin for Bridge {
    fn images(&self, _: &Inputs<'_>) -> Vec<ImageRef> {
        Vec::new()
    }

    fn missing(&self, _: &Inputs<'_>) -> Vec<String> {
        Vec::new()
    }

    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task.step(pod_leftovers::register_cleanup(
            "bridge",
            "the bridge of pods",
            "bridge",
        )))
    }

    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
        let bridges = Bridges {
            cluster: inputs.cluster,
            nodes: inputs.nodes(),
            leaving: &inputs.leaving,
            subnets: subnets::value(),
        };
        let nodes = bridges.nodes.iter();
        let read = network::SUBNETS
            .task(&first.name)
            .after(nodes.map(|host| kubernetes::joined(inputs, host)))
            .step(NodesWait::pod_subnet(&bridges.nodes))
            .step(ReadSubnets {
                only: BTreeSet::new(),
                value: bridges.subnets.clone(),
            });
        let mut tasks = vec![read];
        for host in &bridges.nodes {
            let task = network::BRIDGE.task(&host.name);
            let task = task.after([network::SUBNETS.id(&first.name)]);
            tasks.push(bridges.configure(host, task)?);
        }
        Ok(tasks)
    }
}

/// The bridges of all nodes.
pub(super) struct Bridges<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) nodes: Vec<&'a HostSpec>,
    /// Nodes that are about to leave the cluster.
    pub(super) leaving: &'a BTreeSet<HostName>,
    pub(super) subnets: TaskValue<Subnets>,
}

impl Bridges<'_> {
    /// Adds the steps to a task that configure the bridge and the routes of a node.
    pub(super) fn configure(&self, host: &HostSpec, task: Task) -> Result<Task, DeployError> {
        let unit_path = HostPath::parse(&format!("/etc/systemd/system/{POD_ROUTES_UNIT}"))?;
        let (script_path, config_path) = (HostPath::parse(SCRIPT)?, HostPath::parse(CONFIG)?);
        let service = PodRoutesService {
            script: SCRIPT,
            config: CONFIG,
        };
        let unit = kubexm_render::text("pod routes unit", &service)?;
        let pods = self.cluster.network.pod_cidr;
        let all: Vec<HostName> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let placeholder = Subnets::placeholder(&all, pods);
        let conflist = from_subnets(&self.subnets, &host.name, &placeholder, conflist)?;
        let leaving = self.leaving.clone();
        let render =
            move |subnets: &Subnets, name: &HostName| route_config(subnets, name, &leaving, pods);
        let config = from_subnets(&self.subnets, &host.name, &placeholder, render)?;
        let mut conflist = file(HostPath::parse(CONFLIST)?, conflist);
        conflist.removed_elsewhere = true;
        conflist.mode = self.cluster.security.settings_mode();
        let bridge = pod_bridge("pod bridge", self.addresses(&host.name));
        let task = task
            .step(WriteFile::new(script_path.clone(), POD_ROUTES.text))
            .step(file(config_path.clone(), config))
            .step(WriteFile::new(unit_path.clone(), unit))
            .step(ManageUnit {
                name: POD_ROUTES_UNIT.to_owned(),
                files: vec![script_path, config_path, unit_path],
                reload: None,
                start: true,
            })
            // A node with this file is Ready.
            .step(conflist)
            .step(bridge);
        Ok(self.reads_subnets(task))
    }

    /// Returns the addresses of a node's bridge, when they are known.
    pub(super) fn addresses(&self, host: &HostName) -> DeferredArguments {
        let (name, subnets) = (host.clone(), self.subnets.clone());
        Arc::new(move || Ok(subnets.require()?.bridge_addresses(&name)))
    }

    /// Lets a task wait for the subnets.
    pub(super) fn reads_subnets(&self, mut task: Task) -> Task {
        task.requires.push(self.subnets.name());
        task
    }
}

/// Returns the step that removes a bridge with the address of another subnet. The node had it before.
pub(super) fn pod_bridge(id: &str, addresses: DeferredArguments) -> RunScript {
    let [check, apply] = ["follows", "follow"].map(|verb| POD_BRIDGE.verb(verb));
    let title = "Let the pod network follow the pod subnet of the node";
    let step = RunScript::new(id, title, check, apply);
    step.more_arguments(addresses).limit(SETTLING)
}

fn file(path: HostPath, content: Content) -> WriteFile {
    let mut file = WriteFile::new(path, String::new());
    file.content = content;
    file
}

/// Returns a text that depends on the subnets, with a preview that has placeholders.
fn from_subnets(
    subnets: &TaskValue<Subnets>,
    host: &HostName,
    placeholder: &Subnets,
    render_with: impl Fn(&Subnets, &HostName) -> Result<String, RenderError> + Send + Sync + 'static,
) -> Result<Content, DeployError> {
    let preview = render_with(placeholder, host)?;
    let (subnets, host) = (subnets.clone(), host.clone());
    let render = Arc::new(move || {
        render_with(subnets.require()?, &host)
            .map_err(|error| StepError::Other(error.to_string().into()))
    });
    Ok(Content::Deferred { preview, render })
}

fn conflist(subnets: &Subnets, host: &HostName) -> Result<String, RenderError> {
    let subnets = subnets.of(host);
    kubexm_render::text("bridge", &Conflist { subnets })
}

fn route_config(
    subnets: &Subnets,
    host: &HostName,
    leaving: &BTreeSet<HostName>,
    pods: IpFamilies<IpNet>,
) -> Result<String, RenderError> {
    let routes = subnets.others(host, leaving).map(|route| Route {
        subnet: route.subnet.clone(),
        gateway: route.address.clone(),
    });
    let config = PodRoutes {
        pod_networks: pods.iter().map(|net| net.to_string()).collect(),
        routes: routes.collect(),
    };
    kubexm_render::text("pod routes", &config)
}
