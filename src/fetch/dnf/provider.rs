//! The packages of a universe for the solver, resolvo.
//!
//! resolvo knows names, of which a solution contains at most one solvable. A name is a package's name, and
//! its solvables are the versions. A requirement is a list of sets, each of solvables of one name, in order
//! of preference. A capability that packages of several names provide therefore becomes a list of sets.
//!
//! A clause with packages that must not be installed ("a if b" is "a, or b is not installed") needs a
//! solvable for "not installed". Each package therefore has a name with two markers, "present" and "absent".
//! The package requires the first one; a solution with the second one does not contain the package.
//! resolvo 0.12 has conditional requirements, but some of their solutions are wrong: with random packages, about
//! one in a thousand did not meet a condition.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::hash::Hash;

use resolvo::{
    Candidates, Condition, ConditionId, ConditionalRequirement, Dependencies, DependencyProvider,
    HintDependenciesAvailable, Interner, KnownDependencies, NameId, Requirement, SolvableId,
    SolverCache, StringId, VersionSetId, VersionSetUnionId,
};

use super::clauses::{Clause, clauses, missing};
use super::universe::Universe;

/// Maximum number of propagations of one solution. Real problems have some thousands.
const MOST_PROPAGATIONS: usize = 1_000_000;

/// Values with numbers, each once.
struct Interned<T>(RefCell<(Vec<T>, HashMap<T, u32>)>);

impl<T: Clone + Eq + Hash> Interned<T> {
    fn new() -> Self {
        Self(RefCell::new((Vec::new(), HashMap::new())))
    }

    fn number(&self, value: T) -> u32 {
        let (values, numbers) = &mut *self.0.borrow_mut();
        let next = values.len() as u32;
        *numbers.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            next
        })
    }

    fn get(&self, number: u32) -> T {
        self.0.borrow().0[number as usize].clone()
    }
}

/// A set of solvables of one name.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Set {
    name: NameId,
    /// Sorted.
    solvables: Vec<SolvableId>,
}

/// A requirement and the text that states it in a message. The text of a marker is empty.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Union {
    sets: Vec<VersionSetId>,
    text: String,
}

/// The packages of a universe, and all requirements that the solver has asked for.
pub struct Provider<'a> {
    universe: &'a Universe<'a>,
    /// Names of packages; the markers' names follow.
    names: Vec<&'a str>,
    /// The number of a package's name.
    name_of: Vec<usize>,
    /// The packages of a name.
    versions: Vec<Vec<SolvableId>>,
    sets: Interned<Set>,
    unions: Interned<Union>,
    strings: Interned<String>,
    propagations: Cell<usize>,
}

/// The root's requirements and constraints.
#[derive(Default, Clone)]
pub struct Goal {
    pub requirements: Vec<ConditionalRequirement>,
    pub constraints: Vec<VersionSetId>,
}

