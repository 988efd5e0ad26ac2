//! A SAT solver with conflict-driven clause learning
//! (<https://en.wikipedia.org/wiki/Conflict-driven_clause_learning>) for packages. It selects a package only
//! if a clause requires it, and then the preferred one, so that the result has no unneeded packages.

use std::collections::{BTreeSet, VecDeque};

/// Maximum number of conflicts; real problems have a handful.
const MOST_CONFLICTS: usize = 20_000;

/// A literal: a package is selected, or it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Literal {
    /// The package's index.
    pub thing: usize,
    /// Whether it is selected.
    pub taken: bool,
}

/// Returns the literal for a selected package.
pub fn take(thing: usize) -> Literal {
    Literal { thing, taken: true }
}

/// Returns the literal for a package that is not selected.
pub fn leave(thing: usize) -> Literal {
    Literal {
        thing,
        taken: false,
    }
}

impl Literal {
    fn not(self) -> Self {
        Self {
            thing: self.thing,
            taken: !self.taken,
        }
    }
}

/// A clause: one of the literals must be true; positive literals are in order of preference.
#[derive(Debug, Clone)]
struct Clause {
    literals: Vec<Literal>,
    /// The given clauses, by number, from which this one follows.
    origins: BTreeSet<usize>,
}

/// The value that was decided or derived for a package.
#[derive(Debug, Clone, Copy)]
struct Fact {
    taken: bool,
    level: usize,
    /// The clause that forced the value.
    because: Option<usize>,
}

/// The clauses and the current partial assignment.
#[derive(Debug, Clone)]
pub struct Solver {
    clauses: Vec<Clause>,
    /// The clauses in which a package occurs.
    occurs: Vec<Vec<usize>>,
    facts: Vec<Option<Fact>>,
    /// Assigned packages in the order of their assignment.
    trail: Vec<usize>,
    level: usize,
}

impl Solver {
    /// Creates a solver for packages with the indexes 0 to `things` - 1.
    pub fn new(things: usize) -> Self {
        Self {
            clauses: Vec::new(),
            occurs: vec![Vec::new(); things],
            facts: vec![None; things],
            trail: Vec::new(),
            level: 0,
        }
    }

    /// Adds a clause and returns its number. An empty clause cannot be satisfied.
    pub fn add(&mut self, literals: Vec<Literal>) -> usize {
        let number = self.clauses.len();
        self.insert(literals, BTreeSet::from([number]))
    }

    fn insert(&mut self, literals: Vec<Literal>, origins: BTreeSet<usize>) -> usize {
        let number = self.clauses.len();
        for literal in &literals {
            self.occurs[literal.thing].push(number);
        }
        self.clauses.push(Clause { literals, origins });
        number
    }

    /// Returns the selected packages.
    ///
    /// # Errors
    /// The numbers of given clauses that cannot be satisfied together.
    pub fn solve(mut self) -> Result<BTreeSet<usize>, BTreeSet<usize>> {
        let mut fresh: VecDeque<usize> = (0..self.clauses.len()).collect();
        for _ in 0..MOST_CONFLICTS {
            while let Some(broken) = self.propagate(&mut fresh) {
                if self.level == 0 {
                    return Err(self.roots(broken));
                }
                let number = self.learn(broken);
                fresh.clear();
                fresh.push_back(number);
            }
            let Some(next) = self.needed() else {
                let things = self.facts.iter().enumerate();
                let taken = things.filter(|(_, fact)| fact.is_some_and(|fact| fact.taken));
                return Ok(taken.map(|(thing, _)| thing).collect());
            };
            self.level += 1;
            self.set(take(next), None, &mut fresh);
        }
        Err(BTreeSet::new())
    }

    fn value(&self, literal: Literal) -> Option<bool> {
        self.facts[literal.thing].map(|fact| fact.taken == literal.taken)
    }

    fn set(&mut self, literal: Literal, because: Option<usize>, fresh: &mut VecDeque<usize>) {
        let (taken, level) = (literal.taken, self.level);
        self.facts[literal.thing] = Some(Fact {
            taken,
            level,
            because,
        });
        self.trail.push(literal.thing);
        fresh.extend(&self.occurs[literal.thing]);
    }

    /// Propagates unit clauses. Returns the number of a clause that cannot be satisfied, if there is one.
    fn propagate(&mut self, fresh: &mut VecDeque<usize>) -> Option<usize> {
        while let Some(number) = fresh.pop_front() {
            let mut open = None;
            let mut count = 0;
            let mut holds = false;
            for literal in &self.clauses[number].literals {
                match self.value(*literal) {
                    Some(true) => holds = true,
                    Some(false) => {}
                    None => {
                        count += 1;
                        open = Some(*literal);
                    }
                }
            }
            match (holds, count, open) {
                (true, ..) => {}
                (false, 0, _) => return Some(number),
                (false, 1, Some(literal)) => self.set(literal, Some(number), fresh),
                _ => {}
            }
        }
        None
    }

    /// Returns the preferred package of the first clause that needs another selected package.
    fn needed(&self) -> Option<usize> {
        self.clauses.iter().find_map(|clause| {
            let idle = |literal: &Literal| match self.value(*literal) {
                Some(holds) => holds,
                None => !literal.taken,
            };
            if clause.literals.iter().any(idle) {
                return None;
            }
            let open = |literal: &&Literal| self.value(**literal).is_none();
            clause
                .literals
                .iter()
                .find(open)
                .map(|literal| literal.thing)
        })
    }

