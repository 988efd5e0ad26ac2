//! A bridge on each node, with routes to the pods of the others. No program of the network's own
//! runs: CNI's plugins make the bridge, and a unit of each host keeps its routes.

mod subnets;

use std::sync::Arc;

use ipnet::IpNet;

use self::subnets::Subnets;
use super::Plugin;
use crate::{DeployError, Inputs, kubernetes, network, traces};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::{Slot, StepError, Task};
use kubexm_engine::steps::{Content, ManageUnit, WriteFile};
use kubexm_render::RenderError;
use kubexm_render::network::{Bridge as Conflist, PodRoutes, PodRoutesService, Route};
use kubexm_types::{HostName, HostPath, ImageRef};

/// The bridge plugin.
pub(super) struct Bridge;

const CONFLIST: &str = "/etc/cni/net.d/10-kubexm-bridge.conflist";
const SCRIPT: &str = "/etc/kubexm/pod-routes.sh";
const UNIT: &str = "kubexm-pod-routes.service";
/// Of the range that nobody has been given (`/etc/iproute2/rt_protos`).
const ROUTE_PROTOCOL: u8 = 187;

impl Plugin for Bridge {
    fn images(&self, _: &Inputs<'_>) -> Vec<ImageRef> {
        Vec::new()
    }

    fn lacking(&self, _: &Inputs<'_>) -> Vec<String> {
        Vec::new()
    }

    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task.step(traces::note("bridge", "the pods' bridge", "bridge")))
    }

    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
        let slot: Slot<Subnets> = Slot::new("network.pod_subnets");
        let nodes = inputs.cluster.nodes();
        let ask = network::SUBNETS
            .task(&first.name)
            .after(nodes.iter().map(|host| kubernetes::joined(inputs, host)))
            .step(subnets::ask(&nodes, &slot));
        let mut tasks = vec![ask];
        for host in nodes {
            tasks.push(on_node(inputs, first, host, &slot)?);
        }
        Ok(tasks)
    }
}

/// The bridge's configuration and the routes of one node.
fn on_node(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    host: &HostSpec,
    slot: &Slot<Subnets>,
) -> Result<Task, DeployError> {
    let unit_path = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
    let script_path = HostPath::parse(SCRIPT)?;
    let unit = kubexm_render::text("pod routes unit", &PodRoutesService { script: SCRIPT })?;
    let pod_cidr = inputs.cluster.network.pod_cidr;
    let all: Vec<HostName> = inputs
        .cluster
        .nodes()
        .iter()
        .map(|node| node.name.clone())
        .collect();
    let words = Subnets::words(&all);
    let conflist = from_subnets(slot, &host.name, &words, conflist)?;
    let script = from_subnets(slot, &host.name, &words, move |subnets, name| {
        pod_routes(subnets, name, pod_cidr)
    })?;
    let mut conflist = file(HostPath::parse(CONFLIST)?, conflist);
    conflist.removed_elsewhere = true;
    let mut task = network::BRIDGE
        .task(&host.name)
        .after([network::SUBNETS.id(&first.name)])
        .step(file(script_path.clone(), script))
        .step(WriteFile::new(unit_path.clone(), unit))
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files: vec![script_path, unit_path],
            start: true,
        })
        // The last: where it is, the node is Ready.
        .step(conflist);
    task.needs.push(slot.name());
    Ok(task)
}

fn file(path: HostPath, content: Content) -> WriteFile {
    let mut file = WriteFile::new(path, String::new());
    file.content = content;
    file
}

/// A text that needs the subnets; with words in their place until they are known.
fn from_subnets(
    slot: &Slot<Subnets>,
    host: &HostName,
    words: &Subnets,
    render: impl Fn(&Subnets, &HostName) -> Result<String, RenderError> + Send + Sync + 'static,
) -> Result<Content, DeployError> {
    let preview = render(words, host)?;
    let (slot, host) = (slot.clone(), host.clone());
    let produce = Arc::new(move || {
        let subnets = slot.get().ok_or(StepError::Missing(slot.name()))?;
        render(subnets, &host).map_err(|error| StepError::Other(error.to_string()))
    });
    Ok(Content::Later { preview, produce })
}

fn conflist(subnets: &Subnets, host: &HostName) -> Result<String, RenderError> {
    let subnet = subnets.of(host);
    kubexm_render::text("bridge", &Conflist { subnet })
}

fn pod_routes(subnets: &Subnets, host: &HostName, pod_cidr: IpNet) -> Result<String, RenderError> {
    let of_others = subnets.others(host).map(|(gateway, subnet)| Route {
        subnet: subnet.to_owned(),
        gateway: gateway.to_owned(),
    });
    let (family, iptables) = match pod_cidr {
        IpNet::V6(_) => (6, "ip6tables"),
        IpNet::V4(_) => (4, "iptables"),
    };
    let script = PodRoutes {
        family,
        iptables,
        protocol: ROUTE_PROTOCOL,
        pod_cidr: pod_cidr.to_string(),
        routes: of_others.collect(),
    };
    kubexm_render::text("pod routes", &script)
}
