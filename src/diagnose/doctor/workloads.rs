//! Workloads: what the API server and the kubelets report about pods and extensions.

use std::collections::{BTreeMap, BTreeSet};

use super::api::Webhooks;
use super::check::{Check, Found, Lasts, Outcome, Source};
use super::report::{Area, IMAGES};
use super::seen::{KUBELET, Seen, Waiting};
use kubexm_config::cluster::PluginKind;
use kubexm_deploy::objects::{Metadata, condition};
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
        id: IMAGES,
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
/// The reason of a container whose image the kubelet asked for a moment ago. During a back-off of up to five minutes, a container
/// has another one, and the image may have come since.
const PULLED: &str = "ErrImagePull";
/// Seconds up to which a backend that is not available may be starting.
const RESTARTING: i64 = 180;

/// Returns whether a pod of a namespace was ready, or did not exist, a moment ago.
fn is_changing(seen: &Seen, namespace: &str) -> bool {
    let pods = seen.asked(|api| &api.pods).into_iter().flatten();
    let mut pods = pods.filter(|pod| pod.metadata.namespace == namespace);
    pods.any(|pod| {
        let since = pod
            .condition("Ready")
            .and_then(|ready| ready.last_transition_time);
        seen.age(since.or(pod.metadata.creation_timestamp)) < RESTARTING
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
    let (Some(webhooks), Some(services)) = (
        seen.asked(|api| &api.webhooks),
        seen.asked(|api| &api.services),
    ) else {
        return Outcome::without_server();
    };
    let server = seen.administrator();
    let mut all = Vec::new();
    for Webhooks {
        kind,
        metadata: Metadata { name, .. },
        webhooks,
    } in webhooks
    {
        let needed = webhooks.iter().enumerate();
        let needed = needed.filter_map(|(at, hook)| Some((at, &hook.name, hook.needed()?)));
        let without: Vec<_> = needed
            .filter(|(_, _, service)| !services.contains(service))
            .collect();
        if without.is_empty() {
            continue;
        }
        let kind = kind.to_lowercase();
        let changes: Vec<String> = without
            .iter()
            .map(|(at, ..)| format!("{{\"op\": \"replace\", \"path\": \"/webhooks/{at}/failurePolicy\", \"value\": \"Ignore\"}}"))
            .collect();
        let patch = format!("[{}]", changes.join(", "));
        let namespaces = without.iter();
        let namespaces: BTreeSet<String> = namespaces
            .map(|(_, _, service)| service.namespace.clone())
            .collect();
        let is_changing = namespaces
            .iter()
            .any(|namespace| is_changing(seen, namespace));
        let mut found = Found::new(format!("the webhook {name} has no program that answers"))
            .evidence(without.iter().map(|(_, hook, service)| format!("{hook} needs the service {}, which has no endpoint", service.path())))
            .cause("the API server refuses every request that the webhook is for, perhaps also those that would start its pods")
            .fix("start the pods of the service, or let the API server ignore the webhook until then; the last resort is to delete the webhook configuration")
            .run(seen.line.kubectl(server, &format!("patch {} {} --type json -p {}", quoted(&kind), quoted(name), quoted(&patch))));
        found.namespaces = namespaces;
        all.push(unless_changing(found, is_changing));
    }
    Outcome::Known(all)
}

fn api_services(seen: &Seen) -> Outcome {
    let Some(services) = seen.asked(|api| &api.api_services) else {
        return Outcome::without_server();
    };
    let server = seen.administrator();
    let mut all = Vec::new();
    for api in services {
        let available = condition(&api.status.conditions, "Available");
        let available = available.filter(|condition| condition.status != "True");
        let (Some(condition), Some(service)) = (available, &api.spec.service) else {
            continue;
        };
        let since = condition.last_transition_time;
        let is_changing = since.is_some() && seen.age(since) < RESTARTING;
        let (name, namespace) = (&api.metadata.name, &service.namespace);
        let words = format!(
            "-n {} get services,endpointslices,pods -o wide",
            quoted(namespace)
        );
        let mut found = Found::new(format!("the aggregated API {name} is not available"))
            .evidence([format!("{}: {}: {}", service.path(), condition.reason, condition.message)])
            .cause("namespaces cannot be deleted, and clients that list all resources fail, while the API has no backend")
            .fix("start the pods of its service; if its program was removed, delete the APIService as the last resort")
            .run(seen.line.kubectl(server, &words));
        found.namespaces.insert(namespace.clone());
        all.push(unless_changing(found, is_changing));
    }
    Outcome::Known(all)
}

fn namespaces(seen: &Seen) -> Outcome {
    let Some(namespaces) = seen.asked(|api| &api.namespaces) else {
        return Outcome::without_server();
    };
    let mut all = Vec::new();
    for namespace in namespaces {
        let name = &namespace.metadata.name;
        if seen.age(namespace.metadata.deletion_timestamp) < DELETING {
            continue;
        }
        let reasons = namespace.status.conditions.iter();
        let reasons = reasons.filter(|one| one.status == "True");
        let reasons = reasons.map(|one| &one.message);
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

/// What pods say about an image that they wait for.
#[derive(Default)]
struct Awaited {
    hosts: BTreeSet<HostName>,
    namespaces: BTreeSet<String>,
    lines: Vec<String>,
    is_missing: bool,
    is_elsewhere: bool,
    lasts: Option<Lasts>,
}

fn images(seen: &Seen) -> Outcome {
    let Some(pods) = seen.pods() else {
        return Outcome::without_server();
    };
    let mut awaited: BTreeMap<String, Awaited> = BTreeMap::new();
    for pod in pods {
        for one in pod.waiting.iter().filter(|one| one.is_about_image()) {
            let of_image = awaited.entry(one.image.clone()).or_default();
            let host = host_of(seen, &pod.node);
            of_image.hosts.extend(host.cloned());
            of_image.namespaces.extend(namespace(&pod.name));
            let Waiting { message, .. } = one;
            of_image.is_missing |= is_missing(message);
            of_image.is_elsewhere |= ["registry-1.docker.io", "no such host", "lookup "]
                .iter()
                .any(|text| message.contains(text));
            let asked = host.filter(|_| is_missing(message) && one.reason == PULLED);
            let lasting = asked.and_then(|host| lasts(seen, &pod.name, host));
            of_image.lasts = match (of_image.lasts.take(), lasting) {
                (Some(Lasts::On(former)), Some(Lasts::On(host))) => {
                    Some(Lasts::On(&former | &host))
                }
                (former, lasting) => former.or(lasting),
            };
            let line = format!("{} on {}: {message}", pod.name, pod.node);
            of_image.lines.push(line);
        }
    }
    let all = awaited.into_iter().map(|(image, of_image)| {
        let mut found = Found::new(format!("the image {image} cannot be pulled")).evidence(of_image.lines);
        found.hosts = of_image.hosts.into_iter().collect();
        let command = seen.line.with_bundle(bringing(seen, &of_image.namespaces));
        found.namespaces = of_image.namespaces;
        if of_image.is_missing {
            found
                .lasts(of_image.lasts)
                .cause("the registry of the cluster does not have the image: it is not in the bundle, or its name or tag is another one")
                .fix(format!("add {image} to spec.images of a bundle manifest, build the bundle, and bring it to the cluster"))
                .run(command)
        } else if of_image.is_elsewhere {
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

/// Returns whether the message of a container says that the registry does not have its image.
fn is_missing(message: &str) -> bool {
    [
        "not found",
        "not-in-the-bundle",
        "NAME_UNKNOWN",
        "MANIFEST_UNKNOWN",
    ]
    .iter()
    .any(|text| message.contains(text))
}

/// Returns which conditions cannot come true without the image of a pod that kubexm installs; `None` for pods for which no command
/// waits.
fn lasts(seen: &Seen, pod: &str, host: &HostName) -> Option<Lasts> {
    // Without a kubelet that runs, nothing corrects what its pods say.
    if !seen.is_up(host, KUBELET) {
        return None;
    }
    if pod.starts_with("kube-system/coredns-") {
        // One pod that is ready answers for all.
        let dns = seen.asked(|api| &api.dns)?;
        return (!dns.iter().any(kubexm_deploy::objects::Pod::is_ready)).then_some(Lasts::Dns);
    }
    // A node whose plugin has written its file before can be Ready without the pod.
    let is_first = seen.hosts.get(host)?.all("cni_file").is_empty();
    let mut of_plugins = PluginKind::all_properties().flat_map(|plugin| plugin.node_pods);
    let is_of_plugin = of_plugins.any(|start| pod.starts_with(start));
    (is_first && is_of_plugin).then(|| Lasts::On([host.clone()].into()))
}

fn namespace(pod: &str) -> Option<String> {
    let (namespace, _) = pod.split_once('/')?;
    Some(namespace.to_owned())
}

/// Returns the command that brings images of pods in these namespaces to the registry of the cluster.
fn bringing(seen: &Seen, namespaces: &BTreeSet<String>) -> &'static str {
    let mut applications = seen.cluster.applications.iter();
    if namespaces.iter().any(|name| name.starts_with("kube-")) {
        "install"
    } else if applications.any(|one| namespaces.contains(one.namespace.as_str())) {
        "app apply"
    } else {
        "registry add"
    }
}

fn pods(seen: &Seen) -> Outcome {
    let Some(pods) = seen.pods() else {
        return Outcome::without_server();
    };
    let mut all: BTreeMap<(String, String), Found> = BTreeMap::new();
    for pod in pods {
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
            (None, Some(why)) if why.contains("PersistentVolumeClaim") => {
                ("waiting for a volume".to_owned(), why.clone())
            }
            (None, Some(why)) => ("not scheduled".to_owned(), why.clone()),
            (None, None) => ("not ready".to_owned(), pod.phase.clone()),
        };
        let host = host_of(seen, &pod.node);
        let key = (pod.node.clone(), reason.clone());
        let found = all.entry(key).or_insert_with(|| {
            let what = match reason.as_str() {
                "not scheduled" => "pods are not scheduled".to_owned(),
                "waiting for a volume" => "pods are not scheduled without their volumes".to_owned(),
                "not ready" => "pods are not ready".to_owned(),
                reason => format!("pods do not run: {reason}"),
            };
            let found = Found::new(what)
                .cause(match reason.as_str() {
                    "CrashLoopBackOff" | "Error" => "the program in the container ends; its log has the cause",
                    "waiting for a volume" => "a PersistentVolumeClaim of the pod is not bound",
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
        found.namespaces.extend(namespace(&pod.name));
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
