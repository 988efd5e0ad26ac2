//! `registry add`: sends images of a bundle to the registries of a running cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use super::catalog::failed;
use super::change::{Change, ChangeReport, Prepared, bytes, count};
use super::needed::{NeededTask, needed, with_needed_steps};
use super::site::{Site, check_own};
use super::space;
use super::sync::{IMAGES, distinct};
use crate::applications::{control_plane, note_left};
use kubexm_bundle::{BundleSet, Lock};
use kubexm_deploy::{MissingApplication, registry_clients};
use kubexm_engine::plan::{Plan, Task, TaskId};
use kubexm_engine::seed::{self, RegistryContent, Storage, StoreImages};
use kubexm_host::HostError;
use kubexm_preflight::registry_checks;
use kubexm_session::begun::Operation;
use kubexm_session::bundle_access::{verify, verify_once};
use kubexm_session::program_settings::Programs;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{
    ClusterSource, CommandError, Connection, Stop, absent_applications, application_images,
    certificates, plan_inputs, preflight, rollback,
};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef, Message, WarningKind};

/// Which images to add.
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// The cluster file, and the bundle with the images.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the one of its name that the cluster was installed from.
    pub allow_older: bool,
    /// The images; empty for all of the bundle.
    pub images: Vec<ImageRef>,
    /// Whether to end after the plan.
    pub dry_run: bool,
    /// Whether to apply the applications of the cluster file afterwards.
    pub applications: bool,
}

/// Sends the images that a registry does not have. Nodes then pull images of registries that are new to the cluster from
/// there, too.
///
/// # Errors
/// The bundle is wrong or does not have an image, hosts cannot be reached, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn add(
    options: &AddOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    options.connection.check()?;
    let opened = options
        .source
        .open_at_any_version(options.unsigned, events)?;
    if !options.applications {
        check_own(&opened.cluster, &options.source.cluster)?;
    }
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older_of_its_name(&state, options.allow_older, events)?;
    let lock = if options.applications {
        bundle.lock().clone()
    } else {
        selected(bundle.lock(), &options.images)?
    };
    if options.dry_run {
        unless_stopped(stop, verify(&bundle, events)).await?;
    } else {
        unless_stopped(stop, verify_once(&bundle, &state, events)).await?;
    }
    let change = Change {
        cluster: &cluster,
        state: &state,
        connection: &options.connection,
        operation: if options.applications {
            Operation::AppApply
        } else {
            Operation::RegistryAdd
        },
        lock: bundle.bundle().lock_digest().to_string(),
        dry_run: options.dry_run,
    };
    let prepare = async |site: &mut Site<'_>, events: &Events| {
        let mut prepared = prepared(site, &bundle, &lock, options.applications, events).await?;
        if options.applications {
            let host = control_plane(site.cluster, &site.hosts)?;
            let others =
                absent_applications::check_needed(site.cluster, bundle.lock(), host.as_ref());
            let others = others.await?;
            check_images(site, &bundle, events).await?;
            add_applications(&mut prepared, site, (&bundle, &others), events).await?;
        }
        // A run that fails in the middle has sent some of it.
        if !options.dry_run {
            rollback::record_of_its_name(&state, bundle.bundle())?;
        }
        Ok(prepared)
    };
    change.run(prepare, async || true, events, stop).await
}

/// Returns a lock with these images alone.
///
/// # Errors
/// The bundle does not have one of them, or has no image at all.
fn selected(lock: &Lock, images: &[ImageRef]) -> Result<Lock, CommandError> {
    let mut selected = lock.clone();
    let names = || lock.images.iter().map(|image| image.name.to_string());
    let missing: Vec<String> = images
        .iter()
        .filter(|image| lock.image(image).is_none())
        .map(ToString::to_string)
        .collect();
    if !missing.is_empty() {
        return Err(CommandError::configuration(format!(
            "the bundle does not contain {}",
            missing.join(", ")
        ))
        .hint(format!(
            "`kubexm bundle list` prints its images, such as {}",
            names().next().unwrap_or_default()
        )));
    }
    if lock.images.is_empty() {
        return Err(CommandError::configuration("the bundle contains no images")
            .hint("name a bundle with images"));
    }
    if !images.is_empty() {
        selected.images.retain(|image| images.contains(&image.name));
    }
    Ok(selected)
}

