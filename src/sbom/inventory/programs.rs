//! Programs, and the modules and crates that they were built from.

use super::Gathering;
use crate::elf::{Made, Program};
use crate::go::BuildInfo;
use crate::graph::{Component, Kind, Relation, Subject};
use crate::text::clean;
use crate::{purl, rust};

/// Where a program was found.
pub(super) struct Site<'a> {
    /// The component that it lies in.
    pub id: &'a str,
    /// For people.
    pub place: String,
    /// The version by which the whole thing was published.
    pub version: Option<&'a str>,
    /// Whether that is surely the program's own version.
    pub own: bool,
}

impl Gathering<'_> {
    /// Adds a program, and what it was built from.
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
            // Libraries, and programs of packages: nothing is known of them that the packages would
            // not say.
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
        let lost = "vulnerabilities of it cannot be found";
        match info.standard_library() {
            Some(version) => self.module(id, place, "stdlib", Some(&version))?,
            None => {
                let go = &info.go;
                let note = format!("{place}: built by '{go}', which is no release of Go; {lost}");
                self.note(note);
            }
        }
        if let Some(main) = &info.main {
            if version.is_none() {
                let name = &main.path;
                self.note(format!(
                    "{place}: the build does not say which version of {name} it is; {lost}"
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
                "{place}: the build does not say which version {} of its modules are, as {first}; \
                 vulnerabilities of them cannot be found",
                unknown.len()
            ));
        }
        Ok(())
    }

    /// The version of a program's main module. Where the build does not say, the lock does: a file of
    /// the bundle has the version by which it was published, and an image of the same module too if
    /// its tag is that very version.
    fn main_version(&mut self, site: &Site<'_>, info: &BuildInfo) -> Option<String> {
        let main = info.main.as_ref()?;
        let published = site.version.map(str::to_owned);
        if let (true, Some(published)) = (site.own, &published) {
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
