//! Values for the templates of a chart.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{DeployError, controller_file};
use kubexm_config::cluster::{ApplicationValues, ValueSource};
use kubexm_pki::{KeyIdentity, is_encrypted};
use kubexm_render::RenderError;
use kubexm_types::{Message, Secret};

/// The largest size of a file with values, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Takes the place of a secret value that is left out.
pub(super) const HIDDEN: &str = "hidden";

/// Whether values are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    Read,
    /// Encrypted files are left out, and a text takes the place of each secret value: a machine that builds a bundle does not
    /// have them.
    LeftOut,
}

/// Returns the values. They may have secrets.
///
/// # Errors
/// A file or a variable cannot be read, or the content of a file is not a mapping.
pub(super) fn merged(
    values: &ApplicationValues,
    secrets: Secrets,
) -> Result<Map<String, Value>, DeployError> {
    let mut merged = Map::new();
    for path in &values.files {
        if let Some(text) = content(path, values.identity.as_deref(), secrets)? {
            merge(&mut merged, mapping(path, &text)?);
        }
    }
    if let Some(own) = &values.own {
        let own = serde_json::from_str(&own.0);
        merge(&mut merged, own.unwrap_or_default());
    }
    for secret in &values.secrets {
        let text = match secrets {
            Secrets::Read => read(&secret.source)?,
            Secrets::LeftOut => HIDDEN.to_owned(),
        };
        let mut names = secret.path.iter().rev();
        let innermost = names.next().map(|name| (name.clone(), text.into()));
        let mut value: Map<String, Value> = innermost.into_iter().collect();
        for name in names {
            value = Map::from_iter([(name.clone(), value.into())]);
        }
        merge(&mut merged, value);
    }
    Ok(merged)
}

