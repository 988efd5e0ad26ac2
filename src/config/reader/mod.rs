//! Reads values from a tree of nodes and collects every problem and every notice. [`Fields`] reads mappings.

mod fields;

use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;

use crate::cluster::FormerNames;
use crate::problem::{Notice, Problem, Problems};
use crate::yaml::{Node, Value};

pub use fields::Fields;

/// Collects the problems and the notices of one file.
pub struct Reader {
    /// The schema that describes the file, as in `kubexm config schema cluster`.
    schema: &'static str,
    problems: RefCell<Vec<Problem>>,
    notices: RefCell<Vec<Problem>>,
}

/// The values that a field accepts.
#[derive(Clone, Copy, Default)]
pub struct Choice<'a> {
    /// The accepted values.
    pub accepted: &'a [&'static str],
    /// Former names of accepted values.
    pub former: FormerNames,
    /// Values that a later version of kubexm may accept.
    pub later: &'a [&'static str],
}

/// Returns a choice without former names.
pub fn accept<'a>(accepted: &'a [&'static str]) -> Choice<'a> {
    Choice {
        accepted,
        ..Choice::default()
    }
}

impl Reader {
    /// Creates a reader for files that `schema` describes.
    pub fn new(schema: &'static str) -> Self {
        Self {
            schema,
            problems: RefCell::default(),
            notices: RefCell::default(),
        }
    }

    /// Adds a problem at a node. Without a hint, it refers to the schema.
    pub fn problem(&self, node: &Node, path: &str, message: impl Display, hint: Option<&str>) {
        self.problems.borrow_mut().push(Problem {
            line: node.line,
            column: node.column,
            path: path.to_owned(),
            message: message.to_string(),
            hint: Some(hint.map_or_else(
                || {
                    format!(
                        "`kubexm config schema {}` describes every field",
                        self.schema
                    )
                },
                str::to_owned,
            )),
        });
    }

    /// Returns true if there is a problem at this path or below it.
    pub fn has_problem_at(&self, path: &str) -> bool {
        let problems = self.problems.borrow();
        problems.iter().any(|problem| {
            let below = problem.path.strip_prefix(path);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Adds a notice at a node: the file is accepted, and the user should change it.
    pub fn notice(&self, node: &Node, path: &str, message: String, hint: &str) {
        self.notices.borrow_mut().push(Problem {
            line: node.line,
            column: node.column,
            path: path.to_owned(),
            message,
            hint: Some(hint.to_owned()),
        });
    }

    /// Removes and returns the notices, in the order of the file.
    pub fn take_notices(&self, file: &str) -> Vec<Notice> {
        let mut notices = self.notices.take();
        notices.sort();
        let notice = |problem| Notice {
            file: file.to_owned(),
            problem,
        };
        notices.into_iter().map(notice).collect()
    }

    /// Returns the value if there is no problem.
    ///
    /// # Errors
    /// All problems, in the order of the file.
    pub fn finish<T>(self, file: &str, value: Option<T>) -> Result<T, Problems> {
        let mut list = self.problems.into_inner();
        list.sort();
        list.dedup();
        match value {
            Some(value) if list.is_empty() => Ok(value),
            _ => Err(Problems {
                file: file.to_owned(),
                list,
            }),
        }
    }

    /// Parses a scalar.
    pub fn value<T: FromStr<Err: Display>>(&self, node: &Node, path: &str) -> Option<T> {
        let text = self.text(node, path)?;
        text.parse()
            .map_err(|error| self.problem(node, path, error, None))
            .ok()
    }

    /// Returns a scalar as text. Whole numbers and truth values are text if YAML and the user read them alike.
    pub fn text(&self, node: &Node, path: &str) -> Option<String> {
        if let (Some(written), Some(read)) = (&node.written, node.scalar()) {
            let message = format!("expected text, and YAML reads {written} as {read}");
            let hint = format!("put it in quotes: '{written}'");
            self.problem(node, path, message, Some(&hint));
            return None;
        }
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(_) | Value::Bool(_) => node.scalar(),
            Value::Float(_) => {
                let hint = "put it in quotes: YAML reads 1.30 as the number 1.3";
                self.problem(node, path, "expected text, found a number", Some(hint));
                None
            }
            _ => {
                let message = format!("expected text, found {}", node.kind());
                self.problem(node, path, message, None);
                None
            }
        }
    }

    /// Returns the items of a list with their paths. A scalar is a list of one item.
    pub fn items<'a>(&self, node: &'a Node, path: &str) -> Vec<(&'a Node, String)> {
        match &node.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(at, item)| (item, format!("{path}[{at}]")))
                .collect(),
            Value::Null => Vec::new(),
            Value::Map(_) => {
                self.problem(
                    node,
                    path,
                    "expected a list, found fields",
                    Some("begin each item with '- '"),
                );
                Vec::new()
            }
            _ => vec![(node, path.to_owned())],
        }
    }

    /// Returns the accepted value that a node contains. A former name gives its replacement and a notice.
    pub fn choose(&self, node: &Node, path: &str, choice: Choice<'_>) -> Option<&'static str> {
        let text = self.text(node, path)?;
        if let Some(found) = choice.accepted.iter().find(|value| **value == text) {
            return Some(found);
        }
        if let Some((former, name)) = choice.former.iter().find(|(former, _)| *former == text) {
            let message = format!("'{former}' is the former name of '{name}'");
            self.notice(node, path, message, &format!("write {name}"));
            return Some(name);
        }
        let hint = format!(
            "kubexm {} accepts: {}",
            env!("CARGO_PKG_VERSION"),
            choice.accepted.join(", ")
        );
        let message = if choice.later.contains(&text.as_str()) {
            format!("'{text}' is not supported yet")
        } else {
            format!(
                "unknown value '{}'",
                text.chars().take(80).collect::<String>()
            )
        };
        self.problem(node, path, message, Some(&hint));
        None
    }
}
