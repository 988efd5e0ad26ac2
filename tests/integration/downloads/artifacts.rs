//! Artifacts in OCI registries that are not images: policies, models, charts, sources of Flux, modules of WASM.

use std::sync::Arc;

use kubexm_bundle::lock::LockedImage;
use kubexm_bundle::{Blobs, Bundle, Level, Lock, PackOptions, Placement, write};
use kubexm_catalog::Catalog;
use kubexm_engine::seed::{RegistryContent, missing, seed};
use kubexm_fetch::oci::{PushAccess, Pusher};
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use serde_json::{Value, json};

use super::images::{NAME, OCI_CONFIG, OCI_INDEX, OCI_MANIFEST, Repository, on};
use super::*;
use crate::example::kubexm;
use crate::sandbox::{Sandbox, path};
use crate::travel::registry::{Registry, programs};

const REGO: &str = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego";

impl Repository {
    /// Puts the manifest of an artifact of OCI 1.1, with an empty configuration.
    fn policy(&self, content: &[u8]) -> Value {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST, "artifactType": "application/vnd.example.policy",
            "config": self.blob("application/vnd.oci.empty.v1+json", b"{}"),
            "layers": [self.blob(REGO, content)],
        });
        self.document(OCI_MANIFEST, &manifest)
    }

    /// Builds what a bundle manifest with these lines in `spec` names.
    async fn build(&self, spec: &str, previous: Option<&Lock>) -> Result<(Reader, Lock), String> {
        let reader = Reader::of(&self.origin);
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {{name: b}}\nspec:\n  architectures: [amd64, arm64]\n{spec}\n"
        );
        let manifest = kubexm_config::parse_manifest("bundle.yaml", &text);
        let manifest = manifest.map_err(|error| error.to_string())?;
        let catalog = Catalog::embedded().unwrap();
        let policies = Policies::load(&catalog, &[], &[]).unwrap();
        let resolver = Resolver::new(&reader.http, &catalog, previous, &policies);
        let lock = resolver.build(&manifest).await;
        let lock = lock.map_err(|error| error.to_string())?;
        Ok((reader, lock))
    }

    async fn artifact(&self) -> Result<LockedImage, String> {
        let (_, lock) = self.build(&format!("  artifacts: [{NAME}]"), None).await?;
        Ok(lock.images[0].clone())
    }
}

fn digests(image: &LockedImage) -> Vec<String> {
    let manifests = image.platforms.iter();
    manifests.map(|p| p.manifest.digest.to_string()).collect()
}