impl<'a> Provider<'a> {
    /// Creates a provider of all packages of a universe.
    pub fn new(universe: &'a Universe<'a>) -> Self {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut names, mut name_of) = (Vec::new(), Vec::new());
        let mut versions: Vec<Vec<SolvableId>> = Vec::new();
        for (at, package) in universe.packages.iter().enumerate() {
            let number = *numbers.entry(&package.name).or_insert_with(|| {
                names.push(package.name.as_str());
                versions.push(Vec::new());
                names.len() - 1
            });
            name_of.push(number);
            versions[number].push(solvable(at));
        }
        Self {
            universe,
            names,
            name_of,
            versions,
            sets: Interned::new(),
            unions: Interned::new(),
            strings: Interned::new(),
            propagations: Cell::new(0),
        }
    }

    /// Returns the package of a solvable, or `None` for a marker.
    pub fn package(&self, solvable: SolvableId) -> Option<usize> {
        let at = solvable.into_raw() as usize;
        (at < self.name_of.len()).then_some(at)
    }

    /// Returns the label of a package, or `None` for a marker.
    pub fn label(&self, solvable: SolvableId) -> Option<String> {
        let package = self.package(solvable)?;
        Some(self.universe.packages[package].label())
    }

    /// Returns the text of a requirement, or `None` for a marker's.
    pub fn text(&self, requirement: Requirement) -> Option<String> {
        match requirement {
            Requirement::Single(_) => None,
            Requirement::Union(union) => {
                Some(self.unions.get(union.0).text).filter(|text| !text.is_empty())
            }
        }
    }

    /// Starts to count propagations again.
    pub fn restart(&self) {
        self.propagations.set(0);
    }

    /// Returns the markers of a package, "present" and "absent".
    fn markers(&self, at: usize) -> [SolvableId; 2] {
        [0, 1].map(|marker| solvable(self.name_of.len() + 2 * at + marker))
    }

    fn set(&self, name: NameId, mut solvables: Vec<SolvableId>) -> VersionSetId {
        solvables.sort_unstable();
        VersionSetId(self.sets.number(Set { name, solvables }))
    }

    fn present(&self, at: usize) -> VersionSetId {
        let [present, _] = self.markers(at);
        self.set(self.solvable_name(present), vec![present])
    }

    /// Returns the set of a package name's versions except these.
    fn others(&self, number: usize, but: &[usize]) -> VersionSetId {
        let versions = self.versions[number].iter().copied();
        let others = versions.filter(|one| self.package(*one).is_none_or(|at| !but.contains(&at)));
        self.set(name(number), others.collect())
    }

    /// Returns the requirement for one of these solvables, in this order of preference.
    fn one_of(&self, solvables: &[SolvableId], text: &str) -> Requirement {
        let groups = solvables.chunk_by(|a, b| self.solvable_name(*a) == self.solvable_name(*b));
        let sets = groups.map(|group| self.set(self.solvable_name(group[0]), group.to_vec()));
        let union = Union {
            sets: sets.collect(),
            text: text.to_owned(),
        };
        Requirement::Union(VersionSetUnionId(self.unions.number(union)))
    }

    /// Adds a clause to the requirements and constraints of the root or of a package.
    pub fn add(&self, goal: &mut Goal, clause: &Clause, text: &str) {
        if let ([], [other]) = (clause.any.as_slice(), clause.none.as_slice()) {
            let constraint = self.others(self.name_of[*other], &[*other]);
            goal.constraints.push(constraint);
            return;
        }
        let installed = clause.any.iter().copied().map(solvable);
        let absent = clause.none.iter().map(|at| self.markers(*at)[1]);
        let solvables: Vec<SolvableId> = installed.chain(absent).collect();
        goal.requirements.push(self.one_of(&solvables, text).into());
    }

    /// Adds the conditional clauses of these packages that the packages do not meet. Returns whether there
    /// are any.
    pub fn add_unmet(&self, goal: &mut Goal, installed: &BTreeSet<usize>) -> bool {
        let before = (goal.requirements.len(), goal.constraints.len());
        for at in installed {
            let package = &self.universe.packages[*at];
            for relation in &package.requires {
                for mut clause in missing(self.universe, relation, installed) {
                    clause.none.retain(|other| other != at);
                    clause.none.push(*at);
                    self.add(
                        goal,
                        &clause,
                        &format!("{} requires {relation}", package.label()),
                    );
                }
            }
        }
        before != (goal.requirements.len(), goal.constraints.len())
    }

    fn dependencies(&self, at: usize) -> Result<Goal, String> {
        let package = &self.universe.packages[at];
        let mut goal = Goal::default();
        goal.requirements.push(self.present(at).into());
        for relation in &package.requires {
            let Some(clauses) = clauses(self.universe, relation, true) else {
                return Err(format!(
                    "{} requires {relation}, which is too complex",
                    package.label()
                ));
            };
            for clause in clauses.iter().filter(|clause| !clause.any.contains(&at)) {
                let mut clause = clause.clone();
                clause.none.retain(|other| *other != at);
                // The others are added when a solution does not meet them.
                if clause.none.is_empty() || (clause.any.is_empty() && clause.none.len() == 1) {
                    self.add(&mut goal, &clause, &relation.to_string());
                }
            }
        }
        let mut enemies: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for other in self.universe.enemies(at) {
            if self.name_of[other] != self.name_of[at] {
                enemies.entry(self.name_of[other]).or_default().push(other);
            }
        }
        let constraints = enemies.iter().map(|(name, but)| self.others(*name, but));
        goal.constraints.extend(constraints);
        Ok(goal)
    }
}

