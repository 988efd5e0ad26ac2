//! Workloads: what the API server and the kubelets report about pods and extensions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use kubexm_session::quoting::quoted;
use kubexm_types::HostName;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "webhooks",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "webhook configurations with failurePolicy Fail, and the endpoints of their services",
        run: webhooks,
    },
    Check {
        id: "api-services",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "the condition Available of each APIService with a backend",
        run: api_services,
    },
    Check {
        id: "namespaces",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "namespaces that have been in the state Terminating for five minutes",
        run: namespaces,
    },
    Check {
        id: "images",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "containers that wait for an image",
        run: images,
    },
    Check {
        id: "pods",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "pods that are not ready for 90 s, or whose containers fail",
        run: pods,
    },
];

/// Seconds after which a pod that is not ready is a problem. A pull of a large image takes this long.
const STARTING: i64 = 90;
/// Seconds after which a namespace that is being deleted is a problem.
const DELETING: i64 = 300;
/// Seconds up to which a backend that is not available may be starting.
const RESTARTING: i64 = 180;
const NO_SERVER: &str = "no API server is ready";

/// Returns whether a service has an endpoint that is ready.
fn has_endpoint(seen: &Seen, service: &str) -> bool {
    let rows = seen.api_rows("slice");
    let mut of_service = rows.iter().filter(|row| row.first() == Some(&service));
    of_service.any(|row| {
        row.get(1)
            .is_some_and(|ready| ready.split(' ').any(|one| one == "true"))
    })
}

/// Returns whether a pod of a namespace was ready, or did not exist, a moment ago.
fn is_changing(seen: &Seen, namespace: &str) -> bool {
    seen.api_rows("pod").iter().any(|row| {
        let [name, _, _, created, conditions, ..] = row[..] else {
            return false;
        };
        let is_its = name
            .split_once('/')
            .is_some_and(|(own, _)| own == namespace);
        let conditions: Vec<Value> = serde_json::from_str(conditions).unwrap_or_default();
        let ready = conditions.iter().find(|one| one["type"] == "Ready");
        let since = ready.and_then(|ready| ready["lastTransitionTime"].as_str());
        is_its && seen.age(since.unwrap_or(created)) < RESTARTING
    })
}

/// Adds that a backend may be starting.
fn unless_changing(found: Found, is_changing: bool) -> Found {
    if is_changing {
        found
            .evidence(["its state has changed in the last three minutes: it may be starting"])
            .possible()
    } else {
        found
    }
}

fn webhooks(seen: &Seen) -> Outcome {
    if !seen.has_api("webhook") || !seen.has_api("slice") {
        return Outcome::Unknown(NO_SERVER.to_owned());
    }
    let server = seen.administrator();
    let mut all = Vec::new();
    for row in seen.api_rows("webhook") {
        let [kind, name, hooks] = row[..] else {
            continue;
        };
        let hooks: Vec<Value> = serde_json::from_str(hooks).unwrap_or_default();
        let without: Vec<(usize, String, String)> = hooks
            .iter()
            .enumerate()
            .filter(|(_, hook)| hook["failurePolicy"] == "Fail")
            .filter_map(|(at, hook)| {
                let service = &hook["clientConfig"]["service"];
                let service = format!(
                    "{}/{}",
                    service["namespace"].as_str()?,
                    service["name"].as_str()?
                );
                let hook = hook["name"].as_str().unwrap_or_default().to_owned();
                (!has_endpoint(seen, &service)).then_some((at, hook, service))
            })
            .collect();
        if without.is_empty() {
            continue;
        }
        let kind = kind.trim_end_matches('s');
        let changes: Vec<String> = without
            .iter()
            .map(|(at, ..)| format!("{{\"op\": \"replace\", \"path\": \"/webhooks/{at}/failurePolicy\", \"value\": \"Ignore\"}}"))
            .collect();
        let patch = format!("[{}]", changes.join(", "));
        let namespaces = without
            .iter()
            .filter_map(|(_, _, service)| service.split_once('/'));
        let namespaces: BTreeSet<String> = namespaces
            .map(|(namespace, _)| namespace.to_owned())
            .collect();
        let is_changing = namespaces
            .iter()
            .any(|namespace| is_changing(seen, namespace));
        let mut found = Found::new(format!("the webhook {name} has no program that answers"))
            .evidence(without.iter().map(|(_, hook, service)| format!("{hook} needs the service {service}, which has no endpoint")))
            .cause("the API server refuses every request that the webhook is for, perhaps also those that would start its pods")
            .fix("start the pods of the service, or let the API server ignore the webhook until then; the last resort is to delete the webhook configuration")
            .run(seen.line.kubectl(server, &format!("patch {} {} --type json -p {}", quoted(kind), quoted(name), quoted(&patch))));
        found.namespaces = namespaces;
        all.push(unless_changing(found, is_changing));
    }
    Outcome::Known(all)
}

