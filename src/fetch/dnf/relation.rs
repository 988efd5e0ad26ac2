//! Relations between packages: names with version ranges, and rich dependencies over them
//! (<https://rpm-software-management.github.io/rpm/manual/boolean_dependencies.html>).

use std::fmt;

use super::evr::{Evr, Range, Sense};

/// Maximum nesting depth of a rich dependency.
const DEEPEST: usize = 16;

/// A name with a version range, which a package provides or requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// A package, a library, a file or any other name.
    pub name: String,
    /// `None` for all versions.
    pub range: Option<Range>,
}

impl Capability {
    /// Returns the name with any version.
    pub fn any(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            range: None,
        }
    }

    /// Whether a capability with the versions `other`, or without versions, satisfies this one.
    pub fn takes(&self, other: Option<&Range>) -> bool {
        match (&self.range, other) {
            (Some(wanted), Some(given)) => wanted.overlaps(given),
            _ => true,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.range {
            Some(range) => write!(f, "{} {range}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A requirement of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// A capability that a package provides.
    Plain(Capability),
    /// All of them.
    And(Vec<Relation>),
    /// One of them.
    Or(Vec<Relation>),
    /// All of them from one package.
    With(Vec<Relation>),
    /// The first from a package that does not provide the second.
    Without(Box<Relation>, Box<Relation>),
    /// `wanted` if the condition has the value `holds`, otherwise the alternative. Without an alternative,
    /// `if` is "`wanted` or not `condition`", and `unless` is "`wanted` and not `condition`".
    When {
        wanted: Box<Relation>,
        condition: Box<Relation>,
        /// The required value of the condition: true for `if`, false for `unless`.
        holds: bool,
        /// The alternative after `else`.
        otherwise: Option<Box<Relation>>,
    },
}

impl Relation {
    /// Parses a rich dependency, `(…)`, or a plain name.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let shown: String = text.chars().take(120).collect();
            format!("the dependency '{shown}' cannot be read")
        };
        if !text.starts_with('(') {
            return Ok(Self::Plain(Capability::any(text)));
        }
        let mut tokens = Tokens { rest: text };
        let relation = rich(&mut tokens, 0).ok_or_else(wrong)?;
        if tokens.rest.trim().is_empty() {
            Ok(relation)
        } else {
            Err(wrong())
        }
    }

    /// Calls `see` with every capability in the relation.
    pub fn each_capability<'a>(&'a self, see: &mut dyn FnMut(&'a Capability)) {
        match self {
            Self::Plain(capability) => see(capability),
            Self::And(parts) | Self::Or(parts) | Self::With(parts) => {
                parts.iter().for_each(|part| part.each_capability(see));
            }
            Self::Without(first, second) => {
                first.each_capability(see);
                second.each_capability(see);
            }
            Self::When {
                wanted,
                condition,
                otherwise,
                ..
            } => {
                wanted.each_capability(see);
                condition.each_capability(see);
                if let Some(otherwise) = otherwise {
                    otherwise.each_capability(see);
                }
            }
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Relation], word: &str| {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            write!(f, "({})", parts.join(word))
        };
        match self {
            Self::Plain(capability) => capability.fmt(f),
            Self::And(parts) => join(f, parts, " and "),
            Self::Or(parts) => join(f, parts, " or "),
            Self::With(parts) => join(f, parts, " with "),
            Self::Without(first, second) => write!(f, "({first} without {second})"),
            Self::When {
                wanted,
                condition,
                holds,
                otherwise,
            } => {
                let word = if *holds { "if" } else { "unless" };
                write!(f, "({wanted} {word} {condition}")?;
                match otherwise {
                    Some(otherwise) => write!(f, " else {otherwise})"),
                    None => f.write_str(")"),
                }
            }
        }
    }
}

/// The tokens of a rich dependency; a token may contain parentheses, as in `libc.so.6(GLIBC_2.4)`.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn take(&mut self, sign: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let mut open = 0usize;
        let end = self.rest.find(|c: char| {
            match c {
                '(' => open += 1,
                ')' if open == 0 => return true,
                ')' => open -= 1,
                _ => {}
            }
            c.is_whitespace()
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Returns the next token if it is an operator such as `>=`.
    fn sense(&mut self) -> Option<Sense> {
        let before = self.rest;
        let sense = self.word().and_then(Sense::parse);
        if sense.is_none() {
            self.rest = before;
        }
        sense
    }
}

fn rich(tokens: &mut Tokens<'_>, depth: usize) -> Option<Relation> {
    if depth > DEEPEST || !tokens.take('(') {
        return None;
    }
    let first = operand(tokens, depth)?;
    if tokens.take(')') {
        return Some(first);
    }
    let word = tokens.word()?;
    let second = operand(tokens, depth)?;
    let relation = match word {
        "and" | "or" | "with" => {
            let mut parts = vec![first, second];
            while !tokens.take(')') {
                if tokens.word()? != word {
                    return None;
                }
                parts.push(operand(tokens, depth)?);
            }
            return Some(match word {
                "and" => Relation::And(parts),
                "or" => Relation::Or(parts),
                _ => Relation::With(parts),
            });
        }
        "without" => Relation::Without(Box::new(first), Box::new(second)),
        "if" | "unless" => {
            let mut otherwise = None;
            if !tokens.rest.trim_start().starts_with(')') {
                if tokens.word()? != "else" {
                    return None;
                }
                otherwise = Some(Box::new(operand(tokens, depth)?));
            }
            Relation::When {
                wanted: Box::new(first),
                condition: Box::new(second),
                holds: word == "if",
                otherwise,
            }
        }
        _ => return None,
    };
    tokens.take(')').then_some(relation)
}

fn operand(tokens: &mut Tokens<'_>, depth: usize) -> Option<Relation> {
    if tokens.rest.trim_start().starts_with('(') {
        return rich(tokens, depth + 1);
    }
    let name = tokens.word()?.to_owned();
    let range = match tokens.sense() {
        Some(sense) => Some(Range {
            sense,
            evr: Evr::parse(tokens.word()?),
        }),
        None => None,
    };
    Some(Relation::Plain(Capability { name, range }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rich_dependencies_are_read_and_said_again() {
        for text in [
            "plain",
            "(a or b)",
            "(a and b >= 1:2-3 and c)",
            "(a(x86-64) if (b < 2 or c) else d)",
            "(a unless b)",
            "(a = 1 with a(y) < 2)",
            "(a without b)",
        ] {
            assert_eq!(Relation::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let deep = format!("{}a{}", "(".repeat(40), ")".repeat(40));
        for text in [
            "(a",
            "(a or)",
            "(a or b and c)",
            "(a if b c)",
            "()",
            "(a) b",
            &deep,
        ] {
            assert!(Relation::parse(text).is_err(), "{text}");
        }
    }
}