/// From the publisher to the registry of a cluster, to one of the site, and to a directory.
#[tokio::test(flavor = "multi_thread")]
async fn artifact_travels_with_its_digest() {
    let repository = Repository::new().await;
    let published = repository.policy(b"package site");
    let spec = format!("  artifacts: [{NAME}]");
    let (reader, lock) = repository.build(&spec, None).await.unwrap();
    let artifact = &lock.images[0];
    assert!(artifact.is_artifact());
    assert_eq!(
        artifact.manifest.digest.to_string(),
        published["digest"].as_str().unwrap()
    );
    assert_eq!(lock.lock_version, 5);
    // Every architecture has it, and a tag that moves does not change the lock.
    let only = lock.only(&[Arch::Arm64].into());
    assert_eq!(only.images, lock.images);
    repository.policy(b"package other");
    let (_, again) = repository.build(&spec, Some(&lock)).await.unwrap();
    assert_eq!(again, lock);

    let file = reader.folder.path().join("b.tar.zst");
    let (options, events) = (PackOptions::new(Level::MIN, 1), Events::silent());
    let storage = Placement::plain(&lock);
    let cache = reader.http.cache();
    write(&file, &lock, &storage, cache, options, &events).unwrap();
    let bundle = Arc::new(Bundle::open(&file).unwrap());
    assert_eq!(*bundle.lock(), lock);
    let place = file.to_str().unwrap();
    let list = kubexm(&["bundle", "list", place]).1;
    assert!(
        list.starts_with("artifact ") && list.contains(NAME),
        "{list}"
    );
    let inspected = kubexm(&["bundle", "inspect", place]).1;
    assert!(inspected.contains("  images         0\n"), "{inspected}");
    assert!(inspected.contains("  artifacts      1\n"), "{inspected}");
    is_exported(place, reader.folder.path(), artifact);

    let host = Sandbox::new();
    let (data, content) = (path("/data"), RegistryContent::new(&lock));
    let lacking = missing(host.host.as_ref(), &data, &content).await.unwrap();
    let blobs: Arc<dyn Blobs> = Arc::clone(&bundle) as _;
    seed(host.host.as_ref(), &data, lacking, blobs, &host.events)
        .await
        .unwrap();
    for program in programs() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(host.at("/data"), folder.path().join("registry")).unwrap();
        let registry = Registry::start(&program, folder.path());
        is_served(&registry, "registry.invalid/", artifact).await;
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::start(&program, folder.path());
        let spool = folder.path().join("spool");
        std::fs::create_dir(&spool).unwrap();
        let to = async |place: &str| {
            let place = format!("127.0.0.1:{}/{place}", registry.port);
            let (place, access) = (place.parse().unwrap(), PushAccess::default());
            let pusher = Pusher::new(place, access, None, &spool, Events::silent()).await;
            pusher.unwrap()
        };
        let pusher = to("team/app:1").await;
        pusher.push_image(&bundle, artifact).await.unwrap();
        is_served(&registry, "", artifact).await;
        let pushed = to("site/bundle:1").await.push(Arc::clone(&bundle)).await;
        assert_eq!(pushed.unwrap().images, 1);
    }
}

/// Checks that an export has everything of an artifact, and that one for Docker refuses it.
fn is_exported(bundle: &str, folder: &Path, artifact: &LockedImage) {
    let layout = folder.join("layout");
    let to = layout.to_str().unwrap();
    let (code, output) = kubexm(&["bundle", "export", bundle, "--oci-layout", to]);
    assert_eq!(code, Some(0), "{output}");
    let index: Value =
        serde_json::from_slice(&std::fs::read(layout.join("index.json")).unwrap()).unwrap();
    let entry = &index["manifests"][0];
    assert_eq!(entry["digest"], artifact.manifest.digest.to_string());
    // containerd would try to unpack an entry with its annotation.
    let annotations = json!({"org.opencontainers.image.ref.name": NAME});
    assert_eq!(entry["annotations"], annotations);
    for blob in artifact.platforms[0].everything() {
        let path = layout.join("blobs/sha256").join(blob.digest.hex());
        assert_eq!(Digest::of(&std::fs::read(path).unwrap()), blob.digest);
    }
    let archive = folder.join("docker.tar");
    let (code, output) = kubexm(&[
        "bundle",
        "export",
        bundle,
        "--docker-archive",
        archive.to_str().unwrap(),
        "--arch",
        "amd64",
        "--image",
        NAME,
    ]);
    assert_ne!(code, Some(0), "{output}");
    assert!(output.contains("--oci-layout"), "{output}");
}

/// Checks that a client that starts with the tag finds the whole artifact.
async fn is_served(registry: &Registry, prefix: &str, artifact: &LockedImage) {
    let served = Origin::default();
    let reader = Reader::with(&served, |mirrors| {
        let place = format!("http://127.0.0.1:{}/{prefix}", registry.port);
        mirrors.registries = [("registry.invalid".to_owned(), vec![place])].into();
    });
    let puller = Puller::new(reader.http.clone());
    let found = puller.resolve_artifact(&artifact.name, None).await.unwrap();
    assert_eq!(
        (&found.manifest, &found.platforms),
        (&artifact.manifest, &artifact.platforms)
    );
    for blob in &found.platforms[0].blobs {
        puller.blob(&artifact.name, blob).await.unwrap();
    }
}

