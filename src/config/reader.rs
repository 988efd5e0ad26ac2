//! Reads fields out of a located tree and collects every problem on the way.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use strsim::levenshtein;

use super::problem::{Problem, Problems};
use super::yaml::{Node, Value};

/// Where problems are collected while a file is read.
pub struct Reader {
    /// Which schema describes the file, as in `kubexm config schema cluster`.
    schema: &'static str,
    problems: RefCell<Vec<Problem>>,
}

/// The fields of one mapping. Fields that nobody asked for are reported by [`Fields::finish`].
pub struct Fields<'a> {
    reader: &'a Reader,
    node: &'a Node,
    path: String,
    entries: BTreeMap<&'a str, &'a Node>,
    keys: Vec<(&'a str, &'a Node)>,
    known: RefCell<Vec<&'static str>>,
}

impl Reader {
    /// A reader for files that a schema describes.
    pub fn new(schema: &'static str) -> Self {
        let problems = RefCell::default();
        Self { schema, problems }
    }

    /// Notes a problem at a node.
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

    /// Whether nothing was wrong so far.
    pub fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// The value, or everything that was wrong.
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

    /// The fields of a node that must be a mapping; an empty node counts as one without fields.
    pub fn fields<'a>(&'a self, node: &'a Node, path: &str) -> Fields<'a> {
        let mut entries = BTreeMap::new();
        let mut keys = Vec::new();
        match &node.value {
            Value::Map(map) => {
                for (key, value) in map {
                    match &key.value {
                        Value::Text(name) => {
                            entries.insert(name.as_str(), value);
                            keys.push((name.as_str(), key));
                        }
                        _ => self.problem(key, path, "a field's name must be text", None),
                    }
                }
            }
            Value::Null => {}
            _ => self.problem(
                node,
                path,
                format!("wants fields, not {}", node.kind()),
                None,
            ),
        }
        let known = RefCell::new(Vec::new());
        Fields {
            reader: self,
            node,
            path: path.to_owned(),
            entries,
            keys,
            known,
        }
    }

    /// A value type from a scalar.
    pub fn value<T: FromStr<Err: Display>>(&self, node: &Node, path: &str) -> Option<T> {
        let text = self.text(node, path)?;
        text.parse()
            .map_err(|error| self.problem(node, path, error, None))
            .ok()
    }

    /// Text; whole numbers and booleans are taken as they are written.
    pub fn text(&self, node: &Node, path: &str) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Float(_) => {
                let hint = "put it in quotes: YAML reads 1.30 as the number 1.3";
                self.problem(node, path, "wants text, not a number", Some(hint));
                None
            }
            _ => {
                self.problem(node, path, format!("wants text, not {}", node.kind()), None);
                None
            }
        }
    }

    /// The items of a list, with their paths. One bare value counts as a list of one.
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
                    "wants a list, not fields",
                    Some("begin each item with '- '"),
                );
                Vec::new()
            }
            _ => vec![(node, path.to_owned())],
        }
    }

    /// A mapping of names to scalars.
    pub fn text_map(&self, node: &Node, path: &str) -> BTreeMap<String, String> {
        let fields = self.fields(node, path);
        let mut map = BTreeMap::new();
        for (name, value) in &fields.entries {
            if let Some(text) = self.text(value, &format!("{path}.{name}")) {
                map.insert((*name).to_owned(), text);
            }
        }
        map
    }
}

