//! `registry gc`: removes the blobs that no image needs, and the images of former versions of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use super::catalog::{Catalog, failed};
use super::change::{Change, ChangeReport, Prepared, bytes, count, open};
use super::image::Image;
use super::remove;
use super::site::Site;
use super::uses::Uses;
use kubexm_config::Cluster;
use kubexm_config::cluster::PluginKind;
use kubexm_config::load_balancer;
use kubexm_engine::plan::{Plan, TaskId, TaskName};
use kubexm_engine::seed::{CollectGarbage, Garbage, total};
use kubexm_session::begun::Operation;
use kubexm_session::{CommandError, Connection, Stop};
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostName};

/// Removes the garbage of a registry.
const COLLECT: TaskName = TaskName::new("registry", "gc");

/// What to remove.
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to remove also images of former versions of Kubernetes and of its add-ons.
    pub unused: bool,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// Removes the blobs that no manifest needs, on one host after another. With `unused`, it first removes images of former
/// versions, for which it calls `confirm`.
///
/// # Errors
/// Hosts cannot be reached, it is not known which images are in use, the user did not confirm, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn collect(
    options: &CollectOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    let (cluster, state) = open(&options.cluster, &options.connection, events)?;
    let change = Change {
        cluster: &cluster,
        state: &state,
        connection: &options.connection,
        operation: if options.unused {
            Operation::RegistryGcUnused
        } else {
            Operation::RegistryGc
        },
        lock: String::new(),
        dry_run: options.dry_run,
    };
    let prepare = async |site: &mut Site<'_>, _: &Events| {
        let mut text = String::new();
        let former = if options.unused {
            unused(site, &mut text).await?
        } else {
            Former::default()
        };
        prepared(site, former, text).await
    };
    let confirm = async || !options.unused || confirm().await;
    change.run(prepare, confirm, events, stop).await
}

/// The removal of images of former versions.
#[derive(Default)]
struct Former {
    plan: Plan,
    /// The blobs that no image needs afterwards, by host.
    blobs: BTreeMap<HostName, Blobs>,
}

/// A number of blobs, and their size in bytes.
#[derive(Clone, Copy)]
struct Blobs(usize, u64);

/// Adds the tasks that remove garbage to a plan that removes images.
async fn prepared(
    site: &Site<'_>,
    former: Former,
    mut text: String,
) -> Result<Prepared, CommandError> {
    let mut plan = former.plan;
    let what = if plan.tasks.is_empty() {
        "blobs"
    } else {
        "images and blobs"
    };
    let removals: Vec<TaskId> = plan.tasks.iter().map(|task| task.id()).collect();
    let data_dir = &site.cluster.registry.data_dir;
    let mut before: Option<TaskId> = None;
    let mut sizes = Vec::new();
    let names = site.cluster.roles.registry.iter();
    for host in names.filter_map(|name| site.hosts.get(name)) {
        let garbage = Garbage::read(host.as_ref(), data_dir)
            .await
            .map_err(failed)?;
        let own = Blobs(garbage.blobs.len(), garbage.bytes());
        let Blobs(number, size) = former.blobs.get(host.name()).copied().unwrap_or(own);
        if garbage.is_empty() && removals.is_empty() {
            continue;
        }
        let title = format!(
            "Remove {}, {}, that no image needs",
            count(number, "blob"),
            bytes(size)
        );
        sizes.push(size);
        let _ = writeln!(text, "  {}\n    - {title}", host.name());
        let task = COLLECT.task(host.name()).step(CollectGarbage {
            title,
            data_dir: data_dir.clone(),
        });
        let id = task.id();
        let task = task.after(before.replace(id)).after(removals.clone());
        plan.tasks.push(task);
    }
    if !text.is_empty() {
        text = format!(
            "{what} that are removed from the registries of the cluster '{}', on one host after another:\n{text}in all: {} \
             bytes\npoint of no return: the removal on the first host; afterwards only a bundle has the images",
            site.cluster.name,
            total(&sizes)
        );
    }
    Ok(Prepared {
        text,
        plan,
        afterwards: "the other registries have been cleaned; run the same command again when these answer",
        remaining: None,
    })
}

