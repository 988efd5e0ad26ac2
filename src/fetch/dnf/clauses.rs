//! The relations of packages as clauses.

use std::collections::BTreeSet;

use super::relation::{Capability, Relation};
use super::universe::Universe;

/// Maximum number of clauses of a rich dependency; real ones need far fewer.
const MOST_CLAUSES: usize = 2000;

/// A condition on installed packages: one of `any` is installed, or one of `none` is not.
#[derive(Debug, Clone, Default)]
pub struct Clause {
    /// Packages in order of preference.
    pub any: Vec<usize>,
    pub none: Vec<usize>,
}

/// Returns the clauses of a relation that are false if exactly these packages are installed.
pub fn missing(
    universe: &Universe<'_>,
    relation: &Relation,
    installed: &BTreeSet<usize>,
) -> Vec<Clause> {
    let mut missing = clauses(universe, relation, true).unwrap_or_default();
    missing.retain(|clause| {
        let is_installed = |at: &usize| installed.contains(at);
        !clause.any.iter().any(is_installed) && clause.none.iter().all(is_installed)
    });
    missing
}

/// Converts a relation, or its negation, to clauses; returns `None` if they exceed the limit.
pub fn clauses(universe: &Universe<'_>, relation: &Relation, holds: bool) -> Option<Vec<Clause>> {
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
            let mut any = vec![Clause::default()];
            for part in parts {
                any = either(&any, &clauses(universe, part, holds)?)?;
            }
            Some(any)
        }
        (Relation::When { .. }, _) => conditional(universe, relation, holds),
    }
}

/// Converts an `if` or `unless`, or its negation.
fn conditional(universe: &Universe<'_>, relation: &Relation, holds: bool) -> Option<Vec<Clause>> {
    let Relation::When {
        wanted,
        condition,
        holds: value,
        otherwise,
    } = relation
    else {
        return None;
    };
    let wanted = clauses(universe, wanted, holds)?;
    let is = clauses(universe, condition, *value)?;
    let is_not = clauses(universe, condition, !value)?;
    match otherwise {
        // `wanted` if the condition has the stated value, otherwise the alternative.
        Some(otherwise) => {
            let otherwise = clauses(universe, otherwise, holds)?;
            Some([either(&is_not, &wanted)?, either(&is, &otherwise)?].concat())
        }
        // "a if b" is "a or not b"; the negation of "a unless b" is "not a, or b".
        None if *value == holds => either(&is_not, &wanted),
        // dnf reads "a unless b" as "a and not b"; the negation of "a if b" is "not a and b".
        None => Some([wanted, is].concat()),
    }
}

fn one_of(found: Vec<usize>, holds: bool) -> Vec<Clause> {
    if holds {
        return vec![Clause {
            any: found,
            none: Vec::new(),
        }];
    }
    let not = |at| Clause {
        any: Vec::new(),
        none: vec![at],
    };
    found.into_iter().map(not).collect()
}

/// Returns the disjunction of two sets of clauses.
fn either(first: &[Clause], second: &[Clause]) -> Option<Vec<Clause>> {
    if first.len().saturating_mul(second.len()) > MOST_CLAUSES {
        return None;
    }
    let pairs = first
        .iter()
        .flat_map(|a| second.iter().map(move |b| (a, b)));
    let joined = pairs.map(|(a, b)| Clause {
        any: [a.any.as_slice(), &b.any].concat(),
        none: [a.none.as_slice(), &b.none].concat(),
    });
    Some(joined.collect())
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
