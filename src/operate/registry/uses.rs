//! Which images the objects of a cluster and its nodes use.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;

use super::catalog::Catalog;
use super::image::Image;
use super::site::Site;
use kubexm_deploy::expected;
use kubexm_host::{Command, Host, HostError, Limit};
use kubexm_scripts::registry::{NODE_IMAGES, USES};
use kubexm_types::untrusted::Untrusted;
use kubexm_types::{Digest, ImageRef};

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

impl Uses {
    /// Asks the first API server that answers, and all nodes.
    pub(super) async fn read(site: &Site<'_>) -> Self {
        let mut uses = Self::default();
        let nodes = site.cluster.nodes().into_iter();
        let nodes = nodes.filter_map(|node| site.hosts.get(&node.name));
        let asked = nodes.map(async |host| {
            let printed = run(host.as_ref(), Command::from_script(NODE_IMAGES, [""; 0])).await;
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
            let server = expected::api_server(site.cluster, spec);
            let command = Command::from_script(USES, [server]);
            match run(host.as_ref(), command)
                .await
                .and_then(|text| self.parse(&text))
            {
                Ok(()) => return Ok(()),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Reads what the script prints about objects. Users of the cluster can write tabs and line feeds into names of images:
    /// a line counts only with the word of the first one, which they cannot know.
    ///
    /// # Errors
    /// A line has another form, or the last one is missing.
    fn parse(&mut self, text: &str) -> Result<(), String> {
        let mut lines = text.lines();
        let word = lines.next().unwrap_or_default();
        let mut is_complete = false;
        let mut last = "the first line".to_owned();
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields.as_slice() {
                [first, "end"] if *first == word && !is_complete => is_complete = true,
                [first, kind, namespace, name, state, images, ids]
                    if *first == word && !is_complete =>
                {
                    last = format!("{kind} {namespace}/{name}");
                    if !starts_no_container(kind, state) {
                        let words = images.split_whitespace().chain(ids.split_whitespace());
                        words.for_each(|image| self.add(image, &last));
                    }
                }
                _ => {
                    let line = Untrusted::one_line(line, 200);
                    let last = Untrusted::one_line(&last, 200);
                    return Err(format!(
                        "the list of images in use has the line '{line}' after {last}: the name of an image there may have a \
                         tab or a line feed"
                    ));
                }
            }
        }
        if is_complete {
            Ok(())
        } else {
            Err("the list of images in use is truncated".to_owned())
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

/// Whether no container of an object will start any more.
fn starts_no_container(kind: &str, state: &str) -> bool {
    let has = |ends: [&str; 2]| state.split_whitespace().any(|word| ends.contains(&word));
    match kind {
        "pod" => has(["Succeeded", "Failed"]),
        "job" => has(["Complete", "Failed"]),
        // A deployment keeps replica sets of former images. Its own template counts.
        "replicaset" => !state.is_empty(),
        _ => false,
    }
}

async fn run(host: &dyn Host, command: Command) -> Result<String, String> {
    let command = command
        .describe("look for images in use")
        .limit(Limit::CHANGE);
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

    #[test]
    fn images_of_objects_are_read() {
        let digest = Digest::of(b"x");
        let text = format!(
            "w\nw\tpod\tdefault\ta\tRunning\t r.io/app:1  \t r.io/app@{digest}\n\
             w\tpod\tdefault\tb\tSucceeded\t r.io/job:1  \t \n\
             w\tjob\tdefault\tended\tSuccessCriteriaMet Complete\t r.io/job:2  \t\n\
             w\tjob\tdefault\twaits\tSuspended\t r.io/job:3  \t\n\
             w\treplicaset\tweb\tformer\tDeployment\t r.io/former:1  \t\n\
             w\tdeployment\tweb\td\t\t nginx  \t\nw\tend\n"
        );
        let mut uses = Uses::default();
        uses.parse(&text).unwrap();
        let names: Vec<String> = uses.names.keys().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "docker.io/library/nginx:latest".to_owned(),
                format!("r.io/app@{digest}"),
                "r.io/app:1".to_owned(),
                "r.io/job:3".to_owned(),
            ]
        );
        assert_eq!(
            uses.digests[&digest].first().map(String::as_str),
            Some("pod default/a")
        );
        let truncated = "w\nw\tpod\tdefault\ta\tRunning\t\t\n";
        for text in ["", "\n", "w\n", truncated, "w\nwhat\nw\tend\n"] {
            assert!(uses.parse(text).is_err(), "{text}");
        }
    }

    /// A template of a pod can have any text as the name of an image.
    #[test]
    fn image_with_tabs_or_line_feeds_hides_no_image_and_adds_none() {
        for image in [
            "r.io/a:1\nend",
            "r.io/a:1\nw\tend",
            "r.io/a:1\t\nend",
            "r.io/a:1\tr.io/b:1",
            "r.io/a:1\t\npod\tdefault\tb\tRunning\tr.io/b:1",
            "r.io/a:1\t\nother\tpod\tdefault\tb\tRunning\tr.io/b:1",
            "r.io/a:1\t\n\n",
        ] {
            let text = format!(
                "word\nword\tdeployment\tweb\ta\t\t {image}  \t\n\
                 word\tpod\tdefault\tc\tRunning\t r.io/c:1  \t\nword\tend\n"
            );
            let mut uses = Uses::default();
            let error = uses.parse(&text).unwrap_err();
            assert!(error.contains("may have a tab or a line feed"), "{error}");
            let b = ImageRef::parse("r.io/b:1").unwrap();
            assert!(!uses.names.contains_key(&b), "{image:?}");
        }
        let mut uses = Uses::default();
        let after = "word\nword\tend\nword\tpod\tdefault\tc\tRunning\t r.io/c:1  \t\n";
        assert!(uses.parse(after).is_err());
    }
}