/// Plans the removal of images of former versions that nothing uses.
async fn unused(site: &mut Site<'_>, text: &mut String) -> Result<Former, CommandError> {
    site.needs_all(
        "an image that stays on one registry would return to the others with kubexm registry sync: start this host first",
    )?;
    let (catalog, uses) = tokio::join!(Catalog::read(site.cluster, &site.hosts), Uses::read(site));
    let catalog = catalog?;
    // Such an image has no name, and would look unused.
    catalog.check_tags(site.cluster)?;
    if let Some(cause) = &uses.unknown {
        return Err(CommandError::refused(format!(
            "cannot find unused images: it is not known which images the cluster uses: {cause}"
        ))
        .hint("leave out --unused, or repair it first: kubexm doctor"));
    }
    let all = catalog.images();
    let is_needed =
        |image: &Image| is_current(site.cluster, image) || !uses.of(&catalog, image).is_empty();
    let candidates = all.iter().filter(|image| is_of_kubernetes(image));
    let (needed, others): (Vec<&Image>, Vec<&Image>) =
        candidates.partition(|image| is_needed(image));
    // An image of which the cluster uses no newer version is not a former one: it waits for an upgrade.
    let former = others.into_iter().filter(|image| {
        let mut needed = needed.iter();
        needed.any(|other| is_former(image, other))
    });
    let images: Vec<Image> = former.cloned().collect();
    let plan = remove::plan(site.cluster, &catalog, &images, text);
    let staying = all.iter().filter(|image| !images.contains(image));
    let needed: BTreeSet<Digest> = staying
        .flat_map(|image| catalog.content(image).blobs().clone().into_keys())
        .collect();
    let blobs = catalog.registries.iter().map(|registry| {
        let blobs = registry.storage.blobs.iter();
        let gone = blobs.filter(|(digest, _)| !needed.contains(*digest));
        let sizes: Vec<u64> = gone.map(|(_, size)| *size).collect();
        (registry.name.clone(), Blobs(sizes.len(), total(&sizes)))
    });
    Ok(Former {
        plan,
        blobs: blobs.collect(),
    })
}

/// The programs of Kubernetes that run as containers, by the last part of their repositories.
const OF_KUBERNETES: [&str; 8] = [
    "coredns",
    "etcd",
    "k8s-dns-node-cache",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "pause",
];
/// Returns whether an image is a part of Kubernetes or of an add-on that kubexm installs. Images of users stay, used or not.
fn is_of_kubernetes(image: &Image) -> bool {
    let repository = image.repository.as_str();
    let part = repository.strip_prefix("registry.k8s.io/");
    let part = part.and_then(|rest| rest.rsplit('/').next());
    let is_program = part.is_some_and(|name| OF_KUBERNETES.contains(&name));
    let of_plugins = PluginKind::all_properties().flat_map(|plugin| plugin.repositories);
    let of_balancers = load_balancer::all_properties().flat_map(|own| own.repositories);
    let mut add_ons = of_plugins.chain(of_balancers);
    is_program || add_ons.any(|prefix| repository.starts_with(*prefix))
}

/// Returns whether an image is an earlier version of another one. Without a tag, no name leads to it any more.
fn is_former(image: &Image, other: &Image) -> bool {
    let is_earlier = match (&image.tag, &other.tag) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(tag), Some(newer)) => {
            let (tag, newer) = (numbers(tag), numbers(newer));
            !tag.is_empty() && tag < newer
        }
    };
    image.repository == other.repository && is_earlier
}

/// Returns the numbers of a tag in their order: tags such as `3.10`, `v3.30.1` and `v1.8.0-flannel1` are not all semantic
/// versions.
fn numbers(tag: &str) -> Vec<u64> {
    let words = tag.split(|letter: char| !letter.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Returns whether an image has the version of the cluster file, so that an install needs it.
fn is_current(cluster: &Cluster, image: &Image) -> bool {
    let version = format!("v{}", cluster.kubernetes.version);
    image.tag.as_deref() == Some(version.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_earlier_versions_are_former_ones() {
        let image = |tag: Option<&str>| Image {
            repository: "registry.k8s.io/pause".to_owned(),
            tag: tag.map(str::to_owned),
            digest: Digest::of(b""),
        };
        let earlier = |tag, other| is_former(&image(tag), &image(Some(other)));
        assert!(earlier(Some("3.9"), "3.10"));
        assert!(earlier(Some("3.10"), "3.10.1"));
        assert!(earlier(Some("3.6.8-0"), "3.6.16-0"));
        assert!(earlier(Some("v1.8.0-flannel1"), "v1.8.0-flannel2"));
        assert!(earlier(None, "3.10"));
        assert!(!earlier(Some("v1.37.0"), "v1.36.3"));
        assert!(!earlier(Some("latest"), "v1.36.3"));
    }

    #[test]
    fn images_of_users_are_never_unused() {
        let image = |repository: &str| Image {
            repository: repository.to_owned(),
            tag: Some("v1".to_owned()),
            digest: Digest::of(b""),
        };
        for of_kubernetes in [
            "registry.k8s.io/kube-proxy",
            "registry.k8s.io/coredns/coredns",
            "registry.k8s.io/pause",
            "quay.io/calico/node",
        ] {
            assert!(is_of_kubernetes(&image(of_kubernetes)), "{of_kubernetes}");
        }
        for of_users in [
            "registry.k8s.io/e2e-test-images/agnhost",
            "registry.k8s.io/ingress-nginx/controller",
            "site.example/pause",
            "docker.io/library/etcd",
        ] {
            assert!(!is_of_kubernetes(&image(of_users)), "{of_users}");
        }
    }
}