/// A chart has a configuration of its own type, a module of WASM that of an image, and a source of Flux several variants.
#[tokio::test(flavor = "multi_thread")]
async fn artifacts_of_other_tools_are_whole() {
    let repository = Repository::new().await;
    let chart = json!({
        "schemaVersion": 2, "mediaType": OCI_MANIFEST,
        "config": repository.blob("application/vnd.cncf.helm.config.v1+json", b"{\"name\":\"a\"}"),
        "layers": [repository.blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", b"chart")],
    });
    let chart = repository.document(OCI_MANIFEST, &chart);
    let found = repository.artifact().await.unwrap();
    assert_eq!(digests(&found), [chart["digest"].as_str().unwrap()]);
    assert_eq!(found.platforms[0].blobs.len(), 2);
    let module = repository.image_of((OCI_MANIFEST, OCI_CONFIG), "wasi/wasm", 1);
    let found = repository.artifact().await.unwrap();
    assert_eq!(digests(&found), [module["digest"].as_str().unwrap()]);
    // An index without platforms, with an index below it.
    let [one, two, three] = [b"1", b"2", b"3"].map(|text| repository.policy(text));
    let below = repository.index(&[two.clone(), on(&three, "linux/s390x")]);
    let top = repository.index(&[one.clone(), below.clone()]);
    let found = repository.artifact().await.unwrap();
    let expected = [&one, &two, &three].map(|one| one["digest"].as_str().unwrap().to_owned());
    assert_eq!(digests(&found), expected);
    assert!(found.is_artifact());
    let of = |index: &Value| index["digest"].as_str().unwrap().to_owned();
    assert_eq!(found.manifest.digest.to_string(), of(&top));
    let indexes = found.indexes();
    assert_eq!(indexes.len(), 1);
    assert_eq!(indexes[0].digest.to_string(), of(&below));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_hostile_artifacts_are_refused() {
    let repository = Repository::new().await;
    let published = repository.policy(b"package site");
    let refused = async |spec: &str| match repository.build(spec, None).await {
        Ok(_) => panic!("{spec} is accepted"),
        Err(error) => error,
    };
    let plain = format!("  artifacts: [{NAME}]");
    // A manifest, and a blob, that is not the one of the digest.
    let pinned = format!("  artifacts: ['{NAME}@{}']", Digest::of(b"other"));
    let other = format!("/v2/team/app/manifests/{}", Digest::of(b"other"));
    repository.origin.put(&other, "package other");
    let error = refused(&pinned).await;
    assert!(error.contains(&Digest::of(b"other").to_string()), "{error}");
    let blob = Digest::of(b"package site");
    let place = format!("/v2/team/app/blobs/{blob}");
    repository.origin.put(&place, "package evil");
    let error = refused(&plain).await;
    assert!(error.contains(&blob.to_string()), "{error}");
    repository.policy(b"package site");
    let pinned = format!(
        "  artifacts: ['{NAME}@{}']",
        published["digest"].as_str().unwrap()
    );
    repository.build(&pinned, None).await.unwrap();

    let error = refused(&format!("  images: [{NAME}]\n{plain}")).await;
    assert!(error.contains("is in spec.artifacts, and"), "{error}");
    let error = refused(&format!("  images: [{NAME}]")).await;
    assert!(
        error.contains("another artifact belongs in spec.artifacts"),
        "{error}"
    );
    let policy = repository.policy(b"package site");
    let mut wrong_size = policy.clone();
    wrong_size["size"] = json!(7);
    let text =
        json!({"mediaType": "text/plain", "digest": policy["digest"], "size": policy["size"]});
    for (entries, expected) in [
        (vec![], "does not name a manifest"),
        (vec![wrong_size], "has a wrong size of"),
        (vec![text], "its index names a 'text/plain'"),
        (vec![policy; 257], "more than 256 indexes and manifests"),
    ] {
        repository.index(&entries);
        let error = refused(&plain).await;
        assert!(error.contains(expected), "{error}");
    }
    let hostile = json!({
        "schemaVersion": 2, "mediaType": OCI_INDEX.replace("index", "manifest"),
        "config": repository.blob("a/b\u{1b}[2J", b"{}"), "layers": [],
    });
    repository.document(OCI_MANIFEST, &hostile);
    let error = refused(&plain).await;
    assert!(error.contains("an invalid media type"), "{error}");
}
