//! What a bundle is made of, and what of it contains or was built from what. All lists are sorted, so
//! that the same bundle gives the same documents.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_types::Digest;

/// More than this is no bundle that anybody could install.
const MOST_COMPONENTS: usize = 1_000_000;

/// A component's address: its purl where it has one, and unique in any case.
pub type Id = String;

/// What kind of thing a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The bundle itself.
    Bundle,
    /// A downloaded file.
    File,
    /// One platform of an image.
    Image,
    /// A program inside a file or an image.
    Program,
    /// A package of an operating system.
    Package,
    /// A module of Go, or its standard library.
    Module,
    /// A crate of Rust.
    Crate,
}

impl Kind {
    /// For people, in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::File => "file",
            Self::Image => "image",
            Self::Program => "program",
            Self::Package => "package",
            Self::Module => "go module",
            Self::Crate => "crate",
        }
    }
}

/// By which name and version vulnerability databases know a component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// As OSV writes it: `Go`, `Debian:12`.
    pub ecosystem: String,
    /// The name there: for most distributions, the source package's.
    pub name: String,
    /// The version in the ecosystem's own form.
    pub version: String,
}

/// A thing in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its address.
    pub id: Id,
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its version, if that is known.
    pub version: Option<String>,
    /// Its package address.
    pub purl: Option<String>,
    /// What its database says of its licence.
    pub licence: Option<String>,
    /// Who maintains or sells it.
    pub supplier: Option<String>,
    /// SHA-256 of what it is as a file, or of an image's manifest.
    pub digest: Option<Digest>,
    /// Where it comes from.
    pub source: Option<String>,
    /// Where it was found: an image or file of the bundle, and the path in it.
    pub places: BTreeSet<String>,
    /// How vulnerability databases know it.
    pub subjects: BTreeSet<Subject>,
}

impl Component {
    /// A component of which nothing else is known.
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

    /// A component whose address is its purl.
    pub fn addressed(purl: String, kind: Kind, name: &str, version: Option<&str>) -> Self {
        Self {
            version: version.map(str::to_owned),
            purl: Some(purl.clone()),
            ..Self::new(purl, kind, name)
        }
    }
}

/// How a component stands to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// The other one is inside it.
    Contains,
    /// It is a program, and the other one was compiled into it.
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
    /// Adds a component below another one. What is known already gains what is new.
    ///
    /// # Errors
    /// There are more than any bundle has.
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

    /// Adds a component without place.
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

    /// Says how two components stand to each other.
    pub fn relate(&mut self, parent: &str, relation: Relation, child: &str) {
        if parent != child {
            let below = self.relations.entry(parent.to_owned()).or_default();
            below.insert((relation, child.to_owned()));
            let above = self.above.entry(child.to_owned()).or_default();
            above.insert(parent.to_owned());
        }
    }

    /// All components, by kind and address.
    pub fn components(&self) -> Vec<&Component> {
        let mut all: Vec<&Component> = self.components.values().collect();
        all.sort_by_key(|component| (component.kind, &component.id));
        all
    }

    /// A component.
    pub fn get(&self, id: &str) -> Option<&Component> {
        self.components.get(id)
    }

    /// What a component contains, or was built from.
    pub fn below(&self, id: &str) -> impl Iterator<Item = (Relation, &Id)> {
        let below = self.relations.get(id).into_iter().flatten();
        below.map(|(relation, id)| (*relation, id))
    }

    /// Where a component is: its own places, or those of the programs that were built from it.
    pub fn places(&self, component: &Component) -> BTreeSet<String> {
        if !component.places.is_empty() {
            return component.places.clone();
        }
        let above = self.above.get(&component.id).into_iter().flatten();
        let above = above.filter_map(|id| self.get(id));
        above.flat_map(|program| program.places.clone()).collect()
    }
}
