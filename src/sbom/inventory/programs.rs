//! Adds programs and the modules and crates that they were built from.

use super::InventoryBuilder;
use crate::elf::{Made, Program};
use crate::go::BuildInfo;
use crate::graph::{Component, Kind, Relation, Subject};
use crate::text::clean;
use crate::{purl, rust};

/// The file or image that contains a program.
pub(super) struct Site<'a> {
    /// The ID of its component.
    pub id: &'a str,
    /// Its description for messages.
    pub place: String,
    /// The version that its publisher gave it.
    pub version: Option<&'a str>,
    /// Whether this is certainly the version of the program.
    pub is_program_version: bool,
}

impl InventoryBuilder<'_> {
    /// Adds a program and its modules or crates.
    pub(super) fn program(
        &mut self,
        site: &Site<'_>,
        path: &str,
        program: &Program,
    ) -> Result<(), String> {
        let place = match path {
            "" => site.place.clone(),
            path => clean(&format!("{}: /{path}", site.place)),
        };
        let version = match &program.made {
            Made::Go(info) => self.main_version(site, info),
            Made::Crates(_) => None,
            // Libraries and programs without build information. The OS packages describe them.
            Made::Unknown | Made::OldGo(_) | Made::Rust(_) => return Ok(()),
        };
        let id = match path {
            "" => site.id.to_owned(),
            path => {
                let name = clean(path.rsplit('/').next().unwrap_or(path));
                let address = format!("kubexm:program:{}", program.digest);
                let mut component = Component::new(address, Kind::Program, &name);
                component.version.clone_from(&version);
                component.digest = Some(program.digest);
                component.places.insert(place.clone());
                self.graph.add(site.id, Relation::Contains, component)?
            }
        };
        match &program.made {
            Made::Go(info) => self.go(&id, version.as_deref(), &place, info),
            Made::Crates(crates) => self.crates(&id, &place, crates),
            Made::Unknown | Made::OldGo(_) | Made::Rust(_) => Ok(()),
        }
    }

    fn go(
        &mut self,
        id: &str,
        version: Option<&str>,
        place: &str,
        info: &BuildInfo,
    ) -> Result<(), String> {
        let lost = "kubexm cannot find its vulnerabilities";
        match info.standard_library() {
            Some(version) => self.module(id, place, "stdlib", Some(&version))?,
            None => {
                let go = &info.go;
                let note =
                    format!("{place}: built by '{go}', which is not a release of Go; {lost}");
                self.note(note);
            }
        }
        if let Some(main) = &info.main {
            if version.is_none() {
                let name = &main.path;
                self.note(format!(
                    "{place}: the build information does not contain the version of {name}; {lost}"
                ));
            }
            self.module(id, place, &main.path, version)?;
        }
        let mut unknown: Vec<&str> = Vec::new();
        for module in &info.modules {
            let version = module.known_version();
            unknown.extend(version.is_none().then_some(module.path.as_str()));
            self.module(id, place, &module.path, version)?;
        }
        if let Some(first) = unknown.first() {
            self.note(format!(
                "{place}: the build information does not contain the versions of {} modules, such as \
                 {first}; kubexm cannot find their vulnerabilities",
                unknown.len()
            ));
        }
        Ok(())
    }

    /// Returns the version of a program's main module. If the build information does not contain it, this is
    /// the version of the file in the lock. For an image it is the tag, if a file with the same module has
    /// this version.
    fn main_version(&mut self, site: &Site<'_>, info: &BuildInfo) -> Option<String> {
        let main = info.main.as_ref()?;
        let published = site.version.map(str::to_owned);
        if let (true, Some(published)) = (site.is_program_version, &published) {
            self.releases.insert((main.path.clone(), published.clone()));
        }
        if let Some(version) = main.known_version() {
            return Some(version.to_owned());
        }
        let published = published?;
        let known = self
            .releases
            .contains(&(main.path.clone(), published.clone()));
        known.then_some(published)
    }

    fn module(
        &mut self,
        program: &str,
        place: &str,
        path: &str,
        version: Option<&str>,
    ) -> Result<(), String> {
        let Ok(address) = purl::go_module(path, version) else {
            self.note(format!("{place}: a module without a name was left out"));
            return Ok(());
        };
        let mut component = Component::addressed(address, Kind::Module, path, version);
        component.subjects.extend(version.map(|version| Subject {
            ecosystem: "Go".to_owned(),
            name: path.to_owned(),
            version: version.trim_start_matches('v').to_owned(),
        }));
        self.graph.add(program, Relation::BuiltFrom, component)?;
        Ok(())
    }

    fn crates(&mut self, program: &str, place: &str, crates: &[rust::Crate]) -> Result<(), String> {
        for one in crates {
            let Ok(address) = purl::rust_crate(&one.name, &one.version) else {
                self.note(format!("{place}: a crate without a name was left out"));
                continue;
            };
            let mut component =
                Component::addressed(address, Kind::Crate, &one.name, Some(&one.version));
            if one.source == "crates.io" {
                component.subjects.insert(Subject {
                    ecosystem: "crates.io".to_owned(),
                    name: one.name.clone(),
                    version: one.version.clone(),
                });
            }
            self.graph.add(program, Relation::BuiltFrom, component)?;
        }
        Ok(())
    }
}
