//! Applications: releases of Helm, and what the cluster does not have for their objects.

use std::collections::BTreeSet;

use super::check::{Check, Found, Outcome, Source};
use super::needs::{Claim, Ingress, Job, Need, Service};
use super::report::Area;
use super::seen::Seen;
use crate::status::{ProblemKind, Subject};
use kubexm_config::Cluster;
use kubexm_config::cluster::{Addon, ApplicationContent, SiteObjects};
use kubexm_deploy::objects::{Class, Metadata};
use kubexm_deploy::offers::{INGRESS_LINE, STORAGE_LINE};
use kubexm_session::quoting::quoted;
use kubexm_types::HostName;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "storage-class",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "PersistentVolumeClaims that are pending for 30 s, and StorageClasses",
        run: storage_class,
    },
    Check {
        id: "ingress-class",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "Ingresses without an address, and IngressClasses",
        run: ingress_class,
    },
    Check {
        id: "service-address",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "Services of the type LoadBalancer that have no address for 30 s",
        run: service_address,
    },
    Check {
        id: "releases",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "releases that are not deployed, and Jobs and hooks of Helm that failed",
        run: releases,
    },
    Check {
        id: "applications",
        area: Area::Workloads,
        source: Source::ControlPlanes,
        read: "releases of kubexm, compared with spec.applications",
        run: applications,
    },
];

/// Seconds after which an object without a volume or an address is a problem. Controllers need a few.
const STARTING: i64 = 30;

/// What the API has about needs, by kind.
#[derive(Default)]
struct Needs<'a> {
    storage: Vec<&'a Class>,
    ingress: Vec<&'a Class>,
    claims: Vec<&'a Claim>,
    ingresses: Vec<&'a Ingress>,
    services: Vec<&'a Service>,
    jobs: Vec<&'a Job>,
}

impl<'a> Needs<'a> {
    /// Returns `None` without an answer.
    fn of(seen: &'a Seen) -> Option<Self> {
        let mut needs = Self::default();
        for need in seen.asked(|api| &api.needs)? {
            match need {
                Need::StorageClass(class) => needs.storage.push(class),
                Need::IngressClass(class) => needs.ingress.push(class),
                // Another check looks at them.
                Need::RuntimeClass(_) => {}
                Need::PersistentVolumeClaim(claim) => needs.claims.push(claim),
                Need::Ingress(ingress) => needs.ingresses.push(ingress),
                Need::Service(service) => needs.services.push(service),
                Need::Job(job) => needs.jobs.push(job),
            }
        }
        Some(needs)
    }
}

/// Returns a finding about objects of one kind.
fn about<'a>(what: String, objects: impl IntoIterator<Item = &'a Metadata>) -> Found {
    let objects: Vec<&Metadata> = objects.into_iter().collect();
    let mut found = Found::new(what).evidence(objects.iter().map(|one| one.path()));
    let namespaces = objects.iter().map(|one| one.namespace.clone());
    found.namespaces = namespaces.collect();
    found
}

/// Returns how to get an add-on, and the command.
fn with_addon(found: Found, seen: &Seen, line: &str) -> Found {
    let fix = format!(
        "add `{line}` to spec.applications of the cluster file, build a bundle with this file and the add-on, and apply it"
    );
    found.fix(fix).run(seen.line.with_bundle("app apply"))
}

/// Returns the names of classes for people.
fn names(classes: &[&Class]) -> String {
    let names: Vec<&str> = classes
        .iter()
        .map(|one| one.metadata.name.as_str())
        .collect();
    names.join(", ")
}

/// Returns the names that objects give to classes which do not exist.
fn unknown_names<'a>(
    named: impl Iterator<Item = Option<&'a str>>,
    classes: &[&Class],
) -> BTreeSet<&'a str> {
    let exists = |name: &str| classes.iter().any(|class| class.metadata.name == name);
    named.flatten().filter(|name| !exists(name)).collect()
}

