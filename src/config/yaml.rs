//! Parses YAML into a tree of nodes with lines and columns, within limits.
//!
//! A typed reader stops at the first problem. With a tree, kubexm reports all problems of a file at once.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::problem::{Problem, Problems};

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    pub value: Value,
    /// How the file has a number or a truth value, if kubexm would write it otherwise, such as `0x1f`, `1_000` or `y`.
    pub written: Option<String>,
}

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// Keys and values, in the order of the file.
    Map(Vec<(Node, Node)>),
}

/// Maximum size of a file in bytes.
const LARGEST_FILE: usize = 1024 * 1024;

const NUMBER_TOO_LARGE: &str = "the number is too large";

/// Parses one YAML document.
///
/// # Errors
/// The text is larger than 1 MiB, is empty or is not valid YAML, or it contains anchors, a key twice or more than one
/// document.
pub fn parse(file: &str, text: &str) -> Result<Node, Problems> {
    if text.len() > LARGEST_FILE {
        return Err(Problems::whole_file(
            file,
            "is larger than 1 MiB, which is the most that kubexm reads",
            Some("check that this is the right file".to_owned()),
        ));
    }
    if text.trim().is_empty() {
        return Err(Problems::whole_file(
            file,
            "is empty",
            Some("`kubexm config init` prints a file to start from".to_owned()),
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_anchors: 0, max_depth: 64, max_nodes: 100_000 },
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options)
        .map(|value| {
            let mut node = Node::from(value);
            node.set_written(&text.lines().collect::<Vec<_>>());
            node
        })
        .map_err(|error| syntax_problem(file, text, &error))
}

/// Describes an error of the parser with words of its own: the parser's text names options of its library.
fn syntax_problem(file: &str, text: &str, error: &serde_saphyr::Error) -> Problems {
    use serde_saphyr::Error;
    use serde_saphyr::budget::BudgetBreach;
    let tab = text
        .lines()
        .position(|line| line.trim_start_matches(' ').starts_with('\t'));
    let (line, column) = match (tab, error.location()) {
        (Some(at), _) => (at as u64 + 1, 1),
        (None, Some(location)) => (location.line(), location.column()),
        (None, None) => (0, 0),
    };
    let anchors = (
        "anchors and aliases are not accepted".to_owned(),
        "write the value again instead of the alias",
    );
    let too_deep = (
        "fields and lists are nested too deeply".to_owned(),
        "close the brackets; kubexm accepts 64 levels",
    );
    let several = (
        "the file contains more than one document".to_owned(),
        "remove everything from the second '---' on",
    );
    let (message, hint) = match error.without_snippet() {
        _ if tab.is_some() => (
            "a tab indents this line".to_owned(),
            "indent with spaces: YAML does not allow tabs",
        ),
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => anchors,
            BudgetBreach::Documents { .. } => several,
            BudgetBreach::Depth { .. } => too_deep,
            _ => (
                "the file contains too many values".to_owned(),
                "check that this is the right file; kubexm accepts 100000 values",
            ),
        },
        Error::MergeKeyNotAllowed { .. } => (
            "merge keys ('<<') are not accepted".to_owned(),
            "write the fields here",
        ),
        Error::UnknownAnchor { .. } => anchors,
        Error::DuplicateMappingKey { key, .. } => (
            match key {
                Some(key) => format!("the field '{key}' is there twice"),
                None => "a field is there twice".to_owned(),
            },
            "remove one of the two fields",
        ),
        Error::MultipleDocuments { .. } => several,
        Error::ExternalMessage { msg, .. } if msg.contains("recursion limit") => too_deep,
        // The scanner names the syntax that it expected.
        Error::ExternalMessage { msg, .. } => (
            format!(
                "is not valid YAML: {}",
                msg.chars().take(200).collect::<String>()
            ),
            "check indentation, quotes and brackets here and above",
        ),
        Error::Message { msg, .. } if msg == NUMBER_TOO_LARGE => (
            "the number is too large".to_owned(),
            "put it in quotes, or use a number below 2^63",
        ),
        _ => (
            "is not valid YAML".to_owned(),
            "check indentation, quotes and brackets here and above",
        ),
    };
    let problem = Problem {
        line,
        column,
        path: String::new(),
        message,
        hint: Some(hint.to_owned()),
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
            written: None,
        }
    }
}

impl Node {
    fn set_written(&mut self, lines: &[&str]) {
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.set_written(lines)),
            Value::Map(entries) => {
                let nodes = entries.iter_mut().flat_map(|(key, value)| [key, value]);
                nodes.for_each(|node| node.set_written(lines));
            }
            _ => {}
        }
        let Some(canonical) = self.scalar() else {
            return;
        };
        let place = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        let line = place(self.line).and_then(|at| lines.get(at));
        let (Some(line), Some(column)) = (line, place(self.column)) else {
            return;
        };
        let is_part = |letter: &char| !letter.is_whitespace() && !",]}:".contains(*letter);
        let written: String = line.chars().skip(column).take_while(is_part).collect();
        self.written = (written != canonical).then_some(written);
    }

    /// Returns a whole number or a truth value as kubexm writes it.
    pub fn scalar(&self) -> Option<String> {
        match &self.value {
            Value::Bool(value) => Some(value.to_string()),
            Value::Integer(value) => Some(value.to_string()),
            _ => None,
        }
    }

    /// Returns the value as JSON, for settings that kubexm passes on.
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

    /// Returns the key and the value of a field of a mapping.
    pub fn entry(&self, name: &str) -> Option<(&Self, &Self)> {
        let Value::Map(map) = &self.value else {
            return None;
        };
        let (key, value) = map.iter().find(|(key, _)| key.is_text(name))?;
        Some((key, value))
    }

    /// Returns whether the value is this text.
    pub fn is_text(&self, text: &str) -> bool {
        matches!(&self.value, Value::Text(own) if own == text)
    }

    /// Returns the value of a field of a mapping, to change it.
    pub fn field(&mut self, name: &str) -> Option<&mut Self> {
        let Value::Map(map) = &mut self.value else {
            return None;
        };
        let (_, value) = map.iter_mut().find(|(key, _)| key.is_text(name))?;
        Some(value)
    }

    /// Returns the kind of the value for messages.
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
            .map_err(|_| E::custom(NUMBER_TOO_LARGE))
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
