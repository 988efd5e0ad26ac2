//! Builds the graph of components from the scanned blobs.

mod programs;

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Component, Graph, Id, Kind, Relation};
use super::layer_scanner::{Find, Found, Layer};
use super::os::{Manager, Package, Release};
use super::scan::{Content, Contents, is_layer, scan};
use super::text::clean;
use super::whiteouts::stack;
use super::{SbomError, ecosystem, purl};
use kubexm_bundle::Bundle;
use kubexm_bundle::lock::{
    LockedFile, LockedImage, LockedPackage, LockedPackages, PlatformManifest,
};
use kubexm_types::Digest;
use programs::Site;

/// The components of a bundle.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// The name of the bundle.
    pub name: String,
    /// SHA-256 of the lock, which identifies the content.
    pub lock: Digest,
    pub graph: Graph,
    /// The ID of the bundle in the graph.
    pub root: Id,
    /// Sentences about content that cannot be read or identified.
    pub notes: BTreeSet<String>,
}

impl Inventory {
    /// Scans a bundle on `threads` threads.
    ///
    /// # Errors
    /// The bundle is damaged, or it exceeds a limit.
    pub fn scan(bundle: &Bundle, threads: usize) -> Result<Self, SbomError> {
        let contents = scan(bundle, threads)?;
        let lock = bundle.lock();
        let root = format!("kubexm:bundle:{}", bundle.lock_digest());
        let mut builder = InventoryBuilder {
            contents: &contents,
            root: root.clone(),
            graph: Graph::default(),
            notes: BTreeSet::new(),
            releases: BTreeSet::new(),
        };
        let added = builder.add_all(lock);
        added.map_err(|reason| SbomError::TooMuch {
            path: bundle.path().display().to_string(),
            reason,
        })?;
        Ok(Self {
            name: lock.name.clone(),
            lock: bundle.lock_digest(),
            graph: builder.graph,
            root,
            notes: builder.notes,
        })
    }
}

struct InventoryBuilder<'a> {
    contents: &'a Contents,
    root: Id,
    graph: Graph,
    notes: BTreeSet<String>,
    /// Modules and versions of the files in the bundle.
    releases: BTreeSet<(String, String)>,
}

