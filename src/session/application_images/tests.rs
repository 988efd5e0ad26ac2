//! Tests with a stand-in for helm, which renders the image that the values name.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use super::*;
use crate::example::{Site, cluster_with};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::lock::{ChecksumSource, FileFormat, LockedFile, Member};
use kubexm_bundle::{Blobs, BundleError, Lock};
use kubexm_sandbox::Sandbox;
use kubexm_types::artifact::ArtifactKind;
use kubexm_types::{Arch, Digest, Version};

const HELM: &str = "#!/bin/sh\nfor last; do :; done\nprintf 'kind: Pod\\nmetadata: {name: web}\\nspec: {containers: [{name: main, image: %s}]}\\n' \"$(sed 's/.*\"image\":\"\\([^\"]*\\)\".*/\\1/' \"$last\")\"\n";

/// Archives by digest.
pub(crate) struct Archives(pub(crate) BTreeMap<Digest, Vec<u8>>);

impl Blobs for Archives {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        Ok(Box::new(Cursor::new(self.0[digest].clone())))
    }

    fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open(digest)
    }
}

fn archive(path: &str, content: &str) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    archive
        .append_data(&mut header, path, content.as_bytes())
        .unwrap();
    archive.into_inner().unwrap()
}

fn bundle() -> (Lock, Arc<Archives>) {
    bundle_with(HELM)
}

/// Returns a bundle with a chart, and with a stand-in for helm.
pub(crate) fn bundle_with(program: &str) -> (Lock, Arc<Archives>) {
    let chart = archive("shop/Chart.yaml", "name: shop\nversion: 1.0.0\n");
    let helm = archive("linux/helm", program);
    let mut lock = Lock::empty("example");
    lock.artifacts.push(LockedArtifact {
        kind: ArtifactKind::Chart,
        name: "shop".to_owned(),
        version: Some("1.0.0".to_owned()),
        url: None,
        size: chart.len() as u64,
        digest: Digest::of(&chart),
        checksum: ChecksumSource::FirstSeen,
        images: Vec::new(),
    });
    lock.files.push(LockedFile {
        component: "helm".to_owned(),
        version: Version::new(4, 3, 1),
        arch: Arch::of_this_machine().unwrap(),
        file_name: "helm.tar.gz".to_owned(),
        url: "https://dl.example/helm".parse().unwrap(),
        size: helm.len() as u64,
        digest: Digest::of(&helm),
        checksum: ChecksumSource::FirstSeen,
        format: FileFormat::TarGz,
        members: vec![Member {
            path: "linux/helm".to_owned(),
            size: program.len() as u64,
            digest: Digest::of(program.as_bytes()),
            linking: None,
        }],
        linking: None,
        signature: None,
        unsigned: None,
    });
    let archives = [chart, helm].map(|archive| (Digest::of(&archive), archive));
    (lock, Arc::new(Archives(archives.into())))
}

async fn missing_with(lock: &Lock, blobs: &Arc<Archives>, site: &Site) -> Vec<String> {
    let cluster = cluster_with(
        "registry: {dataDir: /srv/registry}\napplications: [{name: web, namespace: shop, chart: shop, values: {image: \"a.example/web:2\"}}]",
    );
    let programs = Programs {
        lock,
        blobs: Arc::clone(blobs) as _,
        sandbox: Sandbox::Off,
    };
    let found = missing(&programs, &cluster, &site.hosts, &site.events);
    found
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[tokio::test]
async fn image_that_values_select_must_be_in_the_bundle_or_in_the_registry() {
    let (lock, blobs) = bundle();
    let site = Site::new();
    let expected = "the application web needs the image a.example/web:2 (Pod web, container main), which neither the bundle nor the registry has";
    assert_eq!(missing_with(&lock, &blobs, &site).await, [expected]);
    let store =
        "srv/registry/docker/registry/v2/repositories/a.example/web/_manifests/tags/2/current/link";
    let link = site.at("node1", store);
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::fs::write(link, Digest::of(b"image").to_string()).unwrap();
    assert!(missing_with(&lock, &blobs, &site).await.is_empty());
}

/// Fields of custom resources that the manifest of the bundle declares.
#[tokio::test]
async fn images_of_declared_fields_are_needed_too() {
    let program = HELM
        .replace("kind: Pod", "kind: Driver")
        .replace("{containers: [{name: main, image: %s}]}", "{driver: %s}");
    let (mut lock, blobs) = bundle_with(&program);
    let site = Site::new();
    assert!(missing_with(&lock, &blobs, &site).await.is_empty());
    lock.image_paths = vec!["Driver:.spec.driver".parse().unwrap()];
    let expected = "the application web needs the image a.example/web:2 (Driver web, .spec.driver), which neither the bundle nor the registry has";
    assert_eq!(missing_with(&lock, &blobs, &site).await, [expected]);
}

#[tokio::test]
async fn bundle_without_helm_is_not_checked() {
    let (mut lock, blobs) = bundle();
    lock.files.clear();
    assert!(missing_with(&lock, &blobs, &Site::new()).await.is_empty());
}
