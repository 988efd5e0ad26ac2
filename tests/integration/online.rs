//! `tests/online/run` finds every error of a public site. A local server stands for the sites, with planted errors.

#[path = "../online/check.rs"]
mod check;

use std::path::Path;

use check::{Check, Pinned};
use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_catalog::Catalog;
use kubexm_config::Mirrors;
use kubexm_config::mirrors::Checksums;
use kubexm_fetch::{Cache, Http};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, Version};

use crate::downloads::origin::{Origin, Rules};
use crate::downloads::put_image_at;

const CRICTL: &str = "/kubernetes-sigs/cri-tools/releases/download/v1.36.0/crictl-v1.36.0-linux";

/// The sites, with a correct crictl and a correct image for amd64.
struct Sites {
    origin: Origin,
    folder: tempfile::TempDir,
}

fn archive(member: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o755);
    tar.append_data(&mut header, member, &b"run"[..]).unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

impl Sites {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let sites = Self {
            origin: Origin::start(Rules::default()).await,
            folder: tempfile::tempdir().unwrap(),
        };
        sites.put_crictl(&archive("crictl"));
        put_image_at(
            &sites.origin,
            "e2e-test-images/agnhost",
            "2.63.0",
            b"a layer",
        );
        sites
    }

    fn put_crictl(&self, archive: &[u8]) {
        let place = format!("{CRICTL}-amd64.tar.gz");
        self.origin.put(&place, archive);
        self.origin
            .put(&format!("{place}.sha256"), Digest::of(archive).hex());
    }

    /// Returns a check of these sites for amd64, with an empty cache.
    fn check<'a>(&self, catalog: &'a Catalog) -> Check<'a> {
        let to = |from: &str| (from.to_owned(), vec![self.origin.uri()]);
        let mirrors = Mirrors {
            downloads: [
                to("https://github.com"),
                to("https://dl.k8s.io"),
                to("http://deb.debian.org"),
            ]
            .into(),
            registries: [to("registry.k8s.io")].into(),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        let cache = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        let http = Http::new(mirrors, Cache::open(&cache).unwrap(), Events::silent()).unwrap();
        let mut check = Check::new(catalog, http).unwrap();
        check.arches = vec![Arch::Amd64];
        check
    }
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns what is wrong in the only failed row.
fn wrong(check: &Check<'_>) -> String {
    let failed = check.rows.iter().filter_map(|row| row.result.clone().err());
    let failed: Vec<String> = failed.collect();
    assert!(failed.len() == 1 && check.failed() == 1, "{:?}", check.rows);
    failed[0].clone()
}

