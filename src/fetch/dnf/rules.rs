//! The relations of packages as clauses for the solver.

use std::collections::{BTreeMap, BTreeSet};

use super::closure::Universe;
use super::relation::{Capability, Relation};
use super::solver::{Literal, Solver, leave, take};

/// Maximum number of clauses of a rich dependency; real ones need far fewer.
const MOST_CLAUSES: usize = 2000;

/// Clauses in conjunctive normal form: in each, at least one literal must be true.
pub type Clauses = Vec<Vec<Literal>>;

/// The clauses of all packages that some names can lead to, with a description of each.
#[derive(Clone)]
pub struct Rules {
    /// The solver with the clauses.
    pub solver: Solver,
    words: BTreeMap<usize, String>,
}

impl Rules {
    /// Creates the rules of all packages that are reachable from `start`.
    pub fn new(universe: &Universe<'_>, start: Vec<usize>) -> Self {
        let mut rules = Self {
            solver: Solver::new(universe.packages.len()),
            words: BTreeMap::new(),
        };
        let reached = universe.reach(start);
        for at in reached.iter().copied() {
            rules.requirements(universe, at);
            for other in universe
                .enemies(at)
                .into_iter()
                .filter(|other| reached.contains(other))
            {
                let packages = universe.packages;
                let (own, their) = (packages[at].label(), packages[other].label());
                let words = format!("{own} conflicts with {their}");
                rules.add(vec![leave(at), leave(other)], words);
            }
        }
        rules
    }

    fn requirements(&mut self, universe: &Universe<'_>, at: usize) {
        let package = &universe.packages[at];
        for relation in &package.requires {
            let words = format!("{} requires {relation}", package.label());
            let Some(clauses) = clauses(universe, relation, true) else {
                self.add(
                    vec![leave(at)],
                    format!("{words}, which exceeds the limit of {MOST_CLAUSES} clauses"),
                );
                continue;
            };
            for mut clause in clauses {
                let words = match clause.is_empty() {
                    true => format!("{words}, which no package provides"),
                    false => words.clone(),
                };
                clause.insert(0, leave(at));
                self.add(clause, words);
            }
        }
    }

    /// Adds a clause with its description.
    pub fn add(&mut self, clause: Vec<Literal>, words: String) {
        let number = self.solver.add(clause);
        self.words.insert(number, words);
    }

    /// Returns the description of a clause.
    pub fn words(&self, number: usize) -> &str {
        self.words.get(&number).map_or("", String::as_str)
    }

    /// Returns these rules with fixed packages and additional clauses.
    pub fn with(&self, taken: &BTreeSet<usize>, more: &[Clauses]) -> Self {
        let mut rules = self.clone();
        for at in taken {
            rules.solver.add(vec![take(*at)]);
        }
        for clause in more.iter().flatten() {
            rules.solver.add(clause.clone());
        }
        rules
    }
}

/// Returns the clauses of a relation that are false if exactly these packages are installed.
pub fn missing(universe: &Universe<'_>, relation: &Relation, taken: &BTreeSet<usize>) -> Clauses {
    let mut missing = clauses(universe, relation, true).unwrap_or_default();
    missing.retain(|clause| {
        let holds = |literal: &Literal| taken.contains(&literal.thing) == literal.taken;
        !clause.iter().any(holds)
    });
    missing
}

/// Converts a relation, or its negation, to clauses; returns `None` if they exceed the limit.
fn clauses(universe: &Universe<'_>, relation: &Relation, holds: bool) -> Option<Clauses> {
    match (relation, holds) {
        (Relation::Plain(wanted), _) => Some(one_of(universe.preferred(wanted), holds)),
        (Relation::With(_) | Relation::Without(..), _) => {
            Some(one_of(of_one_package(universe, relation), holds))
        }
        (Relation::And(parts), true) | (Relation::Or(parts), false) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(clauses(universe, part, holds)?);
            }
            Some(all)
        }
        (Relation::Or(parts), true) | (Relation::And(parts), false) => {
            let mut any = vec![Vec::new()];
            for part in parts {
                any = either(&any, &clauses(universe, part, holds)?)?;
            }
            Some(any)
        }
        (
            Relation::When {
                wanted,
                condition,
                holds: word,
                otherwise,
            },
            _,
        ) => {
            // `wanted` if the condition has the stated value, otherwise the alternative.
            let is_not = clauses(universe, condition, !word)?;
            let mut all = either(&is_not, &clauses(universe, wanted, holds)?)?;
            let is = clauses(universe, condition, *word)?;
            match (otherwise, holds) {
                (Some(otherwise), _) => {
                    all.extend(either(&is, &clauses(universe, otherwise, holds)?)?);
                }
                (None, true) => {}
                (None, false) => all.extend(is),
            }
            Some(all)
        }
    }
}

fn one_of(found: Vec<usize>, holds: bool) -> Clauses {
    match holds {
        true => vec![found.into_iter().map(take).collect()],
        false => found.into_iter().map(|at| vec![leave(at)]).collect(),
    }
}

/// Returns the disjunction of two sets of clauses.
fn either(first: &Clauses, second: &Clauses) -> Option<Clauses> {
    if first.len().saturating_mul(second.len()) > MOST_CLAUSES {
        return None;
    }
    let pairs = first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a, b)));
    Some(
        pairs
            .map(|(a, b)| a.iter().chain(b).copied().collect())
            .collect(),
    )
}

/// Returns the packages that satisfy all of a `with`, or the first but not the second of a `without`.
fn of_one_package(universe: &Universe<'_>, relation: &Relation) -> Vec<usize> {
    let plain = |wanted: &Capability| universe.preferred(wanted);
    match relation {
        Relation::Plain(wanted) => plain(wanted),
        Relation::With(parts) => {
            let mut parts = parts.iter().map(|part| of_one_package(universe, part));
            let mut all = parts.next().unwrap_or_default();
            for part in parts {
                all.retain(|at| part.contains(at));
            }
            all
        }
        Relation::Without(first, second) => {
            let not = of_one_package(universe, second);
            let mut all = of_one_package(universe, first);
            all.retain(|at| !not.contains(at));
            all
        }
        Relation::Or(parts) => {
            let mut all: Vec<usize> = Vec::new();
            all.extend(parts.iter().flat_map(|part| of_one_package(universe, part)));
            all
        }
        // rpm permits no others inside of `with`.
        Relation::And(_) | Relation::When { .. } => Vec::new(),
    }
}
