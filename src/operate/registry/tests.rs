//! Registries on directories that represent hosts: the scripts run, no program serves the images.

mod differences;
mod lost;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::catalog::Catalog;
use super::change::Prepared;
use super::image::Image;
use super::needed::with_needed_steps;
use super::{only_on, remove, sync};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Plan, Stop, Task};
use kubexm_engine::seed::{CollectGarbage, Garbage};
use kubexm_engine::steps::RunScript;
use kubexm_host::Facts;
use kubexm_host::facts::Disk;
use kubexm_session::example::{Site, cluster_with};
use kubexm_session::outcome::carry_out;
use kubexm_types::{Digest, HostName};

const STORE: &str = "srv/registry/docker/registry/v2";

fn two_registries() -> Cluster {
    let mut cluster = cluster_with("registry: {dataDir: /srv/registry}");
    cluster.roles.registry = ["node1", "node2"].map(|name| name.parse().unwrap()).into();
    cluster
}

/// Returns hosts with empty registries.
fn site() -> Site {
    let site = Site::new();
    for host in ["node1", "node2"] {
        std::fs::create_dir_all(Store(&site, host).at("repositories")).unwrap();
    }
    site
}

/// The storage of the registry of a host.
struct Store<'a>(&'a Site, &'static str);

impl Store<'_> {
    fn at(&self, path: &str) -> PathBuf {
        self.0.at(self.1, &format!("{STORE}/{path}"))
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn blob(&self, content: &[u8]) -> Digest {
        let digest = Digest::of(content);
        self.write(&format!("{}/data", blob(digest)), content);
        digest
    }

    fn link(&self, repository: &str, path: &str, digest: Digest) {
        let path = format!("repositories/{repository}/{path}/link");
        self.write(&path, digest.to_string().as_bytes());
    }

    fn manifest(&self, repository: &str, text: &str) -> Digest {
        let digest = self.blob(text.as_bytes());
        let path = format!("_manifests/revisions/sha256/{}", digest.hex());
        self.link(repository, &path, digest);
        digest
    }

    fn tag(&self, repository: &str, tag: &str, digest: Digest) {
        let tag = format!("_manifests/tags/{tag}");
        self.link(repository, &format!("{tag}/current"), digest);
        self.link(
            repository,
            &format!("{tag}/index/sha256/{}", digest.hex()),
            digest,
        );
    }

    /// Writes an image whose index names a platform that no registry has. Returns the digests of the index and of the layer.
    fn image(&self, repository: &str, tag: &str, layer: &str) -> (Digest, Digest) {
        let content = layer;
        let layer = self.blob(content.as_bytes());
        let config = r#"{"architecture":"amd64","os":"linux"}"#;
        let config = (self.blob(config.as_bytes()), config.len());
        let manifest = format!(
            r#"{{"config":{{"digest":"{}","size":{}}},"layers":[{{"digest":"{layer}","size":{}}}]}}"#,
            config.0,
            config.1,
            content.len()
        );
        let size = manifest.len();
        let manifest = self.manifest(repository, &manifest);
        for digest in [config.0, layer] {
            self.link(
                repository,
                &format!("_layers/sha256/{}", digest.hex()),
                digest,
            );
        }
        let other = Digest::of(b"another platform");
        let index = self.manifest(
            repository,
            &format!(
                r#"{{"manifests":[{{"digest":"{manifest}","size":{size}}},{{"digest":"{other}","size":9}}]}}"#
            ),
        );
        self.tag(repository, tag, index);
        (index, layer)
    }

    /// Writes a signature in the place where cosign searches for it.
    fn sign(&self, repository: &str, image: Digest) -> Digest {
        let signature = self.manifest(repository, r#"{"layers":[]}"#);
        self.tag(
            repository,
            &format!("sha256-{}.sig", image.hex()),
            signature,
        );
        signature
    }

    /// Returns all files with their content.
    fn content(&self) -> BTreeSet<(PathBuf, Vec<u8>)> {
        let mut found = BTreeSet::new();
        let mut next = vec![self.at("")];
        while let Some(folder) = next.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    next.push(path)
                } else {
                    let name = path.strip_prefix(self.at("")).unwrap().to_owned();
                    found.insert((name, std::fs::read(&path).unwrap()));
                }
            }
        }
        found
    }
}