    /// Learns a clause from a conflict and backtracks to the level where it becomes a unit clause.
    fn learn(&mut self, broken: usize) -> usize {
        let mut literals: BTreeSet<Literal> =
            self.clauses[broken].literals.iter().copied().collect();
        let mut origins = self.clauses[broken].origins.clone();
        for at in (0..self.trail.len()).rev() {
            let thing = self.trail[at];
            let Some(fact) = self.facts[thing] else {
                continue;
            };
            let false_one = Literal {
                thing,
                taken: !fact.taken,
            };
            let here = literals
                .iter()
                .filter(|literal| self.level_of(**literal) == self.level);
            let done = here.count() <= 1;
            if !literals.contains(&false_one) || (done && fact.level > 0) {
                continue;
            }
            let Some(because) = fact.because else {
                continue;
            };
            let reason = &self.clauses[because];
            origins.extend(&reason.origins);
            literals.remove(&false_one);
            literals.extend(
                reason
                    .literals
                    .iter()
                    .copied()
                    .filter(|l| *l != false_one.not()),
            );
        }
        // The literal that this clause will decide, and the levels of the others.
        let mut levels: Vec<usize> = literals.iter().map(|l| self.level_of(*l)).collect();
        levels.sort_unstable();
        levels.pop();
        self.back_to(levels.pop().unwrap_or(0));
        self.insert(literals.into_iter().collect(), origins)
    }

    fn level_of(&self, literal: Literal) -> usize {
        self.facts[literal.thing].map_or(0, |fact| fact.level)
    }

    fn back_to(&mut self, level: usize) {
        while let Some(thing) = self.trail.last().copied() {
            if self.facts[thing].is_some_and(|fact| fact.level <= level) {
                break;
            }
            self.facts[thing] = None;
            self.trail.pop();
        }
        self.level = level;
    }

    /// Returns the given clauses that cause a conflict without any decision.
    fn roots(&self, broken: usize) -> BTreeSet<usize> {
        let mut origins = BTreeSet::new();
        let (mut open, mut seen) = (vec![broken], BTreeSet::new());
        while let Some(number) = open.pop() {
            if seen.insert(number) {
                origins.extend(&self.clauses[number].origins);
                let literals = self.clauses[number].literals.iter();
                open.extend(literals.filter_map(|literal| self.facts[literal.thing]?.because));
            }
        }
        origins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(clauses: &[&[i32]]) -> Result<Vec<usize>, Vec<usize>> {
        let mut solver = Solver::new(10);
        for clause in clauses {
            let literals = clause.iter().map(|number| match *number > 0 {
                true => take(number.unsigned_abs() as usize),
                false => leave(number.unsigned_abs() as usize),
            });
            solver.add(literals.collect());
        }
        let solved = solver.solve();
        solved
            .map(|things| things.into_iter().collect())
            .map_err(|numbers| numbers.into_iter().collect())
    }

    #[test]
    fn takes_what_is_needed_and_the_preferred_first() {
        assert_eq!(solve(&[&[1], &[-1, 2, 3], &[-4, 5]]), Ok(vec![1, 2]));
        assert_eq!(
            solve(&[&[1], &[-1, 2, 3], &[-2, 4], &[-4, -1]]),
            Ok(vec![1, 3])
        );
    }

    #[test]
    fn says_which_clauses_cannot_hold_together() {
        let clauses: [&[i32]; 6] = [&[9], &[1], &[-1, 2, 3], &[-2, -1], &[-3, -1], &[-5, 6]];
        assert_eq!(solve(&clauses), Err(vec![1, 2, 3, 4]));
    }

    /// Compares all clauses over four packages with a search of all sixteen assignments.
    #[test]
    fn agrees_with_trying_everything() {
        let mut dice: u64 = 7;
        let mut roll = |sides: u64| {
            dice = dice
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (dice >> 33) % sides
        };
        let mut possible = 0;
        for _ in 0..2000 {
            let clauses: Vec<Vec<i32>> = (0..3 + roll(12))
                .map(|_| {
                    let literals = (0..1 + roll(3)).map(|_| {
                        let thing = 1 + roll(4) as i32;
                        if roll(2) == 0 { thing } else { -thing }
                    });
                    literals.collect()
                })
                .collect();
            let holds = |taken: &dyn Fn(i32) -> bool| {
                let mut clauses = clauses.iter();
                clauses.all(|clause| clause.iter().any(|l| taken(l.abs()) == (*l > 0)))
            };
            let any = (0..16).any(|bits: u32| holds(&|thing| bits >> (thing - 1) & 1 == 1));
            let slices: Vec<&[i32]> = clauses.iter().map(Vec::as_slice).collect();
            match solve(&slices) {
                Ok(things) => {
                    possible += 1;
                    assert!(
                        holds(&|thing| things.contains(&(thing as usize))),
                        "{clauses:?}"
                    );
                }
                Err(core) => {
                    assert!(!any, "{clauses:?}");
                    let core: Vec<&[i32]> = core.iter().map(|at| slices[*at]).collect();
                    assert!(solve(&core).is_err(), "{clauses:?}");
                }
            }
        }
        assert!((200..1800).contains(&possible), "{possible}");
    }
}
