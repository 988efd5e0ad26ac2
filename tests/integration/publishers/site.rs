//! A registry with images, the connected side before it, and the real cosign.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kubexm_bundle::lock::LockedImage;
use kubexm_bundle::{Blobs, Level, Lock, PackOptions, Placement, write};
use kubexm_catalog::Catalog;
use kubexm_config::mirrors::Checksums;
use kubexm_config::{Mirrors, load_manifest};
use kubexm_engine::seed;
use kubexm_engine::seed::RegistryContent;
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use kubexm_fetch::{Cache, FetchError, Http};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef};

use super::layout;
use crate::example::example;
use crate::sandbox::{Sandbox, path};
use crate::travel::registry::{Registry, programs};

/// Signs without a network.
pub const OFFLINE: [&str; 3] = ["--yes", "--use-signing-config=false", "--tlog-upload=false"];
/// Signs in the format before bundles.
pub const OLDER: [&str; 1] = ["--new-bundle-format=false"];

/// Runs cosign, which `./test` builds.
pub fn cosign(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("KUBEXM_LAB_CACHE");
    let cache = cache.map_or(home.join(".cache/kubexm-lab"), PathBuf::from);
    let output = Command::new(cache.join("tools/bin/cosign3"))
        .args(arguments)
        .current_dir(folder)
        .env("COSIGN_PASSWORD", "")
        .env("HOME", folder)
        .output()
        .unwrap_or_else(|error| panic!("cosign: {error}; `./test` brings it"));
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    if output.status.success() {
        Ok(printed)
    } else {
        Err(printed)
    }
}

/// A registry with two images of one file each, the connected side before it, and key pairs of cosign.
pub struct Site {
    pub folder: tempfile::TempDir,
    registry: Registry,
    pub http: Http,
}

pub const SIGNED: &str = "registry.example/team/signed:1";
pub const PLAIN: &str = "registry.example/team/plain:1";

/// Returns a policy for all images of the site's registry.
pub fn policy(mode: &str) -> String {
    format!("[{{prefix: registry.example, key: trusted.pub, mode: {mode}}}]")
}

