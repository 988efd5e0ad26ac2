//! The components of a bundle and their relations. All lists are sorted, so that the same bundle gives the
//! same documents.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_types::Digest;

/// Maximum number of components.
const MOST_COMPONENTS: usize = 1_000_000;

/// The unique ID of a component: its package URL (purl), if it has one.
pub type Id = String;

/// The kind of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The bundle itself.
    Bundle,
    /// A downloaded file.
    File,
    /// One platform of an image.
    Image,
    /// One manifest of an artifact in an OCI registry that is not an image.
    Artifact,
    /// A program inside a file or an image.
    Program,
    /// An OS package.
    Package,
    /// A Go module, or Go's standard library.
    Module,
    /// A Rust crate.
    Crate,
}

impl Kind {
    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::File => "file",
            Self::Image => "image",
            Self::Artifact => "artifact",
            Self::Program => "program",
            Self::Package => "package",
            Self::Module => "go module",
            Self::Crate => "crate",
        }
    }
}

/// The name and the version of a component in vulnerability databases.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The ecosystem in OSV's notation: `Go`, `Debian:12`.
    pub ecosystem: String,
    /// The name in the ecosystem; for most distributions that of the source package.
    pub name: String,
    /// The version in the format of the ecosystem.
    pub version: String,
}

/// A component of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    pub id: Id,
    pub kind: Kind,
    pub name: String,
    /// `None` if the version is unknown.
    pub version: Option<String>,
    /// The package URL (<https://github.com/package-url/purl-spec>).
    pub purl: Option<String>,
    /// The licence in the package database.
    pub licence: Option<String>,
    /// The maintainer or vendor.
    pub supplier: Option<String>,
    /// SHA-256 of the file, or of an image's manifest.
    pub digest: Option<Digest>,
    /// The URL of the download.
    pub source: Option<String>,
    /// Locations: an image or file of the bundle, and the path in it.
    pub places: BTreeSet<String>,
    /// Names and versions in vulnerability databases.
    pub subjects: BTreeSet<Subject>,
}

impl Component {
    /// Creates a component with a name only.
    pub fn new(id: Id, kind: Kind, name: &str) -> Self {
        Self {
            id,
            kind,
            name: name.to_owned(),
            version: None,
            purl: None,
            licence: None,
            supplier: None,
            digest: None,
            source: None,
            places: BTreeSet::new(),
            subjects: BTreeSet::new(),
        }
    }

    /// Creates a component whose ID is its package URL.
    pub fn addressed(purl: String, kind: Kind, name: &str, version: Option<&str>) -> Self {
        Self {
            version: version.map(str::to_owned),
            purl: Some(purl.clone()),
            ..Self::new(purl, kind, name)
        }
    }
}

/// The relation of a component to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It contains the other one.
    Contains,
    /// It is a program, and the other one is compiled into it.
    BuiltFrom,
}

/// Components and their relations.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    components: BTreeMap<Id, Component>,
    relations: BTreeMap<Id, BTreeSet<(Relation, Id)>>,
    above: BTreeMap<Id, BTreeSet<Id>>,
}

impl Graph {
    /// Adds a component below another one. If the component exists, merges its locations and subjects.
    ///
    /// # Errors
    /// There are more than [`MOST_COMPONENTS`].
    pub fn add(
        &mut self,
        parent: &str,
        relation: Relation,
        component: Component,
    ) -> Result<Id, String> {
        let id = self.put(component)?;
        self.relate(parent, relation, &id);
        Ok(id)
    }

    /// Adds a component without a relation.
    ///
    /// # Errors
    /// As [`Graph::add`].
    pub fn put(&mut self, component: Component) -> Result<Id, String> {
        let id = component.id.clone();
        if let Some(known) = self.components.get_mut(&id) {
            known.places.extend(component.places);
            known.subjects.extend(component.subjects);
            known.digest = known.digest.or(component.digest);
        } else if self.components.len() < MOST_COMPONENTS {
            self.components.insert(id.clone(), component);
        } else {
            return Err("it has more components than a bundle can have".to_owned());
        }
        Ok(id)
    }

    /// Adds a relation between two components.
    pub fn relate(&mut self, parent: &str, relation: Relation, child: &str) {
        if parent != child {
            let below = self.relations.entry(parent.to_owned()).or_default();
            below.insert((relation, child.to_owned()));
            let above = self.above.entry(child.to_owned()).or_default();
            above.insert(parent.to_owned());
        }
    }

    /// Returns all components by kind and ID.
    pub fn components(&self) -> Vec<&Component> {
        let mut all: Vec<&Component> = self.components.values().collect();
        all.sort_by_key(|component| (component.kind, &component.id));
        all
    }

    /// Returns the component with this ID.
    pub fn get(&self, id: &str) -> Option<&Component> {
        self.components.get(id)
    }

    /// Returns the components that a component contains or was built from.
    pub fn below(&self, id: &str) -> impl Iterator<Item = (Relation, &Id)> {
        let below = self.relations.get(id).into_iter().flatten();
        below.map(|(relation, id)| (*relation, id))
    }

    /// Returns the locations of a component, or those of the programs that were built from it.
    pub fn places(&self, component: &Component) -> BTreeSet<String> {
        if !component.places.is_empty() {
            return component.places.clone();
        }
        let above = self.above.get(&component.id).into_iter().flatten();
        let above = above.filter_map(|id| self.get(id));
        above.flat_map(|program| program.places.clone()).collect()
    }
}
