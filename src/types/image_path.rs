//! Fields of Kubernetes objects that name images, besides the containers of pods.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::InvalidValue;

/// A field that names an image, in objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePath {
    pub kind: ObjectKind,
    /// The field.
    pub path: FieldPath,
}

/// A kind of Kubernetes objects, as in `ClusterPolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKind(String);

impl ObjectKind {
    /// Parses a kind.
    ///
    /// # Errors
    /// The text is empty, or has characters besides letters and digits.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric()) {
            let reason = "expected letters and digits, as in ClusterPolicy";
            return Err(InvalidValue::new("kind", text, reason));
        }
        Ok(Self(text.to_owned()))
    }
}

crate::text_value!(ObjectKind);

/// The path of a field, as JSONPath of `kubectl`: `.spec.driver.image` or `.spec.steps[*].image`
/// (<https://kubernetes.io/docs/reference/kubectl/jsonpath/>). `[*]` stands for each item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Items,
}

impl FieldPath {
    /// Parses a path. Braces around it and a `$` before it are accepted.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = || {
            let reason = "expected the JSONPath of a field, as in .spec.driver.image or .spec.steps[*].image";
            InvalidValue::new("path", text, reason)
        };
        let bare = text.trim();
        let bare = bare
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(bare);
        let bare = bare.strip_prefix('$').unwrap_or(bare);
        let bare = bare.strip_prefix('.').ok_or_else(wrong)?;
        let mut steps = Vec::new();
        for part in bare.split('.') {
            let mut name = part;
            let mut lists = 0;
            while let Some(rest) = name.strip_suffix("[*]") {
                name = rest;
                lists += 1;
            }
            let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/');
            if name.is_empty() || !name.chars().all(is_letter) {
                return Err(wrong());
            }
            steps.push(Step::Field(name.to_owned()));
            steps.extend((0..lists).map(|_| Step::Items));
        }
        Ok(Self(steps))
    }

    /// Returns the values at this path in an object.
    pub fn values<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let mut values = vec![object];
        for step in &self.0 {
            values = match step {
                Step::Field(name) => values.iter().filter_map(|value| value.get(name)).collect(),
                Step::Items => {
                    let lists = values.iter().filter_map(|value| value.as_array());
                    lists.flatten().collect()
                }
            };
        }
        values
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Items => f.write_str("[*]"),
        })
    }
}

impl FromStr for FieldPath {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text)
    }
}

impl ImagePath {
    /// Parses `Kind:.path`, as options and locks name it.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let (kind, path) = text.split_once(':').ok_or_else(|| {
            InvalidValue::new(
                "path",
                text,
                "expected KIND:PATH, as in Foo:.spec.driver.image",
            )
        })?;
        Ok(Self {
            kind: kind.parse()?,
            path: path.parse()?,
        })
    }
}

impl fmt::Display for ImagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.path)
    }
}

crate::string_value!(ImagePath);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_those_of_kubectl() {
        let object = json!({"spec": {"steps": [{"image": "a"}, {"image": "b"}, {}], "image": "c"}});
        let values = |text: &str| -> Vec<String> {
            let path = FieldPath::parse(text).unwrap();
            let values = path.values(&object).into_iter();
            values
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(values(".spec.steps[*].image"), ["a", "b"]);
        assert_eq!(values("{.spec.image}"), ["c"]);
        assert_eq!(values("$.spec.image"), ["c"]);
        assert!(values(".spec.none[*].image").is_empty());
        let path = FieldPath::parse("{.a.b[*][*].c}").unwrap();
        assert_eq!(path.to_string(), ".a.b[*][*].c");
        for wrong in [
            "",
            ".",
            "spec/image",
            ".spec[0].image",
            ".spec..image",
            "{.spec",
            ".[*]",
        ] {
            assert!(FieldPath::parse(wrong).is_err(), "{wrong}");
        }
        let declared: ImagePath = "Foo:.spec.image".parse().unwrap();
        assert_eq!(
            (declared.kind.as_str(), declared.path.to_string().as_str()),
            ("Foo", ".spec.image")
        );
        assert_eq!(declared.to_string(), "Foo:.spec.image");
        for wrong in ["Foo", ":.spec", "a b:.spec", "Foo:spec"] {
            assert!(wrong.parse::<ImagePath>().is_err(), "{wrong}");
        }
    }
}
