//! The dependencies of a list of package names, without conflicts among them.

use std::collections::BTreeSet;

use resolvo::conflict::{Conflict, ConflictEdge, ConflictNode};
use resolvo::{Interner, Problem, Solver, UnsolvableOrCancelled};

use super::clauses::{self, Clause};
use super::package::Package;
use super::provider::{Goal, Provider};
use super::relation::Relation;
use super::universe::Universe;

/// Maximum number of reasons in the message for a name that cannot be resolved.
const MOST_REASONS: usize = 8;

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
    let mut solver = Solver::new(Provider::new(universe));
    let mut goal = Goal::default();
    for at in there {
        let text = format!("{} is on every host", universe.packages[*at].label());
        add(&solver, &mut goal, vec![*at], &text);
    }
    let mut problems = Vec::new();
    let mut all = goal.clone();
    for name in names {
        let found = universe.named(name);
        let text = format!("'{name}' is requested");
        let mut alone = goal.clone();
        add(&solver, &mut alone, found.clone(), &text);
        if found.is_empty() {
            problems.push(format!("package '{name}' does not exist"));
        } else if let Err(reasons) = solve(&mut solver, &alone) {
            problems.push(format!("'{name}' cannot be installed: {reasons}"));
        }
        add(&solver, &mut all, found, &text);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    match solve(&mut solver, &all) {
        Ok(chosen) => Ok(with_conditions(universe, &mut solver, &all, chosen)),
        Err(reasons) => Err(vec![format!(
            "the packages cannot be installed together: {reasons}"
        )]),
    }
}

fn add(solver: &Solver<Provider<'_>>, goal: &mut Goal, any: Vec<usize>, text: &str) {
    let none = Vec::new();
    solver.provider().add(goal, &Clause { any, none }, text);
}

/// Returns the packages that meet a goal, or the reasons why there are none.
fn solve(solver: &mut Solver<Provider<'_>>, goal: &Goal) -> Result<BTreeSet<usize>, String> {
    let mut goal = goal.clone();
    solver.provider().restart();
    loop {
        let problem = Problem::new()
            .requirements(goal.requirements.clone())
            .constraints(goal.constraints.clone());
        let chosen = match solver.solve(problem) {
            Ok(chosen) => chosen,
            Err(UnsolvableOrCancelled::Cancelled(_)) => {
                return Err(
                    "the solver gave up after too many conflicts; request fewer packages or exact \
                     versions"
                        .to_owned(),
                );
            }
            Err(UnsolvableOrCancelled::Unsolvable(conflict)) => {
                return Err(reasons(solver, &conflict));
            }
        };
        let provider = solver.provider();
        let packages = chosen.into_iter().filter_map(|one| provider.package(one));
        let packages = packages.collect();
        if !provider.add_unmet(&mut goal, &packages) {
            return Ok(packages);
        }
    }
}

/// Returns the requirements and conflicts that cannot be met together, the most informative ones first.
fn reasons(solver: &Solver<Provider<'_>>, conflict: &Conflict) -> String {
    let provider = solver.provider();
    let graph = conflict.graph(solver).graph;
    let mut reasons = BTreeSet::new();
    for edge in graph.edge_indices() {
        if let Some((from, to)) = graph.edge_endpoints(edge) {
            reasons.extend(reason(provider, graph[from], graph[edge], graph[to]));
        }
    }
    let more = reasons.len().saturating_sub(MOST_REASONS);
    let shown = reasons.into_iter().take(MOST_REASONS);
    let mut shown: Vec<String> = shown.map(|(_, text)| text).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join("; ")
}

/// Returns the rank and the text of an edge of a conflict; `None` if it is about a marker.
fn reason(
    provider: &Provider<'_>,
    from: ConflictNode,
    edge: ConflictEdge,
    to: ConflictNode,
) -> Option<(u8, String)> {
    let label = |node| match node {
        ConflictNode::Solvable(solvable) => provider.label(solvable),
        _ => None,
    };
    match (edge, to) {
        (ConflictEdge::Requires(requirement), _) => {
            let text = provider.text(requirement)?;
            match (label(from), to) {
                (Some(from), ConflictNode::UnresolvedDependency) => {
                    let text = format!("{from} requires {text}, which no package provides");
                    Some((0, text))
                }
                (Some(from), _) => Some((1, format!("{from} requires {text}"))),
                (None, _) => Some((2, text)),
            }
        }
        (ConflictEdge::Conflict(_), ConflictNode::Excluded(reason)) => {
            Some((0, provider.display_string(reason).to_string()))
        }
        (ConflictEdge::Conflict(_), _) => {
            let (one, other) = (label(from)?, label(to)?);
            Some((1, format!("{one} conflicts with {other}")))
        }
    }
}