fn api_services(seen: &Seen) -> Outcome {
    if !seen.has_api("apiservice") {
        return Outcome::Unknown(NO_SERVER.to_owned());
    }
    let server = seen.administrator();
    let mut all = Vec::new();
    for row in seen.api_rows("apiservice") {
        let [name, service, conditions] = row[..] else {
            continue;
        };
        let conditions: Vec<Value> = serde_json::from_str(conditions).unwrap_or_default();
        let available = conditions.iter().find(|one| one["type"] == "Available");
        let Some(condition) = available.filter(|one| one["status"] != "True") else {
            continue;
        };
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let since = condition["lastTransitionTime"].as_str();
        let is_changing = since.is_some_and(|since| seen.age(since) < RESTARTING);
        let namespace = service
            .split_once('/')
            .map_or("", |(namespace, _)| namespace);
        let words = format!(
            "-n {} get services,endpointslices,pods -o wide",
            quoted(namespace)
        );
        let mut found = Found::new(format!("the aggregated API {name} is not available"))
            .evidence([format!("{service}: {}: {}", text("reason"), text("message"))])
            .cause("namespaces cannot be deleted, and clients that list all resources fail, while the API has no backend")
            .fix("start the pods of its service; if its program was removed, delete the APIService as the last resort")
            .run(seen.line.kubectl(server, &words));
        found.namespaces.insert(namespace.to_owned());
        all.push(unless_changing(found, is_changing));
    }
    Outcome::Known(all)
}

fn namespaces(seen: &Seen) -> Outcome {
    if !seen.has_api("terminating") {
        return Outcome::Unknown(NO_SERVER.to_owned());
    }
    let mut all = Vec::new();
    for row in seen.api_rows("terminating") {
        let [name, since, conditions] = row[..] else {
            continue;
        };
        if seen.age(since) < DELETING {
            continue;
        }
        let conditions: Vec<Value> = serde_json::from_str(conditions).unwrap_or_default();
        let reasons = conditions.iter().filter(|one| one["status"] == "True");
        let reasons = reasons.filter_map(|one| one["message"].as_str().map(str::to_owned));
        let found = Found::new(format!("the namespace {name} is not deleted"))
            .evidence(reasons)
            .cause("an aggregated API does not answer, or a finalizer is not removed")
            .fix("repair what the evidence names")
            .likely();
        let words = format!("get namespace {} -o yaml", quoted(name));
        all.push(found.run(seen.line.kubectl(seen.administrator(), &words)));
    }
    Outcome::Known(all)
}

fn host_of<'a>(seen: &'a Seen, node: &str) -> Option<&'a HostName> {
    let mut hosts = seen.cluster.hosts.iter();
    hosts
        .find(|host| host.name.as_str() == node)
        .map(|host| &host.name)
}

