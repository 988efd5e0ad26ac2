//! The dependencies of a list of package names, without conflicts among them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::evr::Range;
use super::package::Package;
use super::relation::{Capability, Relation};
use super::rules::{self, Clauses, Rules};
use super::solver::take;

/// Maximum number of reasons in the message for a name that cannot be resolved.
const MOST_REASONS: usize = 8;

/// All packages of a set's repositories, indexed by what they provide.
pub struct Universe<'a> {
    /// All packages; other structures refer to them by index.
    pub packages: &'a [Package],
    provided: HashMap<&'a str, Vec<(usize, Option<&'a Range>)>>,
    files: HashMap<&'a str, Vec<usize>>,
    by_name: HashMap<&'a str, Vec<usize>>,
    missed_a_file: Cell<bool>,
}

/// Returns the named packages (or providers of the names) and their dependencies, sorted by name. The
/// packages in `base` and their dependencies are assumed to be on every host and are left out.
///
/// # Errors
/// Every name that cannot be resolved, with the reasons.
pub fn closure<'a>(
    universe: &Universe<'a>,
    names: &[String],
    base: &[String],
) -> Result<Vec<&'a Package>, Vec<String>> {
    let hosts = choose(universe, base, &BTreeSet::new())?;
    let chosen = choose(universe, names, &hosts)?;
    let mut chosen: Vec<&Package> = chosen
        .difference(&hosts)
        .map(|at| &universe.packages[*at])
        .collect();
    chosen.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    Ok(chosen)
}