/// Adds packages behind conditions that are true on some hosts only, if possible, because the packages of a
/// host are unknown here. The host's dnf installs them if it needs them.
fn with_conditions(
    universe: &Universe<'_>,
    solver: &mut Solver<Provider<'_>>,
    goal: &Goal,
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
        let mut missing: Vec<Vec<Clause>> = parts
            .map(|part| clauses::missing(universe, part, &chosen))
            .collect();
        missing.retain(|clauses| !clauses.is_empty());
        if missing.is_empty() {
            return chosen;
        }
        // Usually all of them can be installed, so that one attempt is enough.
        if let Some(larger) = extended(solver, goal, &chosen, &missing) {
            chosen = larger;
            continue;
        }
        for one in missing.chunks(1) {
            if let Some(larger) = extended(solver, goal, &chosen, one) {
                chosen = larger;
            }
        }
    }
}

/// Returns a solution that contains these packages and meets the additional clauses, if there is one.
fn extended(
    solver: &mut Solver<Provider<'_>>,
    goal: &Goal,
    chosen: &BTreeSet<usize>,
    more: &[Vec<Clause>],
) -> Option<BTreeSet<usize>> {
    let mut goal = goal.clone();
    for at in chosen {
        add(solver, &mut goal, vec![*at], "");
    }
    for clause in more.iter().flatten() {
        solver.provider().add(&mut goal, clause, "");
    }
    solve(solver, &goal).ok()
}

#[cfg(test)]
mod tests {
    use super::super::package_example as package;
    use super::super::relation::Capability;
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

    /// Compares the solver with a search of all sets of packages, and checks its solutions.
    #[test]
    fn solutions_agree_with_an_exhaustive_search() {
        const NAMES: u64 = 4;
        let mut dice: u64 = 7;
        let mut roll = |sides: u64| {
            dice = dice
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (dice >> 33) % sides
        };
        let mut solved = 0;
        for round in 0..400 {
            let mut packages = Vec::new();
            for name in 0..NAMES {
                for version in 1..=1 + roll(2) {
                    let relations = (0..roll(3)).map(|_| {
                        let [a, b, c] = [0; 3].map(|_| roll(NAMES));
                        match roll(7) {
                            0 => format!("(p{a} or p{b})"),
                            1 => format!("(p{a} if p{b})"),
                            2 => format!("(p{a} unless p{b})"),
                            3 => format!("(p{a} if (p{b} and p{c}) else v)"),
                            4 => format!("p{a} >= 2"),
                            _ => format!("p{a}"),
                        }
                    });
                    let relations: Vec<String> = relations.collect();
                    let relations: Vec<&str> = relations.iter().map(String::as_str).collect();
                    let gives: &[&str] = if roll(3) == 0 { &["v"] } else { &[] };
                    let mut one = package(&format!("p{name} {version}-1"), &relations, gives);
                    if roll(3) == 0 {
                        let other = Relation::parse(&format!("p{}", roll(NAMES))).unwrap();
                        one.conflicts = vec![other];
                    }
                    packages.push(one);
                }
            }
            let universe = Universe::new(&packages);
            let is_valid = |set: &BTreeSet<usize>| {
                let has = |name: &str| set.iter().any(|at| packages[*at].name == name);
                let meets = |at: &usize| {
                    let mut requires = packages[*at].requires.iter();
                    requires.all(|one| clauses::missing(&universe, one, set).is_empty())
                        && universe.enemies(*at).is_disjoint(set)
                };
                has("p0") && has("p1") && set.iter().all(meets)
            };
            let sets = (0..1u32 << packages.len()).map(|bits| {
                let all = 0..packages.len();
                all.filter(|at| bits >> at & 1 == 1)
                    .collect::<BTreeSet<usize>>()
            });
            let is_solvable = sets.into_iter().any(|set| is_valid(&set));
            let names = ["p0".to_owned(), "p1".to_owned()];
            match choose(&universe, &names, &BTreeSet::new()) {
                Ok(found) => {
                    solved += 1;
                    assert!(is_valid(&found), "{round}: {found:?} of {packages:#?}");
                }
                Err(reasons) => assert!(!is_solvable, "{round}: {reasons:?}"),
            }
        }
        assert!((40..360).contains(&solved), "{solved}");
    }
}