impl<'a> Fields<'a> {
    /// The reader that collects problems.
    pub fn reader(&self) -> &'a Reader {
        self.reader
    }

    /// The path of a field in here.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// The node itself.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// A field, where it is given and not empty.
    pub fn get(&self, name: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(name);
        self.entries
            .get(name)
            .copied()
            .filter(|node| !matches!(node.value, Value::Null))
    }

    /// A field at any depth below, by its path from here, as in `a.b[1].c`: where a problem is told that
    /// two sections make together.
    pub fn at(&self, path: &str) -> Option<&'a Node> {
        let mut node = self.node;
        for name in path.split('.') {
            let (name, item) = match name.strip_suffix(']').and_then(|text| text.split_once('[')) {
                Some((name, item)) => (name, Some(item.parse::<usize>().ok()?)),
                None => (name, None),
            };
            let Value::Map(map) = &node.value else {
                return None;
            };
            let is = |key: &Node| matches!(&key.value, Value::Text(text) if text == name);
            node = &map.iter().find(|(key, _)| is(key))?.1;
            node = match (item, &node.value) {
                (Some(item), Value::List(items)) => items.get(item)?,
                // One bare value counts as a list of one.
                _ => node,
            };
        }
        Some(node)
    }

    /// A field that must be there.
    pub fn required(&self, name: &'static str) -> Option<&'a Node> {
        let node = self.get(name);
        if node.is_none() {
            self.reader
                .problem(self.node, &self.path(name), "is missing", None);
        }
        node
    }

    /// The fields of a sub-mapping; none where it is not given.
    pub fn section(&self, name: &'static str) -> Option<Fields<'a>> {
        self.get(name)
            .map(|node| self.reader.fields(node, &self.path(name)))
    }

    /// A value type.
    pub fn value<T: FromStr<Err: Display>>(&self, name: &'static str) -> Option<T> {
        self.reader.value(self.get(name)?, &self.path(name))
    }

    /// Text.
    pub fn text(&self, name: &'static str) -> Option<String> {
        self.reader.text(self.get(name)?, &self.path(name))
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &'static str, default: bool) -> bool {
        match self.get(name) {
            None => default,
            Some(Node {
                value: Value::Bool(value),
                ..
            }) => *value,
            Some(node) => {
                let message = format!("wants true or false, not {}", node.kind());
                self.reader.problem(node, &self.path(name), message, None);
                default
            }
        }
    }

    /// A whole number within bounds.
    pub fn number(&self, name: &'static str, least: i64, most: i64) -> Option<i64> {
        let node = self.get(name)?;
        match node.value {
            Value::Integer(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                let message = format!("wants a whole number from {least} to {most}");
                self.reader.problem(node, &self.path(name), message, None);
                None
            }
        }
    }

    /// A list of value types; one bare value counts as a list of one.
    pub fn values<T: FromStr<Err: Display>>(&self, name: &'static str) -> Vec<T> {
        let Some(node) = self.get(name) else {
            return Vec::new();
        };
        let items = self.reader.items(node, &self.path(name));
        items
            .iter()
            .filter_map(|(item, path)| self.reader.value(item, path))
            .collect()
    }

    /// One of several words; others get the list of what is taken and what is not yet.
    pub fn choice(
        &self,
        name: &'static str,
        taken: &[&'static str],
        later: &[&str],
    ) -> Option<&'static str> {
        let node = self.get(name)?;
        let text = self.reader.text(node, &self.path(name))?;
        if let Some(found) = taken.iter().find(|word| **word == text) {
            return Some(found);
        }
        let hint = format!(
            "kubexm {} takes: {}",
            env!("CARGO_PKG_VERSION"),
            taken.join(", ")
        );
        let message = if later.contains(&text.as_str()) {
            format!("'{text}' is not supported yet")
        } else {
            format!("'{}' is unknown", text.chars().take(80).collect::<String>())
        };
        self.reader
            .problem(node, &self.path(name), message, Some(&hint));
        None
    }

    /// One of the values that have names.
    pub fn one_of<T: Copy>(
        &self,
        name: &'static str,
        all: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Option<T> {
        let names: Vec<_> = all.iter().map(|value| name_of(*value)).collect();
        let chosen = self.choice(name, &names, &[])?;
        all.iter().copied().find(|value| name_of(*value) == chosen)
    }

    /// Names with scalars.
    pub fn text_map(&self, name: &'static str) -> BTreeMap<String, String> {
        self.get(name).map_or_else(BTreeMap::new, |node| {
            self.reader.text_map(node, &self.path(name))
        })
    }

    /// Settings passed on as they are; an empty object where there are none.
    pub fn json_object(&self, name: &'static str) -> serde_json::Value {
        match self.get(name) {
            Some(
                node @ Node {
                    value: Value::Map(_),
                    ..
                },
            ) => node.to_json(),
            Some(node) => {
                let message = format!("wants fields, not {}", node.kind());
                self.reader.problem(node, &self.path(name), message, None);
                serde_json::json!({})
            }
            None => serde_json::json!({}),
        }
    }

    /// All entries, for mappings whose keys are the user's own.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Node)> + '_ {
        self.entries.iter().map(|(name, node)| (*name, *node))
    }

    /// Reports every field that was not asked for, with the nearest name that was.
    pub fn finish(self) {
        let known = self.known.borrow();
        for (name, key) in &self.keys {
            if known.contains(name) {
                continue;
            }
            let near = known
                .iter()
                .min_by_key(|candidate| levenshtein(name, candidate));
            let hint = match near {
                Some(near) if levenshtein(name, near) <= 3 => format!("did you mean '{near}'?"),
                _ => {
                    let unique: std::collections::BTreeSet<_> = known.iter().collect();
                    let names: Vec<_> = unique.into_iter().map(ToString::to_string).collect();
                    format!("known here: {}", names.join(", "))
                }
            };
            self.reader
                .problem(key, &self.path(name), "unknown field", Some(&hint));
        }
    }
}
