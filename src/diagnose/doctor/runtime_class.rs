//! Runtime classes: pods that wait because the container runtime of their node does not have the handler of their class.

use std::collections::BTreeMap;

use super::check::{Check, Found, Outcome, Source};
use super::needs::Need;
use super::report::Area;
use super::seen::Seen;
use kubexm_deploy::objects::Pod;
use kubexm_session::quoting::quoted;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "runtime-class",
    area: Area::Workloads,
    source: Source::ControlPlanes,
    read: "RuntimeClasses of pods that are not ready, and the handlers that nodes report",
    run: missing_handlers,
}];

fn missing_handlers(seen: &Seen) -> Outcome {
    let (Some(pods), Some(needs)) = (seen.asked(|api| &api.pods), seen.asked(|api| &api.needs))
    else {
        return Outcome::without_server();
    };
    let classes = needs.iter().filter_map(|need| match need {
        Need::RuntimeClass(class) => Some((class.metadata.name.as_str(), class.handler.as_str())),
        _ => None,
    });
    let handlers: BTreeMap<&str, &str> = classes.collect();
    let mut waiting: BTreeMap<(&str, &str), Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let class = pod.spec.runtime_class_name.as_str();
        if let Some(handler) = handlers.get(class)
            && is_without(seen, &pod.spec.node_name, handler)
        {
            waiting.entry((class, handler)).or_default().push(pod);
        }
    }
    let all = waiting.into_iter();
    let all = all.map(|((class, handler), pods)| found(seen, class, handler, &pods));
    Outcome::Known(all.collect())
}

/// Returns whether a node reports its handlers, and this one is not among them. Kubelets and runtimes of earlier versions report
/// none.
fn is_without(seen: &Seen, node: &str, handler: &str) -> bool {
    let node = seen.nodes.as_ref().and_then(|nodes| nodes.get(node));
    let handlers = node.map_or(&[][..], |node| &node.status.runtime_handlers);
    !handlers.is_empty() && handlers.iter().all(|one| one.name != handler)
}

fn found(seen: &Seen, class: &str, handler: &str, pods: &[&Pod]) -> Found {
    let lines = pods
        .iter()
        .map(|pod| format!("{} on {}", pod.metadata.path(), pod.spec.node_name));
    let found = Found::new(format!(
        "pods of the RuntimeClass {class} do not start: their nodes do not have the handler {handler}"
    ))
    .evidence(lines)
    .cause("the configuration of the container runtime does not name the handler, or the runtime has not started since");
    let mut own = seen.cluster.runtime.classes.iter();
    let mut found = match own.find(|own| own.name.as_str() == class) {
        Some(own) => {
            let program = own.program.as_ref();
            let program = program.map_or(String::new(), |program| {
                format!("install {program} on these nodes, and ")
            });
            let fix = format!("{program}write the configuration of the install again");
            found.fix(fix).run(seen.line.install())
        }
        None => {
            let words = format!("get runtimeclass {} -o yaml", quoted(class));
            found
                .fix(format!(
                    "add {handler} to spec.containerRuntime.runtimes of the cluster file and run the install, or let \
                     spec.scheduling.nodeSelector of the RuntimeClass select the nodes that have it"
                ))
                .run(seen.line.kubectl(seen.administrator(), &words))
        }
    };
    let nodes = seen.nodes();
    let hosts = nodes.filter(|host| {
        let mut pods = pods.iter();
        pods.any(|pod| pod.spec.node_name == host.name.as_str())
    });
    found.hosts = hosts.map(|host| host.name.clone()).collect();
    let namespaces = pods.iter().map(|pod| pod.metadata.namespace.clone());
    found.namespaces = namespaces.collect();
    found
}