/// Selects the packages that the names need in addition to those that are present.
fn choose(
    universe: &Universe<'_>,
    names: &[String],
    there: &BTreeSet<usize>,
) -> Result<BTreeSet<usize>, Vec<String>> {
    let named: Vec<(&String, Vec<usize>)> = names
        .iter()
        .map(|name| (name, universe.named(name)))
        .collect();
    let all = named.iter().flat_map(|(_, found)| found).chain(there);
    let mut rules = Rules::new(universe, all.copied().collect());
    for at in there {
        let words = format!("{} is on every host", universe.packages[*at].label());
        rules.add(vec![take(*at)], words);
    }
    let want = |rules: &mut Rules, (name, found): &(&String, Vec<usize>)| {
        let clause = found.iter().copied().map(take).collect();
        rules.add(clause, format!("'{name}' is requested"));
    };
    let mut problems = Vec::new();
    for one in &named {
        let (name, found) = one;
        let mut alone = rules.clone();
        want(&mut alone, one);
        match alone.solver.clone().solve() {
            Ok(_) => {}
            Err(_) if found.is_empty() => problems.push(format!("package '{name}' does not exist")),
            Err(core) => {
                problems.push(format!(
                    "'{name}' cannot be installed: {}",
                    reasons(&alone, &core)
                ));
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    named.iter().for_each(|one| want(&mut rules, one));
    match rules.solver.clone().solve() {
        Ok(chosen) => Ok(with_conditions(universe, &rules, chosen)),
        Err(core) => {
            let reasons = reasons(&rules, &core);
            Err(vec![format!(
                "the packages cannot be installed together: {reasons}"
            )])
        }
    }
}

fn reasons(rules: &Rules, core: &BTreeSet<usize>) -> String {
    if core.is_empty() {
        return "the solver gave up after too many conflicts; request fewer packages or exact \
                versions"
            .to_owned();
    }
    let mut words: Vec<&str> = core.iter().map(|number| rules.words(*number)).collect();
    words.dedup();
    // The most informative reason is a missing provider.
    words.sort_by_key(|words| !words.ends_with("provides"));
    let more = words.len().saturating_sub(MOST_REASONS);
    words.truncate(MOST_REASONS);
    match more {
        0 => words.join("; "),
        _ => format!("{}; and {more} more", words.join("; ")),
    }
}

/// Adds packages behind conditions that are true on some hosts only, if possible, because the packages of a
/// host are unknown here. The host's dnf installs them if it needs them.
fn with_conditions(
    universe: &Universe<'_>,
    rules: &Rules,
    mut chosen: BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    loop {
        let fresh: Vec<usize> = chosen.difference(&seen).copied().collect();
        seen.extend(&fresh);
        let relations = fresh.iter().flat_map(|at| &universe.packages[*at].requires);
        let parts = relations.flat_map(|relation| match relation {
            Relation::When {
                wanted, otherwise, ..
            } => std::iter::once(wanted).chain(otherwise).collect(),
            _ => Vec::new(),
        });
        let mut missing: Vec<Clauses> = parts
            .map(|part| rules::missing(universe, part, &chosen))
            .collect();
        missing.retain(|clauses| !clauses.is_empty());
        if missing.is_empty() {
            return chosen;
        }
        // Usually all of them can be installed, so that one attempt is enough.
        if let Ok(larger) = rules.with(&chosen, &missing).solver.solve() {
            chosen = larger;
            continue;
        }
        for one in missing.chunks(1) {
            if let Ok(larger) = rules.with(&chosen, one).solver.solve() {
                chosen = larger;
            }
        }
    }
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
            versions.sort_by(|a, b| {
                let (a, b) = (&self.packages[*a], &self.packages[*b]);
                // For equal versions, the first repository is preferred.
                let native = |package: &Package| package.arch != "noarch";
                b.evr
                    .compare(&a.evr)
                    .then_with(|| native(b).cmp(&native(a)))
            });
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
    fn named(&self, name: &str) -> Vec<usize> {
        self.preferred(&Capability::any(name))
    }

    /// Returns all packages that any choice may lead to.
    pub fn reach(&self, start: Vec<usize>) -> BTreeSet<usize> {
        let (mut open, mut reached) = (start, BTreeSet::new());
        while let Some(at) = open.pop() {
            if reached.insert(at) {
                for relation in &self.packages[at].requires {
                    relation.each_capability(&mut |wanted| open.extend(self.providers(wanted)));
                }
            }
        }
        reached
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

#[cfg(test)]
mod tests {
    use super::super::package_example as package;
    use super::*;

    fn solve(packages: &[Package], names: &[&str]) -> Result<Vec<String>, Vec<String>> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let universe = Universe::new(packages);
        let found = closure(&universe, &names, &["base".to_owned()])?;
        Ok(found.iter().map(|package| package.label()).collect())
    }

    fn base() -> Package {
        package("base 1-1", &["libc"], &[])
    }

    #[test]
    fn a_base_is_left_out_with_what_it_needs() {
        let packages = [
            base(),
            package("libc 1-1", &[], &[]),
            package("tool 1-1", &["libc", "base", "lib >= 2"], &[]),
            package("lib 1-1", &[], &[]),
            package("lib 2-1", &[], &[]),
            package("lib 3-1", &["absent"], &[]),
        ];
        // The newest version cannot be installed: the next one is selected.
        assert_eq!(
            solve(&packages, &["tool"]).unwrap(),
            ["lib-2-1.noarch", "tool-1-1.noarch"]
        );
    }

    #[test]
    fn conflicts_are_avoided_by_another_choice() {
        let mut light = package("light 1-1", &[], &["web"]);
        light.conflicts = vec![Relation::parse("full").unwrap()];
        let mut heavy = package("heavy 1-1", &[], &["web"]);
        heavy.installed = 9;
        let packages = [
            base(),
            package("libc 1-1", &[], &[]),
            package("tool 1-1", &["web", "other"], &[]),
            light,
            heavy,
            package("other 1-1", &["full"], &[]),
            package("full 1-1", &[], &[]),
        ];
        let found = solve(&packages, &["tool"]).unwrap();
        assert!(found.contains(&"heavy-1-1.noarch".to_owned()), "{found:?}");
        assert!(!found.contains(&"light-1-1.noarch".to_owned()), "{found:?}");
    }

    #[test]
    fn everything_missing_is_named_at_once_with_its_reasons() {
        let packages = [
            base(),
            package("libc 1-1", &[], &[]),
            package("tool 1-1", &["lib"], &[]),
            package("lib 1-1", &["deep >= 3"], &[]),
            package("deep 2-1", &[], &[]),
        ];
        let problems = solve(&packages, &["tool", "nothing"]).unwrap_err();
        insta::assert_snapshot!(problems.join("\n"), @"
        'tool' cannot be installed: lib-1-1.noarch requires deep >= 3, which no package provides; tool-1-1.noarch requires lib; 'tool' is requested
        package 'nothing' does not exist
        ");
    }

    #[test]
    fn rich_dependencies_hold_and_conditions_are_carried() {
        let packages = [
            base(),
            package("libc 1-1", &[], &[]),
            package(
                "a 1-1",
                &["(x or y)", "(p if q)", "(s and t)", "(u(1) with u(2))"],
                &[],
            ),
            package("y 1-1", &[], &[]),
            package("p 1-1", &[], &[]),
            package("s 1-1", &[], &[]),
            package("t 1-1", &["(z unless q)"], &[]),
            package("z 1-1", &[], &[]),
            package("u1 1-1", &[], &["u(1)"]),
            package("u2 1-1", &[], &["u(1)", "u(2)"]),
        ];
        let found = solve(&packages, &["a"]).unwrap();
        let names: Vec<&str> = found
            .iter()
            .filter_map(|label| label.split('-').next())
            .collect();
        assert_eq!(names, ["a", "p", "s", "t", "u2", "y", "z"]);
    }

    #[test]
    fn what_takes_a_packages_place_is_taken_for_it() {
        let mut new = package("new 2-1", &[], &["old = 2"]);
        new.obsoletes = vec![Capability::any("old")];
        let packages = [
            base(),
            package("libc 1-1", &[], &[]),
            package("old 1-1", &[], &[]),
            new,
        ];
        assert_eq!(solve(&packages, &["old"]).unwrap(), ["new-2-1.noarch"]);
    }
}