impl InventoryBuilder<'_> {
    /// Adds a note. It may contain paths and reasons from untrusted input.
    fn note(&mut self, text: String) {
        self.notes.insert(clean(&text));
    }

    fn add_all(&mut self, lock: &kubexm_bundle::Lock) -> Result<(), String> {
        let mut bundle = Component::new(self.root.clone(), Kind::Bundle, &lock.name);
        bundle.digest = None;
        self.graph.put(bundle)?;
        for file in &lock.files {
            self.file(file)?;
        }
        for image in &lock.images {
            for platform in &image.platforms {
                self.image(image, platform)?;
            }
        }
        for set in &lock.packages {
            self.package_set(set)?;
        }
        Ok(())
    }

    fn file(&mut self, file: &LockedFile) -> Result<(), String> {
        let version = file.version.to_string();
        let place = format!("{} {version} {}", file.component, file.arch);
        let address = purl::file(file).map_err(|error| format!("{place}: {error}"))?;
        let mut component =
            Component::addressed(address, Kind::File, &file.component, Some(&version));
        component.digest = Some(file.digest);
        component.source = Some(file.url.to_string());
        component.places.insert(place.clone());
        let root = self.root.clone();
        let id = self.graph.add(&root, Relation::Contains, component)?;
        let finds = match self.contents.get(&file.digest) {
            Some(Ok(Content::Programs(finds))) => finds.as_slice(),
            Some(Err(reason)) => {
                self.note(format!("{place} cannot be read: {reason}"));
                &[]
            }
            _ => &[],
        };
        let published = format!("v{version}");
        for find in finds {
            let site = Site {
                id: &id,
                place: place.clone(),
                version: Some(&published),
                is_program_version: true,
            };
            if let Found::Program(program) = &find.what {
                self.program(&site, &find.path, program)?;
            }
        }
        Ok(())
    }

    fn image(&mut self, image: &LockedImage, platform: &PlatformManifest) -> Result<(), String> {
        let place = match platform.arch {
            Some(arch) => format!("{} ({arch})", image.name),
            None => image.name.to_string(),
        };
        let address = purl::image(image, platform).map_err(|error| format!("{place}: {error}"))?;
        let name = format!("{}/{}", image.name.registry(), image.name.repository());
        let kind = match platform.arch {
            Some(_) => Kind::Image,
            None => Kind::Artifact,
        };
        let mut component = Component::addressed(address, kind, &name, image.name.tag());
        component.digest = Some(platform.manifest.digest);
        component.places.insert(place.clone());
        let root = self.root.clone();
        let id = self.graph.add(&root, Relation::Contains, component)?;
        // The layers of another artifact are not those of a file system.
        if platform.arch.is_none() {
            return Ok(());
        }
        let mut layers: Vec<&Layer> = Vec::new();
        for blob in &platform.blobs {
            match self.contents.get(&blob.digest) {
                Some(Ok(Content::Layer(layer))) => layers.push(layer),
                Some(Err(reason)) => {
                    let digest = blob.digest;
                    let note = format!("{place}: layer {digest} cannot be read: {reason}");
                    self.note(note);
                }
                _ if is_layer(&blob.media_type) => {
                    self.note(format!("{place}: layer {} was not read", blob.digest));
                }
                _ => {}
            }
        }
        let finds = stack(layers.into_iter());
        let release = release(&finds);
        for find in finds {
            let site = Site {
                id: &id,
                place: place.clone(),
                version: image.name.tag(),
                is_program_version: false,
            };
            match &find.what {
                Found::Program(program) => self.program(&site, &find.path, program)?,
                Found::Packages(packages) => {
                    let place = clean(&format!("{place}: /{}", find.path));
                    for package in packages {
                        self.package(&id, package, &release, &place)?;
                    }
                }
                Found::Unreadable(reason) => {
                    self.note(format!("{place}: /{} {reason}", find.path));
                }
                Found::Release(_) | Found::Later(..) => {}
            }
        }
        Ok(())
    }

    fn package_set(&mut self, set: &LockedPackages) -> Result<(), String> {
        let release = ecosystem::release(&set.distribution, &set.release);
        let place = format!(
            "packages for {} {} {}",
            set.distribution, set.release, set.arch
        );
        let listed = match self.contents.get(&set.index.digest) {
            Some(Ok(Content::Packages(packages))) => packages.as_slice(),
            _ => &[],
        };
        let listed: BTreeMap<(&str, &str), &Package> = listed
            .iter()
            .map(|package| ((package.name.as_str(), package.version.as_str()), package))
            .collect();
        let root = self.root.clone();
        for locked in &set.packages {
            let key = (locked.name.as_str(), locked.version.as_str());
            let package = match listed.get(&key) {
                Some(package) => (*package).clone(),
                None => from_lock(locked, set.arch.name()),
            };
            let Some(id) = self.package(&root, &package, &release, &place)? else {
                continue;
            };
            let mut known = Component::new(id, Kind::Package, &package.name);
            known.digest = Some(locked.digest);
            self.graph.put(known)?;
        }
        Ok(())
    }

    /// Adds a package of an operating system; returns `None` for one without a name.
    fn package(
        &mut self,
        parent: &str,
        package: &Package,
        release: &Release,
        place: &str,
    ) -> Result<Option<Id>, String> {
        let Ok(address) = purl::os_package(package, release) else {
            self.note(format!("{place}: a package without a name was left out"));
            return Ok(None);
        };
        let mut component = Component::addressed(
            address,
            Kind::Package,
            &package.name,
            Some(&package.version),
        );
        component.licence = package.licence.clone();
        component.supplier = package.supplier.clone();
        component.places.insert(place.to_owned());
        component
            .subjects
            .extend(ecosystem::subjects(package, release));
        if component.subjects.is_empty() {
            let system = if release.id.is_empty() {
                "an operating system without os-release".to_owned()
            } else {
                release.distro()
            };
            self.note(format!(
                "{place}: kubexm cannot find vulnerabilities of packages of {system}: it does not know its \
                 name in OSV"
            ));
        }
        let id = self.graph.add(parent, Relation::Contains, component)?;
        Ok(Some(id))
    }
}

/// Returns the operating system of an image. `/etc/os-release` takes precedence over
/// `/usr/lib/os-release`.
fn release(finds: &[&Find]) -> Release {
    let releases = finds.iter().filter_map(|find| match &find.what {
        Found::Release(release) => Some(release.clone()),
        _ => None,
    });
    // Finds are sorted by path, so `etc` is first.
    releases.into_iter().next().unwrap_or_default()
}

/// Returns a package with the information in the lock, if the index does not have it.
fn from_lock(locked: &LockedPackage, arch: &str) -> Package {
    let rpm = locked.file_name.strip_suffix(".rpm");
    let (epoch, version) = match locked.version.split_once(':') {
        Some((epoch, rest)) if rpm.is_some() => (epoch.parse().ok(), rest),
        _ => (None, locked.version.as_str()),
    };
    let own = rpm.and_then(|stem| stem.rsplit_once('.'));
    Package {
        manager: if rpm.is_some() {
            Manager::Rpm
        } else {
            Manager::Dpkg
        },
        name: locked.name.clone(),
        version: version.to_owned(),
        epoch: epoch.filter(|epoch| *epoch > 0),
        arch: own.map_or(arch, |(_, arch)| arch).to_owned(),
        source: None,
        licence: None,
        supplier: None,
    }
}