fn images(seen: &Seen) -> Outcome {
    if !seen.has_api("pod") {
        return Outcome::Unknown(NO_SERVER.to_owned());
    }
    // By image: the nodes, the pods and the messages.
    let mut waiting: BTreeMap<String, (BTreeSet<HostName>, Vec<String>)> = BTreeMap::new();
    for pod in seen.pods() {
        for one in pod.waiting.iter().filter(|one| one.is_about_image()) {
            let (hosts, lines) = waiting.entry(one.image.clone()).or_default();
            hosts.extend(host_of(seen, &pod.node).cloned());
            lines.push(format!("{} on {}: {}", pod.name, pod.node, one.message));
        }
    }
    let all = waiting.into_iter().map(|(image, (hosts, lines))| {
        let text = lines.join(" ");
        let mut found = Found::new(format!("the image {image} cannot be pulled")).evidence(lines);
        found.hosts = hosts.into_iter().collect();
        if text.contains("not found") || text.contains("not-in-the-bundle") || text.contains("NAME_UNKNOWN") || text.contains("MANIFEST_UNKNOWN") {
            found
                .cause("the registry of the cluster does not have the image: it is not in the bundle, or its name or tag is another one")
                .fix("add the image to the bundle manifest, build the bundle again, and install it")
                .run(seen.line.install())
        } else if text.contains("registry-1.docker.io") || text.contains("no such host") || text.contains("lookup ") {
            found
                .cause("the runtime asks a registry of the internet, because no mirror is configured for this name")
                .fix("write the configuration of the install again")
                .run(seen.line.install())
        } else {
            found
                .cause("the registry does not answer, or refuses the node")
                .likely()
                .run(seen.line.kubexm("status"))
        }
    });
    Outcome::Known(all.collect())
}

fn pods(seen: &Seen) -> Outcome {
    if !seen.has_api("pod") {
        return Outcome::Unknown(NO_SERVER.to_owned());
    }
    let mut all: BTreeMap<(String, String), Found> = BTreeMap::new();
    for pod in seen.pods() {
        // Others checks are about these.
        if pod.name.starts_with("kube-system/coredns") {
            continue;
        }
        let reasons = pod.waiting.iter().filter(|one| !one.is_about_image());
        let reasons: Vec<_> = reasons
            .filter(|one| !starting(&one.reason) || pod.age > STARTING)
            .collect();
        if reasons.is_empty()
            && (pod.age <= STARTING || pod.waiting.iter().any(|one| one.is_about_image()))
        {
            continue;
        }
        let (reason, why) = match (reasons.first(), &pod.unscheduled) {
            (Some(one), _) => (one.reason.clone(), one.message.clone()),
            (None, Some(why)) => ("not scheduled".to_owned(), why.clone()),
            (None, None) => ("not ready".to_owned(), pod.phase.clone()),
        };
        let host = host_of(seen, &pod.node);
        let key = (pod.node.clone(), reason.clone());
        let found = all.entry(key).or_insert_with(|| {
            let what = match reason.as_str() {
                "not scheduled" => "pods are not scheduled".to_owned(),
                "not ready" => "pods are not ready".to_owned(),
                reason => format!("pods do not run: {reason}"),
            };
            let found = Found::new(what)
                .cause(match reason.as_str() {
                    "CrashLoopBackOff" | "Error" => "the program in the container ends; its log has the cause",
                    "not scheduled" => "no node has the resources, the labels or the volumes that the pod requires, or they are cordoned",
                    "ContainerCreating" => "the node cannot create the sandbox or mount a volume",
                    "CreateContainerConfigError" => "a ConfigMap or Secret of the pod is missing",
                    _ => "the kubelet reports it",
                })
                .fix("read the events and the log of the pod")
                .likely();
            match host {
                Some(host) => found.on(host),
                None => found,
            }
        });
        found.add_evidence([format!("{}: {why}", pod.name)]);
        let namespace = pod.name.split_once('/').map(|(namespace, _)| namespace);
        found.namespaces.extend(namespace.map(str::to_owned));
        if found.commands.is_empty()
            && let Some((namespace, name)) = pod.name.split_once('/')
        {
            let words = format!("-n {} describe pod {}", quoted(namespace), quoted(name));
            found
                .commands
                .push(seen.line.kubectl(seen.administrator(), &words));
        }
    }
    Outcome::Known(all.into_values().collect())
}

/// Returns whether a container that starts has this reason.
fn starting(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}