/// Returns the files that [`Secrets::LeftOut`] leaves out.
///
/// # Errors
/// A file cannot be read.
pub(super) fn encrypted(values: &ApplicationValues) -> Result<Vec<PathBuf>, DeployError> {
    let mut found = Vec::new();
    for path in &values.files {
        if is_encrypted(&controller_file::bytes_at_most(path, LARGEST)?) {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// Returns the text of a file with values; `None` if it is left out.
fn content(
    path: &Path,
    identity: Option<&Path>,
    secrets: Secrets,
) -> Result<Option<String>, DeployError> {
    let bytes = controller_file::bytes_at_most(path, LARGEST)?;
    if !is_encrypted(&bytes) {
        return controller_file::text(path, bytes).map(Some);
    }
    if secrets == Secrets::LeftOut {
        return Ok(None);
    }
    let hint = "name the identity file of age with which it is decrypted in valuesIdentity";
    let failed = |cause: &dyn Display| {
        let text = format!("cannot decrypt {}: {cause}", path.display());
        DeployError::Encrypted(Message::new(text).hint(hint))
    };
    let file = identity.ok_or_else(|| failed(&"the application has no valuesIdentity"))?;
    let identity = controller_file::read_at_most(file, LARGEST)?;
    let identity = KeyIdentity::parse(&identity)
        .map_err(|reason| failed(&format!("{}: {reason}", file.display())))?;
    let text = identity.decrypt_text(&bytes);
    text.map(Some).map_err(|error| failed(&error))
}

fn read(source: &ValueSource) -> Result<String, DeployError> {
    match source {
        ValueSource::Variable(name) => Ok(Secret::from_variable(name)?.0),
        ValueSource::File(path) => {
            let text = controller_file::read_at_most(path, LARGEST)?;
            // The line break at the end of one line is not part of a password.
            let line = text.strip_suffix('\n').filter(|line| !line.contains('\n'));
            Ok(line.unwrap_or(&text).to_owned())
        }
    }
}

fn mapping(path: &Path, text: &str) -> Result<Map<String, Value>, DeployError> {
    // The parser quotes the line, which may be a secret.
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options::<Option<Map<String, Value>>>(text, options);
    let parsed = parsed.map_err(|error| {
        RenderError::new(
            "values of an application",
            format!("{}: {error}", path.display()),
        )
    })?;
    Ok(parsed.unwrap_or_default())
}

/// Replaces values as Helm does: fields of mappings one by one, and everything else as a whole. A null stays: it removes a
/// value of the chart.
pub(super) fn merge(into: &mut Map<String, Value>, other: Map<String, Value>) {
    for (key, value) in other {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(other)) => merge(into, other),
            (_, value) => _ = into.insert(key, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::cluster::SecretValue;

    #[test]
    fn later_values_replace_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let secret = |path: &[&str], text: &str| SecretValue {
            path: path.iter().map(ToString::to_string).collect(),
            source: ValueSource::File(file(&path.concat(), text)),
        };
        let values = ApplicationValues {
            files: vec![
                file("one", "a: {b: 1, c: [1, 2], d: yes}\ne: x"),
                file("two", "a: {c: [3], d: null}"),
                file("empty", ""),
            ],
            own: Some(Secret("{\"a\": {\"b\": 2}}".to_owned())),
            secrets: vec![
                secret(&["a", "e"], "one line\n"),
                secret(&["f", "g.h"], "two\nlines\n"),
            ],
            identity: None,
        };
        let merge = |secrets| Value::Object(merged(&values, secrets).unwrap()).to_string();
        assert_eq!(
            merge(Secrets::Read),
            r#"{"a":{"b":2,"c":[3],"d":null,"e":"one line"},"e":"x","f":{"g.h":"two\nlines\n"}}"#
        );
        assert_eq!(
            merge(Secrets::LeftOut),
            r#"{"a":{"b":2,"c":[3],"d":null,"e":"hidden"},"e":"x","f":{"g.h":"hidden"}}"#
        );
        let wrong = ApplicationValues {
            files: vec![file("list", "[s3cret]")],
            ..ApplicationValues::default()
        };
        let error = merged(&wrong, Secrets::Read).unwrap_err().to_string();
        assert!(
            error.contains("/list: ") && !error.contains("s3cret"),
            "{error}"
        );
    }

    /// Made with `age-keygen` and `age --armor` 1.1.1.
    const IDENTITY: &str =
        "AGE-SECRET-KEY-10YCC8SEMM2599GKVVZRRXFUG9D6TL7DY7W896HWKZGEMLS66LRPQV9ZDCW";
    const ENCRYPTED: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n\
        YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBTSjREbGJmY0FwNXdlNjJU\n\
        eGNqNVEveWtpRnhLa3JJN0I4bnBxaHdPUmhjCnZNTnVzbnBtL1k5WXhNbDduZjdy\n\
        T1NBRW54dEpUZC9YUWpCb2VUVk5ZRTAKLS0tIE16UjFJNFFac2I3MWdBMWVucldr\n\
        WnV3bDRwemt2MU9tSGZyOHR4ZHFSRDgKNZXETil5mNmYsQUdhQcfrRDwUQJwA1VF\n\
        OPGBHmJwscyAZL5mzZYVauZ6jDV9oc/Cxw==\n\
        -----END AGE ENCRYPTED FILE-----";

    #[test]
    fn encrypted_files_are_decrypted() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut values = ApplicationValues {
            files: vec![file("values.yaml.age", ENCRYPTED)],
            ..ApplicationValues::default()
        };
        let merge = |values: &ApplicationValues| {
            let merged = merged(values, Secrets::Read).map(|all| Value::Object(all).to_string());
            let place = folder.path().display().to_string();
            merged.map_err(|error| Message::from(&error).to_string().replace(&place, "F"))
        };
        insta::assert_snapshot!(merge(&values).unwrap_err(), @"
        cannot decrypt F/values.yaml.age: the application has no valuesIdentity
        hint: name the identity file of age with which it is decrypted in valuesIdentity
        ");
        values.identity = Some(file("other", "nothing"));
        insta::assert_snapshot!(merge(&values).unwrap_err(), @"
        cannot decrypt F/values.yaml.age: F/other: it does not contain an identity of the form AGE-SECRET-KEY-1…
        hint: name the identity file of age with which it is decrypted in valuesIdentity
        ");
        values.identity = Some(file("identity", IDENTITY));
        assert_eq!(merge(&values).unwrap(), r#"{"password":"sesame"}"#);
        assert_eq!(merged(&values, Secrets::LeftOut).unwrap(), Map::new());
        values.files.push(file("values.yaml", "a: 1"));
        assert_eq!(encrypted(&values).unwrap(), values.files[..1]);
    }
}