fn storage_class(seen: &Seen) -> Outcome {
    let Some(needs) = Needs::of(seen) else {
        return Outcome::without_server();
    };
    let (server, classes) = (seen.administrator(), &needs.storage);
    let old = |claim: &&&Claim| seen.age(claim.metadata.creation_timestamp) >= STARTING;
    let claims: Vec<&Claim> = needs.claims.iter().filter(old).copied().collect();
    let mut all = Vec::new();
    let without = claims.iter().filter(|claim| claim.class().is_none());
    let without: Vec<&Metadata> = without.map(|claim| &claim.metadata).collect();
    if !without.is_empty() && !classes.iter().any(|class| class.is_default()) {
        let what = "claims get no volume: the cluster has no default StorageClass";
        let found = about(what.to_owned(), without)
            .cause("the claims name no StorageClass, so that nothing creates their volumes, and their pods are not scheduled");
        all.push(match classes[..] {
            [] => with_addon(found, seen, STORAGE_LINE),
            [first, ..] => found
                .fix(format!("make one of these StorageClasses the default: {}", names(classes)))
                .run(seen.line.kubectl(server, &format!(
                    "annotate storageclass {} storageclass.kubernetes.io/is-default-class=true --overwrite",
                    quoted(&first.metadata.name)
                ))),
        });
    }
    for name in unknown_names(claims.iter().map(|claim| claim.class()), classes) {
        let naming = claims.iter().filter(|claim| claim.class() == Some(name));
        let what = format!("claims get no volume: the StorageClass {name} does not exist");
        let found = about(what, naming.clone().map(|claim| &claim.metadata))
            .cause("nothing creates volumes of this class, and no volume of it is free")
            .likely();
        let known = match names(classes) {
            known if known.is_empty() => format!(
                "install one, as by `{STORAGE_LINE}` in spec.applications of the cluster file"
            ),
            known => format!("the cluster has {known}"),
        };
        let mut found = found.fix(format!(
            "create the StorageClass {name}, or create the claims again with another one: {known}"
        ));
        if let Some(first) = naming.clone().next() {
            found = found.run(describe(seen, "pvc", &first.metadata));
        }
        all.push(found);
    }
    Outcome::Known(all)
}

fn describe(seen: &Seen, kind: &str, object: &Metadata) -> String {
    let (namespace, name) = (quoted(&object.namespace), quoted(&object.name));
    let words = format!("-n {namespace} describe {kind} {name}");
    seen.line.kubectl(seen.administrator(), &words)
}

fn ingress_class(seen: &Seen) -> Outcome {
    let Some(needs) = Needs::of(seen) else {
        return Outcome::without_server();
    };
    let classes = &needs.ingress;
    let ingresses = &needs.ingresses;
    let mut all = Vec::new();
    let without = ingresses.iter().filter(|one| one.class().is_none());
    let without: Vec<&Metadata> = without.map(|one| &one.metadata).collect();
    if !without.is_empty() && !classes.iter().any(|class| class.is_default()) {
        let what = "Ingresses have no class, and the cluster has no default one";
        // Some controllers serve all Ingresses, and set no address.
        let found = about(what.to_owned(), without.iter().copied())
            .cause("no controller serves the Ingresses: their names lead nowhere")
            .likely();
        all.push(naming(seen, found, classes, &without));
    }
    for name in unknown_names(ingresses.iter().map(|one| one.class()), classes) {
        let of_it = ingresses.iter().filter(|one| one.class() == Some(name));
        let of_it: Vec<&Metadata> = of_it.map(|one| &one.metadata).collect();
        let what = format!("Ingresses have the class {name}, which does not exist");
        let found = about(what, of_it.iter().copied()).cause(
            "controllers ignore Ingresses of a class that does not exist: their names lead nowhere",
        );
        all.push(naming(seen, found, classes, &of_it));
    }
    Outcome::Known(all)
}

/// Adds that Ingresses name a class of the cluster; or, without one, that the cluster gets one.
fn naming(seen: &Seen, found: Found, classes: &[&Class], ingresses: &[&Metadata]) -> Found {
    let default = classes.iter().find(|class| class.is_default());
    let Some(class) = default.or(classes.first()) else {
        return with_addon(found, seen, INGRESS_LINE);
    };
    let name = &class.metadata.name;
    let patch = format!("{{\"spec\": {{\"ingressClassName\": \"{name}\"}}}}");
    let mut found = found.fix(format!(
        "name a class in spec.ingressClassName; the cluster has {}",
        names(classes)
    ));
    for one in ingresses {
        let (namespace, name) = (quoted(&one.namespace), quoted(&one.name));
        let words = format!("-n {namespace} patch ingress {name} -p {}", quoted(&patch));
        found = found.run(seen.line.kubectl(seen.administrator(), &words));
    }
    found
}

fn service_address(seen: &Seen) -> Outcome {
    let Some(needs) = Needs::of(seen) else {
        return Outcome::without_server();
    };
    let (with, without): (Vec<&Service>, Vec<&Service>) = needs
        .services
        .iter()
        .partition(|service| service.has_address());
    let old = |one: &&&Service| seen.age(one.metadata.creation_timestamp) >= STARTING;
    let without: Vec<&Metadata> = without
        .iter()
        .filter(old)
        .map(|one| &one.metadata)
        .collect();
    let [first, ..] = without[..] else {
        return Outcome::Known(Vec::new());
    };
    let found = about(
        "Services of the type LoadBalancer have no address".to_owned(),
        without.iter().copied(),
    );
    // A program that assigns addresses can have any name.
    let found = if seen.cluster.high_availability.kube_vip.services {
        found
            .cause("kube-vip assigns no address: its range is used up or missing, or its pods do not run")
            .fix("read the events of the Service and the log of kube-vip")
            .likely()
    } else if with.is_empty() && has_metallb_without_addresses(&seen.cluster) {
        found
            .cause("the add-on metallb of the cluster file has no addresses")
            .fix("add addresses to its line in spec.applications, as in `{addon: metallb, addresses: [10.0.0.200-10.0.0.220]}`, and apply it")
            .run(seen.line.with_bundle("app apply"))
            .likely()
    } else if with.is_empty() {
        found
            .cause("nothing in the cluster assigns addresses to Services")
            .fix("install a program that does, as MetalLB or kube-vip (highAvailability: {type: kube-vip, kubeVip: {services: true}}), or use the type NodePort")
            .likely()
    } else {
        found
            .cause("other Services have addresses: the range is used up, or these Services have another class")
            .fix("read the events of the Service")
            .possible()
    };
    Outcome::Known(vec![found.run(describe(seen, "service", first))])
}

