//! Which packages a list of names needs, and that they can live together.
//!
//! Packages are taken one requirement after the other, each time the provider that dnf would prefer.
//! Where that leads to a conflict or to something that nobody provides, what led there is struck off
//! and all begins anew: each round strikes one more package off, so that it ends. What is found is
//! therefore whole and free of conflicts, always; what is not found, where alternatives hang together
//! in odd ways, is said with its reasons, and naming a package in the manifest decides for it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::evr::Range;
use super::package::Package;
use super::relation::{Capability, Relation};

/// Rounds after which a set is given up; real ones take a handful.
const MOST_ROUNDS: usize = 2000;

/// All packages of a set's repositories, by what they give.
pub struct Universe<'a> {
    packages: &'a [Package],
    provided: HashMap<&'a str, Vec<(usize, Option<&'a Range>)>>,
    files: HashMap<&'a str, Vec<usize>>,
    by_name: HashMap<&'a str, Vec<usize>>,
    missed_a_file: Cell<bool>,
}

/// Why something cannot be had, and what to strike off for another try.
struct Refusal {
    reason: String,
    /// A package that was taken although there were others.
    instead_of: Option<usize>,
}

/// What was decided so far.
#[derive(Clone, Default)]
struct Choice {
    /// Package → (when it was taken, whether there were others).
    taken: BTreeMap<usize, (usize, bool)>,
    queue: VecDeque<usize>,
}

/// The named packages (or what provides the names) and all that they need, sorted by name. What
/// `base` names, with all that it needs, is taken to be on every host and left out.
///
/// # Errors
/// Every name that cannot be had, with the reasons.
pub fn closure<'a>(
    universe: &Universe<'a>,
    names: &[String],
    base: &[String],
) -> Result<Vec<&'a Package>, Vec<String>> {
    let mut struck: BTreeMap<usize, String> = BTreeMap::new();
    let mut problems = Vec::new();
    for _ in 0..MOST_ROUNDS {
        problems.clear();
        let round = Round {
            universe,
            struck: &struck,
        };
        match round.run(names, base, &mut problems) {
            Ok(chosen) if problems.is_empty() => return Ok(chosen),
            Ok(_) => return Err(problems),
            Err((package, reason)) => {
                struck.insert(package, reason);
            }
        }
    }
    problems.push(format!(
        "no set was found in {MOST_ROUNDS} tries; name more of the packages to decide between alternatives"
    ));
    Err(problems)
}

impl<'a> Universe<'a> {
    /// Sorts packages by what they give.
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

    /// Paths that packages require and that no package is known to have.
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

    /// Whether somebody looked for a file that no package is known to have.
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

    /// The providers as dnf prefers them: the package of that name, the newest of each name; else
    /// the smallest, as a host without wishes of its own has it. What another one takes the place of
    /// is no provider.
    fn preferred(&self, wanted: &Capability) -> Vec<usize> {
        let found = self.providers(wanted);
        let replaced = |at: &usize| {
            let old = &self.packages[*at];
            found
                .iter()
                .any(|other| self.packages[*other].obsoletes(old))
        };
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in found.iter().copied().filter(|at| !replaced(at)) {
            by_name.entry(&self.packages[at].name).or_default().push(at);
        }
        let mut names: Vec<(&str, Vec<usize>)> = by_name.into_iter().collect();
        for (_, versions) in &mut names {
            versions.sort_by(|a, b| {
                let (a, b) = (&self.packages[*a], &self.packages[*b]);
                // Of the same version, the repository that stands first.
                let native = |package: &Package| package.arch != "noarch";
                b.evr.newer(&a.evr).then_with(|| native(b).cmp(&native(a)))
            });
        }
        names.sort_by_key(|(name, versions)| {
            let newest = versions.first().map(|at| self.packages[*at].installed);
            (*name != wanted.name, newest)
        });
        names
            .into_iter()
            .flat_map(|(_, versions)| versions)
            .collect()
    }

    /// What is meant by a name that the user wrote: the package, or what takes its place, or what
    /// provides the name.
    fn named(&self, name: &str) -> Vec<usize> {
        let wanted = Capability::any(name);
        let old = self.by_name.get(name).into_iter().flatten();
        let mut found: Vec<usize> = old
            .flat_map(|old| {
                let news = self.packages.iter().enumerate();
                news.filter(|(_, new)| new.obsoletes(&self.packages[*old]))
                    .map(|(at, _)| at)
            })
            .collect();
        let mut others = self.preferred(&wanted);
        others.retain(|at| {
            let package = &self.packages[*at];
            !found
                .iter()
                .any(|new| self.packages[*new].obsoletes(package))
        });
        found.extend(others);
        found
    }
}

/// One try, with some packages struck off.
struct Round<'u, 'a> {
    universe: &'u Universe<'a>,
    struck: &'u BTreeMap<usize, String>,
}