fn solvable(number: usize) -> SolvableId {
    SolvableId::from_raw(number as u32)
}

fn name(number: usize) -> NameId {
    NameId::from_raw(number as u32)
}

impl Interner for Provider<'_> {
    type NameId = NameId;
    type SolvableId = SolvableId;

    fn display_solvable(&self, solvable: SolvableId) -> impl Display + '_ {
        match self.package(solvable) {
            Some(at) => self.universe.packages[at].label(),
            None => format!("marker {}", solvable.into_raw()),
        }
    }

    fn display_name(&self, name: NameId) -> impl Display + '_ {
        let named = self.names.get(name.into_raw() as usize);
        named.copied().unwrap_or("marker")
    }

    fn display_version_set(&self, set: VersionSetId) -> impl Display + '_ {
        let shown = self.sets.get(set.0).solvables.into_iter();
        let shown: Vec<String> = shown
            .map(|one| self.display_solvable(one).to_string())
            .collect();
        shown.join(" | ")
    }

    fn display_string(&self, string: StringId) -> impl Display + '_ {
        self.strings.get(string.0)
    }

    fn version_set_name(&self, set: VersionSetId) -> NameId {
        self.sets.get(set.0).name
    }

    fn solvable_name(&self, solvable: SolvableId) -> NameId {
        match self.package(solvable) {
            Some(at) => name(self.name_of[at]),
            None => {
                let marker = solvable.into_raw() as usize - self.name_of.len();
                name(self.names.len() + marker / 2)
            }
        }
    }

    fn version_sets_in_union(
        &self,
        union: VersionSetUnionId,
    ) -> impl Iterator<Item = VersionSetId> {
        self.unions.get(union.0).sets.into_iter()
    }

    fn resolve_condition(&self, _: ConditionId) -> Condition {
        // No requirement has a condition.
        Condition::Requirement(VersionSetId::default())
    }
}

impl DependencyProvider for Provider<'_> {
    async fn filter_candidates(
        &self,
        candidates: &[SolvableId],
        set: VersionSetId,
        inverse: bool,
    ) -> Vec<SolvableId> {
        let set = self.sets.get(set.0).solvables;
        let candidates = candidates.iter().copied();
        candidates
            .filter(|one| set.binary_search(one).is_ok() != inverse)
            .collect()
    }

    async fn get_candidates(&self, name: NameId) -> Option<Candidates> {
        let number = name.into_raw() as usize;
        let candidates = match self.versions.get(number) {
            Some(versions) => versions.clone(),
            None => self.markers(number - self.names.len()).to_vec(),
        };
        Some(Candidates {
            candidates,
            hint_dependencies_available: HintDependenciesAvailable::None,
            ..Candidates::default()
        })
    }

    async fn sort_candidates(&self, _: &SolverCache<Self>, solvables: &mut [SolvableId]) {
        solvables.sort_by(|a, b| match (self.package(*a), self.package(*b)) {
            (Some(a), Some(b)) => {
                let packages = self.universe.packages;
                packages[a].preference(&packages[b]).then(a.cmp(&b))
            }
            _ => a.cmp(b),
        });
    }

    async fn get_dependencies(&self, solvable: SolvableId) -> Dependencies {
        let Some(at) = self.package(solvable) else {
            return Dependencies::Known(KnownDependencies::default());
        };
        match self.dependencies(at) {
            Ok(goal) => Dependencies::Known(KnownDependencies {
                requirements: goal.requirements,
                constrains: goal.constraints,
            }),
            Err(reason) => Dependencies::Unknown(StringId(self.strings.number(reason))),
        }
    }

    fn should_cancel_with_value(&self) -> Option<Box<dyn std::any::Any>> {
        let count = self.propagations.get() + 1;
        self.propagations.set(count);
        (count > MOST_PROPAGATIONS).then(|| Box::new(()) as Box<dyn std::any::Any>)
    }
}