/// The cluster can have pools of addresses that the cluster file does not know: Services get addresses then.
fn has_metallb_without_addresses(cluster: &Cluster) -> bool {
    let has = |is: &dyn Fn(&ApplicationContent) -> bool| {
        let mut applications = cluster.applications.iter();
        applications.any(|one| is(&one.content))
    };
    let metallb = |one: &ApplicationContent| {
        matches!(
            one,
            ApplicationContent::Addon {
                kind: Addon::MetalLb,
                ..
            }
        )
    };
    let pool = |one: &ApplicationContent| {
        matches!(
            one,
            ApplicationContent::AddonObjects(SiteObjects::Addresses(_))
        )
    };
    has(&metallb) && !has(&pool)
}

fn releases(seen: &Seen) -> Outcome {
    let (Some(needs), Some(_)) = (Needs::of(seen), &seen.report.applications) else {
        return Outcome::without_server();
    };
    let mut jobs = needs.jobs;
    let mut all = Vec::new();
    for problem in seen.problems("releases") {
        let Subject::Release { namespace, name } = &problem.subject else {
            continue;
        };
        let mut found = Found::of(problem);
        let (ours, others) = jobs
            .into_iter()
            .partition::<Vec<_>, _>(|job| job.may_be_of(namespace, name));
        jobs = others;
        found = match problem.kind {
            ProblemKind::ReleasePending => found
                .cause("Helm works on the release, or was killed meanwhile")
                .possible(),
            _ if ours.is_empty() => found
                .cause("objects of the release did not become ready in time, or the API server refused one")
                .likely(),
            _ => found.cause("a Job of the release failed; its log has the cause"),
        };
        if ours.is_empty() {
            // Its pods may explain it.
            found.namespaces.insert(namespace.clone());
        }
        for job in ours {
            found = with_job(seen, found, job);
        }
        let server: &HostName = seen.administrator();
        let (namespace, name) = (quoted(namespace), quoted(name));
        let history =
            format!("KUBECONFIG=/etc/kubernetes/admin.conf helm history -n {namespace} {name}");
        all.push(found.run(seen.line.on(server, &format!("env {history}"))));
    }
    for job in jobs {
        let kind = if job.is_hook() { "hook" } else { "Job" };
        let what = format!("the {kind} {} of a release failed", job.metadata.path());
        let found = Found::new(what)
            .cause("the program of the Job ended with an error; its log has the cause")
            .fix("correct the cause, delete the Job, and apply the application again");
        all.push(with_job(seen, found, job));
    }
    Outcome::Known(all)
}

/// Adds why a Job failed, and the command that prints its log.
fn with_job(seen: &Seen, found: Found, job: &Job) -> Found {
    let (path, failure) = (job.metadata.path(), job.failure().unwrap_or_default());
    let (namespace, name) = (quoted(&job.metadata.namespace), quoted(&job.metadata.name));
    let words = format!("-n {namespace} logs job/{name} --all-containers --tail 20");
    found
        .evidence([format!("Job {path}: {failure}")])
        .run(seen.line.kubectl(seen.administrator(), &words))
}

fn applications(seen: &Seen) -> Outcome {
    let all = seen.problems("applications").map(|problem| {
        let found = Found::of(problem);
        match (&problem.subject, problem.kind) {
            (_, ProblemKind::ReleaseChanged) => found
                .cause("an administrator has run `helm upgrade` or `helm rollback`")
                .run(seen.line.with_bundle("app diff"))
                .warning(true),
            (Subject::Release { namespace, name }, _) => found
                .cause("an earlier cluster file had the application")
                .run(seen.line.kubexm(&format!(
                    "app remove {} --namespace {}",
                    quoted(name),
                    quoted(namespace)
                )))
                .warning(true),
            (_, ProblemKind::ApplicationMissing) => found
                .cause("no install has applied it yet, the last one ended before, or its release was removed")
                .run(seen.line.with_bundle("app apply")),
            _ => found.cause("the API server did not answer the question"),
        }
    });
    let all: Vec<Found> = all.collect();
    if all.is_empty() && seen.report.applications.is_none() {
        return Outcome::without_server();
    }
    Outcome::Known(all)
}
