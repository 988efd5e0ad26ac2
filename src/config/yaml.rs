//! YAML as a tree that knows its lines and columns, read within limits.
//!
//! A typed reader stops at the first fault; this tree lets a whole file be checked in one run.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::problem::{Problem, Problems};

/// A value and where it begins.
#[derive(Debug, Clone)]
pub struct Node {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys (text, at their place) and values, in the file's order.
    Map(Vec<(Node, Node)>),
}

/// Files that people write are smaller.
const LARGEST_FILE: usize = 1024 * 1024;

/// Reads one YAML document.
///
/// # Errors
/// One problem: the file is too large, no YAML, uses anchors, or has a key twice.
pub fn parse(file: &str, text: &str) -> Result<Node, Problems> {
    if text.len() > LARGEST_FILE {
        return Err(Problems::whole_file(
            file,
            format!(
                "is {} bytes long; kubexm reads configuration up to 1 MiB",
                text.len()
            ),
            Some("is this the right file?".to_owned()),
        ));
    }
    if text.trim().is_empty() {
        return Err(Problems::whole_file(
            file,
            "is empty",
            Some("`kubexm config init` prints one to start from".to_owned()),
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_anchors: 0, max_depth: 64, max_nodes: 100_000 },
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options)
        .map(Node::from)
        .map_err(|error| syntax_problem(file, text, &error))
}

fn syntax_problem(file: &str, text: &str, error: &serde_saphyr::Error) -> Problems {
    let (line, column) = error
        .location()
        .map_or((0, 0), |location| (location.line(), location.column()));
    let words = error.to_string();
    let tab = text
        .lines()
        .position(|line| line.trim_start_matches(' ').starts_with('\t'));
    let (line, column, hint) = match tab {
        Some(at) => (
            at as u64 + 1,
            1,
            Some("YAML is indented with spaces, never with tabs".to_owned()),
        ),
        None if ["nchor", "budget", "recursion"]
            .iter()
            .any(|word| words.contains(word)) =>
        {
            (
                line,
                column,
                Some("anchors, aliases and deep nesting are not taken".to_owned()),
            )
        }
        None if words.contains("uplicate") => (
            line,
            column,
            Some("a field may stand there only once: remove one of the two".to_owned()),
        ),
        None if words.contains("document") => (
            line,
            column,
            Some("one file holds one document: take away what follows '---'".to_owned()),
        ),
        None => (
            line,
            column,
            Some("look at the indentation, quotes and brackets there and above".to_owned()),
        ),
    };
    let short: String = words
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect();
    let problem = Problem {
        line,
        column,
        path: String::new(),
        message: format!("is no valid YAML: {short}"),
        hint,
    };
    Problems {
        file: file.to_owned(),
        list: vec![problem],
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self {
            line: spanned.referenced.line(),
            column: spanned.referenced.column(),
            value: spanned.value,
        }
    }
}

impl Node {
    /// The value as JSON, for settings that kubexm passes on unread.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(value) => value.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => serde_json::Value::Object(
                entries
                    .iter()
                    .filter_map(|(key, value)| match &key.value {
                        Value::Text(key) => Some((key.clone(), value.to_json())),
                        _ => None,
                    })
                    .collect(),
            ),
        }
    }

    /// What kind of value it is, in a user's words.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "fields",
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: serde::Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        Value::deserialize(inner)
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value)
            .map(Value::Integer)
            .map_err(|_| E::custom("the number is too large"))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Value>>()? {
            items.push(item.into());
        }
        Ok(Value::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<Value>, Spanned<Value>>()? {
            entries.push((key.into(), value.into()));
        }
        Ok(Value::Map(entries))
    }
}
