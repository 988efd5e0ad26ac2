//! Which images the objects of a cluster and its nodes use.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde::Deserialize;

use super::catalog::Catalog;
use super::image::Image;
use super::site::Site;
use kubexm_config::cluster::RuntimeKind;
use kubexm_deploy::expected;
use kubexm_deploy::objects::{Condition, Images, Metadata, Server};
use kubexm_host::{Command, Host, HostError, Limit};
use kubexm_scripts::registry::{NODE_IMAGES, RELEASE_IMAGES};
use kubexm_types::untrusted::Untrusted;
use kubexm_types::{Digest, ImageRef};

/// What kubexm does, for errors.
const ACTION: &str = "look for images in use";
/// The kinds of [`User`], for `kubectl get`.
const RESOURCES: &str =
    "pods,deployments,statefulsets,daemonsets,replicationcontrollers,replicasets,jobs,cronjobs";

/// The images that are in use.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// What uses an image, by its name.
    names: BTreeMap<ImageRef, BTreeSet<String>>,
    /// What uses an image, by the digest that a runtime reports.
    digests: BTreeMap<Digest, BTreeSet<String>>,
    /// Why the uses are unknown.
    pub(super) unknown: Option<String>,
}

/// Asks a node for the images that it needs without an API server.
fn node_images() -> Command {
    let of_runtimes = || RuntimeKind::all_properties();
    let settings: Vec<&str> = of_runtimes()
        .flat_map(|own| own.sandbox_settings)
        .copied()
        .collect();
    let files = of_runtimes().map(|own| own.sandbox_file.to_owned());
    let arguments = std::iter::once(settings.join("\\|")).chain(files);
    Command::from_script(NODE_IMAGES, arguments)
}

impl Uses {
    /// Asks the first API server that answers, and all nodes.
    pub(super) async fn read(site: &Site<'_>) -> Self {
        let mut uses = Self::default();
        let nodes = site.cluster.nodes().into_iter();
        let nodes = nodes.filter_map(|node| site.hosts.get(&node.name));
        let asked = nodes.map(async |host| {
            let printed = run(host.as_ref(), node_images()).await;
            (host.name().to_string(), printed)
        });
        for (node, printed) in join_all(asked).await {
            match printed {
                Ok(printed) => {
                    for image in printed.lines() {
                        uses.add(image, &format!("node {node}"));
                    }
                }
                Err(cause) => uses.unknown = Some(cause),
            }
        }
        // The API has the pods of a node, and not the image of their sandboxes.
        let nodes = site.cluster.nodes().into_iter();
        let mut lost = nodes.filter(|node| !site.hosts.contains_key(&node.name));
        if let Some(node) = lost.next() {
            uses.unknown = Some(format!("the node {} cannot be reached", node.name));
        }
        if let Err(cause) = uses.ask_api(site).await {
            uses.unknown = Some(cause);
        }
        uses
    }

    #[cfg(test)]
    pub(super) fn of_image(image: &str, by: &str) -> Self {
        let mut uses = Self::default();
        uses.add(image, by);
        uses
    }

    async fn ask_api(&mut self, site: &Site<'_>) -> Result<(), String> {
        let mut failed = "no control plane can be reached".to_owned();
        for name in &site.cluster.roles.control_plane {
            let (Some(host), Some(spec)) = (site.hosts.get(name), site.cluster.host(name)) else {
                continue;
            };
            let url = expected::api_server(site.cluster, spec);
            let server = Server::of(host.as_ref()).at(&url);
            let words = [RESOURCES, "--all-namespaces"];
            match server.list::<User>(ACTION, &words).await {
                Ok(objects) => {
                    objects.iter().for_each(|object| self.add_of(object));
                    let command = Command::from_script(RELEASE_IMAGES, [url.clone()]);
                    let printed = run(host.as_ref(), command).await?;
                    printed.lines().for_each(|line| self.add_of_release(line));
                    return Ok(());
                }
                Err(error) => failed = format!("{}: {error}", host.name()),
            }
        }
        Err(failed)
    }

    fn add_of(&mut self, object: &User) {
        if !object.starts_no_container() {
            let by = format!("{} {}", object.kind.to_lowercase(), object.metadata.path());
            let images = object.spec.names().chain(object.status.ids());
            images.for_each(|image| self.add(image, &by));
        }
    }

    /// Adds an image of a stored revision of a release, to which `helm rollback` returns.
    fn add_of_release(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if let [namespace, name, number, image] = words.as_slice() {
            self.add(
                image,
                &format!("revision {number} of the release {namespace}/{name}"),
            );
        }
    }

    fn add(&mut self, image: &str, by: &str) {
        let by = Untrusted::one_line(by, 200).to_string();
        let digest = image.rsplit_once('@').map_or(image, |(_, digest)| digest);
        if let Ok(digest) = Digest::parse(digest) {
            self.digests.entry(digest).or_default().insert(by.clone());
        }
        // Kubernetes adds the tag `latest` where there is none.
        let name = ImageRef::parse(image).or_else(|_| ImageRef::parse(&format!("{image}:latest")));
        if let Ok(name) = name {
            self.names.entry(name).or_default().insert(by);
        }
    }

    /// Returns what uses an image.
    pub(super) fn of(&self, catalog: &Catalog, image: &Image) -> Vec<String> {
        // Registries can differ, and a removal takes what each of them has.
        let digests = catalog.versions(image);
        let is_part = |name: &ImageRef| {
            let is_here = kubexm_engine::seed::repository(name) == image.repository;
            is_here
                && name
                    .digest()
                    .is_some_and(|digest| digests.contains(&digest))
        };
        let named = self.names.iter();
        let named = named.filter(|(name, _)| image.is_named(name) || is_part(name));
        let mut found: BTreeSet<&String> = named.flat_map(|(_, by)| by).collect();
        // With a tag, another image may be the one that runs.
        if image.tag.is_none() {
            let running = digests.iter().filter_map(|digest| self.digests.get(digest));
            found.extend(running.flatten());
        }
        found.into_iter().cloned().collect()
    }
}

