//! The packages of a set's repositories, indexed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::evr::Range;
use super::package::Package;
use super::relation::{Capability, Relation};

/// All packages of a set's repositories, indexed by what they provide.
pub struct Universe<'a> {
    /// All packages; other structures refer to them by index.
    pub packages: &'a [Package],
    provided: HashMap<&'a str, Vec<(usize, Option<&'a Range>)>>,
    files: HashMap<&'a str, Vec<usize>>,
    by_name: HashMap<&'a str, Vec<usize>>,
    missed_a_file: Cell<bool>,
}

impl<'a> Universe<'a> {
    /// Indexes packages by what they provide.
    pub fn new(packages: &'a [Package]) -> Self {
        let mut universe = Self {
            packages,
            provided: HashMap::new(),
            files: HashMap::new(),
            by_name: HashMap::new(),
            missed_a_file: Cell::new(false),
        };
        for (at, package) in packages.iter().enumerate() {
            universe.by_name.entry(&package.name).or_default().push(at);
            for given in &package.provides {
                let place = universe.provided.entry(&given.name).or_default();
                place.push((at, given.range.as_ref()));
            }
            for file in &package.files {
                universe.files.entry(file).or_default().push(at);
            }
        }
        universe
    }

    /// Returns the paths that packages require and no known package has.
    pub fn unknown_files(&self) -> BTreeSet<String> {
        let mut unknown = BTreeSet::new();
        for package in self.packages {
            for relation in package.requires.iter().chain(&package.conflicts) {
                relation.each_capability(&mut |wanted| {
                    if wanted.name.starts_with('/') && self.providers(wanted).is_empty() {
                        unknown.insert(wanted.name.clone());
                    }
                });
            }
        }
        unknown
    }

    /// Whether a lookup asked for a file that no known package has.
    pub fn missed_a_file(&self) -> bool {
        self.missed_a_file.get()
    }

    fn providers(&self, wanted: &Capability) -> Vec<usize> {
        let provided = self
            .provided
            .get(wanted.name.as_str())
            .into_iter()
            .flatten();
        let mut found: Vec<usize> = provided
            .filter(|(_, range)| wanted.takes(*range))
            .map(|(at, _)| *at)
            .collect();
        found.extend(self.files.get(wanted.name.as_str()).into_iter().flatten());
        found.sort_unstable();
        found.dedup();
        if found.is_empty() && wanted.name.starts_with('/') {
            self.missed_a_file.set(true);
        }
        found
    }

    /// Returns the providers in dnf's order of preference: the package of that name, the newest version
    /// of each name, then the smallest. Packages that another one obsoletes come last.
    pub fn preferred(&self, wanted: &Capability) -> Vec<usize> {
        let found = self.providers(wanted);
        let replaced = |at: &usize| {
            let old = &self.packages[*at];
            found
                .iter()
                .any(|other| self.packages[*other].obsoletes(old))
        };
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let (old, current): (Vec<usize>, Vec<usize>) = found.iter().partition(|at| replaced(at));
        for at in current {
            by_name.entry(&self.packages[at].name).or_default().push(at);
        }
        let mut names: Vec<(&str, Vec<usize>)> = by_name.into_iter().collect();
        for (_, versions) in &mut names {
            versions.sort_by(|a, b| self.packages[*a].preference(&self.packages[*b]));
        }
        names.sort_by_key(|(name, versions)| {
            let newest = versions.first().map(|at| self.packages[*at].installed);
            (*name != wanted.name, newest)
        });
        let current = names.into_iter().flat_map(|(_, versions)| versions);
        current.chain(old).collect()
    }

    /// Returns the packages for a name that the user wrote: the package itself, or providers of the name. A
    /// package that only obsoletes the name does not count, because a host could not find it by that name.
    pub fn named(&self, name: &str) -> Vec<usize> {
        self.preferred(&Capability::any(name))
    }

    /// Returns the packages that cannot be installed with a package: its other versions, those it obsoletes,
    /// and those it conflicts with. Rich conflicts are left to the host's dnf.
    pub fn enemies(&self, at: usize) -> BTreeSet<usize> {
        let package = &self.packages[at];
        let same_name = self
            .by_name
            .get(package.name.as_str())
            .into_iter()
            .flatten();
        let mut enemies: BTreeSet<usize> = same_name.copied().filter(|other| *other < at).collect();
        for old in &package.obsoletes {
            let olds = self.by_name.get(old.name.as_str()).into_iter().flatten();
            enemies.extend(olds.filter(|other| package.obsoletes(&self.packages[**other])));
        }
        for relation in &package.conflicts {
            if let Relation::Plain(wanted) = relation {
                enemies.extend(self.providers(wanted));
            }
        }
        enemies.remove(&at);
        enemies
    }
}