#[test]
fn every_component_of_the_catalog_is_checked() {
    let pinned = Pinned::shipped(&root()).unwrap();
    let catalog = Catalog::embedded().unwrap();
    for name in catalog.names() {
        let is_checked = pinned
            .components
            .iter()
            .any(|(component, _)| component == name)
            || name.starts_with("kube") && name != "kube-vip";
        assert!(
            is_checked,
            "{name}: tests/online/components.yaml does not name it"
        );
    }
    assert!(pinned.kubernetes.len() > 1 && pinned.packages.len() > 5);
    for registry in kubexm_catalog::mirrors("cn").unwrap().registries.keys() {
        let mut images = pinned.images.iter();
        assert!(
            images.any(|image| image.registry() == registry),
            "{registry}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn correct_sites_pass() {
    let sites = Sites::start().await;
    let catalog = Catalog::embedded().unwrap();
    let mut check = sites.check(&catalog);
    check.component("crictl", &Version::new(1, 36, 0)).await;
    let image = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
        .parse()
        .unwrap();
    check.image(&image).await;
    assert_eq!(
        (check.rows.len(), check.failed()),
        (2, 0),
        "{:?}",
        check.rows
    );
    let text: Vec<String> = check.rows.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @"
    ok      file      crictl 1.36.0 amd64: checksum of a mirror, 1 members
    ok      image     registry.k8s.io/e2e-test-images/agnhost:2.63.0: amd64, not signed
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_errors_of_files_are_found() {
    let catalog = Catalog::embedded().unwrap();
    let archive_of = |arch: &str| format!("{CRICTL}-{arch}.tar.gz");
    type Plant = (&'static str, fn(&Sites), &'static str);
    let plants: [Plant; 5] = [
        (
            "address",
            |sites| sites.origin.remove(&format!("{CRICTL}-amd64.tar.gz")),
            "answered 404",
        ),
        (
            "checksum file",
            |sites| {
                sites
                    .origin
                    .remove(&format!("{CRICTL}-amd64.tar.gz.sha256"))
            },
            "answered 404",
        ),
        (
            "checksum",
            |sites| {
                let other = Digest::of(b"another archive").hex();
                sites
                    .origin
                    .put(&format!("{CRICTL}-amd64.tar.gz.sha256"), other);
            },
            "content with the wrong digest",
        ),
        (
            "text of the checksum file",
            |sites| {
                let page = "<html>not found</html>";
                sites
                    .origin
                    .put(&format!("{CRICTL}-amd64.tar.gz.sha256"), page);
            },
            "has no SHA-256 of this file",
        ),
        (
            "member",
            |sites| sites.put_crictl(&archive("bin/crictl")),
            "the archive does not contain crictl",
        ),
    ];
    for (name, plant, reason) in plants {
        let sites = Sites::start().await;
        plant(&sites);
        let mut check = sites.check(&catalog);
        check.component("crictl", &Version::new(1, 36, 0)).await;
        let wrong = wrong(&check);
        assert!(wrong.contains(reason), "{name}: {wrong}");
    }
    // Only one architecture is missing.
    let sites = Sites::start().await;
    let mut check = sites.check(&catalog);
    check.arches = vec![Arch::Amd64, Arch::Arm64];
    check.component("crictl", &Version::new(1, 36, 0)).await;
    let missing = wrong(&check);
    assert!(missing.contains(&archive_of("arm64")), "{missing}");
    // A program without the signature that its publisher always makes.
    let sites = Sites::start().await;
    let place = "/release/v1.36.3/bin/linux/amd64/kubectl";
    sites.origin.put(place, "a program");
    sites
        .origin
        .put(&format!("{place}.sha256"), Digest::of(b"a program").hex());
    let mut check = sites.check(&catalog);
    check.component("kubectl", &Version::new(1, 36, 3)).await;
    let unsigned = wrong(&check);
    assert!(
        unsigned.contains("requires a signature of krel-staging@"),
        "{unsigned}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_errors_of_images_are_found() {
    let catalog = Catalog::embedded().unwrap();
    let sites = Sites::start().await;
    let agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
    put_image_at(&sites.origin, "pause", "3.10", b"a layer");
    for (image, arch, reason) in [
        (
            "registry.k8s.io/e2e-test-images/agnhost:9",
            Arch::Amd64,
            "answered 404",
        ),
        (
            agnhost,
            Arch::Arm64,
            "has no linux/arm64; it has linux/amd64",
        ),
        (
            "registry.k8s.io/pause:3.10",
            Arch::Amd64,
            "registry.k8s.io/pause requires one of krel-trust@",
        ),
    ] {
        let mut check = sites.check(&catalog);
        check.arches = vec![arch];
        check.image(&image.parse().unwrap()).await;
        let wrong = wrong(&check);
        assert!(wrong.contains(reason), "{image}: {wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_errors_of_releases_packages_and_mirrors_are_found() {
    let catalog = Catalog::embedded().unwrap();
    let sites = Sites::start().await;
    let mut pinned = Pinned::default();
    pinned
        .components
        .insert(("crictl".to_owned(), Version::new(1, 36, 0)));
    pinned.images.insert(
        "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
            .parse()
            .unwrap(),
    );
    // The list of releases is missing.
    let mut check = sites.check(&catalog);
    check.versions(&pinned).await;
    assert!(
        wrong(&check).contains("releases.atom answered 404"),
        "{:?}",
        check.rows
    );
    // A package repository without its signed list.
    let all = Pinned::shipped(&root()).unwrap();
    let debian = all
        .packages
        .iter()
        .find(|source| source.distribution == "debian");
    let mut check = sites.check(&catalog);
    check.packages(debian.unwrap()).await;
    assert!(
        wrong(&check).contains("/InRelease answered 404"),
        "{:?}",
        check.rows
    );
    // Mirrors: a correct one, one with another checksum and image, and an empty one.
    let (good, evil, empty) = (
        Sites::start().await,
        Sites::start().await,
        Sites::start().await,
    );
    evil.put_crictl(b"another archive");
    put_image_at(
        &evil.origin,
        "e2e-test-images/agnhost",
        "2.63.0",
        b"another layer",
    );
    empty
        .origin
        .remove(&format!("{CRICTL}-amd64.tar.gz.sha256"));
    empty
        .origin
        .remove("/v2/e2e-test-images/agnhost/manifests/2.63.0");
    for (mirror, file, image) in [
        (&good, "serves https://github.com", "serves registry.k8s.io"),
        (&evil, "differs from the publisher's", ", not sha256:"),
        (&empty, "answered 404", "answered 404"),
    ] {
        let own = |name: &str| vec![mirror.origin.uri(), name.to_owned()];
        let mirrors = Mirrors {
            downloads: [("https://github.com".to_owned(), own("https://github.com"))].into(),
            registries: [("registry.k8s.io".to_owned(), own("https://registry.k8s.io"))].into(),
            ..Mirrors::default()
        };
        let mut check = sites.check(&catalog);
        check.mirrors("test", &mirrors, &pinned).await;
        let said: Vec<String> = check.rows.iter().map(ToString::to_string).collect();
        assert!(
            said.len() == 2 && said[0].contains(file) && said[1].contains(image),
            "{said:?}"
        );
    }
}