/// Plans what sends the images, and lets nodes pull them. `applications` says whether pods need them at once.
async fn prepared(
    site: &mut Site<'_>,
    bundle: &Arc<BundleSet>,
    lock: &Lock,
    applications: bool,
    events: &Events,
) -> Result<Prepared, CommandError> {
    let cluster = site.cluster;
    // A node that does not answer can have any architecture.
    let lock = match arches(site) {
        Some(arches) => lock.only(&arches),
        None => lock.clone(),
    };
    let content = RegistryContent::new(&lock);
    let mut text = String::new();
    let mut plan = Plan::default();
    let mut sent: Vec<TaskId> = Vec::new();
    let mut sizes = BTreeMap::new();
    let names = cluster.roles.registry.iter();
    for (name, host) in names.filter_map(|name| Some((name, site.hosts.get(name)?))) {
        let data_dir = &cluster.registry.data_dir;
        let storage = Storage::of_registry(host.as_ref(), data_dir)
            .await
            .map_err(failed)?;
        let missing = content.missing_in(&storage);
        if missing.is_empty() {
            continue;
        }
        sizes.insert(name.clone(), missing.bytes());
        let title = format!(
            "Send {}, {}, to the registry",
            count(missing.blobs(), "blob"),
            bytes(missing.bytes())
        );
        let _ = writeln!(text, "  {name}\n    - {title}");
        for line in lines(&lock, &storage) {
            let _ = writeln!(text, "      {line}");
        }
        let task = IMAGES.task(name).step(StoreImages {
            id: "registry images".to_owned(),
            title,
            content: content.clone(),
            data_dir: data_dir.clone(),
            blobs: Arc::clone(bundle) as _,
        });
        sent.push(task.id());
        plan.tasks.push(task);
    }
    space::check(&cluster.registry.data_dir, &site.facts, &sizes)?;
    let clients = match clients(site, bundle, &lock)? {
        Clients::Planned(plan) => plan,
        Clients::AtStart(sources) => {
            let message = Message::new(format!(
                "nodes cannot pull images of {} yet: their container runtime reads its registries when it starts",
                sources.join(", ")
            ));
            // kubexm does not know which images of an external registry nodes can pull.
            if applications && cluster.registry.external.is_none() {
                return Err(CommandError::refused(message).hint(
                    "send the images with kubexm registry add, and run kubexm install with the bundle of the cluster, which \
                     restarts the runtime; then run the same command again",
                ));
            }
            let hint = "run kubexm install with the bundle of the cluster, which restarts it";
            events.warn(WarningKind::Registry, message.hint(hint));
            Plan::default()
        }
    };
    // Such a node cannot pull images of another public registry until it knows where they are.
    let is_client =
        |error: &mut HostError| !clients.tasks.is_empty() && cluster.is_node(error.host());
    let waiting = site.others.extract_if(.., is_client);
    site.lost.extend(waiting);
    for task in needed(&site.hosts, clients).await? {
        let _ = writeln!(text, "  {}", task.host);
        for step in &task.steps {
            let _ = writeln!(text, "    - {}", step.describe());
        }
        plan.tasks.push(task.after(sent.clone()));
    }
    if !text.is_empty() {
        text = format!(
            "images for the registries of the cluster '{}':\n{text}",
            cluster.name
        );
    }
    Ok(Prepared {
        text,
        plan,
        afterwards: "the other hosts are ready; run the same command again when these answer",
        remaining: None,
    })
}

/// Fails if nodes could not pull images of the bundle from an external registry, or images of the applications.
async fn check_images(
    site: &Site<'_>,
    bundle: &Arc<BundleSet>,
    events: &Events,
) -> Result<(), CommandError> {
    let images = bundle.lock().images.iter().map(|image| &image.name);
    let images: Vec<_> = images
        .map(|name| (name.clone(), seed::repository(name)))
        .collect();
    let findings = registry_checks::check(site.cluster, &site.hosts, &images).await;
    preflight::report(&findings, events)?;
    let programs = Programs::of(bundle);
    let missing = application_images::missing(&programs, site.cluster, &site.hosts, events).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
    Err(CommandError::refused(lines.join("\n")).hint(application_images::HINT))
}