fn blob(digest: Digest) -> String {
    let hex = digest.hex();
    format!("blobs/sha256/{}/{hex}", &hex[..2])
}

async fn read(site: &Site) -> Catalog {
    Catalog::read(&two_registries(), &site.hosts).await.unwrap()
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.images().iter().map(Image::name).collect()
}

async fn run(site: &Site, plan: Plan) {
    carry_out(plan, &site.hosts, &site.events, &Stop::new())
        .await
        .unwrap();
}

async fn synced(site: &Site, from: Option<&str>) -> Result<String, String> {
    synced_with(site, &BTreeMap::new(), from).await
}

async fn synced_with(
    site: &Site,
    facts: &BTreeMap<HostName, Facts>,
    from: Option<&str>,
) -> Result<String, String> {
    let from = from.map(|name| name.parse().unwrap());
    let catalog = read(site).await;
    let prepared = sync::prepared(
        &two_registries(),
        &catalog,
        facts,
        from.as_ref(),
        &site.events,
    );
    let Prepared { text, plan, .. } = prepared.map_err(|error| error.to_string())?;
    run(site, plan).await;
    Ok(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_gets_what_another_one_has_and_nothing_that_no_image_needs() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    let (index, _) = one.image("r.io_5000/app", "v1", "layer of the application");
    one.sign("r.io_5000/app", index);
    two.image("ghcr.io/other", "v2", "another layer");
    one.manifest("ghcr.io/untagged", r#"{"layers":[]}"#);
    let catalog = read(&site).await;
    let untagged = format!("ghcr.io/untagged@{}", Digest::of(br#"{"layers":[]}"#));
    assert_eq!(
        names(&catalog),
        ["ghcr.io/other:v2", &untagged, "r.io:5000/app:v1"]
    );
    assert_eq!(catalog.platforms(&catalog.images()[2]), ["amd64"]);
    let text = synced(&site, None).await.unwrap();
    assert!(
        text.contains("  node2\n") && text.contains("r.io:5000/app:v1"),
        "{text}"
    );
    assert_eq!(one.content(), two.content());
    assert_eq!(
        synced(&site, None).await.unwrap(),
        "",
        "the second run changes nothing"
    );
    // What nothing needs stays where it is.
    one.blob(b"garbage");
    assert_eq!(synced(&site, None).await.unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_which_a_host_that_leaves_has_the_only_copy_are_named() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    for store in [&one, &two] {
        store.image("r.io/both", "v1", "layer of both");
    }
    one.image("r.io/app", "v1", "layer of the application");
    let lost = async |name: &str| {
        let leaving = [name.parse().unwrap()].into();
        let lost = only_on(&two_registries(), &site.hosts, &leaving).await;
        lost.unwrap()
    };
    assert_eq!(lost("node1").await, ["r.io/app:v1"]);
    assert!(lost("node2").await.is_empty());
    // The other copy is not complete.
    let layer = blob(Digest::of(b"layer of both"));
    std::fs::remove_file(two.at(&format!("{layer}/data"))).unwrap();
    assert_eq!(lost("node1").await, ["r.io/app:v1", "r.io/both:v1"]);
    synced(&site, None).await.unwrap();
    assert!(lost("node1").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_that_are_missing_or_cut_off_are_replaced() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    let large = "x".repeat((17 << 20) + 5);
    for store in [&one, &two] {
        store.image("r.io/a", "v1", "layer of a");
        store.image("r.io/b", "v1", &large);
    }
    let layer = |content: &str| format!("{}/data", blob(Digest::of(content.as_bytes())));
    std::fs::remove_file(two.at(&layer(&large))).unwrap();
    std::fs::write(one.at(&layer("layer of a")), "lay").unwrap();
    synced(&site, None).await.unwrap();
    assert_eq!(one.content(), two.content());
    assert_eq!(
        std::fs::read(one.at(&layer("layer of a"))).unwrap(),
        b"layer of a"
    );
    assert_eq!(
        std::fs::read(two.at(&layer(&large))).unwrap(),
        large.as_bytes()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_image_takes_its_signature_and_leaves_what_others_need() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    for store in [&one, &two] {
        let (index, _) = store.image("r.io/a", "v1", "shared");
        store.tag("r.io/a", "latest", index);
        let (other, _) = store.image("r.io/a", "v2", "only of v2");
        store.sign("r.io/a", other);
        store.image("r.io/b", "v1", "shared");
    }
    let catalog = read(&site).await;
    let named = |name: &str| {
        let all = catalog.images().into_iter();
        all.filter(|image| image.name() == name)
            .collect::<Vec<Image>>()
    };
    let mut text = String::new();
    let images = [named("r.io/a:v1"), named("r.io/a:v2")].concat();
    let plan = remove::plan(&two_registries(), &catalog, &images, &mut text);
    assert!(
        text.contains("node1") && text.contains("      r.io/a:v2\n"),
        "{text}"
    );
    run(&site, plan).await;
    let left = read(&site).await;
    assert_eq!(names(&left), ["r.io/a:latest", "r.io/b:v1"]);
    let plan = remove::plan(&two_registries(), &left, &images, &mut text);
    assert!(plan.tasks.is_empty(), "the second run changes nothing");
    let data_dir = &two_registries().registry.data_dir;
    let host = site.hosts.values().next().unwrap();
    let garbage = Garbage::read(host.as_ref(), data_dir).await.unwrap();
    let layer = Digest::of(b"only of v2");
    assert!(
        garbage.blobs.contains_key(&layer) && garbage.blobs.len() == 4,
        "{garbage:?}"
    );
    let step = CollectGarbage {
        title: "Remove blobs".to_owned(),
        data_dir: data_dir.clone(),
    };
    let plan = Plan {
        tasks: vec![Task::new("registry", "gc", host.name()).step(step)],
    };
    run(&site, plan).await;
    assert!(!one.at(&blob(layer)).exists() && two.at(&blob(layer)).exists());
    for image in read(&site).await.images() {
        let content = left.content(&image);
        let missing: Vec<Digest> = content
            .blobs()
            .keys()
            .filter(|digest| !one.at(&blob(**digest)).exists())
            .copied()
            .collect();
        assert!(missing.is_empty(), "{}: {missing:?}", image.name());
    }
    assert!(
        Garbage::read(host.as_ref(), data_dir)
            .await
            .unwrap()
            .is_empty()
    );
}

/// An application that fails stops those that need it, also over one that is as it should be, and no other one.
#[tokio::test(flavor = "multi_thread")]
async fn applications_wait_for_those_that_they_need() {
    let site = site();
    let host = "node1".parse().unwrap();
    let task = |name: &str, check: &'static str| {
        Task::new("applications", name, &host).step(RunScript::new(name, name, check, "true"))
    };
    let broken = task("broken", "exit 1");
    let database = task("database", "exit 0").after([broken.id()]);
    let shop = task("shop", "exit 1").after([database.id(), Task::new("a", "b", &host).id()]);
    let other = task("other", "exit 1").after_end([shop.id()]);
    let plan = Plan {
        tasks: vec![broken, database, shop, other],
    };
    let tasks = with_needed_steps(&site.hosts, plan).await.unwrap();
    let lines: Vec<&str> = tasks
        .iter()
        .flat_map(|one| &one.lines)
        .map(String::as_str)
        .collect();
    assert_eq!(lines, ["broken", "shop", "other"]);
    let tasks: Vec<Task> = tasks.into_iter().map(|one| one.task).collect();
    let steps: Vec<usize> = tasks.iter().map(|task| task.steps.len()).collect();
    assert_eq!(steps, [1, 0, 1, 1]);
    assert_eq!(tasks[1].after, [tasks[0].id()]);
    assert_eq!(tasks[2].after, [tasks[1].id()]);
    assert!(tasks[3].after.is_empty());
    assert_eq!(tasks[3].after_end, [tasks[2].id()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_a_disk_without_space() {
    let site = site();
    Store(&site, "node1").image("r.io/a", "v1", "layer");
    let disk = Disk {
        free: 100,
        size: 1000,
        mount: "/srv".to_owned(),
    };
    let facts = Facts {
        disks: BTreeMap::from([("/srv/registry".to_owned(), disk)]),
        ..Facts::default()
    };
    // The disk of node1 is as full, but node1 gets nothing.
    let facts = ["node1", "node2"].map(|name| (name.parse().unwrap(), facts.clone()));
    let error = synced_with(&site, &facts.into(), None).await.unwrap_err();
    assert!(
        error.contains("node2: /srv/registry needs") && !error.contains("node1"),
        "{error}"
    );
    assert!(Store(&site, "node2").content().is_empty());
}

/// Without its disk, the directory of a registry is empty, and the other registries would look complete.
#[tokio::test(flavor = "multi_thread")]
async fn registry_without_its_storage_is_no_empty_registry() {
    let site = site();
    Store(&site, "node1").image("r.io/a", "v1", "layer");
    std::fs::remove_dir_all(site.at("node2", "srv/registry")).unwrap();
    let read = Catalog::read(&two_registries(), &site.hosts).await;
    let error = read.err().unwrap().to_string();
    assert!(
        error.starts_with("node2: cannot list the registry's images: /srv/registry has no"),
        "{error}"
    );
    assert!(error.contains("\nhint: mount the disk"), "{error}");
    // A host that is to have a registry has none yet.
    let mut cluster = two_registries();
    cluster.roles.registry.truncate(1);
    assert!(Catalog::read(&cluster, &site.hosts).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_power_failure_left_empty_are_repaired_or_named() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    let (index, _) = one.image("r.io/a", "v1", "layer");
    let untagged = one.manifest("r.io/b", r#"{"layers":[]}"#);
    synced(&site, None).await.unwrap();
    let whole = one.content();
    let cluster = two_registries();
    let tag = "repositories/r.io/a/_manifests/tags/v1/current/link";
    let revision = |repository: &str, digest: Digest| {
        let hex = digest.hex();
        format!("repositories/{repository}/_manifests/revisions/sha256/{hex}/link")
    };
    for store in [&one, &two] {
        store.write(&revision("r.io/b", untagged), b"");
        store.write(&revision("r.io/a", index), b"sha256:12");
    }
    two.write(tag, b"");
    assert!(read(&site).await.check_tags(&cluster).is_ok());
    synced(&site, None).await.unwrap();
    assert!(one.content() == whole && two.content() == whole);
    for store in [&one, &two] {
        store.write(tag, b"");
    }
    let catalog = read(&site).await;
    let error = catalog.check_tags(&cluster).unwrap_err().to_string();
    let named = format!("node1: /srv/registry/docker/registry/v2/{tag}");
    assert!(
        error.contains(&named) && error.contains("\nhint: add the images again"),
        "{error}"
    );
}

/// The tag of a replaced image keeps the digest of the former one.
#[tokio::test(flavor = "multi_thread")]
async fn former_image_of_a_tag_can_be_removed_with_its_blobs() {
    let site = site();
    let one = Store(&site, "node1");
    let (former, layer) = one.image("r.io/a", "v1", "former layer");
    one.image("r.io/a", "v1", "layer");
    let catalog = read(&site).await;
    assert_eq!(
        names(&catalog),
        ["r.io/a:v1".to_owned(), format!("r.io/a@{former}")]
    );
    let index = format!(
        "repositories/r.io/a/_manifests/tags/v1/index/sha256/{}",
        former.hex()
    );
    assert!(one.at(&index).exists());
    let mut text = String::new();
    let images = &catalog.images()[1..];
    let plan = remove::plan(&two_registries(), &catalog, images, &mut text);
    assert!(text.contains("Remove 2 tags and manifests"), "{text}");
    run(&site, plan).await;
    assert!(!one.at(&index).exists());
    assert_eq!(names(&read(&site).await), ["r.io/a:v1"]);
    let host = site.hosts.values().next().unwrap();
    let data_dir = &two_registries().registry.data_dir;
    let garbage = Garbage::read(host.as_ref(), data_dir).await.unwrap();
    let blobs: BTreeSet<Digest> = garbage.blobs.keys().copied().collect();
    assert!(
        blobs.contains(&layer) && blobs.contains(&former) && blobs.len() == 3,
        "{blobs:?}"
    );
}