impl Site {
    pub async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::start(&programs()[0], folder.path());
        let mirrors = Mirrors {
            registries: [(
                "registry.example".to_owned(),
                vec![format!("http://127.0.0.1:{}", registry.port)],
            )]
            .into(),
            checksums: Checksums::Mirror,
            ..Mirrors::default()
        };
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        let http = Http::new(mirrors, cache, Events::silent()).unwrap();
        let site = Self {
            folder,
            registry,
            http,
        };
        site.push_images();
        for name in ["trusted", "other"] {
            let prefix = format!("--output-key-prefix={name}");
            cosign(site.folder.path(), &["generate-key-pair", &prefix]).unwrap();
        }
        site
    }

    /// Changes whose checksums are trusted; the cache stays.
    pub fn set_checksums(&mut self, checksums: Checksums) {
        let mirrors = Mirrors {
            checksums,
            ..self.http.mirrors().clone()
        };
        self.http = Http::new(mirrors, self.http.cache().clone(), Events::silent()).unwrap();
    }

    /// Copies the images with skopeo, as a build machine does.
    fn push_images(&self) {
        for name in ["signed", "plain"] {
            let layout = self.folder.path().join(name);
            layout::write(&layout, name);
            let from = format!("oci:{}", layout.display());
            self.skopeo_copy(&from, &format!("team/{name}:1"));
        }
    }

    /// Copies an image from one repository to another, without its signatures.
    pub fn copy(&self, from: &str, to: &str) {
        self.skopeo_copy(&format!("docker://{}", self.place(from)), to);
    }

    fn skopeo_copy(&self, from: &str, to: &str) {
        let to = format!("docker://{}", self.place(to));
        let output = Command::new("skopeo")
            .args(["--insecure-policy", "copy", "--preserve-digests"])
            .args(["--src-tls-verify=false", "--dest-tls-verify=false"])
            .args([from, &to])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{printed}");
    }

    pub fn place(&self, rest: &str) -> String {
        format!("127.0.0.1:{}/{rest}", self.registry.port)
    }

    /// Signs in the older format, under a tag.
    pub fn sign(&self, key: &str, image: &str) {
        let (key, place) = (format!("--key={key}.key"), self.place(image));
        let arguments = [&["sign"], &OFFLINE[..], &OLDER, &[&key, &place]].concat();
        cosign(self.folder.path(), &arguments).unwrap();
    }

    /// Signs in the bundle format, as a referrer.
    pub fn attach(&self, key: &str, image: &str) {
        let (key, place) = (format!("--key={key}.key"), self.place(image));
        let arguments = [&["sign"], &OFFLINE[..], &[&key, &place]].concat();
        cosign(self.folder.path(), &arguments).unwrap();
    }

    /// Attaches a statement about an image that is not a signature.
    pub fn attest(&self, key: &str, image: &str) {
        let (key, place) = (format!("--key={key}.key"), self.place(image));
        std::fs::write(self.folder.path().join("said.json"), "{}").unwrap();
        let said = ["--predicate=said.json", "--type=https://said.example/v1"];
        let arguments = [&["attest"], &OFFLINE[..], &said, &[&key, &place]].concat();
        cosign(self.folder.path(), &arguments).unwrap();
    }

    pub fn verify(&self, key: &str, place: &str) -> Result<String, String> {
        let key = format!("--key={key}.pub");
        let arguments = ["verify", "--insecure-ignore-tlog=true", &key, place];
        cosign(self.folder.path(), &arguments)
    }

    /// Verifies the same in a layout.
    pub fn verify_layout(&self, key: &str, layout: &str) -> Result<String, String> {
        let key = format!("--key={key}.pub");
        let options = ["verify", "--insecure-ignore-tlog=true", "--local-image"];
        let arguments = [&options[..], &[&key, layout]].concat();
        cosign(self.folder.path(), &arguments)
    }

    /// Checks that the registry of a cluster, filled by an install, serves the signature of `trusted`.
    pub async fn is_served(&self, lock: &Lock) {
        let host = Sandbox::new();
        let (data, content) = (path("/data"), RegistryContent::new(lock));
        let missing = || seed::missing(host.host.as_ref(), &data, &content);
        let blobs: Arc<dyn Blobs> = Arc::new(self.http.cache().clone());
        let lacking = missing().await.unwrap();
        seed::seed(host.host.as_ref(), &data, lacking, blobs, &host.events)
            .await
            .unwrap();
        assert!(missing().await.unwrap().is_empty());
        for program in programs() {
            let folder = tempfile::tempdir().unwrap();
            std::os::unix::fs::symlink(host.at("/data"), folder.path().join("registry")).unwrap();
            let registry = Registry::start(&program, folder.path());
            let place = format!("127.0.0.1:{}/registry.example/team/signed:1", registry.port);
            self.verify("trusted", &place).unwrap();
            assert!(self.verify("other", &place).is_err());
        }
    }

    /// Resolves the two images with these `signatures` in the manifest.
    pub async fn resolve(&self, signatures: &str) -> Result<Vec<LockedImage>, FetchError> {
        self.resolve_again(signatures, None).await
    }

    pub async fn resolve_again(
        &self,
        signatures: &str,
        previous: Option<&Lock>,
    ) -> Result<Vec<LockedImage>, FetchError> {
        let names = [SIGNED, PLAIN].map(|name| name.parse().unwrap());
        self.resolve_names(signatures, previous, &names).await
    }

    /// Resolves these images with these `signatures` in the manifest.
    pub async fn resolve_names(
        &self,
        signatures: &str,
        previous: Option<&Lock>,
        names: &[ImageRef],
    ) -> Result<Vec<LockedImage>, FetchError> {
        let manifest = self.folder.path().join("manifest.yaml");
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {{name: m}}\nspec:\n  \
             architectures: [amd64]\n  kubernetes: {{versions: [\"1.36.3\"]}}\n  \
             signatures: {signatures}\n"
        );
        std::fs::write(&manifest, text).unwrap();
        let manifest = load_manifest(&manifest).unwrap();
        let catalog = Catalog::embedded().unwrap();
        let policies = Policies::load(&catalog, &manifest.signatures, &[])?;
        let resolver = Resolver::new(&self.http, &catalog, previous, &policies);
        let names = names.iter().cloned().collect();
        let mut images = resolver
            .pull(names, Default::default(), &[Arch::Amd64])
            .await?;
        images.sort_by(|a, b| b.name.cmp(&a.name));
        Ok(images)
    }

    /// Returns a bundle of images that are in the cache.
    pub fn bundle(&self, name: &str, images: Vec<LockedImage>) -> (String, Lock) {
        let (mut lock, _) = example(&[]);
        lock.images = images;
        lock.sort();
        let path = self.folder.path().join(name);
        let storage = Placement::plain(&lock);
        let (options, events) = (PackOptions::new(Level::MIN, 1), Events::silent());
        write(&path, &lock, &storage, self.http.cache(), options, &events).unwrap();
        (path.display().to_string(), lock)
    }
}
