//! Records of commands in the state directory, as JSON files.

use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{CommandError, FileError};
use kubexm_types::{Message, remove_if_exists, write_atomic};

/// The field with the version of a record. Records of version 1 do not have it.
const FORMAT: &str = "recordVersion";

/// A record in the state directory.
pub trait StateRecord: Serialize + DeserializeOwned {
    /// The name of the file.
    const FILE: &'static str;
    /// What it is, as in `the record of the rotation`.
    const TITLE: &'static str;
    /// What a user does about a file that cannot be read.
    const HINT: &'static str;
    /// The version that this program writes. It reads this one and earlier ones.
    const VERSION: u64 = 1;

    /// Reads the record; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, it is not such a record, or a later version of kubexm wrote it.
    fn read(state: &Path) -> Result<Option<Self>, CommandError> {
        let path = state.join(Self::FILE);
        let Some(text) = read_text(&path)? else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(&text);
        let parsed = parsed.map_err(|error| Message::new(error.to_string()).hint(Self::HINT));
        let record = parsed.and_then(Self::parse).map_err(|refused| {
            let error = FileError::new(format!("read {}", Self::TITLE), &path, refused.text);
            error.hint(refused.hint.unwrap_or_default())
        });
        Ok(Some(record?))
    }

    /// Parses the record.
    ///
    /// # Errors
    /// It is not such a record, or a later version of kubexm wrote it.
    fn parse(value: Value) -> Result<Self, Message> {
        let not_a_record =
            |error: serde_json::Error| Message::new(error.to_string()).hint(Self::HINT);
        let mut fields: Map<String, Value> = serde_json::from_value(value).map_err(not_a_record)?;
        let version = fields
            .remove(FORMAT)
            .map_or(Some(1), |value| value.as_u64());
        if version.is_none_or(|version| version > Self::VERSION) {
            let later = Message::new("a later version of kubexm wrote it");
            return Err(later.hint("run the command with that version of kubexm"));
        }
        serde_json::from_value(Value::Object(fields)).map_err(not_a_record)
    }

    /// Writes the record, durably, for its owner alone.
    ///
    /// # Errors
    /// The file cannot be written.
    fn save(&self, state: &Path) -> Result<(), CommandError> {
        let path = state.join(Self::FILE);
        let mut value = serde_json::to_value(self).map_err(CommandError::defect)?;
        if let (Some(fields), true) = (value.as_object_mut(), Self::VERSION > 1) {
            fields.insert(FORMAT.to_owned(), Self::VERSION.into());
        }
        let text = serde_json::to_vec_pretty(&value).map_err(CommandError::defect)?;
        let saved = write_atomic(&path, &text, 0o600);
        Ok(
            saved
                .map_err(|error| FileError::io(format!("write {}", Self::TITLE), &path, &error))?,
        )
    }

    /// Removes the record, if there is one.
    ///
    /// # Errors
    /// The file cannot be removed.
    fn remove(state: &Path) -> Result<(), CommandError> {
        let path = state.join(Self::FILE);
        let removed = remove_if_exists(&path);
        Ok(removed
            .map_err(|error| FileError::io(format!("remove {}", Self::TITLE), &path, &error))?)
    }
}

/// Returns the text of a file; `None` if it does not exist.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, CommandError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::io("read", path, &error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct First {
        id: u8,
    }

    impl StateRecord for First {
        const FILE: &'static str = "example.json";
        const TITLE: &'static str = "the example";
        const HINT: &'static str = "remove it";
    }

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Second {
        id: u8,
    }

    impl StateRecord for Second {
        const FILE: &'static str = First::FILE;
        const TITLE: &'static str = First::TITLE;
        const HINT: &'static str = First::HINT;
        const VERSION: u64 = 2;
    }

    #[test]
    fn record_of_a_later_version_is_refused_and_an_earlier_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        assert_eq!(First::read(state).unwrap(), None);
        First { id: 7 }.save(state).unwrap();
        let text = std::fs::read_to_string(state.join(First::FILE)).unwrap();
        assert!(!text.contains(FORMAT), "{text}");
        assert_eq!(Second::read(state).unwrap(), Some(Second { id: 7 }));
        Second { id: 8 }.save(state).unwrap();
        assert_eq!(Second::read(state).unwrap(), Some(Second { id: 8 }));
        let refused = First::read(state).unwrap_err().to_string();
        assert!(
            refused.contains("read the example") && refused.contains("later version"),
            "{refused}"
        );
        for damaged in ["x", "[]", "{\"id\": \"x\"}", "{\"id\": 1, \"other\": 2}"] {
            std::fs::write(state.join(First::FILE), damaged).unwrap();
            let refused = First::read(state).unwrap_err().to_string();
            assert!(refused.ends_with("hint: remove it"), "{refused}");
        }
        First::remove(state).unwrap();
        First::remove(state).unwrap();
        assert_eq!(First::read(state).unwrap(), None);
    }
}