/// Adds the tasks of the applications, after those that bring their images. `others` are applications that another bundle can have.
async fn add_applications(
    prepared: &mut Prepared,
    site: &Site<'_>,
    (bundle, others): (&Arc<BundleSet>, &[MissingApplication]),
    events: &Events,
) -> Result<(), CommandError> {
    let certificates = certificates::of_registry(site.cluster, site.state)?;
    let inputs = plan_inputs::with_certificates(site.cluster, bundle, &site.facts, certificates);
    let before: Vec<TaskId> = prepared.plan.tasks.iter().map(Task::id).collect();
    let (plan, mut missing) = kubexm_deploy::applications(&inputs)?;
    for other in others {
        events.note(format!("not installed: {other}"));
        missing.retain(|part| !other.parts.contains(part));
    }
    note_left(&missing, events);
    let tasks = with_needed_steps(&site.hosts, plan).await?;
    if tasks.iter().all(|one| one.lines.is_empty()) {
        return Ok(());
    }
    let _ = writeln!(
        prepared.text,
        "applications of the cluster '{}':",
        site.cluster.name
    );
    for NeededTask { task, lines } in tasks {
        for line in lines {
            let _ = writeln!(prepared.text, "    - {}: {line}", task.host);
        }
        prepared.plan.tasks.push(task.after(before.clone()));
    }
    Ok(())
}

/// Returns the architectures of the nodes; `None` if one of them is not known.
fn arches(site: &Site<'_>) -> Option<BTreeSet<Arch>> {
    let nodes = site.cluster.nodes().into_iter();
    nodes
        .map(|node| site.facts.get(&node.name)?.arch())
        .collect()
}

/// Returns a line for each image of which a registry does not have everything.
fn lines(lock: &Lock, storage: &Storage) -> Vec<String> {
    let mut lines = Vec::new();
    for image in &lock.images {
        let only = Lock {
            images: vec![image.clone()],
            ..lock.clone()
        };
        if RegistryContent::new(&only).missing_in(storage).is_empty() {
            continue;
        }
        let repository = seed::repository(&image.name);
        let tags = storage.repositories();
        let before = image
            .name
            .tag()
            .and_then(|tag| tags.get(&repository)?.tags.get(tag));
        let before = before.filter(|before| **before != image.manifest.digest);
        lines.push(match before {
            Some(before) => format!("{} (replaces {before})", image.name),
            None => image.name.to_string(),
        });
    }
    lines
}

/// How nodes learn about registries of images that are new to the cluster.
enum Clients {
    /// By files that they read for each pull.
    Planned(Plan),
    /// When their container runtime starts: these registries.
    AtStart(Vec<String>),
}

/// Plans the settings of nodes for registries of images that are new to the cluster.
fn clients(site: &Site<'_>, bundle: &Arc<BundleSet>, lock: &Lock) -> Result<Clients, CommandError> {
    let registries = site.cluster.roles.registry.iter();
    let facts = registries.filter_map(|name| site.facts.get(name));
    let known = distinct(facts.flat_map(|facts| facts.registry_sources.iter().cloned()));
    let sources = lock
        .images
        .iter()
        .map(|image| image.name.registry().to_owned());
    let new: Vec<String> = distinct(sources)
        .into_iter()
        .filter(|source| !known.contains(&seed::prefix(source)))
        .collect();
    let login = site.state.join("pki/registry-login");
    if kubexm_deploy::registry_has_login(site.cluster) && !login.exists() {
        if new.is_empty() {
            return Ok(Clients::Planned(Plan::default()));
        }
        return Err(CommandError::configuration(format!(
            "cannot let nodes pull from {}: {} with the login at the registries does not exist",
            new.join(", "),
            login.display()
        ))
        .hint(
            "restore the state directory from a backup, or run kubexm install, which creates \
             another login",
        ));
    }
    let certificates = certificates::of_registry(site.cluster, site.state)?;
    let mut inputs =
        plan_inputs::with_certificates(site.cluster, bundle, &site.facts, certificates);
    inputs.lock = lock;
    Ok(match registry_clients(&inputs)? {
        Some(plan) => Clients::Planned(plan),
        None if new.is_empty() => Clients::Planned(Plan::default()),
        None => Clients::AtStart(new),
    })
}