impl<'a> Round<'_, 'a> {
    /// All packages, or one to strike off with the reason. Names that cannot be had go to
    /// `problems`.
    fn run(
        &self,
        names: &[String],
        base: &[String],
        problems: &mut Vec<String>,
    ) -> Result<Vec<&'a Package>, (usize, String)> {
        let mut choice = Choice::default();
        self.start(&mut choice, base, problems)?;
        let hosts: BTreeSet<usize> = choice.taken.keys().copied().collect();
        self.start(&mut choice, names, problems)?;
        self.conditions(&mut choice);
        let mut chosen: Vec<&Package> = choice
            .taken
            .keys()
            .filter(|at| !hosts.contains(at))
            .map(|at| &self.universe.packages[*at])
            .collect();
        chosen.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
        Ok(chosen)
    }

    fn start(
        &self,
        choice: &mut Choice,
        names: &[String],
        problems: &mut Vec<String>,
    ) -> Result<(), (usize, String)> {
        for name in names {
            let found = self.universe.named(name);
            match self.first_that_fits(choice, &found, name) {
                Ok(Some((at, others))) => self.take(choice, at, others),
                Ok(None) => {}
                Err(Refusal {
                    reason,
                    instead_of: None,
                }) => problems.push(match found.is_empty() {
                    true => format!("there is no package '{name}'"),
                    false => format!("'{name}' cannot be had: {reason}"),
                }),
                Err(Refusal {
                    reason,
                    instead_of: Some(at),
                }) => return Err((at, reason)),
            }
        }
        self.complete(choice)
    }

    /// Takes what the queue's packages need until nothing is missing.
    fn complete(&self, choice: &mut Choice) -> Result<(), (usize, String)> {
        loop {
            while let Some(at) = choice.queue.pop_front() {
                self.needs(choice, at)?;
            }
            // What was taken since may have made conditions true.
            let open: Vec<usize> = choice.taken.keys().copied().collect();
            for at in open {
                if self.universe.packages[at]
                    .requires
                    .iter()
                    .any(|r| !self.holds(choice, r))
                {
                    self.needs(choice, at)?;
                }
            }
            if choice.queue.is_empty() {
                return Ok(());
            }
        }
    }

    fn needs(&self, choice: &mut Choice, at: usize) -> Result<(), (usize, String)> {
        let package = &self.universe.packages[at];
        for relation in &package.requires {
            self.have(choice, relation).map_err(|refusal| {
                let reason = format!("{} wants {}", package.label(), refusal.reason);
                (refusal.instead_of.unwrap_or(at), reason)
            })?;
        }
        Ok(())
    }

    /// Packages behind conditions that hold on some hosts only: carried too where that is possible,
    /// since no set knows what else its hosts have. A host's dnf takes them where it needs them.
    fn conditions(&self, choice: &mut Choice) {
        let mut seen = BTreeSet::new();
        loop {
            let next = choice.taken.keys().copied().find(|at| seen.insert(*at));
            let Some(at) = next else { return };
            for relation in &self.universe.packages[at].requires {
                let Relation::When {
                    wanted, otherwise, ..
                } = relation
                else {
                    continue;
                };
                for part in std::iter::once(wanted).chain(otherwise) {
                    let mut larger = choice.clone();
                    if self.have(&mut larger, part).is_ok() && self.complete(&mut larger).is_ok() {
                        *choice = larger;
                    }
                }
            }
        }
    }

    fn take(&self, choice: &mut Choice, at: usize, others: bool) {
        let when = choice.taken.len();
        choice.taken.insert(at, (when, others));
        choice.queue.push_back(at);
    }

    /// Makes a relation hold.
    fn have(&self, choice: &mut Choice, relation: &Relation) -> Result<(), Refusal> {
        if self.holds(choice, relation) {
            return Ok(());
        }
        match relation {
            Relation::Plain(wanted) => {
                let found = self.universe.preferred(wanted);
                self.one_of(choice, &found, &wanted.to_string())
            }
            Relation::And(parts) => parts.iter().try_for_each(|part| self.have(choice, part)),
            Relation::Or(parts) => {
                let mut last = None;
                for part in parts {
                    let mut tried = choice.clone();
                    match self.have(&mut tried, part) {
                        Ok(()) => {
                            *choice = tried;
                            return Ok(());
                        }
                        Err(refusal) => last = Some(refusal),
                    }
                }
                let instead_of = last.and_then(|refusal| refusal.instead_of);
                let reason = format!("{relation}, none of which can be had");
                Err(Refusal { reason, instead_of })
            }
            Relation::With(_) | Relation::Without(..) => {
                let found = self.of_one_package(relation);
                self.one_of(choice, &found, &relation.to_string())
            }
            Relation::When {
                wanted,
                condition,
                holds,
                otherwise,
            } => match (self.holds(choice, condition) == *holds, otherwise) {
                (true, _) => self.have(choice, wanted),
                (false, Some(otherwise)) => self.have(choice, otherwise),
                (false, None) => Ok(()),
            },
        }
    }

    /// Whether a relation holds among what was taken.
    fn holds(&self, choice: &Choice, relation: &Relation) -> bool {
        match relation {
            Relation::Plain(wanted) => {
                let mut found = self.universe.providers(wanted).into_iter();
                found.any(|at| choice.taken.contains_key(&at))
            }
            Relation::And(parts) => parts.iter().all(|part| self.holds(choice, part)),
            Relation::Or(parts) => parts.iter().any(|part| self.holds(choice, part)),
            Relation::With(_) | Relation::Without(..) => {
                let mut found = self.of_one_package(relation).into_iter();
                found.any(|at| choice.taken.contains_key(&at))
            }
            Relation::When {
                wanted,
                condition,
                holds,
                otherwise,
            } => match (self.holds(choice, condition) == *holds, otherwise) {
                (true, _) => self.holds(choice, wanted),
                (false, Some(otherwise)) => self.holds(choice, otherwise),
                (false, None) => true,
            },
        }
    }

    /// The packages that give all of a `with`, or the first but not the second of a `without`.
    fn of_one_package(&self, relation: &Relation) -> Vec<usize> {
        match relation {
            Relation::Plain(wanted) => self.universe.preferred(wanted),
            Relation::With(parts) => {
                let mut parts = parts.iter().map(|part| self.of_one_package(part));
                let mut all = parts.next().unwrap_or_default();
                for part in parts {
                    all.retain(|at| part.contains(at));
                }
                all
            }
            Relation::Without(first, second) => {
                let not = self.of_one_package(second);
                let mut all = self.of_one_package(first);
                all.retain(|at| !not.contains(at));
                all
            }
            Relation::Or(parts) => parts.iter().flat_map(|p| self.of_one_package(p)).collect(),
            _ => Vec::new(),
        }
    }

    fn one_of(&self, choice: &mut Choice, found: &[usize], wanted: &str) -> Result<(), Refusal> {
        if let Some((at, others)) = self.first_that_fits(choice, found, wanted)? {
            self.take(choice, at, others);
        }
        Ok(())
    }

    /// The first of some packages that lives with those taken, and whether there were others;
    /// `None` where one of them is taken already.
    fn first_that_fits(
        &self,
        choice: &Choice,
        found: &[usize],
        wanted: &str,
    ) -> Result<Option<(usize, bool)>, Refusal> {
        if found.iter().any(|at| choice.taken.contains_key(at)) {
            return Ok(None);
        }
        if found.is_empty() {
            let reason = format!("{wanted}, which no package provides");
            return Err(Refusal {
                reason,
                instead_of: None,
            });
        }
        let open: Vec<usize> = found
            .iter()
            .copied()
            .filter(|at| !self.struck.contains_key(at))
            .collect();
        let mut in_the_way: Option<(usize, usize)> = None;
        let mut reasons: Vec<String> = found
            .iter()
            .filter_map(|at| self.struck.get(at))
            .take(3)
            .cloned()
            .collect();
        for at in &open {
            let enemies = self.enemies(choice, *at);
            if enemies.is_empty() {
                return Ok(Some((*at, open.len() > 1)));
            }
            for enemy in enemies {
                let packages = self.universe.packages;
                let (own, other) = (packages[*at].label(), packages[enemy].label());
                reasons.push(format!("{own} cannot be installed beside {other}"));
                let (when, others) = choice.taken[&enemy];
                if others && in_the_way.is_none_or(|(latest, _)| when > latest) {
                    in_the_way = Some((when, enemy));
                }
            }
        }
        reasons.truncate(5);
        let reason = format!("{wanted} ({})", reasons.join("; "));
        let instead_of = in_the_way.map(|(_, enemy)| enemy);
        Err(Refusal { reason, instead_of })
    }

    /// Those taken that cannot live with a package.
    fn enemies(&self, choice: &Choice, at: usize) -> Vec<usize> {
        let package = &self.universe.packages[at];
        let hurts = |one: &Package, other: &Package| {
            one.obsoletes(other)
                || one.conflicts.iter().any(
                    |relation| matches!(relation, Relation::Plain(wanted) if other.gives(wanted)),
                )
        };
        let taken = choice.taken.keys().copied();
        taken
            .filter(|other| {
                let other = &self.universe.packages[*other];
                other.name == package.name || hurts(package, other) || hurts(other, package)
            })
            .collect()
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
        // The newest cannot be had: the next is taken.
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
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].contains("lib-1-1.noarch wants deep >= 3"),
            "{problems:?}"
        );
        assert!(problems[1].contains("'nothing'"), "{problems:?}");
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