/// An object that has pods, or is one.
#[derive(Deserialize)]
struct User {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: Images,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerStatus {
    #[serde(rename = "imageID")]
    image_id: String,
}

impl Status {
    /// Returns the images that run.
    fn ids(&self) -> impl Iterator<Item = &str> {
        let all = self
            .init_container_statuses
            .iter()
            .chain(&self.container_statuses);
        all.map(|container| container.image_id.as_str())
    }
}

impl User {
    /// Returns whether no container of the object will start any more.
    fn starts_no_container(&self) -> bool {
        match self.kind.as_str() {
            "Pod" => matches!(self.status.phase.as_str(), "Succeeded" | "Failed"),
            "Job" => self.status.conditions.iter().any(|condition| {
                condition.status == "True"
                    && matches!(condition.kind.as_str(), "Complete" | "Failed")
            }),
            // A deployment keeps replica sets of former images. Its own template counts.
            "ReplicaSet" => !self.metadata.owner_references.is_empty(),
            _ => false,
        }
    }
}

async fn run(host: &dyn Host, command: Command) -> Result<String, String> {
    let command = command.describe(ACTION).limit(Limit::CHANGE);
    let output = host
        .run(command)
        .await
        .map_err(|error: HostError| error.to_string())?;
    if output.success() {
        Ok(output.text())
    } else {
        Err(format!("{}: {}", host.name(), output.complaint()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn uses(objects: impl IntoIterator<Item = Value>) -> Uses {
        let mut uses = Uses::default();
        for object in objects {
            uses.add_of(&serde_json::from_value(object).unwrap());
        }
        uses
    }

    fn object(kind: &str, name: &str, fields: Value) -> Value {
        let mut object = fields;
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = "web".into();
        object
    }

    fn of(image: &str) -> Value {
        json!({"containers": [{"image": image}]})
    }

    fn names(uses: &Uses) -> Vec<String> {
        uses.names.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn images_of_objects_are_read() {
        let digest = Digest::of(b"x");
        let running = json!({"phase": "Running", "containerStatuses": [{"imageID": format!("r.io/app@{digest}")}]});
        let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let waits = json!({"conditions": [{"type": "Suspended", "status": "True"}, {"type": "Failed", "status": "False"}]});
        let cron = json!({"jobTemplate": {"spec": {"template": {"spec": of("r.io/cron:1")}}}});
        let all_kinds = json!({
            "initContainers": [{"image": "r.io/init:1"}],
            "containers": [{"image": "nginx"}, {}],
            "ephemeralContainers": [{"image": "r.io/debug:1"}],
            "volumes": [{"image": {"reference": "r.io/volume:1"}}, {"emptyDir": {}}],
        });
        let former = json!({"ownerReferences": [{"kind": "Deployment"}]});
        let template = |spec: Value| json!({"template": {"spec": spec}});
        let uses = uses([
            object(
                "Pod",
                "a",
                json!({"spec": of("r.io/app:1"), "status": running}),
            ),
            object(
                "Pod",
                "b",
                json!({"spec": of("r.io/job:1"), "status": {"phase": "Succeeded"}}),
            ),
            object(
                "Job",
                "ended",
                json!({"spec": template(of("r.io/job:2")), "status": ended}),
            ),
            object(
                "Job",
                "waits",
                json!({"spec": template(of("r.io/job:3")), "status": waits}),
            ),
            object("CronJob", "each", json!({"spec": cron})),
            object(
                "ReplicaSet",
                "former",
                json!({"metadata": former, "spec": template(of("r.io/former:1"))}),
            ),
            object("Deployment", "d", json!({"spec": template(all_kinds)})),
        ]);
        let expected = [
            "docker.io/library/nginx:latest".to_owned(),
            format!("r.io/app@{digest}"),
            "r.io/app:1".to_owned(),
            "r.io/cron:1".to_owned(),
            "r.io/debug:1".to_owned(),
            "r.io/init:1".to_owned(),
            "r.io/job:3".to_owned(),
            "r.io/volume:1".to_owned(),
        ];
        assert_eq!(names(&uses), expected);
        let by = uses.digests[&digest].first().map(String::as_str);
        assert_eq!(by, Some("pod web/a"));
    }

    #[test]
    fn stored_revisions_of_releases_use_their_images() {
        let mut uses = Uses::default();
        for line in [
            "web shop 1 r.io/app:1",
            "web shop 2 nginx:1.29",
            "web shop 3 not an image",
            "",
        ] {
            uses.add_of_release(line);
        }
        assert_eq!(names(&uses), ["docker.io/library/nginx:1.29", "r.io/app:1"]);
        let by = uses.names.values().next_back().unwrap().first();
        assert_eq!(by.unwrap(), "revision 1 of the release web/shop");
    }

    /// A template of a pod can have any text as the name of an image.
    #[test]
    fn image_with_tabs_or_line_feeds_hides_no_image_and_adds_none() {
        for image in [
            "r.io/a:1\nend",
            "r.io/a:1\tr.io/b:1",
            "r.io/a:1\t\n\n",
            "\"",
        ] {
            let uses = uses([
                object("Pod", "a", json!({"spec": of(image)})),
                object("Pod", "c", json!({"spec": of("r.io/c:1")})),
            ]);
            assert_eq!(names(&uses), ["r.io/c:1"], "{image:?}");
        }
    }
}
