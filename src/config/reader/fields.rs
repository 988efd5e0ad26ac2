//! Reads the fields of a mapping.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use strsim::levenshtein;

use super::{Choice, Reader, accept};
use crate::yaml::{Node, Value};

/// The fields of one mapping. [`Fields::finish`] reports the fields that no code has read.
pub struct Fields<'a> {
    reader: &'a Reader,
    node: &'a Node,
    path: String,
    entries: BTreeMap<&'a str, &'a Node>,
    keys: Vec<(&'a str, &'a Node)>,
    known: RefCell<Vec<&'static str>>,
}

impl Reader {
    /// Returns the fields of a node that must be a mapping. A null node is a mapping without fields.
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
                        _ => self.problem(key, path, "the name of a field must be text", None),
                    }
                }
            }
            Value::Null => {}
            _ => self.problem(
                node,
                path,
                format!("expected fields, found {}", node.kind()),
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
}

impl<'a> Fields<'a> {
    /// Returns the reader that collects problems.
    pub fn reader(&self) -> &'a Reader {
        self.reader
    }

    /// Returns the path of one of these fields.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Returns the mapping's node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Returns a field, if it is present and not null.
    pub fn get(&self, name: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(name);
        self.entries
            .get(name)
            .copied()
            .filter(|node| !matches!(node.value, Value::Null))
    }

    /// Adds a problem at the value of a field, if the field is present. Without a hint, it refers to the schema.
    pub fn problem(&self, name: &'static str, message: impl Display, hint: Option<&str>) {
        if let Some(node) = self.get(name) {
            self.reader.problem(node, &self.path(name), message, hint);
        }
    }

    /// Adds a problem at the mapping itself. Without a hint, it refers to the schema.
    pub fn problem_here(&self, message: impl Display, hint: Option<&str>) {
        self.reader.problem(self.node, &self.path, message, hint);
    }

    /// Returns true if there is a problem at the mapping or below it.
    pub fn has_problem(&self) -> bool {
        self.reader.has_problem_at(&self.path)
    }

    /// Refuses a field that the reader does not have, with a hint about the field to use. The problem is at the name of
    /// the field, which may have no value.
    pub fn refuse(&self, name: &'static str, message: &str, hint: &str) {
        if let Some((_, key)) = self.keys.iter().find(|(key, _)| *key == name) {
            self.known.borrow_mut().push(name);
            self.reader
                .problem(key, &self.path(name), message, Some(hint));
        }
    }

    /// Returns the node at a path below this mapping, such as `a.b[1].c`. Checks that involve two sections
    /// use it to report their place.
    pub fn at(&self, path: &str) -> Option<&'a Node> {
        let mut node = self.node;
        for name in path.split('.') {
            let (name, item) = match name.strip_suffix(']').and_then(|text| text.split_once('[')) {
                Some((name, item)) => (name, Some(item.parse::<usize>().ok()?)),
                None => (name, None),
            };
            let (_, value) = node.entry(name)?;
            node = match (item, &value.value) {
                (Some(item), Value::List(items)) => items.get(item)?,
                // A scalar is a list of one item.
                _ => value,
            };
        }
        Some(node)
    }

    /// Returns a field, and reports a problem if it is missing.
    pub fn required(&self, name: &'static str) -> Option<&'a Node> {
        let node = self.get(name);
        if node.is_none() {
            self.reader
                .problem(self.node, &self.path(name), "is missing", None);
        }
        node
    }

    /// Returns whether all these fields are present, and reports those that are missing as one problem.
    pub fn require_all(&self, names: &[&'static str], hint: &str) -> bool {
        let names = names.iter().copied();
        let missing: Vec<&str> = names.filter(|name| self.get(name).is_none()).collect();
        let message = match missing.as_slice() {
            [] => return true,
            [name] => format!("{name} is missing"),
            [names @ .., last] => format!("{} and {last} are missing", names.join(", ")),
        };
        self.problem_here(message, Some(hint));
        false
    }

    /// Returns the fields of a mapping inside this one, if it is present.
    pub fn section(&self, name: &'static str) -> Option<Fields<'a>> {
        self.get(name)
            .map(|node| self.reader.fields(node, &self.path(name)))
    }

    /// Reads the mappings of a list. `read` returns `None` for a mapping that it reported. A mapping is a list of one item.
    pub fn sections<T>(
        &self,
        name: &'static str,
        mut read: impl FnMut(&Fields<'a>) -> Option<T>,
    ) -> Vec<T> {
        let Some(node) = self.get(name) else {
            return Vec::new();
        };
        let mut values = Vec::new();
        for (item, path) in self.reader.items(node, &self.path(name)) {
            let fields = self.reader.fields(item, &path);
            values.extend(read(&fields));
            fields.finish();
        }
        values
    }

    /// Parses a field, if it is present.
    pub fn value<T: FromStr<Err: Display>>(&self, name: &'static str) -> Option<T> {
        self.reader.value(self.get(name)?, &self.path(name))
    }

    /// Returns a field as text, if it is present.
    pub fn text(&self, name: &'static str) -> Option<String> {
        self.reader.text(self.get(name)?, &self.path(name))
    }

    /// Returns a boolean field, or `default` if it is missing.
    pub fn flag(&self, name: &'static str, default: bool) -> bool {
        match self.get(name) {
            None => default,
            Some(Node {
                value: Value::Bool(value),
                ..
            }) => *value,
            Some(node) => {
                let message = format!("expected true or false, found {}", node.kind());
                self.problem(name, message, None);
                default
            }
        }
    }

    /// Returns a whole number from `min` to `max`, if the field is present.
    pub fn number(&self, name: &'static str, min: i64, max: i64) -> Option<i64> {
        let node = self.get(name)?;
        match node.value {
            Value::Integer(number) if (min..=max).contains(&number) => Some(number),
            _ => {
                let message = format!("expected a whole number from {min} to {max}");
                self.problem(name, message, None);
                None
            }
        }
    }

    /// Parses the items of a list. A scalar is a list of one item.
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

    /// Returns the accepted value that a field contains, if the field is present.
    pub fn choice(&self, name: &'static str, choice: Choice<'_>) -> Option<&'static str> {
        let node = self.get(name)?;
        self.reader.choose(node, &self.path(name), choice)
    }

    /// Returns the accepted values that a list contains.
    pub fn choices(&self, name: &'static str, choice: Choice<'_>) -> Vec<&'static str> {
        let Some(node) = self.get(name) else {
            return Vec::new();
        };
        let items = self.reader.items(node, &self.path(name));
        items
            .iter()
            .filter_map(|(item, path)| self.reader.choose(item, path, choice))
            .collect()
    }

    /// Returns the value whose name a field contains, if the field is present.
    pub fn one_of<T: Copy>(
        &self,
        name: &'static str,
        all: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Option<T> {
        let names: Vec<_> = all.iter().map(|value| name_of(*value)).collect();
        let chosen = self.choice(name, accept(&names))?;
        all.iter().copied().find(|value| name_of(*value) == chosen)
    }

    /// Parses the keys and the values of a mapping; empty if the field is missing.
    pub fn map<K, V>(&self, name: &'static str) -> BTreeMap<K, V>
    where
        K: FromStr<Err: Display> + Ord,
        V: FromStr<Err: Display>,
    {
        let Some(fields) = self.section(name) else {
            return BTreeMap::new();
        };
        let mut map = BTreeMap::new();
        for (name, key, value) in fields.keyed() {
            let path = fields.path(name);
            let parsed = name.parse::<K>();
            let parsed = parsed.map_err(|error| self.reader.problem(key, &path, error, None));
            if let (Ok(key), Some(value)) = (parsed, self.reader.value(value, &path)) {
                map.insert(key, value);
            }
        }
        map
    }

    /// Returns a mapping as JSON; an empty object if the field is missing.
    pub fn json_object(&self, name: &'static str) -> serde_json::Value {
        match self.get(name) {
            Some(
                node @ Node {
                    value: Value::Map(_),
                    ..
                },
            ) => node.to_json(),
            Some(node) => {
                let message = format!("expected fields, found {}", node.kind());
                self.problem(name, message, None);
                serde_json::json!({})
            }
            None => serde_json::json!({}),
        }
    }

    /// Returns all entries with the nodes of key and value, for mappings whose keys are chosen by the user.
    pub fn keyed(&self) -> impl Iterator<Item = (&'a str, &'a Node, &'a Node)> + '_ {
        let keys = self.keys.iter();
        keys.filter_map(|(name, key)| Some((*name, *key, *self.entries.get(name)?)))
    }

    /// Returns all entries, for mappings whose keys are chosen by the user.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Node)> + '_ {
        self.entries.iter().map(|(name, node)| (*name, *node))
    }

    /// Reports every field that no code has read, with the most similar name that code has read.
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
                Some(near) if levenshtein(name, near) <= most_typos(name) => {
                    format!("did you mean '{near}'?")
                }
                _ => {
                    let unique: std::collections::BTreeSet<_> = known.iter().collect();
                    let names: Vec<_> = unique.into_iter().map(ToString::to_string).collect();
                    format!("known fields: {}", names.join(", "))
                }
            };
            self.reader
                .problem(key, &self.path(name), "unknown field", Some(&hint));
        }
    }
}

/// Returns how many letters of a name can be wrong. With more, a short name is similar to everything.
fn most_typos(name: &str) -> usize {
    (name.chars().count() / 2).clamp(1, 3)
}
